//! Every instruction against expectations written by hand, and the order of loops and folds
//! against straightforward scalar code.

use super::run;
use half::f16;
use ms_core::ir::*;
use ms_core::tensor::{Array, DType, Element};

/// The block of a call: extents, then address and byte strides of each buffer.
fn block(extents: &[u64], buffers: &[(&Array, &[i64])]) -> Vec<u64> {
    let mut words = extents.to_vec();
    for (array, strides) in buffers {
        words.push(array.as_ptr() as u64);
        words.extend(strides.iter().map(|&it| it as u64));
    }
    words
}

/// Applies a body to the elements of arrays of one length.
fn apply(inputs: &[Array], out: DType, body: impl Fn(&mut KernelBuilder, &[Val]) -> Val) -> Array {
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let params: Vec<ParamId> =
        inputs.iter().map(|it| builder.param(it.dtype(), Role::Input, StrideClass::Unit)).collect();
    let to = builder.param(out, Role::Output, StrideClass::Unit);
    let values: Vec<Val> = params.iter().map(|&it| builder.load(it)).collect();
    let value = body(&mut builder, &values);
    builder.store(to, value);
    builder.end_stage(Scope::Point);
    let kernel = builder.finish();
    let result = Array::zeros(inputs[0].shape(), out);
    let size = |array: &Array| [array.dtype().size() as i64];
    let strides: Vec<[i64; 1]> = inputs.iter().chain([&result]).map(size).collect();
    let buffers: Vec<(&Array, &[i64])> =
        inputs.iter().chain([&result]).zip(&strides).map(|(array, strides)| (array, &strides[..])).collect();
    // SAFETY: the arrays have as many elements as there are lanes.
    unsafe { run(&kernel, &block(&[inputs[0].numel() as u64], &buffers)) };
    result
}

fn array<T: Element>(data: &[T]) -> Array {
    Array::from_slice(&[data.len()], data)
}

/// Compares bit patterns, where any nan equals any other.
#[track_caller]
fn same<T: Element + std::fmt::Debug>(what: &str, got: &Array, want: &[T]) {
    let bits = |it: T| {
        let scalar = it.to_scalar();
        if scalar.as_f64().is_nan() { u64::MAX } else { scalar.to_bits(T::DTYPE) }
    };
    let got: Vec<T> = got.iter().collect();
    let equal = got.len() == want.len() && got.iter().zip(want).all(|(&a, &b)| bits(a) == bits(b));
    assert!(equal, "{what}: {got:?} instead of {want:?}");
}

#[track_caller]
fn unary<T: Element + std::fmt::Debug>(op: UnaryOp, x: &[T], want: &[T]) {
    same(&format!("{op:?}"), &apply(&[array(x)], T::DTYPE, |it, v| it.unary(op, v[0])), want);
}

#[track_caller]
fn binary<T: Element + std::fmt::Debug>(op: BinaryOp, x: &[T], y: &[T], want: &[T]) {
    same(&format!("{op:?}"), &apply(&[array(x), array(y)], T::DTYPE, |it, v| it.binary(op, v[0], v[1])), want);
}

#[track_caller]
fn compare<T: Element>(op: Compare, x: &[T], y: &[T], want: &[bool]) {
    same(&format!("{op:?}"), &apply(&[array(x), array(y)], DType::Bool, |it, v| it.compare(op, v[0], v[1])), want);
}

#[track_caller]
fn cast<T: Element, R: Element + std::fmt::Debug>(x: &[T], want: &[R]) {
    let what = format!("{} to {}", T::DTYPE, R::DTYPE);
    same(&what, &apply(&[array(x)], R::DTYPE, |it, v| it.cast(v[0], R::DTYPE)), want);
}

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

#[test]
fn unary_ops() {
    use UnaryOp::*;
    unary(Neg, &[1.5f32, -0.0, 0.0, NAN], &[-1.5, 0.0, -0.0, NAN]);
    unary(Neg, &[1i32, i32::MIN], &[-1, i32::MIN]);
    unary(Neg, &[1u64, 0], &[u64::MAX, 0]);
    unary(Neg, &[-128i8, 5], &[-128, -5]);
    unary(Abs, &[-1.5f64, -0.0, f64::NEG_INFINITY], &[1.5, 0.0, f64::INFINITY]);
    unary(Abs, &[-7i64, i64::MIN], &[7, i64::MIN]);
    unary(Abs, &[-128i8, -3], &[-128, 3]);
    unary(Abs, &[u32::MAX], &[u32::MAX]);
    unary(Not, &[0i32, -1], &[-1, 0]);
    unary(Not, &[0u8, 0xf0], &[0xff, 0x0f]);
    unary(Not, &[true, false], &[false, true]);
    unary(Sqrt, &[4.0f32, 2.0, -1.0, -0.0, INF], &[2.0, 2.0f32.sqrt(), NAN, -0.0, INF]);
    unary(Floor, &[1.5f32, -1.5, -0.5, 1e30], &[1.0, -2.0, -1.0, 1e30]);
    unary(Ceil, &[1.5f32, -1.5, -0.5], &[2.0, -1.0, -0.0]);
    unary(Trunc, &[1.9f64, -1.9, -0.5], &[1.0, -1.0, -0.0]);
    unary(RoundEven, &[0.5f32, 1.5, 2.5, -0.5, -1.5, 8388609.0], &[0.0, 2.0, 2.0, -0.0, -2.0, 8388609.0]);
    let bits = apply(&[array(&[1.0f32, -0.0])], DType::I32, |it, v| it.bitcast(v[0]));
    same("bitcast of f32", &bits, &[0x3f80_0000, i32::MIN]);
    let float = apply(&[array(&[0x3ff0_0000_0000_0000i64])], DType::F64, |it, v| it.bitcast(v[0]));
    same("bitcast of i64", &float, &[1.0f64]);
}

#[test]
fn arithmetic() {
    use BinaryOp::*;
    binary(Add, &[1.5f32, INF, i32::MAX as f32], &[2.0, -INF, 1.0], &[3.5, NAN, 2147483648.0]);
    binary(Add, &[i32::MAX, -1], &[1, 1], &[i32::MIN, 0]);
    binary(Add, &[127i8, -1], &[1, 1], &[-128, 0]);
    binary(Add, &[f16::from_f32(2048.0)], &[f16::from_f32(1.0)], &[f16::from_f32(2048.0)]);
    binary(Sub, &[0u32, 5], &[1, 3], &[u32::MAX, 2]);
    binary(Mul, &[i64::MAX, 3], &[2, -4], &[-2, -12]);
    binary(Mul, &[200u8], &[2], &[144]);
    binary(Div, &[1.0f32, -1.0, 0.0, 1.0], &[0.0, 0.0, 0.0, 3.0], &[INF, -INF, NAN, 1.0 / 3.0]);
    binary(Div, &[7i32, -7, 7, i32::MIN, 9], &[2, 2, -2, -1, 0], &[3, -3, -3, i32::MIN, 0]);
    binary(Div, &[7u64, u64::MAX], &[2, 0], &[3, 0]);
    binary(Rem, &[7i64, -7, 7, i64::MIN, 9], &[3, 3, -3, -1, 0], &[1, -1, 1, 0, 0]);
    binary(Rem, &[7u32, 5], &[4, 0], &[3, 0]);
    binary(
        Min,
        &[1.0f32, NAN, 1.0, 0.0, -0.0, -INF],
        &[2.0, 1.0, NAN, -0.0, 0.0, INF],
        &[1.0, NAN, NAN, -0.0, -0.0, -INF],
    );
    binary(
        Max,
        &[1.0f64, f64::NAN, 1.0, 0.0, -0.0],
        &[2.0, 1.0, f64::NAN, -0.0, 0.0],
        &[2.0, f64::NAN, f64::NAN, 0.0, 0.0],
    );
    binary(Min, &[-1i32, 4], &[1, 3], &[-1, 3]);
    binary(Max, &[u32::MAX, 4], &[1, 5], &[u32::MAX, 5]);
}

#[test]
fn bits_and_shifts() {
    use BinaryOp::*;
    binary(And, &[0b1100i32], &[0b1010], &[0b1000]);
    binary(Or, &[0b1100u64], &[0b1010], &[0b1110]);
    binary(Xor, &[0b1100i64], &[0b1010], &[0b0110]);
    binary(And, &[true, true], &[true, false], &[true, false]);
    binary(Or, &[false, true], &[false, false], &[false, true]);
    binary(Xor, &[true, true], &[true, false], &[false, true]);
    binary(Shl, &[1i32, 1, 1, 1], &[31, 32, -1, 3], &[i32::MIN, 0, 0, 8]);
    binary(Shl, &[1u64, 1], &[63, 64], &[1 << 63, 0]);
    binary(Shr, &[-8i32, -8, -8, 8, 8], &[1, 32, -1, 32, 2], &[-4, -1, -1, 0, 2]);
    binary(Shr, &[u32::MAX, 8], &[32, 2], &[0, 2]);
    binary(Shr, &[i64::MIN], &[64], &[-1]);
}

#[test]
fn comparisons() {
    use Compare::*;
    compare(Eq, &[1.0f32, NAN, 0.0], &[1.0, NAN, -0.0], &[true, false, true]);
    compare(Ne, &[1.0f32, NAN], &[1.0, NAN], &[false, true]);
    compare(Lt, &[1.0f64, f64::NAN, 2.0], &[2.0, 1.0, 2.0], &[true, false, false]);
    compare(Le, &[2i32, -1, 3], &[2, 1, 2], &[true, true, false]);
    compare(Lt, &[u32::MAX, 1], &[1, 2], &[false, true]);
    compare(Lt, &[u64::MAX], &[1], &[false]);
    compare(Lt, &[false, true], &[true, true], &[true, false]);
}

#[test]
fn fma_rounds_once() {
    let (a, b) = (1.0f32 + f32::EPSILON, 1.0f32 - f32::EPSILON);
    let fused = apply(&[array(&[a]), array(&[b]), array(&[-1.0f32])], DType::F32, |it, v| it.fma(v[0], v[1], v[2]));
    same("fma", &fused, &[-(f32::EPSILON * f32::EPSILON)]);
}

#[test]
fn select_moves_any_size() {
    let condition = array(&[true, false]);
    let pick = |a: Array, b: Array| {
        let dtype = a.dtype();
        apply(&[condition.clone(), a, b], dtype, |it, v| it.select(v[0], v[1], v[2]))
    };
    same("select", &pick(array(&[1.0f32, 2.0]), array(&[3.0f32, 4.0])), &[1.0f32, 4.0]);
    same("select", &pick(array(&[1i64, 2]), array(&[3i64, 4])), &[1i64, 4]);
    same("select", &pick(array(&[1i8, 2]), array(&[3i8, 4])), &[1i8, 4]);
    same("select", &pick(array(&[true, true]), array(&[false, false])), &[true, false]);
}

#[test]
fn casts() {
    cast(&[1.9f32, -1.9, NAN, 1e20, -INF], &[1i32, -1, 0, i32::MAX, i32::MIN]);
    cast(&[1.9f64, -1.0, f64::NAN, 1e30], &[1u64, 0, 0, u64::MAX]);
    cast(&[1.9f32, -1.0, 5e9], &[1u32, 0, u32::MAX]);
    cast(&[300i32, -1, 128], &[44i8, -1, -128]);
    cast(&[300i64, -1], &[44u8, 255]);
    cast(&[-1i32], &[u64::MAX]);
    cast(&[u64::MAX, 1 << 63], &[u64::MAX as f32, 9223372036854775808.0]);
    cast(&[16777217i64], &[16777216.0f32]);
    cast(&[0.0f32, -0.0, NAN, 0.1], &[false, false, true, true]);
    cast(&[2i32, 0], &[true, false]);
    cast(&[true, false], &[1.0f32, 0.0]);
    cast(&[true, false], &[1i8, 0]);
    cast(&[1.0f64 / 3.0], &[1.0f32 / 3.0]);
    cast(&[65519.0f32, 65520.0, 1e-8, 2049.0], &[f16::MAX, f16::INFINITY, f16::ZERO, f16::from_f32(2048.0)]);
    cast(&[1.0039062f32, NAN], &[half::bf16::from_f32(1.0), half::bf16::NAN]);
    cast(&[f16::from_f32(1.5)], &[1.5f64]);
    cast(&[40000u16, 7], &[40000i64, 7]);
    cast(&[-5i16, 7], &[-5.0f32, 7.0]);
}

#[test]
fn blocks_cover_all_lanes() {
    for lanes in [0usize, 1, 15, 511, 512, 513, 1300] {
        let x: Vec<f32> = (0..lanes).map(|i| i as f32).collect();
        let body = |it: &mut KernelBuilder, v: &[Val]| {
            let index = it.index(0);
            let index = it.cast(index, DType::F32);
            let two = it.constant(2.0, DType::F32);
            let twice = it.binary(BinaryOp::Mul, v[0], two);
            it.binary(BinaryOp::Sub, twice, index)
        };
        same("2 x - i", &apply(&[array(&x)], DType::F32, body), &x);
    }
}

#[test]
fn strides_and_outer_loops() {
    // out[i, j] = x[j, i] + y[i], with the rows of x reversed.
    let mut builder = KernelBuilder::new(1, 0, LaneAxis::Parallel);
    let x = builder.param(DType::I16, Role::Input, StrideClass::Any);
    let y = builder.param(DType::I16, Role::Input, StrideClass::Zero);
    let out = builder.param(DType::I16, Role::Output, StrideClass::Unit);
    let (a, b) = (builder.load(x), builder.load(y));
    let sum = builder.binary(BinaryOp::Add, a, b);
    builder.store(out, sum);
    builder.end_stage(Scope::Point);
    let kernel = builder.finish();
    let (rows, columns) = (3usize, 700usize);
    let xs: Vec<i16> = (0..(rows * columns) as i16).collect();
    let (x, y, out) = (array(&xs), array(&[10i16, 20, 30]), Array::zeros(&[rows, columns], DType::I16));
    let mut words = block(&[3, 700], &[(&x, &[2, -6]), (&y, &[2, 0]), (&out, &[1400, 2])]);
    words[2] += 6 * (columns as u64 - 1);
    // SAFETY: the strides stay inside the arrays.
    unsafe { run(&kernel, &words) };
    let want: Vec<i16> = (0..rows)
        .flat_map(|i| {
            let xs = &xs;
            (0..columns).map(move |j| xs[(columns - 1 - j) * rows + i] + 10 * (i as i16 + 1))
        })
        .collect();
    same("transposed sum", &out, &want);
}

/// The fold that `LaneAxis::Reduced` fixes.
fn fold_row(row: impl Iterator<Item = (usize, f32)>, identity: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [identity; 16];
    for (lane, value) in row {
        sums[lane % 16] = f(sums[lane % 16], value);
    }
    for half in [8, 4, 2, 1] {
        for k in 0..half {
            sums[k] = f(sums[k], sums[k + half]);
        }
    }
    sums[0]
}

fn noise(len: usize) -> Vec<f32> {
    let mut state = 12345u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / 8388608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn rows_fold_in_virtual_lanes() {
    for (outer, lanes) in [(1usize, 1usize), (3, 17), (2, 513), (4, 1300), (0, 5), (2, 0)] {
        // out[i] = sum over (s, l) of x[i, s, l]
        let mut builder = KernelBuilder::new(1, 1, LaneAxis::Reduced);
        let x = builder.param(DType::F32, Role::Input, StrideClass::Unit);
        let out = builder.param(DType::F32, Role::Output, StrideClass::Zero);
        let value = builder.load(x);
        let sum = builder.reduce(Reducer::Sum, value);
        builder.end_stage(Scope::Loop);
        builder.store(out, sum);
        builder.end_stage(Scope::Point);
        let kernel = builder.finish();
        let rows = 3;
        let data = noise(rows * outer * lanes);
        let (x, out) = (array(&data), Array::zeros(&[rows], DType::F32));
        let (l, s) = (4i64, 4 * lanes as i64);
        let words =
            block(&[rows as u64, lanes as u64, outer as u64], &[(&x, &[s * outer as i64, l, s]), (&out, &[4, 0, 0])]);
        // SAFETY: the strides stay inside the arrays.
        unsafe { run(&kernel, &words) };
        let want: Vec<f32> = (0..rows)
            .map(|row| {
                let elements = (0..outer * lanes).map(|i| (i % lanes, data[row * outer * lanes + i]));
                fold_row(elements, 0.0, |a, b| a + b)
            })
            .collect();
        same(&format!("sum of {outer} x {lanes}"), &out, &want);
    }
}

#[test]
fn columns_fold_in_order() {
    let (rows, columns) = (37usize, 530usize);
    let mut builder = KernelBuilder::new(0, 1, LaneAxis::Parallel);
    let x = builder.param(DType::F32, Role::Input, StrideClass::Unit);
    let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
    let value = builder.load(x);
    let (sum, max) = (builder.reduce(Reducer::Sum, value), builder.reduce(Reducer::Max, value));
    builder.end_stage(Scope::Loop);
    let total = builder.binary(BinaryOp::Add, sum, max);
    builder.store(out, total);
    builder.end_stage(Scope::Point);
    let kernel = builder.finish();
    let data = noise(rows * columns);
    let (x, out) = (array(&data), Array::zeros(&[columns], DType::F32));
    let words = block(&[columns as u64, rows as u64], &[(&x, &[4, 4 * columns as i64]), (&out, &[4, 0])]);
    // SAFETY: the strides stay inside the arrays.
    unsafe { run(&kernel, &words) };
    let column = |j: usize| (0..rows).map(|i| data[i * columns + j]).collect::<Vec<_>>();
    let want: Vec<f32> = (0..columns)
        .map(|j| {
            let column = column(j);
            column.iter().fold(0.0, |a, b| a + b) + column.iter().fold(-INF, |a, b| a.max(*b))
        })
        .collect();
    same("column sum and maximum", &out, &want);
}

#[test]
fn identities_and_nan() {
    let reduce = |reducer, data: Array| {
        let dtype = data.dtype();
        let mut builder = KernelBuilder::new(0, 0, LaneAxis::Reduced);
        let x = builder.param(dtype, Role::Input, StrideClass::Unit);
        let out = builder.param(dtype, Role::Output, StrideClass::Zero);
        let value = builder.load(x);
        let folded = builder.reduce(reducer, value);
        builder.end_stage(Scope::Loop);
        builder.store(out, folded);
        builder.end_stage(Scope::Point);
        let result = Array::zeros(&[1], dtype);
        let lanes = data.numel() as u64;
        let words = block(&[lanes], &[(&data, &[dtype.size() as i64]), (&result, &[0])]);
        // SAFETY: the data has as many elements as there are lanes.
        unsafe { run(&builder.finish(), &words) };
        result
    };
    same("max", &reduce(Reducer::Max, array::<f32>(&[])), &[-INF]);
    same("max", &reduce(Reducer::Max, array(&[1.0f32, NAN, 3.0])), &[NAN]);
    same("min", &reduce(Reducer::Min, array::<i32>(&[])), &[i32::MAX]);
    same("min", &reduce(Reducer::Min, array(&[3u64, 2, 7])), &[2u64]);
    same("prod", &reduce(Reducer::Prod, array(&[3i64, 2, 7])), &[42i64]);
    same("prod", &reduce(Reducer::Prod, array::<f64>(&[])), &[1.0f64]);
    same("sum", &reduce(Reducer::Sum, array(&[-0.0f32])), &[0.0f32]);
    same("sum", &reduce(Reducer::Sum, array(&[i32::MAX, 1])), &[i32::MIN]);
    same("all", &reduce(Reducer::All, array(&[true, false])), &[false]);
    same("all", &reduce(Reducer::All, array::<bool>(&[])), &[true]);
    same("any", &reduce(Reducer::Any, array(&[false, true])), &[true]);
    same("any", &reduce(Reducer::Any, array::<bool>(&[])), &[false]);
}

#[test]
fn staged_rows_run_in_place() {
    // x[i, :] = (x[i, :] - max) / sum of (x[i, :] - max), stored where it was read.
    let mut builder = KernelBuilder::new(1, 0, LaneAxis::Reduced);
    let x = builder.param(DType::F32, Role::Input, StrideClass::Unit);
    let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
    let value = builder.load(x);
    let max = builder.reduce(Reducer::Max, value);
    builder.end_stage(Scope::Loop);
    let value = builder.load(x);
    let shifted = builder.binary(BinaryOp::Sub, value, max);
    let sum = builder.reduce(Reducer::Sum, shifted);
    builder.end_stage(Scope::Loop);
    let one = builder.constant(1.0, DType::F32);
    let scale = builder.binary(BinaryOp::Div, one, sum);
    builder.end_stage(Scope::Point);
    let value = builder.load(x);
    let shifted = builder.binary(BinaryOp::Sub, value, max);
    let scaled = builder.binary(BinaryOp::Mul, shifted, scale);
    builder.store(out, scaled);
    builder.end_stage(Scope::Loop);
    let kernel = builder.finish();
    for lanes in [3usize, 600] {
        let data = noise(2 * lanes);
        let x = Array::from_slice(&[2, lanes], &data);
        let strides: &[i64] = &[4 * lanes as i64, 4];
        // SAFETY: the strides stay inside the array, and every element is read before it is
        // written at the same indices.
        unsafe { run(&kernel, &block(&[2, lanes as u64], &[(&x, strides), (&x, strides)])) };
        let want: Vec<f32> = data
            .chunks(lanes)
            .flat_map(|row| {
                let max = row.iter().fold(-INF, |a, b| a.max(*b));
                let sum = fold_row(row.iter().map(|it| it - max).enumerate(), 0.0, |a, b| a + b);
                let scale = 1.0 / sum;
                row.iter().map(move |it| (it - max) * scale)
            })
            .collect();
        same("staged row", &x, &want);
    }
}

#[test]
fn values_that_live_long_keep_their_slots() {
    // The sum of many values that are all live at once, interleaved with short-lived ones.
    let x: Vec<i64> = (0..600).collect();
    let body = |it: &mut KernelBuilder, v: &[Val]| {
        let powers: Vec<Val> = (0..40)
            .map(|i| {
                let shift = it.constant(i as i64 % 5, DType::I64);
                let shifted = it.binary(BinaryOp::Shl, v[0], shift);
                it.binary(BinaryOp::Add, shifted, shift)
            })
            .collect();
        powers.into_iter().rev().reduce(|a, b| it.binary(BinaryOp::Sub, b, a)).expect("there are 40")
    };
    let model = |x: i64| {
        let powers = (0..40).map(|i| (x << (i % 5)) + i % 5);
        powers.rev().reduce(|a, b| b - a).expect("there are 40")
    };
    let want: Vec<i64> = x.iter().map(|&x| model(x)).collect();
    same("alternating sum", &apply(&[array(&x)], DType::I64, body), &want);
}

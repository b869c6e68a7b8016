//! Tests native loops against reference evaluations.

use super::EagerOp;
use ms_ir::Precision;
use ms_ir::data::{Array, Attr, Attrs, DType, Element, Scalar, Type};
use ms_ir::with_element;
use ms_ops::ops::{self, Lowering, OpDef, Sample, SampleInput};
use ms_x64::Isa;
use ms_x64::gemm::Arithmetic;
use ms_x64::threads;

const NATIVE: [&OpDef; 6] = [
    &ops::CONV,
    &ops::CONV_INPUT_GRAD,
    &ops::CONV_WEIGHT_GRAD,
    &ops::MAX_POOL,
    &ops::MAX_POOL_GRAD,
    &ops::MAX_POOL_TAKE,
];

fn filled(shape: &[usize], dtype: DType, seed: u64) -> Array {
    let mut out = Array::zeros(shape, dtype);
    let mut state = seed;
    with_element!(dtype, T => {
        for it in out.as_mut_slice::<T>() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *it = T::from_scalar(Scalar::Float((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0));
        }
    });
    out
}

fn outputs(def: &OpDef, attrs: &Attrs, inputs: &[&Array]) -> Vec<Array> {
    let types: Vec<Type> = inputs.iter().map(|it| it.ty()).collect();
    let types = (def.infer)(attrs, &types.iter().collect::<Vec<_>>()).expect("the operands fit");
    // Initial values reveal elements that are never written.
    let nan = Scalar::Float(f64::NAN);
    types.iter().map(|ty| Array::full(&ty.shape().expect("constant shapes"), nan, ty.dtype)).collect()
}

fn strict() -> Arithmetic {
    Arithmetic::new(Isa::detect(), Precision::Strict)
}

fn native(def: &'static OpDef, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> bool {
    let op = EagerOp::new(strict(), def.op(), attrs.clone());
    // SAFETY: `outputs` has the types of the type rule, and only this call accesses its arrays.
    unsafe { op.run(inputs, outputs, &[]) }.expect("there is memory");
    op.is_prepared()
}

fn evaluate(def: &'static OpDef, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) {
    // SAFETY: `outputs` has the types of the type rule, and only this call accesses its arrays.
    unsafe { super::evaluate(def.op(), attrs, inputs, outputs) }.expect("the operands fit");
}

#[track_caller]
fn check(def: &'static OpDef, attrs: &Attrs, inputs: &[&Array]) {
    let what = format!("{} of {:?}", def.name(), inputs.iter().map(|it| it.ty()).collect::<Vec<_>>());
    let (got, want) = (outputs(def, attrs, inputs), outputs(def, attrs, inputs));
    assert!(native(def, attrs, inputs, &got), "{what}");
    evaluate(def, attrs, inputs, &want);
    let tolerance = match got[0].dtype() {
        DType::BF16 => 1e-2,
        DType::F16 => 2e-3,
        DType::F32 => 1e-4,
        _ => 1e-12,
    };
    for (got, want) in got[0]
        .on_host()
        .expect("the elements are readable")
        .scalars()
        .into_iter()
        .zip(want[0].on_host().expect("the elements are readable").scalars())
    {
        let (got, want) = (got.as_f64(), want.as_f64());
        let close =
            got == want || (got - want).abs() <= tolerance * want.abs().max(1.0) || (got.is_nan() && want.is_nan());
        assert!(close, "{what}: {got} instead of {want}");
    }
    let alone = outputs(def, attrs, inputs);
    assert!(threads::serial(|| native(def, attrs, inputs, &alone)));
    assert!(
        alone[0].on_host().expect("the elements are readable").to_bytes()
            == got[0].on_host().expect("the elements are readable").to_bytes(),
        "{what} depends on threads"
    );
}

fn check_sample(def: &'static OpDef, sample: &Sample) {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let inputs: Vec<Array> =
            sample.inputs.iter().enumerate().map(|(i, it)| filled(&it.shape, dtype, i as u64)).collect();
        check(def, &sample.attrs, &inputs.iter().collect::<Vec<_>>());
    }
}

fn lists(lists: &[&[usize]], rest: impl IntoIterator<Item = Attr>) -> Attrs {
    Attrs::new(lists.iter().map(|&it| Attr::from(it)).chain(rest))
}

fn sample(shapes: &[&[usize]], attrs: Attrs) -> Sample {
    Sample::new(shapes.iter().map(|it| SampleInput::f32(it, -1.0, 1.0))).attrs(attrs)
}

#[test]
fn samples_of_the_ops() {
    for def in NATIVE {
        for sample in (def.samples)() {
            check_sample(def, &sample);
        }
    }
}

#[test]
fn batches_that_are_cut() {
    let (x, w, y): (&[usize], &[usize], &[usize]) = (&[37, 8, 9, 10], &[12, 4, 3, 3], &[37, 12, 5, 8]);
    let window: [&[usize]; 4] = [&[2, 1], &[1, 2], &[1, 0], &[1, 2]];
    let attrs = |sizes: Option<&[usize]>| lists(&window, [Attr::Int(2)].into_iter().chain(sizes.map(Attr::from)));
    check_sample(&ops::CONV, &sample(&[x, w], attrs(None)));
    check_sample(&ops::CONV_INPUT_GRAD, &sample(&[y, w], attrs(Some(&x[2..]))));
    check_sample(&ops::CONV_WEIGHT_GRAD, &sample(&[x, y], attrs(Some(&w[2..]))));
    let window: [&[usize]; 5] = [&[3, 2], &[2, 2], &[1, 3], &[1, 0], &[1, 1]];
    check_sample(&ops::MAX_POOL, &sample(&[x], lists(&window, [])));
    check_sample(&ops::MAX_POOL_GRAD, &sample(&[x, &[37, 8, 5, 4]], lists(&window, [])));
}

#[test]
fn empty_batches() {
    let window: [&[usize]; 4] = [&[1, 1], &[1, 1], &[0, 0], &[0, 0]];
    let attrs = |sizes: Option<&[usize]>| lists(&window, [Attr::Int(1)].into_iter().chain(sizes.map(Attr::from)));
    check_sample(&ops::CONV, &sample(&[&[0, 2, 5, 5], &[3, 2, 3, 3]], attrs(None)));
    check_sample(&ops::CONV_WEIGHT_GRAD, &sample(&[&[0, 2, 5, 5], &[0, 3, 3, 3]], attrs(Some(&[3, 3]))));
    let window: [&[usize]; 5] = [&[2, 2], &[2, 2], &[1, 1], &[0, 0], &[0, 0]];
    check_sample(&ops::MAX_POOL, &sample(&[&[0, 2, 4, 4]], lists(&window, [])));
}

#[test]
fn the_largest_is_the_first_or_nan() {
    let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
    let x = Array::from_slice(&[1, 1, 2, 6], &[1.0, 3.0, nan, 9.0, low, low, 3.0, 2.0, 9.0, nan, low, low]);
    let g = Array::from_slice(&[1, 1, 1, 3], &[1.0f32, 2.0, 3.0]);
    let attrs = lists(&[&[2, 2], &[2, 2], &[1, 1], &[0, 0], &[0, 0]], []);
    check(&ops::MAX_POOL, &attrs, &[&x]);
    check(&ops::MAX_POOL_GRAD, &attrs, &[&x, &g]);
}

#[test]
fn strided_operands() {
    let x = filled(&[9, 5, 8, 2], DType::F32, 1);
    let x = x.with_layout(x.layout().permute(&[3, 1, 0, 2]));
    let w = filled(&[3, 5, 3, 3], DType::F32, 2);
    let attrs = lists(&[&[1, 1], &[1, 1], &[1, 1], &[1, 1]], [Attr::Int(1)]);
    check(&ops::CONV, &attrs, &[&x, &w]);
}

#[test]
fn positions_as_the_ops_mean_them() {
    let input = |dtype, shape: &[usize], high: f64| SampleInput::of(dtype, shape, -high, high);
    let index = |shape: &[usize], size: usize| SampleInput::of(DType::I32, shape, -(size as f64), size as f64 - 1.0);
    let large = |dtype| {
        let table = || input(dtype, &[3, 500, 130], 2.0);
        let along = |axis: usize| Attrs::new([axis.into()]);
        [
            (&ops::CONCAT, Sample::new([table(), input(dtype, &[3, 20, 130], 2.0)]).attrs(along(1))),
            (&ops::GATHER, Sample::new([table(), index(&[7, 90], 500)]).attrs(along(1))),
            (
                &ops::INDEX_ADD,
                Sample::new([table(), index(&[700], 500), input(dtype, &[3, 700, 130], 2.0)]).attrs(along(1)),
            ),
            (&ops::TAKE_ALONG_AXIS, Sample::new([table(), index(&[3, 700, 130], 500)]).attrs(along(1))),
            (
                &ops::SCATTER,
                Sample::new([table(), index(&[2, 300, 130], 500), input(dtype, &[2, 300, 130], 2.0)]).attrs(along(1)),
            ),
            (
                &ops::SCATTER_ADD,
                Sample::new([table(), index(&[3, 500, 9], 130), input(dtype, &[3, 500, 9], 2.0)]).attrs(along(2)),
            ),
        ]
    };
    let defs: [&'static OpDef; 8] = [
        &ops::CONCAT,
        &ops::GATHER,
        &ops::INDEX_ADD,
        &ops::TAKE_ALONG_AXIS,
        &ops::SCATTER,
        &ops::SCATTER_ADD,
        &ops::SCATTER_ND_ADD,
        &ops::ADD_SLICES,
    ];
    let small = defs.iter().flat_map(|&def| (def.samples)().into_iter().map(move |it| (def, it)));
    let large = [DType::F32, DType::F16, DType::I64, DType::Bool].into_iter().flat_map(large);
    for (def, sample) in small.chain(large) {
        let arrays = sample.arrays();
        let inputs: Vec<&Array> = arrays.iter().collect();
        let [got, alone, want] = [(); 3].map(|()| outputs(def, &sample.attrs, &inputs));
        let run = |out: &[Array]| {
            // SAFETY: `out` has the types of the type rule, and only this call accesses its arrays.
            unsafe { super::run(strict(), def.op(), &sample.attrs, &inputs, out) }.expect("positions are inside")
        };
        run(&got);
        threads::serial(|| run(&alone));
        evaluate(def, &sample.attrs, &inputs, &want);
        assert!(
            got[0].on_host().expect("the elements are readable").to_bytes()
                == want[0].on_host().expect("the elements are readable").to_bytes(),
            "{} of {sample:?}",
            def.name()
        );
        assert!(
            alone[0].on_host().expect("the elements are readable").to_bytes()
                == want[0].on_host().expect("the elements are readable").to_bytes(),
            "{} on one thread, of {sample:?}",
            def.name()
        );
        if matches!(def.lowering, Lowering::Update) {
            let own = inputs[0].on_host().expect("the elements are readable").duplicate();
            let inputs: Vec<&Array> = std::iter::once(&own).chain(inputs[1..].iter().copied()).collect();
            // SAFETY: the op updates its first operand, so the output may be the same array.
            let done = unsafe { super::run(strict(), def.op(), &sample.attrs, &inputs, std::slice::from_ref(&own)) };
            done.expect("positions are inside");
            assert!(
                own.on_host().expect("the elements are readable").to_bytes()
                    == want[0].on_host().expect("the elements are readable").to_bytes(),
                "{} in place, of {sample:?}",
                def.name()
            );
        }
    }
}

/// Returns elements with ties, both zeros, infinities and NaN, as far as the dtype has them.
fn special(shape: &[usize], dtype: DType) -> Array {
    let values = [1.5, -0.0, 0.0, -3.0, 7.0, f64::NAN, 0.0, f64::INFINITY, -3.0, 2.0, f64::NEG_INFINITY, 7.0, 100.0];
    mixed(&values, shape, dtype)
}

/// Returns an array of these values in a mixed order.
fn mixed(values: &[f64], shape: &[usize], dtype: DType) -> Array {
    let mut out = Array::zeros(shape, dtype);
    with_element!(dtype, T => {
        for (at, it) in out.as_mut_slice::<T>().iter_mut().enumerate() {
            *it = T::from_scalar(Scalar::Float(values[(at * 7 + at / 13) % values.len()]));
        }
    });
    out
}

/// Native results have the bits of the reference evaluation, except for the payload of a NaN.
#[track_caller]
fn check_bits(def: &'static OpDef, attrs: &Attrs, inputs: &[&Array]) {
    check_bits_on(Isa::detect(), def, attrs, inputs);
}

/// Runs [`check_bits`] on an instruction set.
#[track_caller]
fn check_bits_on(isa: Isa, def: &'static OpDef, attrs: &Attrs, inputs: &[&Array]) {
    let (got, want) = (outputs(def, attrs, inputs), outputs(def, attrs, inputs));
    let arithmetic = Arithmetic::new(isa, Precision::Strict);
    // SAFETY: `got` has the types of the type rule, and only this call accesses its arrays.
    unsafe { super::run(arithmetic, def.op(), attrs, inputs, &got) }.expect("the operands fit");
    evaluate(def, attrs, inputs, &want);
    let bits = |it: &Array| -> Vec<u64> {
        let elements = it.on_host().expect("the elements are readable").scalars();
        let bits = |element: Scalar| match element {
            Scalar::Float(number) if number.is_nan() => f64::NAN.to_bits(),
            other => other.to_bits(it.dtype()),
        };
        elements.into_iter().map(bits).collect()
    };
    for (got, want) in got.iter().zip(&want) {
        let types = inputs.iter().map(|it| it.ty()).collect::<Vec<_>>();
        let what = format!("{} of {types:?}, {attrs:?}, on {isa}", def.name());
        assert!(bits(got) == bits(want), "{what}: {:?}, not {:?}", got.on_host(), want.on_host());
    }
}

/// Compares pooling on all instruction sets, with ties, both zeros and NaN, and with full and partial vectors of
/// windows.
#[test]
fn pooling_has_the_bits_of_the_reference() {
    // The shape, and kernel, stride, dilation and padding before and after.
    type Case = (&'static [usize], [&'static [usize]; 5]);
    let (one, two, none): (&[usize], &[usize], &[usize]) = (&[1, 1], &[2, 2], &[0, 0]);
    let cases: [Case; 12] = [
        // Disjoint windows of two elements: rows of 31 and 7, and elements in no window.
        (&[3, 2, 4, 62], [two, two, one, none, none]),
        (&[2, 9, 5, 15], [two, two, one, none, none]),
        (&[1, 2, 7, 25], [&[2, 2], &[3, 2], one, none, none]),
        (&[1, 2, 7, 24], [&[3, 2], &[4, 2], one, none, none]),
        (&[2, 1, 3, 34], [&[1, 2], &[1, 2], one, none, none]),
        (&[2, 3, 40], [&[2], &[2], &[1], &[0], &[0]]),
        (&[1, 2, 4, 5, 17], [&[2, 2, 2], &[2, 3, 2], &[1, 1, 1], &[0, 0, 0], &[0, 0, 0]]),
        // Padding, dilation, overlap, and other strides.
        (&[2, 2, 7, 18], [two, two, one, one, one]),
        (&[2, 2, 8, 18], [two, two, two, none, none]),
        (&[2, 2, 9, 19], [&[3, 3], two, one, one, one]),
        (&[2, 2, 9, 19], [two, &[1, 2], one, none, none]),
        (&[1, 2, 9, 38], [&[3, 3], &[3, 3], one, none, &[0, 1]]),
    ];
    let dtypes = [DType::F32, DType::F64, DType::BF16];
    for ((shape, window), dtype) in cases.iter().flat_map(|case| dtypes.map(|dtype| (case, dtype))) {
        let attrs = lists(window, []);
        for at in 0..5 {
            // The images start later in the storage.
            let x = special(&[&[5 * shape[0]], &shape[1..]].concat(), dtype);
            let x = x.with_layout(x.layout().slice(0, at * shape[0], shape[0], 1));
            // Sums of these gradients are the same in every order.
            let g = mixed(&[-0.0, 3.0, -2.0, 1.0, 5.0], outputs(&ops::MAX_POOL, &attrs, &[&x])[0].shape(), dtype);
            for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
                check_bits_on(isa, &ops::MAX_POOL, &attrs, &[&x]);
                check_bits_on(isa, &ops::MAX_POOL_GRAD, &attrs, &[&x, &g]);
                check_bits_on(isa, &ops::MAX_POOL_TAKE, &attrs, &[&x, &x]);
            }
        }
    }
}

#[test]
fn ops_along_an_axis() {
    for dtype in DType::ALL {
        for shape in [&[40][..], &[3, 70], &[2, 33, 3], &[2, 5, 130], &[1, 1, 1], &[2, 1000], &[5000, 2]] {
            let x = special(shape, dtype);
            let strided = special(&[shape, &[2]].concat(), dtype).with_layout({
                let rank = shape.len();
                let whole = ms_ir::data::Layout::contiguous(&[shape, &[2]].concat());
                ms_ir::data::Layout::new(shape.into(), whole.strides()[..rank].into(), 1)
            });
            for (axis, &size) in shape.iter().enumerate() {
                for x in [&x, &strided] {
                    for def in [&ops::ARGMAX, &ops::ARGMIN] {
                        check_bits(def, &ops::AxisAttrs::attrs(axis), &[x]);
                    }
                    for descending in [false, true] {
                        check_bits(&ops::SORT, &ops::SortAttrs::attrs(axis, descending), &[x]);
                        for count in [0, 1, 2, 35, 400].into_iter().filter(|it| *it <= size) {
                            check_bits(&ops::TOPK, &ops::TopkAttrs::attrs(axis, count, descending), &[x]);
                        }
                    }
                    for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
                        let attrs = ops::CumulativeAttrs::attrs(axis, exclusive, reverse);
                        if dtype != DType::Bool {
                            check_bits(&ops::CUMSUM, &attrs, &[x]);
                            check_bits(&ops::CUMPROD, &attrs, &[x]);
                        }
                    }
                }
            }
        }
    }
}

/// Compares the ops that no test above covers, on their samples.
#[test]
fn samples_have_the_bits_of_the_reference() {
    let defs: [&OpDef; 6] = [
        &ops::AVG_POOL,
        &ops::AVG_POOL_GRAD,
        &ops::ADAPTIVE_AVG_POOL,
        &ops::ADAPTIVE_AVG_POOL_GRAD,
        &ops::GATHER_ND,
        &ops::DEPEND,
    ];
    for def in defs {
        for sample in (def.samples)() {
            let arrays = sample.arrays();
            check_bits(def, &sample.attrs, &arrays.iter().collect::<Vec<_>>());
        }
    }
}

/// Covers rows in parts, and more elements than are collected at once.
#[test]
fn first_elements_of_long_rows() {
    for dtype in [DType::F32, DType::F64, DType::I8, DType::I64] {
        for (shape, axis) in [(&[70_000][..], 0usize), (&[3, 33_000], 1), (&[33_000, 1], 0)] {
            let x = special(shape, dtype);
            let orders = [(1usize, true), (100, false), (3_000, true), (16_384, false)];
            for (count, descending) in orders {
                check_bits(&ops::TOPK, &ops::TopkAttrs::attrs(axis, count, descending), &[&x]);
            }
        }
    }
}

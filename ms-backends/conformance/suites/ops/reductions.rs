//! Tests that sums and products under `Precision::Strict` have one order, whatever computes them.
//!
//! The order is implemented here once more, from the rules in `docs/numerics.md`.

use ms::internals::exec::backend;
use ms::internals::ir::{ReductionOrder, with_element};
use ms::internals::session::Compiled;
use ms::internals::trace;
use ms::ops::{self, OpDef, PROD, SUM};
use ms::tensor::{Array, Attr, Attrs, Device, Scalar, apply};
use ms::{Context, DType, Precision, Result, Tensor, context, with_context};
use ms_conformance::process_of;

/// A small deterministic generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 1) as usize % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns elements of a dtype. They are near one if they are multiplied.
    fn elements(&mut self, shape: &[usize], dtype: DType, op: &OpDef) -> Tensor {
        let (middle, width) = if op.name() == "sum" { (0.0, 1.0) } else { (1.0, 0.02) };
        let mut array = Array::zeros(shape, dtype);
        with_element!(dtype, T => {
            for to in array.as_mut_slice::<T>() {
                let unit = self.below(1 << 52) as f64 / (1_u64 << 51) as f64 - 1.0;
                *to = <T as ms::tensor::Element>::from_scalar(Scalar::Float(middle + width * unit));
            }
        });
        Tensor::placed(array).expect("there is memory")
    }
}

/// The type of accumulators: f64, or f32 for all narrower floats.
trait Float: Copy {
    const ACCUMULATORS: usize;
    fn of(value: f64) -> Self;
    fn fold(op: &OpDef, a: Self, b: Self) -> Self;
    fn wide(self) -> f64;
}

macro_rules! float {
    ($ty:ty, $accumulators:literal) => {
        impl Float for $ty {
            const ACCUMULATORS: usize = $accumulators;
            fn of(value: f64) -> Self {
                value as $ty
            }
            fn fold(op: &OpDef, a: Self, b: Self) -> Self {
                if op.name() == "sum" { a + b } else { a * b }
            }
            fn wide(self) -> f64 {
                self as f64
            }
        }
    };
}

float!(f32, 128);
float!(f64, 64);

fn identity(op: &OpDef) -> f64 {
    if op.name() == "sum" { 0.0 } else { 1.0 }
}

/// Distributes elements over accumulators in turn, then combines the accumulators by halves.
fn halves<T: Float>(op: &OpDef, count: usize, elements: impl Iterator<Item = (usize, T)>) -> T {
    let mut all = vec![T::of(identity(op)); count];
    for (turn, it) in elements {
        all[turn % count] = T::fold(op, all[turn % count], it);
    }
    while all.len() > 1 {
        let high = all.split_off(all.len() / 2);
        all.iter_mut().zip(high).for_each(|(low, high)| *low = T::fold(op, *low, high));
    }
    all[0]
}

/// Folds the elements of one result in row-major order, in rows of `row` elements.
fn fold<T: Float>(op: &OpDef, elements: &[T], row: usize) -> T {
    let block =
        |rows: &[T]| halves(op, T::ACCUMULATORS, rows.chunks(row.max(1)).flat_map(|it| it.iter().copied().enumerate()));
    let blocks: Vec<T> = if row < 8 {
        let chain = |steps: &[T]| steps.iter().fold(T::of(identity(op)), |all, &it| T::fold(op, all, it));
        elements.chunks(64).map(chain).collect()
    } else if row > 1024 {
        elements.chunks(row).flat_map(|it| it.chunks(2048)).map(block).collect()
    } else {
        elements.chunks(2048 / row.next_power_of_two() * row).map(block).collect()
    };
    let mut groups: Vec<T> = blocks.chunks(1024).map(|it| halves(op, 32, it.iter().copied().enumerate())).collect();
    while groups.len() > 1 {
        groups = groups.chunks(2).map(|it| if let &[a, b] = it { T::fold(op, a, b) } else { it[0] }).collect();
    }
    groups.first().copied().unwrap_or(T::of(identity(op)))
}

/// Reduces a row-major array over some axes by the rules.
fn reference<T: Float>(op: &OpDef, x: &Tensor, axes: &[usize]) -> Vec<u64> {
    let array = x.try_array().expect("an array");
    let shape = array.shape();
    let kept: Vec<usize> = (0..shape.len()).filter(|it| !axes.contains(it)).collect();
    let order: Vec<usize> = kept.iter().chain(axes).copied().collect();
    let elements =
        array.with_layout(array.layout().permute(&order)).on_host().expect("the elements are readable").scalars();
    let elements: Vec<T> = elements.into_iter().map(|it| T::of(it.as_f64())).collect();
    let each: usize = axes.iter().map(|&it| shape[it]).product();
    // The reduced axes at the end of the shape form a row. Axes of size one do not count.
    let last = (0..shape.len()).rev().filter(|&it| shape[it] != 1).take_while(|it| axes.contains(it));
    let row = last.map(|it| shape[it]).reduce(|a, b| a * b).unwrap_or(1);
    let results = kept.iter().map(|&it| shape[it]).product();
    let result = |at: usize| {
        let value = fold(op, &elements[at * each..(at + 1) * each], row);
        Scalar::Float(value.wide()).to_bits(x.dtype())
    };
    (0..results).map(result).collect()
}

fn bits(x: &Tensor) -> Vec<u64> {
    let array = x.try_array().expect("an array");
    array
        .on_host()
        .expect("the elements are readable")
        .scalars()
        .into_iter()
        .map(|it| it.to_bits(array.dtype()))
        .collect()
}

/// The layout of an operand: its stored form, and the view of it that an op takes.
#[derive(Clone, Copy, Debug)]
enum View {
    Dense,
    Transposed,
    Spaced,
    Reversed,
}

impl View {
    fn store(self, x: &Tensor) -> Tensor {
        let stored = match self {
            Self::Dense => x.clone(),
            Self::Transposed => ops::permute(x, (0..x.rank()).rev().collect::<Vec<_>>()),
            Self::Spaced => {
                let pairs = ops::stack(&[&ops::full_of(x.shape(), 77, x.dtype()), x], -1);
                let last = x.shape().split_last().map_or(vec![2], |(last, rest)| [rest, &[last * 2]].concat());
                ops::reshape(pairs, last)
            }
            Self::Reversed => ops::flip(x, (0..x.rank()).collect::<Vec<_>>()),
        };
        Tensor::placed(stored.try_array().and_then(ms::tensor::Array::into_host).expect("an array").to_contiguous())
            .expect("there is memory")
    }

    fn see(self, stored: &Tensor, shape: &[usize]) -> Tensor {
        match self {
            Self::Dense => stored.clone(),
            Self::Transposed => ops::permute(stored, (0..shape.len()).rev().collect::<Vec<_>>()),
            Self::Spaced => {
                let pairs = ops::reshape(stored, [shape, &[2]].concat());
                pairs.i((ms::tensor::Ellipsis, 1))
            }
            Self::Reversed => ops::flip(stored, (0..shape.len()).collect::<Vec<_>>()),
        }
    }
}

/// Runs a function eagerly and compiled, under `precision`.
fn both(
    precision: Precision,
    inputs: &[Tensor],
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> [(&'static str, Vec<Tensor>); 2] {
    with_context(Context { precision, ..context() }, || {
        let types: Vec<_> = inputs.iter().map(Tensor::ty).collect();
        let eager = f(inputs).unwrap_or_else(|error| panic!("{error}"));
        let graph = trace::build("f", &types, &f);
        let compiled = graph.and_then(|it| Compiled::new(&it, precision)?.run(inputs).map(|it| it.into_vec()));
        [("eagerly", eager), ("compiled", compiled.unwrap_or_else(|error| panic!("{error}")))]
    })
}

fn reduced(op: &'static OpDef, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let attrs = Attrs::new([axes.into(), Attr::Bool(false)]);
    Ok(apply(op.op(), &attrs, &[x])?.remove(0))
}

/// Checks one reduction in every view, on every path.
fn check(op: &'static OpDef, x: &Tensor, axes: &[usize]) {
    let want = if x.dtype() == DType::F64 { reference::<f64>(op, x, axes) } else { reference::<f32>(op, x, axes) };
    let shape = x.shape().to_vec();
    let what = |how: &str| format!("{} of {:?} {shape:?} over {axes:?}, {how}", op.name(), x.dtype());
    let compare = |how: &str, got: &Tensor| {
        let got = bits(got);
        let wrong = got.iter().zip(&want).position(|(a, b)| a != b);
        assert!(got.len() == want.len() && wrong.is_none(), "{}: {wrong:?} of {}", what(how), want.len());
    };
    for view in [View::Dense, View::Transposed, View::Spaced, View::Reversed] {
        if matches!(view, View::Spaced) && shape.is_empty() {
            continue;
        }
        let stored = view.store(x);
        let run = |stored: &[Tensor]| Ok(vec![reduced(op, &view.see(&stored[0], &shape), axes)?]);
        for (how, got) in both(Precision::Strict, std::slice::from_ref(&stored), run) {
            compare(&format!("{view:?}, {how}"), &got[0]);
        }
    }
    // The operand becomes a constant of the graph, unless it is too large for one.
    if x.numel() * x.dtype().size() > 64 << 10 {
        return;
    }
    for (how, got) in both(Precision::Strict, &[], |_| Ok(vec![reduced(op, x, axes)?])) {
        compare(&format!("of a constant, {how}"), &got[0]);
    }
}

fn random_case(random: &mut Random) {
    let rank = random.below(5);
    let most = [1, 5000, 300, 60, 24][rank];
    let sizes = [1, 1, 2, 3, 5, 7, 8, 9, 16, 17, 48, 49, 64, 65, 128, 129, 300, 2047, 2048, 2049, 4999];
    let sizes: Vec<usize> = sizes.into_iter().filter(|&it| it <= most).collect();
    let shape: Vec<usize> = (0..rank).map(|_| random.pick(&sizes)).collect();
    let axes: Vec<usize> = (0..rank).filter(|_| random.below(3) > 0).collect();
    let dtype = random.pick(&[DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16]);
    let op = random.pick(&[&SUM, &SUM, &PROD]);
    let x = random.elements(&shape, dtype, op);
    check(op, &x, &axes);
}

#[test]
fn random_shapes() {
    let mut random = Random(17);
    (0..150).for_each(|_| random_case(&mut random));
}

/// The reductions of these shapes have many blocks, and several threads share them.
#[test]
#[ignore = "other_processes starts it, with settings of its own"]
fn large_shapes() {
    let mut random = Random(5);
    for (shape, axes) in [
        (&[200_000][..], &[0][..]),
        (&[3, 70_001], &[1]),
        (&[400, 768], &[1]),
        (&[400, 768], &[0]),
        (&[2100, 40], &[0]),
        (&[4500, 3], &[0]),
        (&[30, 20, 7, 7], &[0, 2, 3]),
        (&[8, 6, 40, 40], &[0, 2, 3]),
        (&[50, 11, 1025], &[0, 2]),
        (&[100, 100, 16], &[0, 1, 2]),
        (&[100, 100, 3], &[0, 2]),
        (&[2, 2_200_000], &[1]),
        (&[200_000, 2], &[0]),
    ] {
        let x = random.elements(shape, DType::F32, &SUM);
        check(&SUM, &x, axes);
    }
    (0..10).for_each(|_| random_case(&mut random));
}

#[test]
fn other_processes() {
    for (isa, threads) in [("avx512", "1"), ("avx512", "8"), ("avx2", "2"), ("interp", "8")] {
        let mut test = process_of(concat!(module_path!(), "::large_shapes"));
        test.arg("--ignored").envs([("MS_CPU_ISA", isa), ("MS_NUM_THREADS", threads)]);
        let output = test.output().expect("the test starts");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        if isa != "interp" && text.contains(&format!("error[{}]", ms::Code::Environment)) {
            continue;
        }
        assert!(output.status.success() && text.contains("1 passed"), "{isa} on {threads} threads: {text}");
    }
}

/// Fusion with a reduction changes none of its bits.
#[test]
fn fused_reductions() {
    let mut random = Random(99);
    for (shape, axes) in [
        (&[6, 5, 768][..], &[0, 1, 2][..]),
        (&[6, 5, 48], &[1, 2]),
        (&[6, 5, 50], &[1, 2]),
        (&[7, 200], &[1]),
        (&[130, 33], &[0]),
        (&[3, 4, 9, 9], &[0, 2, 3]),
        (&[5, 10], &[1]),
    ] {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let x = random.elements(shape, dtype, &SUM);
            let scale = random.elements(&shape[shape.len() - 1..], dtype, &PROD);
            let f = |it: &[Tensor]| {
                let [x, scale] = it else { unreachable!("two operands are given") };
                let scaled = ops::mul(x, scale);
                let sum = reduced(&SUM, &scaled, axes)?;
                let largest = reduced(&ops::MAX, &scaled, axes)?;
                let squares = reduced(&SUM, &ops::square(x), axes)?;
                let softmax = ops::softmax(&scaled, -1);
                let normal = ops::sub(x, ops::mean(x, ops::keepdims(-1)));
                Ok(vec![sum, largest, squares, softmax, normal])
            };
            let [(_, eager), (_, compiled)] = both(Precision::Strict, &[x, scale], f);
            for (at, (eager, compiled)) in eager.iter().zip(&compiled).enumerate() {
                assert!(bits(eager) == bits(compiled), "result {at} of {dtype} {shape:?} over {axes:?}");
            }
        }
    }
}

/// Both orders are used, each under its precision. On some devices they are the same.
#[test]
fn precisions_do_not_share_kernels() {
    let device = Device::new(context().device_target, context().device_id);
    let relaxed = backend(device).expect("it exists").target().relaxed_order;
    let x = Random(3).elements(&[1000], DType::F32, &SUM);
    let sums = |precision| both(precision, std::slice::from_ref(&x), |it| Ok(vec![reduced(&SUM, &it[0], &[0])?]));
    for _ in 0..2 {
        let [strict, highest] = [Precision::Strict, Precision::Highest].map(|it| sums(it).map(|it| bits(&it.1[0])));
        assert_eq!(strict[0], strict[1]);
        assert_eq!(highest[0], highest[1]);
        assert_eq!(strict[0] == highest[0], relaxed == ReductionOrder::Blocks);
    }
}

//! Compares random functions of symbolic sizes with eager execution, for every small size.
//!
//! The values and gradients are equal, or both are refused. Where several ops do not fit, tracing may report another op
//! than eager execution does. Gradients are also compared with differences of the function in f64.

use crate::compare::{Axes, Symbolic};
use ms::prelude::*;

/// A generator of the numbers of a program.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % count as u64) as usize
    }
}

/// An op on two of the values so far, with small numbers as attributes.
#[derive(Clone, Copy, Debug)]
struct Step {
    op: usize,
    of: [usize; 2],
    by: [usize; 3],
}

/// The shapes of arguments. A size is `_`, or the symbol `n` or `m`.
type Given = &'static [&'static [&'static str]];

/// The shapes to choose from. The size `_` is 3.
const GIVEN: &[Given] = &[
    &[&["n"]],
    &[&["n", "_"]],
    &[&["_", "n"]],
    &[&["n"], &["m"]],
    &[&["n", "m"], &["n"]],
    &[&["n", "_"], &["m", "_"]],
    &[&["n"], &["_"]],
];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Wanted {
    Value,
    Gradient,
    Hessian,
}

#[derive(Debug)]
struct Program {
    given: Given,
    dtype: DType,
    wanted: Wanted,
    steps: Vec<Step>,
}

const OPS: usize = 56;
/// Ops that narrow their result, even for operands in f64.
const NARROWED: [usize; 1] = [46];

impl Program {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
        random.below(2);
        let given = GIVEN[random.below(GIVEN.len())];
        let wanted = match (random.below(6), given[0].len()) {
            (0, 1) => Wanted::Hessian,
            (0..=1, _) => Wanted::Value,
            _ => Wanted::Gradient,
        };
        let dtype = [DType::F32, DType::F32, DType::F16, DType::BF16][random.below(4)];
        let count = 1 + random.below(4);
        let steps = (0..count).map(|at| {
            let values = given.len() + at;
            // The last value is an operand more often than others.
            let of = if random.below(3) == 0 { random.below(values) } else { values - 1 };
            let other = random.below(values);
            Step { op: random.below(OPS), of: [of, other], by: [random.below(6), random.below(6), random.below(6)] }
        });
        Self { given, dtype, wanted, steps: steps.collect() }
    }

    fn body(&self, inputs: &[Tensor]) -> Tensor {
        let mut values = inputs.to_vec();
        for step in &self.steps {
            let next = apply(step, &values[step.of[0]], &values[step.of[1]]);
            values.push(if next.rank() > 3 { next.sum(0) } else { next });
        }
        let last = values.len() - 1;
        values[last].clone()
    }

    fn loss(&self, x: &Tensor, inputs: &[Tensor]) -> Tensor {
        let inputs: Vec<Tensor> = std::iter::once(x).chain(&inputs[1..]).cloned().collect();
        let y = self.body(&inputs);
        (&y * (&y + 1.0).sin()).sum(())
    }

    fn result(&self, inputs: &[Tensor]) -> Tensor {
        let loss = |x: &Tensor| self.loss(x, inputs);
        match self.wanted {
            Wanted::Value => self.body(inputs),
            Wanted::Gradient => ms::grad(loss)(&inputs[0]),
            Wanted::Hessian => ms::hessian(loss)(&inputs[0]),
        }
    }
}

/// Returns positive numbers without ties.
fn data(shape: &[usize], from: usize) -> Tensor {
    let numel: usize = shape.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| ((i * 37 + 11 + from * 7) % 101) as f32 / 60.0 + 0.1).collect();
    Tensor::from_slice(shape.to_vec(), &values)
}

/// Returns positive numbers in the dtype of `x`.
fn like(x: &Tensor, shape: &[usize], from: usize) -> Tensor {
    data(shape, from).cast(x.dtype())
}

fn axis(x: &Tensor, by: usize) -> isize {
    if x.rank() == 0 { 0 } else { (by % x.rank()) as isize }
}

/// Returns `x` as one image with one channel and one spatial axis.
fn image(x: &Tensor) -> Tensor {
    x.reshape((1, 1, -1))
}

fn apply(step: &Step, x: &Tensor, y: &Tensor) -> Tensor {
    let [a, b, c] = step.by;
    let at = axis(x, a);
    let (low, high) = (b as isize - 3, c as isize - 2);
    let vector = || x.reshape((-1,));
    match step.op {
        0 | 1 => x + y,
        2 => x * y,
        3 => ops::maximum(x, y),
        4 => ops::select(x.gt(0.5), x, y),
        5 | 6 => x * like(x, &[4], 1),
        7 => x + like(x, &[1], 2),
        8 => x - like(x, &[3, 1], 3),
        9 => x.sum(at),
        10 => x.sum(keepdims(at)),
        11 => x - x.mean(keepdims(at)),
        12 => x.mean(at),
        13 => x.max(at),
        14 => vector().i(low..high),
        15 => vector().i(b as isize..b as isize + 3),
        16 => vector().i(low..),
        17 => vector().i((low..high).step(-1)) + vector().i((..).step(-2)).sum(()),
        18 => vector().i((..high).step(2)),
        19 => vector().i(low),
        20 => x.reshape((-1, 1 + b % 3)),
        21 => x.reshape((x.dim(at) * 2, -1)),
        22 => ops::concat(&[x, x], at),
        23 => ops::concat(&[x, y], at),
        24 => ops::matmul(vector().expand_dims(1), vector().expand_dims(0)),
        25 => ops::matmul(x, y),
        26 => x.squeeze(at),
        27 => x.expand_dims(at),
        28 => ops::broadcast_to(vector(), [4]),
        29 => ops::broadcast_to(x, y.dims()),
        30 => ops::avg_pool(image(x), &ops::PoolOptions::new(1, 1 + b).stride(1 + c)),
        31 => ops::max_pool(image(x), &ops::PoolOptions::new(1, 2 + b % 3).stride(1 + c).padding(1)),
        32 => ops::avg_pool(image(x), &ops::PoolOptions::new(1, 3).padding(1).count_include_pad(c > 2)),
        33 => ms::vmap(|x: &Tensor| x * (x + 1.0).sum(()))(x),
        34 => ops::softmax(x, at),
        35 => x.cumsum(at),
        36 => ops::size(x.dim(at), DType::F32) * y,
        37 => ops::einsum("i,i->i", &[&vector(), y]),
        38 => ops::mse_loss(x, y) + x,
        39 => ops::conv1d(image(x), like(x, &[1, 1, 1 + b % 3], 4), None, &ops::ConvOptions::new(1).stride(1 + c % 2)),
        40 => ops::max_pool(image(x), &pool(step)),
        41 => ops::avg_pool(image(x), &pool(step).dilation(1)),
        42 => ops::avg_pool(image(x), &pool(step).dilation(1).count_include_pad(a > 2)),
        43 => ops::max_pool(
            x.reshape((1, 1, -1, 1)),
            &ops::PoolOptions::new(2, [1 + b % 3, 1]).padding([a % 2, 0]).dilation([1 + c % 3, 1]),
        ),
        44 => ops::prod(x - like(x, &[1], 2), at),
        45 => ops::cumprod(x, at),
        46 => x.cast([DType::F32, DType::F16, DType::BF16][b % 3]) * y,
        47 => ops::logsumexp(x, at),
        48 => x - ops::logsumexp(x, keepdims(at)),
        49 => ops::norm(x, [1.0, 2.0, 3.0, f64::INFINITY][b % 4], at),
        50 => x / ops::norm(x, 2.0, keepdims(at)),
        51 => ops::cosine_similarity(x, like(x, &[1], 5) + x, at, 1e-6),
        52 => ops::roll(x, &[low], at),
        53 | 54 => {
            let options = ops::ConvOptions::new(1).stride(1 + c % 3).padding(a % 3).dilation(1 + (a + c) % 3);
            ops::conv_transpose(image(x), like(x, &[1, 1, 1 + b % 3], 4), None, &options, (b + c) % 3)
        }
        _ => ops::stack(&[x, y], at),
    }
}

/// Returns pooling options of every kind. Some of them are refused.
fn pool(step: &Step) -> ops::PoolOptions {
    let [a, b, c] = step.by;
    let options = ops::PoolOptions::new(1, 1 + b % 4).stride(1 + c % 3).padding(a % 3).dilation(1 + (a + c) % 3);
    options.ceil_mode((a + b) % 3 == 2)
}

/// Returns the sizes of `n` and `m` for which a program is called.
fn sizes(given: Given) -> Vec<[usize; 2]> {
    let two = given.iter().any(|it| it.contains(&"m"));
    let others = |n: usize| if two { vec![0, 1, 4, n, n + 1] } else { vec![0] };
    (0..=6).flat_map(|n| others(n).into_iter().map(move |m| [n, m])).collect()
}

/// The numbers of calls: all calls, calls that only a symbolic size refuses, and calls refused with another code.
#[derive(Default, Debug)]
struct Calls {
    all: usize,
    symbolic: usize,
    other_code: usize,
    /// The number of programs that are gradients or second derivatives, and the number of gradients that were compared
    /// with differences.
    gradients: usize,
    by_differences: usize,
}

/// Returns the calls with results that differ.
fn differences(program: &Program, calls: &mut Calls) -> Vec<String> {
    let arguments: Vec<Axes> = program.given.to_vec();
    let body = |inputs: &[Tensor]| program.result(inputs);
    let compiled = Symbolic::new(&arguments, &body);
    let mut wrong = Vec::new();
    for [n, m] in sizes(program.given) {
        let size = |name: &&str| match *name {
            "n" => n,
            "m" => m,
            _ => 3,
        };
        let shapes = program.given.iter().map(|it| it.iter().map(size).collect::<Vec<_>>());
        let inputs: Vec<Tensor> = shapes.enumerate().map(|(at, it)| data(&it, at).cast(program.dtype)).collect();
        let want = ms::catch(|| program.result(&inputs));
        let got = ms::catch(|| compiled.call(&inputs)).and_then(|it| it);
        calls.all += 1;
        let told = match (&got, &want) {
            (Ok(got), Ok(want)) => differ(got, want),
            (Err(got), Err(want)) => {
                calls.other_code += usize::from(got.code() != want.code());
                None
            }
            (Err(got), Ok(_)) if [ms::Code::SymbolicShape, ms::Code::Sizes].contains(&got.code()) => {
                calls.symbolic += 1;
                None
            }
            (Err(got), Ok(want)) => Some(format!("{got}\n  eagerly: {:?}", want.ty())),
            (Ok(got), Err(want)) => Some(format!("{:?}\n  eagerly: {want}", got.ty())),
        };
        wrong.extend(told.map(|told| format!("n = {n}, m = {m}: {told}")));
        if program.wanted == Wanted::Gradient && want.is_ok() && (n, m % 3) == (4, 1) {
            calls.by_differences += 1;
            let inputs: Vec<Tensor> = inputs.iter().map(|it| it.cast(DType::F64)).collect();
            wrong.extend(by_differences(program, &inputs).map(|told| format!("n = {n}, m = {m}, in f64: {told}")));
        }
    }
    calls.gradients += usize::from(program.wanted != Wanted::Value);
    wrong
}

/// Compares the gradient along one direction with differences of the function, unless the function has a kink or a
/// narrow value.
fn by_differences(program: &Program, inputs: &[Tensor]) -> Option<String> {
    if program.steps.iter().any(|it| NARROWED.contains(&it.op)) {
        return None;
    }
    let x = &inputs[0];
    let direction = data(x.shape(), 9).cast(DType::F64);
    let moved = |step: f64| program.loss(&(x + &direction * step), inputs).cast(DType::F64).item::<f64>();
    const STEP: f64 = 1e-6;
    let [low, middle, high] = [-STEP, 0.0, STEP].map(moved);
    let (back, forth) = ((middle - low) / STEP, (high - middle) / STEP);
    let size = middle.abs().max(forth.abs()).max(1.0);
    if (back - forth).abs() > 1e-3 * size || !back.is_finite() || middle.abs() > 1e6 {
        return None;
    }
    let got = (ms::grad(|x: &Tensor| program.loss(x, inputs))(x) * &direction).sum(()).item::<f64>();
    let want = (high - low) / (2.0 * STEP);
    let near = (got - want).abs() <= 1e-3 * size;
    (!near).then(|| format!("the gradient along a direction is {got}, not {want}"))
}

fn differ(got: &Tensor, want: &Tensor) -> Option<String> {
    if (got.shape(), got.dtype()) != (want.shape(), want.dtype()) {
        return Some(format!("{:?}, not {:?}", got.ty(), want.ty()));
    }
    let pairs = got.cast(DType::F32).to_vec::<f32>().into_iter().zip(want.cast(DType::F32).to_vec::<f32>());
    // Inner values are f16 or bf16, or sums of these.
    let tolerance = match got.dtype() {
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        _ => 1e-3,
    };
    let near = |a: f32, b: f32| (a - b).abs() <= tolerance * b.abs().max(1.0) || a == b || (a.is_nan() && b.is_nan());
    pairs.into_iter().find(|&(a, b)| !near(a, b)).map(|(a, b)| format!("{a}, not {b}"))
}

/// Runs `MS_DIMS=1000` programs, from `MS_DIMS_FIRST` on. `MS_DIMS_SEED=7` runs one program.
#[test]
fn random_functions_are_as_eagerly_at_every_size() {
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let seeds = match number("MS_DIMS_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("MS_DIMS_FIRST").unwrap_or(0);
            first..first + number("MS_DIMS").unwrap_or(60)
        }
    };
    let (mut wrong, mut bad, mut calls) = (Vec::new(), 0, Calls::default());
    for seed in seeds {
        let program = Program::new(seed);
        let found = differences(&program, &mut calls);
        bad += found.len();
        if let Some(first) = found.first() {
            wrong.push(format!("seed {seed}, {} calls: {program:?}\n{first}", found.len()));
        }
    }
    eprintln!("{calls:?}");
    assert!(wrong.is_empty(), "{bad} calls of {calls:?} differ:\n{}", wrong.join("\n\n"));
    assert!(calls.symbolic * 10 <= calls.all, "too many are refused for a symbolic size: {calls:?}");
}

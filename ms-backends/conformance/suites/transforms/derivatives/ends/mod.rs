//! Compares values and derivatives at the ends of domains with PyTorch's.
//!
//! The points are zero and one, kinks and ties, infinities and NaN, subnormals and the largest numbers.
//! `docs/numerics.md` lists the differences.

mod exceptions;
mod functions;
mod own;

use exceptions::Instead;
use functions::{DISTANCES, LOSSES, NUMBERS, PAIRS, ROWS};
use ms::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A function of rows `[k, n]` that returns `[k, m]` or `[k]`.
type Function = fn(&Tensor) -> Tensor;
type Table = &'static [(&'static str, Function)];

/// A point, and PyTorch's results there.
#[derive(Clone, Debug)]
struct Point {
    x: Vec<f64>,
    /// The value, and the first and second derivatives. An entry is empty where PyTorch has none.
    want: [Vec<f64>; 3],
}

const PARTS: [&str; 3] = ["value", "first derivative", "second derivative"];

/// The points of a function, by name and dtype. The dtype `any` stands for all dtypes.
type Points = BTreeMap<(&'static str, &'static str), Vec<Point>>;

static FILE: LazyLock<Points> = LazyLock::new(|| {
    let mut points = Points::new();
    for line in include_str!("../../data/ends.txt").lines() {
        let mut parts = line.split(" :");
        let (name, dtype) = parts.next().and_then(|it| it.rsplit_once(' ')).expect("a line begins with a name");
        let numbers = |it: &str| it.split_whitespace().map(|it| it.parse().expect("a number")).collect();
        let mut numbers = || parts.next().map(numbers).unwrap_or_default();
        points.entry((name, dtype)).or_default().push(Point { x: numbers(), want: [numbers(), numbers(), numbers()] });
    }
    points
});

/// Returns the relative tolerance, and the smallest positive number.
fn limits(dtype: DType) -> [f64; 2] {
    match dtype {
        DType::F16 => [2e-3, 2f64.powi(-24)],
        DType::F32 => [3e-6, 2f64.powi(-149)],
        _ => [2e-11, f64::from_bits(1)],
    }
}

/// Rounds a number to the dtype.
fn rounded(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => x as f32 as f64,
        DType::F64 => x,
        _ => Tensor::scalar(x).cast(dtype).cast(DType::F64).item(),
    }
}

fn column(dtype: DType, values: &[f64]) -> Tensor {
    Tensor::from_slice([values.len()], values).cast(dtype)
}

/// Returns the sum of a row's numbers times one, two, three and so on.
fn weighed(y: &Tensor) -> Tensor {
    let weights = (Tensor::arange(y.dim(1)) + 1).cast(y.dtype());
    (y * weights).sum(-1)
}

/// Returns the values, and the first and second derivatives.
fn derivatives(f: Function, x: &Tensor) -> Vec<Tensor> {
    let rows = x.dim(0);
    let value = |x: &Tensor| f(x).cast(x.dtype()).reshape((rows, -1));
    let first = |x: &Tensor| ms::grad(|x: &Tensor| weighed(&value(x)).sum(()))(x);
    let second = ms::grad(|x: &Tensor| weighed(&first(x)).sum(()))(x);
    vec![value(x), first(x), second]
}

/// Returns the first derivative by forward mode.
fn forward(f: Function, x: &Tensor) -> Tensor {
    let (rows, size) = (x.shape()[0], x.shape()[1]);
    let value = |x: &Tensor| f(x).cast(x.dtype()).reshape((rows, -1));
    let along = |axis: usize| {
        let unit = Tensor::arange(size).eq(axis as i64).cast(x.dtype()).broadcast_to(x.shape());
        weighed(&ms::jvp(|x: &Tensor| value(x))(x, &unit).1)
    };
    ops::stack(&(0..size).map(along).collect::<Vec<_>>(), 1)
}

fn compiled(f: Function, x: &Tensor) -> Vec<Tensor> {
    let graph =
        ms::internals::trace::build("f", &[x.ty()], |it| Ok(derivatives(f, &it[0]))).expect("the function is traced");
    let compiled = ms::internals::session::Compiled::new(&graph, ms::Precision::Highest);
    compiled.and_then(|it| it.run(std::slice::from_ref(x))).expect("the graph runs").into_iter().collect()
}

/// Returns the rows of a tensor.
fn lines(x: &Tensor) -> Vec<Vec<f64>> {
    let width = x.shape()[1].max(1);
    x.cast(DType::F64).to_vec::<f64>().chunks(width).map(<[f64]>::to_vec).collect()
}

/// Returns the number of points, and the results that agree neither with PyTorch's nor with the exceptions.
fn differences(name: &'static str, f: Function) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for (dtype, key) in [(DType::F64, "f64"), (DType::F32, "f32"), (DType::F16, "f16")] {
        let points: Vec<&Point> = ["any", key].iter().filter_map(|key| FILE.get(&(name, *key))).flatten().collect();
        let rows: Vec<f64> = points.iter().flat_map(|it| it.x.iter().copied()).collect();
        let x = column(dtype, &rows).reshape((points.len(), -1));
        let eager: Vec<_> = derivatives(f, &x).iter().map(lines).collect();
        // A graph of the function alone has no parameters.
        let compiled = if name == "prelu" { eager.clone() } else { compiled(f, &x).iter().map(lines).collect() };
        let forward = lines(&forward(f, &x));
        for (at, point) in points.iter().enumerate() {
            count += 1;
            let moderate = point.x.iter().all(is_moderate);
            for (part, want) in point.want.iter().enumerate() {
                let mut ways = vec![("eager", &eager[part][at]), ("compiled", &compiled[part][at])];
                if part == 1 && has_forward(name, point) {
                    ways.push(("forward", &forward[at]));
                }
                let instead = exceptions::of(name, &point.x, part);
                let right = |got: &[f64]| match instead {
                    _ if want.is_empty() => true,
                    None => near(got, want, dtype, moderate),
                    Some(Instead::Numbers) => {
                        let open: Vec<f64> =
                            want.iter().zip(got).map(|it| if it.0.is_nan() { *it.1 } else { *it.0 }).collect();
                        near(got, &open, dtype, moderate) && (part > 0 || !got.iter().any(|it| it.is_nan()))
                    }
                    Some(Instead::But(at)) => {
                        let mut own = want.clone();
                        own[*at] = got[*at];
                        near(got, &own, dtype, moderate)
                    }
                    Some(Instead::Is(own)) => near(got, &vec![*own; want.len()], dtype, moderate),
                    Some(Instead::Open) => true,
                };
                let differ = ways.iter().filter(|it| !right(it.1));
                let differ: Vec<String> = differ.map(|(way, got)| format!("{way} {got:?}")).collect();
                if !differ.is_empty() {
                    let (part, x, got) = (PARTS[part], &point.x, differ.join(", "));
                    wrong.push(format!("{name}, {key}: {part} at {x:?} is {want:?} in PyTorch, not {got}"));
                }
            }
        }
    }
    (count, wrong)
}

/// Whether forward mode has a derivative too. Tangents of zero times infinity are NaN.
fn has_forward(name: &str, point: &Point) -> bool {
    (point.x.len() == 1 && name != "hswish")
        || point.x.iter().chain(&point.want[1]).all(|it| it.is_finite() && is_moderate(it))
}

/// Whether a number is neither among the smallest nor among the largest ones.
fn is_moderate(x: &f64) -> bool {
    *x == 0.0 || !x.is_finite() || (1e-7..1e4).contains(&x.abs())
}

/// Whether the numbers are equal up to rounding: of each number, and of the others in its row where numbers are
/// moderate.
fn near(got: &[f64], want: &[f64], dtype: DType, moderate: bool) -> bool {
    let [tolerance, least] = limits(dtype);
    let size = want.iter().filter(|it| it.is_finite()).fold(0f64, |most, it| most.max(it.abs()));
    let slack = if moderate || size > 0.1 { tolerance * size.clamp(1.0, 1e3) } else { 4.0 * least };
    let near = |(got, want): (&f64, &f64)| {
        let want = rounded(*want, dtype);
        *got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= tolerance * want.abs().min(1e300) + slack
    };
    got.len() == want.len() && got.iter().zip(want).all(near)
}

fn check(table: Table) {
    let (mut count, mut wrong) = (0, Vec::new());
    for &(name, f) in table {
        assert!(FILE.contains_key(&(name, "any")), "the file has no {name}");
        let (points, differ) = differences(name, f);
        count += points;
        wrong.extend(differ);
    }
    assert!(wrong.is_empty(), "{} wrong of {count} points:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn of_a_number() {
    check(NUMBERS);
}

#[test]
fn of_two_numbers() {
    check(PAIRS);
}

#[test]
fn of_an_element_and_its_target() {
    check(LOSSES);
}

#[test]
fn of_rows() {
    check(ROWS);
}

#[test]
fn of_distances() {
    check(DISTANCES);
}

#[test]
fn every_function_of_the_file_is_compared() {
    let tables = [NUMBERS, PAIRS, LOSSES, ROWS, DISTANCES];
    let missing = FILE.keys().filter(|(name, _)| !tables.iter().any(|it| it.iter().any(|it| it.0 == *name)));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
}

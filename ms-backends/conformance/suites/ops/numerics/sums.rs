//! Tests that the error of reductions does not grow with the number of terms, for all axes, dtypes and precisions.

use ms::prelude::*;
use ms::{Context, Precision, context, with_context};

/// Returns terms of one sign, since their sums have the largest relative errors. The terms are equal, so that all
/// rounding errors have one direction, or different.
fn terms(shape: &[usize], dtype: DType, equal: bool) -> Tensor {
    if equal {
        return ops::broadcast_to(Tensor::scalar(0.1f32).cast(dtype), shape);
    }
    let all: usize = shape.iter().product();
    // The fractions have the low digits of a multiple.
    let at = ops::arange(all).cast(DType::F64) * 0.618_033_988_749_894_9;
    ops::reshape((&at - ops::floor(&at)).cast(dtype), shape)
}

/// Returns the largest relative error of all results against f64.
fn error(got: &Tensor, want: &Tensor) -> f64 {
    let (got, want) = (got.cast(DType::F64).to_vec::<f64>(), want.to_vec::<f64>());
    assert_eq!(got.len(), want.len());
    got.iter().zip(&want).map(|(got, want)| ((got - want) / want).abs()).fold(0.0, f64::max)
}

type Reduction = fn(&Tensor, Vec<isize>) -> Tensor;

const REDUCTIONS: [(&str, Reduction); 4] = [
    ("mean", |x, axes| ops::mean(x, axes)),
    ("sum", |x, axes| ops::sum(x, axes)),
    ("root of the sum of squares", |x, axes| ops::sqrt(ops::sum(ops::square(x), axes))),
    ("variance", |x, axes| ops::var(x, axes, 0)),
];

/// Computes a reduction over the axes of a shape, both by number.
fn reduced(x: &Tensor, reduction: &usize, shape: &usize) -> Tensor {
    (REDUCTIONS[*reduction].1)(x, SHAPES[*shape].1.to_vec())
}

/// The shapes reduce rows, columns, both, and have the channels first, in the middle and last.
const SHAPES: [(&[usize], &[isize]); 12] = [
    (&[300_000], &[0]),
    (&[300_000, 2], &[0]),
    (&[20_000, 19], &[0]),
    (&[4097, 64], &[0]),
    (&[3, 70_001], &[1]),
    (&[5, 4096], &[1]),
    (&[600, 500], &[0, 1]),
    (&[40_000, 2, 7], &[0, 2]),
    (&[64, 3, 28, 28], &[0, 2, 3]),
    (&[64, 28, 28, 3], &[0, 1, 2]),
    (&[2, 100_003, 3], &[1]),
    (&[9, 3000, 16], &[0, 2]),
];

#[test]
fn errors_do_not_grow_with_the_number_of_terms() {
    let mut wrong = Vec::new();
    let mut largest = std::collections::BTreeMap::new();
    let mut cases = 0;
    for (at, (shape, axes)) in SHAPES.into_iter().enumerate() {
        for (dtype, bound) in [(DType::F32, 3e-6), (DType::F64, 1e-14), (DType::BF16, 1.2e-2), (DType::F16, 2e-3)] {
            for equal in [true, false] {
                let x = terms(shape, dtype, equal);
                let wide = x.cast(DType::F64);
                for (number, (name, _)) in REDUCTIONS.into_iter().enumerate() {
                    // Sums would exceed the range of f16, and equal terms have no variance.
                    if (dtype == DType::F16 && name.contains("sum")) || (equal && name == "variance") {
                        continue;
                    }
                    let strict = Context { precision: Precision::Strict, jit: false, ..context() };
                    let want = with_context(strict, || reduced(&wide, &number, &at));
                    for (precision, jit) in [
                        (Precision::Highest, false),
                        (Precision::Highest, true),
                        (Precision::Strict, false),
                        (Precision::Strict, true),
                    ] {
                        if dtype == DType::F64 && precision == Precision::Strict && !jit {
                            continue;
                        }
                        let got = with_context(Context { precision, jit, ..context() }, || {
                            if jit { ms::jit(reduced)(&x, &number, &at) } else { reduced(&x, &number, &at) }
                        });
                        let error = error(&got, &want);
                        let most = largest.entry((name, dtype.to_string(), precision.name())).or_insert(0.0f64);
                        *most = most.max(error);
                        cases += 1;
                        if error.is_nan() || error > bound {
                            wrong.push(format!(
                                "{name} of {dtype} {shape:?} over {axes:?}, {precision}, compiled {jit}, equal {equal}: \
                                 {error:.1e}"
                            ));
                        }
                    }
                }
            }
        }
    }
    println!("{cases} cases: {largest:#?}");
    assert!(wrong.is_empty(), "{} wrong of {cases}: {wrong:#?}", wrong.len());
}

/// These sums failed as one accumulation chain of f32: numbers saturate, and all rows share a parameter.
#[test]
fn sums_over_leading_axes() {
    let ones = ops::broadcast_to(Tensor::ones([1, 2]), [20_000_000, 2]);
    assert_eq!(ops::sum(&ones, 0).to_vec::<f32>(), [20_000_000.0; 2]);
    let tenth = ops::broadcast_to(Tensor::full([1, 3], 0.1f32), [1_000_000, 3]);
    for got in ops::mean(&tenth, 0).to_vec::<f32>() {
        assert!((got - 0.1).abs() <= 1e-7, "{got}");
    }
    let bias = Tensor::zeros([3]);
    for (gradient, how) in
        [(bias_gradient(&bias, &tenth), "eager"), (ms::jit(bias_gradient)(&bias, &tenth), "compiled")]
    {
        for got in gradient.to_vec::<f32>() {
            assert!((got / 100_000.0 - 1.0).abs() <= 1e-6, "{got}, {how}");
        }
    }
}

fn bias_gradient(bias: &Tensor, x: &Tensor) -> Tensor {
    ms::grad(|bias: &Tensor| ((x + bias) * 0.1).sum(()))(bias)
}

/// Returns sums and differences of two products that cancel to zero, since `b` is `-a`.
fn cancelling(a: &Tensor, x: &Tensor, which: &usize) -> Tensor {
    let b = -a;
    match which {
        0 => a * x + &b * x,
        1 => a * x - a * x.clone() * 1.0,
        2 => -(a * x) + a * (x * 1.0),
        _ => &b * x + a * x,
    }
}

fn cancelling_gradient(a: &Tensor, x: &Tensor, which: &usize) -> Tensor {
    ms::grad(|x: &Tensor| cancelling(a, x, which).sum(()))(x)
}

fn products(a: &Tensor, b: &Tensor, x: &Tensor, y: &Tensor) -> (Tensor, Tensor, Tensor) {
    (a * x + b * y, a * x - b * y, b * y - a * x)
}

/// Products that cancel also cancel in a compiled function. Contraction applies only to one product and another term.
#[test]
fn sums_of_two_products_are_rounded_as_op_by_op() {
    let numbers = |values: [f32; 4]| Tensor::from_slice([4], &values);
    let (a, x) = (numbers([1e20, 0.1, 3.3, 1e-3]), numbers([1e10, 0.3, 7.7, 1.1]));
    for which in 0..4usize {
        let value = ms::jit(cancelling)(&a, &x, &which).to_vec::<f32>();
        assert_eq!(value, [0.0; 4], "{which}");
        let gradient = ms::jit(cancelling_gradient)(&a, &x, &which).to_vec::<f32>();
        assert_eq!(gradient, [0.0; 4], "gradient of {which}");
    }
    let (b, y) = (numbers([-1e20, -0.1, -3.3, 1e-3]), numbers([1e10, 0.3, 7.7, -1.1]));
    let (eager, compiled) = (products(&a, &b, &x, &y), ms::jit(products)(&a, &b, &x, &y));
    for (eager, compiled) in [(eager.0, compiled.0), (eager.1, compiled.1), (eager.2, compiled.2)] {
        assert_eq!(eager.to_vec::<f32>(), compiled.to_vec::<f32>());
    }
    // One product is contracted, as in the example of `docs/numerics.md`.
    let (x, c) = (Tensor::full([1], 1.0f32 + 2f32.powi(-12)), Tensor::full([1], -(1.0 + 2f32.powi(-11))));
    fn contracted(x: &Tensor, c: &Tensor) -> Tensor {
        x * x + c
    }
    assert_eq!(contracted(&x, &c).to_vec::<f32>(), [0.0]);
    assert_eq!(ms::jit(contracted)(&x, &c).to_vec::<f32>(), [2f32.powi(-24)]);
}

//! Tests linear algebra: values of NumPy, reconstructions, derivatives of both orders, every path, and refusals.

use ms::linalg::{cholesky, det, eigh, inv, lstsq, qr, slogdet, solve, solve_triangular, svd};
use ms::prelude::*;
use ms::{Code, jit, vmap};
// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;
use serde_json::Value;

mod derivatives;

/// Returns a tensor of the data: a shape and values, in which null is -inf.
fn tensor(of: &Value) -> Tensor {
    let list = |name: &str| of[name].as_array().expect("a list");
    let shape: Vec<usize> = list("shape").iter().map(|it| it.as_u64().expect("a size") as usize).collect();
    let values: Vec<f64> = list("values").iter().map(|it| it.as_f64().unwrap_or(f64::NEG_INFINITY)).collect();
    Tensor::from_slice(shape, &values)
}

#[track_caller]
fn close(got: &Tensor, want: &Tensor, tolerance: f64, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let (got, want) = (got.cast(DType::F64).to_vec::<f64>(), want.cast(DType::F64).to_vec::<f64>());
    let scale = want.iter().filter(|it| it.is_finite()).fold(1.0f64, |a, b| a.max(b.abs()));
    for (got, want) in got.iter().zip(&want) {
        assert!(got == want || (got - want).abs() <= tolerance * scale, "{what}: {got}, not {want}");
    }
}

fn t(x: &Tensor) -> Tensor {
    x.transpose(-2, -1)
}

/// Multiplies the columns of `x` by the elements of a vector.
fn columns(x: &Tensor, by: &Tensor) -> Tensor {
    x * by.expand_dims(-2)
}

#[track_caller]
fn orthonormal(columns: &Tensor, tolerance: f64, what: &str) {
    let product = t(columns).matmul(columns);
    let n = product.shape()[product.rank() - 1];
    close(&product, &ops::broadcast_to(ops::eye(n).cast(product.dtype()), product.dims()), tolerance, what);
}

/// Checks the results of one case in a dtype, against NumPy's and by their defining equations.
fn check_case(case: &Value, dtype: DType, tolerance: f64) {
    let of = |name: &str| tensor(&case[name]).cast(dtype);
    let want: Vec<Tensor> = case["results"].as_array().expect("results").iter().map(tensor).collect();
    let (a, op) = (of("a"), case["op"].as_str().expect("a name"));
    let what = format!("{op} of {}", a.ty());
    let got = match op {
        "cholesky" => {
            let l = cholesky(&a);
            close(&l.matmul(t(&l)), &a, tolerance, &what);
            vec![l]
        }
        "eigh" => {
            let (w, v) = eigh(&a);
            close(&columns(&v, &w).matmul(t(&v)), &a, tolerance, &what);
            orthonormal(&v, tolerance, &what);
            vec![w]
        }
        "svd" => {
            let (u, s, vt) = svd(&a);
            close(&columns(&u, &s).matmul(&vt), &a, tolerance, &what);
            orthonormal(&u, tolerance, &what);
            orthonormal(&t(&vt), tolerance, &what);
            vec![s]
        }
        "qr" => {
            let (q, r) = qr(&a);
            close(&q.matmul(&r), &a, tolerance, &what);
            close(&r.triu(0), &r, 0.0, &what);
            orthonormal(&q, tolerance, &what);
            vec![r.abs()]
        }
        "determinants" => {
            let (sign, log) = slogdet(&a);
            vec![sign, log, det(&a)]
        }
        "inv" => vec![inv(&a)],
        "solve" => vec![solve(&a, of("b"))],
        "lstsq" => vec![lstsq(&a, of("b"))],
        other => panic!("{other} is no case"),
    };
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got.dtype(), dtype, "{what}");
        close(got, want, tolerance, &what);
    }
}

#[test]
fn results_are_those_of_numpy() {
    // The data are random matrices with the results of `numpy.linalg` 2.4 in f64. For `qr` it has the absolute values
    // of `r`.
    let cases: Value = serde_json::from_str(include_str!("numpy.json")).expect("the data parses");
    let cases = cases.as_array().expect("a list");
    assert_eq!(cases.len(), 35);
    for case in cases {
        check_case(case, DType::F64, 1e-12);
        check_case(case, DType::F32, 1e-4);
    }
}

fn matrices() -> Tensor {
    let values: Vec<f64> = (0..18).map(|it| ((it * it) as f64 * 0.7 + 0.4).sin()).collect();
    Tensor::from_slice([2, 3, 3], &values)
}

/// Returns positive definite matrices.
fn definite(x: &Tensor) -> Tensor {
    x.matmul(t(x)) + ops::eye(3).cast(DType::F64)
}

fn every(x: &Tensor) -> Vec<Tensor> {
    let ((q, r), (u, s, vt), (w, v), (sign, log)) = (qr(x), svd(x), eigh(x), slogdet(x));
    let l = cholesky(definite(x));
    let solved = solve(x, &l);
    let triangle = solve_triangular(&l, x, true, false);
    vec![q, r, u, s, vt, w, v, sign, log, det(x), solved, triangle, lstsq(x, &l), inv(x), l]
}

#[test]
fn every_path_has_the_same_bits() {
    let x = matrices();
    let eager: Vec<Vec<f64>> = every(&x).iter().map(|it| it.to_vec()).collect();
    let bits = |got: Vec<Tensor>| got.iter().map(|it| it.to_vec::<f64>()).collect::<Vec<_>>();
    // Matrix products may round differently in batches, and so may the results that depend on them.
    let near = |what: &str, got: Vec<Vec<f64>>| {
        for (at, (got, want)) in got.iter().zip(&eager).enumerate() {
            assert_eq!(got.len(), want.len());
            assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-12), "{what}, result {at}");
        }
    };
    near("compiled", bits(jit(every)(&x)));
    near("lanes", bits(vmap(every)(&x)));
    near("lanes compiled", bits(jit(vmap(every))(&x)));
    let direct = |x: &Tensor| vec![qr(x).1, svd(x).1, eigh(x).0, inv(x), det(x)];
    let want = bits(direct(&x));
    assert_eq!(bits(jit(|x: &Tensor| vec![qr(x).1, svd(x).1, eigh(x).0, inv(x), det(x)])(&x)), want, "compiled");
    assert_eq!(bits(vmap(direct)(&x)), want, "lanes");
    let alone: Vec<Vec<Vec<f64>>> = (0..2).map(|at| bits(direct(&x.at(at)))).collect();
    let joined: Vec<Vec<f64>> = alone[0].iter().zip(&alone[1]).map(|(a, b)| [&a[..], b].concat()).collect();
    assert_eq!(joined, want, "one by one");
}

#[jit(dims(x = [b, n, n]))]
fn of_any_size(x: &Tensor) -> Tensor {
    solve(x, eigh(x).1)
}

#[jit(dims(x = [m, n]))]
fn gradient_of_any_size(x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| qr(x).1)(x)
}

#[jit(dims(x = [n, n]))]
fn gradient_of_any_square(x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| (qr(x).1.square(), svd(x).1, eigh(x).0, det(x)))(x)
}

#[test]
fn gradients_of_symbolic_sizes() {
    for n in [2, 3] {
        let x = matrices().at(0).i((..n, ..n));
        let eager = ms::grad(|x: &Tensor| (qr(x).1.square(), svd(x).1, eigh(x).0, det(x)))(&x);
        close(&gradient_of_any_square(&x), &eager, 1e-12, "symbolic");
    }
    // One of the two symbols is assumed to be the smaller one. Sizes in the other order are refused.
    let tall = matrices().at(0).i((.., ..2));
    close(&gradient_of_any_size(&tall), &ms::grad(|x: &Tensor| qr(x).1)(&tall), 1e-12, "symbolic");
    let error = ms::catch(|| gradient_of_any_size(&t(&tall))).expect_err("there are more columns than rows");
    assert_eq!(error.code(), Code::Shape, "{error}");
}

#[test]
fn sizes_may_be_symbolic_or_zero() {
    for (batch, n) in [(1, 2), (3, 4), (2, 1), (0, 3), (2, 0)] {
        let x = ops::broadcast_to(ops::eye(n).cast(DType::F64), [batch, n, n]) * 2.0;
        assert_eq!(of_any_size(&x).shape(), [batch, n, n]);
        let (u, s, vt) = svd(&x);
        assert_eq!((u.shape(), s.shape(), vt.shape()), (&[batch, n, n][..], &[batch, n][..], &[batch, n, n][..]));
        assert_eq!(det(&x).to_vec::<f64>(), vec![2f64.powi(n as i32); batch]);
        assert_eq!(cholesky(&x).shape(), qr(&x).1.shape());
    }
    assert_eq!(qr(&Tensor::ones([3, 0])).1.shape(), [0, 0]);
    assert_eq!(svd(&Tensor::ones([0, 3])).2.shape(), [0, 3]);
}

#[test]
fn what_has_no_decomposition_is_refused() {
    let (nan, singular) = (tensor![[f32::NAN, 0.0], [0.0, 1.0]], tensor![[1.0, 2.0], [2.0, 4.0]]);
    let (indefinite, rows) = (tensor![[1.0, 2.0], [2.0, 1.0]], tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let integers = tensor![[1, 0], [0, 1]];
    let batch = ops::stack(&[&ops::eye(2), &indefinite], 0);
    type Run<'a> = Box<dyn Fn() -> Tensor + 'a>;
    let cases: Vec<(Code, &str, Run<'_>)> = vec![
        (Code::NoDecomposition, "matrix 0 of the batch is not positive definite", Box::new(|| cholesky(&indefinite))),
        (Code::NoDecomposition, "matrix 1 of the batch is not positive definite", Box::new(|| cholesky(&batch))),
        (Code::NoDecomposition, "not positive definite", Box::new(|| jit(|x: &Tensor| cholesky(x))(&indefinite))),
        (Code::NoDecomposition, "not finite", Box::new(|| cholesky(&nan))),
        (Code::NoDecomposition, "not finite", Box::new(|| eigh(&nan).0)),
        (Code::NoDecomposition, "not finite", Box::new(|| svd(&nan).1)),
        (Code::NoDecomposition, "not finite", Box::new(|| qr(&nan).1)),
        (Code::NoDecomposition, "not finite", Box::new(|| det(&nan))),
        (Code::NoDecomposition, "singular", Box::new(|| solve(&singular, tensor![1.0, 1.0]))),
        (Code::NoDecomposition, "singular", Box::new(|| inv(&singular))),
        (Code::NoDecomposition, "singular", Box::new(|| ms::grad(|x: &Tensor| det(x))(&singular))),
        (
            Code::NoDecomposition,
            "singular",
            Box::new(|| solve_triangular(&nan.tril(-1), tensor![1.0, 1.0], true, false)),
        ),
        (Code::Shape, "not square", Box::new(|| cholesky(Tensor::ones([1, 3])))),
        (Code::Shape, "not square", Box::new(|| eigh(Tensor::ones([3, 1])).0)),
        (Code::Shape, "not square", Box::new(|| inv(&rows))),
        (Code::Shape, "not square", Box::new(|| det(&rows))),
        (Code::Shape, "no two axes", Box::new(|| svd(&tensor![1.0]).1)),
        (Code::Shape, "not as many rows as columns", Box::new(|| lstsq(&rows, tensor![1.0, 1.0]))),
        (Code::Shape, "right-hand sides", Box::new(|| solve(&indefinite, tensor![1.0, 1.0, 1.0]))),
        (Code::DType, "cast first", Box::new(|| qr(&integers).0)),
        (Code::DType, "differ", Box::new(|| solve(&indefinite, tensor![1.0, 1.0].cast(DType::F64)))),
    ];
    for (code, says, run) in cases {
        let error = ms::catch(|| run().to_vec::<f32>()).expect_err(says);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

//! Tests Fourier transforms: values of NumPy, derivatives, every path, and refusals.

use ms::fft::{fft, ifft, irfft, rfft};
use ms::prelude::*;
use ms::{Code, jit, vmap};
// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;
use serde_json::Value;

/// Returns a tensor of the data.
fn tensor(of: &Value) -> Tensor {
    let list = |name: &str| of[name].as_array().expect("a list");
    let shape: Vec<usize> = list("shape").iter().map(|it| it.as_u64().expect("a size") as usize).collect();
    let values: Vec<f64> = list("values").iter().map(|it| it.as_f64().expect("a number")).collect();
    Tensor::from_slice(shape, &values)
}

#[track_caller]
fn close(got: &Tensor, want: &Tensor, tolerance: f64, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let far = (got.cast(DType::F64) - want.cast(DType::F64)).abs().max(()).item::<f64>();
    assert!(far <= tolerance, "{what}: {far} apart");
}

type Transform = Box<dyn Fn(&Tensor) -> Tensor>;

/// Returns the transform of a case, and its name.
fn transform(case: &Value) -> (String, Transform) {
    let axis = case["axis"].as_i64().expect("an axis") as isize;
    let op = case["op"].as_str().expect("a name");
    let transform: Transform = match op {
        "fft" => Box::new(move |x| fft(x, axis)),
        "ifft" => Box::new(move |x| ifft(x, axis)),
        "rfft" => Box::new(move |x| rfft(x, axis)),
        "irfft" => {
            let size = case["size"].as_u64().expect("a size") as usize;
            Box::new(move |x| irfft(x, size, axis))
        }
        other => panic!("{other} is no transform"),
    };
    (format!("{op} of {} along {axis}", case["x"]["shape"]), transform)
}

/// Returns different numbers around zero.
fn numbers(shape: &[usize], seed: f64) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::from_slice(shape, &(0..count).map(|it| ((it as f64).powi(2) * 0.7 + seed).sin()).collect::<Vec<_>>())
}

#[test]
fn results_are_those_of_numpy() {
    // The data are random numbers with the results of `numpy.fft` 2.4.
    let cases: Value = serde_json::from_str(include_str!("numpy.json")).expect("the data parses");
    let cases = cases.as_array().expect("a list");
    assert_eq!(cases.len(), 32);
    for case in cases {
        let (what, transform) = transform(case);
        let (x, want) = (tensor(&case["x"]), tensor(&case["result"]));
        close(&transform(&x), &want, 1e-13, &what);
        let narrow = transform(&x.cast(DType::F32));
        assert_eq!(narrow.dtype(), DType::F32, "{what}");
        close(&narrow, &want, 2e-5, &what);
    }
}

#[test]
fn derivatives_are_the_adjoint_and_the_transform() {
    let cases: Value = serde_json::from_str(include_str!("numpy.json")).expect("the data parses");
    for case in cases.as_array().expect("a list") {
        let (what, transform) = transform(case);
        let transform = &transform;
        let x = tensor(&case["x"]);
        let along = numbers(x.shape(), 1.0);
        let weights = numbers(transform(&x).shape(), 2.0);
        // The transform is linear: its tangent is the transform itself, and its gradient the adjoint.
        close(&ms::jvp(|x: &Tensor| transform(x))(&x, &along).1, &transform(&along), 1e-13, &what);
        let gradient = ms::grad(|x: &Tensor| transform(x) * &weights)(&x);
        let dot = |a: &Tensor, b: &Tensor| (a * b).sum(());
        close(&dot(&gradient, &along), &dot(&weights, &transform(&along)), 1e-12, &what);
        // The dot product of x with the gradient of half the squared norm is the squared norm. That gradient is linear
        // too.
        let slope = |x: &Tensor| ms::grad(|x: &Tensor| transform(x).square() * 0.5)(x);
        close(&dot(&slope(&x), &x), &transform(&x).square().sum(()), 1e-10, &what);
        close(&dot(&ms::grad(slope)(&x), &along), &dot(&slope(&along), &Tensor::ones_like(&x)), 1e-10, &what);
    }
}

fn every(x: &Tensor) -> Vec<Tensor> {
    let spectrum = rfft(x, 0);
    vec![fft(&spectrum, -1), ifft(&spectrum, 0), irfft(&spectrum, 6, 0), spectrum]
}

#[test]
fn every_path_has_the_same_bits() {
    let x = numbers(&[3, 6, 4], 0.0);
    let bits = |got: Vec<Tensor>| got.iter().map(|it| it.to_vec::<f64>()).collect::<Vec<_>>();
    for at in 0..3 {
        assert_eq!(bits(jit(every)(&x.at(at))), bits(every(&x.at(at))), "compiled");
    }
    let alone: Vec<Vec<Vec<f64>>> = (0..3).map(|at| bits(every(&x.at(at)))).collect();
    let joined: Vec<Vec<f64>> =
        (0..4).map(|result| alone.iter().flat_map(|it| it[result].iter().copied()).collect()).collect();
    assert_eq!(bits(vmap(every)(&x)), joined, "lanes");
    assert_eq!(bits(jit(vmap(every))(&x)), joined, "lanes compiled");
}

#[jit(dims(x = [b, n]))]
fn of_any_size(x: &Tensor) -> Tensor {
    rfft(x, -1)
}

#[test]
fn sizes_may_be_symbolic() {
    for (batch, n) in [(1, 4), (3, 5), (2, 1), (0, 3)] {
        let x = numbers(&[batch, n], 0.5);
        assert_eq!(of_any_size(&x).shape(), [batch, n / 2 + 1, 2]);
        assert_eq!(of_any_size(&x).to_vec::<f64>(), rfft(&x, 1).to_vec::<f64>());
    }
}

#[jit(dims(x = [_, n]))]
fn gradient_of_any_size(x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| rfft(x, -1).square())(x)
}

#[test]
fn what_has_no_transform_is_refused() {
    let (x, none) = (Tensor::ones([3, 2]), Tensor::ones([0, 2]));
    type Run<'a> = Box<dyn Fn() -> Tensor + 'a>;
    let cases: Vec<(Code, &str, Run<'_>)> = vec![
        (Code::Shape, "a last axis of 2", Box::new(|| fft(Tensor::ones([2, 3]), 0))),
        (Code::Shape, "a last axis of 2", Box::new(|| ifft(&none, 0))),
        (Code::Shape, "no elements", Box::new(|| rfft(&none, 0))),
        (Code::Shape, "7 numbers have a spectrum of 4", Box::new(|| irfft(&x, 7, 0))),
        (Code::Shape, "0 numbers", Box::new(|| irfft(&x, 0, 0))),
        (Code::OutOfRange, "axis 1", Box::new(|| fft(&x, 1))),
        (Code::OutOfRange, "axis -3", Box::new(|| rfft(&x, -3))),
        (Code::OutOfRange, "axis 0", Box::new(|| rfft(Tensor::scalar(1.0), 0))),
        (Code::SymbolicShape, "the gradient of `rfft`", Box::new(|| gradient_of_any_size(&x))),
        (Code::DType, "cast first", Box::new(|| rfft(tensor![1, 2], 0))),
        (Code::DType, "cast first", Box::new(|| fft(x.cast(DType::F16), 0))),
    ];
    for (code, says, run) in cases {
        let error = ms::catch(|| run().to_vec::<f32>()).expect_err(says);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

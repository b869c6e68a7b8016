//! Tests derivatives of functions: every transform, in any order, eagerly and compiled.

mod auxiliary;
mod custom_rules;
mod custom_tangents;
mod ends;
mod pools;
mod random;
mod reads;
mod smooth;

use ms::prelude::*;
use ms::{All, At, GradOperation};

fn cube(x: &Tensor) -> Tensor {
    x * x * x
}

fn tanh_thrice(x: &Tensor) -> Tensor {
    ms::grad(ms::grad(ms::grad(|x: &Tensor| x.tanh())))(x)
}

fn matrix(values: [f32; 4]) -> Tensor {
    Tensor::from_slice([2, 2], &values)
}

/// Checks a function of one tensor, eagerly and under another gradient.
fn check(what: &str, f: fn(&Tensor) -> Tensor, x: &Tensor, want: &[f32]) {
    let jitted = |x: &Tensor| ms::grad(|scale: &Tensor| (f(x) * scale).sum(()))(&Tensor::scalar(1.0f32));
    let close = |got: &[f32]| got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
    let got = f(x).to_vec::<f32>();
    assert!(got.len() == want.len() && close(&got), "{what}, eagerly: {got:?}, not {want:?}");
    // Another gradient around the derivative differentiates it too.
    let sum: f32 = want.iter().sum();
    let got = jitted(x).item::<f32>();
    assert!((got - sum).abs() <= 1e-3 * (1.0 + sum.abs()), "{what}, differentiated: {got}, not {sum}");
}

macro_rules! both {
    ($what:expr, $f:expr, $x:expr, $want:expr) => {{
        let x = $x;
        check($what, $f, &x, &$want);
        let got = ms::jit(|x: &Tensor| $f(x))(&x).to_vec::<f32>();
        let close = got.iter().zip(&$want).all(|(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
        assert!(got.len() == $want.len() && close, "{}, compiled: {got:?}, not {:?}", $what, $want);
    }};
}

use both;

#[test]
fn transforms_in_any_order() {
    let x = || matrix([1.0, 2.0, 3.0, 4.0]);
    let three = || Tensor::scalar(3.0f32);
    both!("grad", |x| ms::grad(cube)(x), x(), [3.0, 12.0, 27.0, 48.0]);
    both!("grad of grad", |x| ms::grad(ms::grad(cube))(x), x(), [6.0, 12.0, 18.0, 24.0]);
    both!("three times", |x| ms::grad(ms::grad(ms::grad(cube)))(x), x(), [6.0; 4]);
    both!("jvp", |x| ms::jvp(cube)(x, x).1, x(), [3.0, 24.0, 81.0, 192.0]);
    both!("jvp of grad", |x| ms::jvp(ms::grad(cube))(x, x).1, x(), [6.0, 24.0, 54.0, 96.0]);
    both!(
        "grad of jvp",
        |x| ms::grad(|x: &Tensor| ms::jvp(cube)(x, &Tensor::ones([2, 2])).1)(x),
        x(),
        [6.0, 12.0, 18.0, 24.0]
    );
    both!("vjp", |x| ms::vjp(cube)(x).1(x), x(), [3.0, 24.0, 81.0, 192.0]);
    both!("linearize", |x| ms::linearize(cube)(x).1(x), x(), [3.0, 24.0, 81.0, 192.0]);
    both!("jacrev", |x| ms::jacrev(cube)(x), tensor![1.0, 2.0], [3.0, 0.0, 0.0, 12.0]);
    both!("jacfwd", |x| ms::jacfwd(cube)(x), tensor![1.0, 2.0], [3.0, 0.0, 0.0, 12.0]);
    both!("jacfwd of jacrev", |x| ms::jacfwd(ms::jacrev(cube))(x), three(), [18.0]);
    both!("hessian", |x| ms::hessian(|x: &Tensor| cube(x).sum(()))(x), tensor![1.0, 2.0], [6.0, 0.0, 0.0, 12.0]);
    both!("vmap of grad", |x| ms::vmap(ms::grad(cube))(x), tensor![1.0, 2.0], [3.0, 12.0]);
    both!("grad of vmap", |x| ms::grad(ms::vmap(cube))(x), tensor![1.0, 2.0], [3.0, 12.0]);
    // The expected value is -2 (1 - t²) (1 - 3 t²) at t = tanh(0.5).
    both!("third derivative of tanh", tanh_thrice, Tensor::scalar(0.5f32), [-0.565_209_3]);
    both!("jit of grad", |x| ms::jit(ms::grad(cube))(x), x(), [3.0, 12.0, 27.0, 48.0]);
    both!("grad of jit", |x| ms::grad(ms::jit(cube))(x), x(), [3.0, 12.0, 27.0, 48.0]);
    both!("jvp of jit", |x| ms::jvp(ms::jit(cube))(x, x).1, x(), [3.0, 24.0, 81.0, 192.0]);
    both!("hessian of jit", |x| ms::hessian(ms::jit(cube))(x), three(), [18.0]);
}

/// Captures of a recomputed function have gradients. Captures of a custom function have none.
#[test]
fn captured_parameters() {
    let (x, w) = (tensor![1.0, 2.0], Parameter::new(tensor![3.0, 5.0], "w"));
    let gradients = |f: &dyn Fn(&Tensor) -> Tensor| {
        let g = ms::grad(|x: &Tensor| f(x)).wrt((At::<0>, w.clone()))(&x);
        (g.0.to_vec::<f32>(), g.1.to_vec::<f32>())
    };
    let got = gradients(&|x| ms::recompute(|x: &Tensor| x * &w * &w)(x));
    assert_eq!(got, (vec![9.0, 25.0], vec![6.0, 20.0]));
    let got = gradients(&|x| ms::custom_vjp(|x: &Tensor| x * &w, |_: &Tensor, _: &Tensor, g: &Tensor| (g * &w,))(x));
    assert_eq!(got, (vec![3.0, 5.0], vec![0.0, 0.0]));
}

#[test]
fn arguments_and_parameters_by_choice() {
    let (x, y) = (tensor![1.0, 2.0], tensor![3.0, 5.0]);
    let w = Parameter::new(tensor![10.0, 20.0], "w");
    let f = |x: &Tensor, y: &Tensor| x * y * &w;
    let values = |it: &Tensor| it.to_vec::<f32>();
    assert_eq!(values(&ms::grad(f).wrt(At::<1>)(&x, &y)), [10.0, 40.0]);
    let (gx, gy) = ms::grad(f).wrt(All)(&x, &y);
    assert_eq!((values(&gx), values(&gy)), (vec![30.0, 100.0], vec![10.0, 40.0]));
    let ((gx,), gw) = ms::grad(f).wrt(((At::<0>,), w.clone()))(&x, &y);
    assert_eq!((values(&gx), values(&gw)), (vec![30.0, 100.0], vec![3.0, 10.0]));
    let gw = GradOperation::new().get_by_list(vec![w.clone()]).of(f)(&x, &y);
    assert_eq!(values(gw.get(&w).expect("asked for")), [3.0, 10.0]);
    let ((gx, _), gw) = GradOperation::new().get_all().get_by_list(w.clone()).of(f)(&x, &y);
    assert_eq!((values(&gx), values(&gw)), (vec![30.0, 100.0], vec![3.0, 10.0]));
    let g = GradOperation::new().get_all().sens_param().of(f)(&x, &y, &tensor![1.0, 2.0]);
    assert_eq!(values(&g.0), [30.0, 200.0]);
    let (_, pull) = ms::vjp(f).wrt((All, w.clone()))(&x, &y);
    let ((_, gy), gw) = pull(&tensor![1.0, 2.0]);
    assert_eq!((values(&gy), values(&gw)), (vec![10.0, 80.0], vec![3.0, 20.0]));
    let (_, t) = ms::jvp(f).wrt((At::<1>, w.clone()))(&x, &y, &(tensor![1.0, 1.0], tensor![1.0, 0.0]));
    assert_eq!(values(&t), [13.0, 40.0]);
}

#[test]
fn what_is_refused_has_a_code() {
    use ms::Code;
    let x = tensor![1.0, 2.0];
    let refused = |f: &dyn Fn()| ms::catch(f).expect_err("refused");
    let error = refused(&|| drop(ms::grad(|n: &Tensor| n + n)(&Tensor::from_slice([1], &[1i64]))));
    assert_eq!(error.code(), Code::NoGradient);
    assert!(error.to_string().contains("input 0"), "{error}");
    let wrong = |x: &Tensor| ms::custom_vjp(cube, |_: &Tensor, _: &Tensor, g: &Tensor| (g.sum(()),))(x);
    let error = refused(&|| drop(ms::grad(wrong)(&x)));
    assert_eq!(error.code(), Code::Shape, "{error}");
    let error = refused(&|| drop(ms::vjp(cube)(&x).1(&tensor![1.0])));
    assert_eq!(error.code(), Code::Shape);
    let error = refused(&|| drop(ms::jvp(cube)(&x, &tensor![1.0f64, 2.0].cast(DType::F64))));
    assert_eq!(error.code(), Code::DType);
}

/// Runs a function that is compiled for the type of `x`.
fn compiled(f: &dyn Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let graph = ms::internals::trace::build("f", &[x.ty()], |it| Ok(vec![f(&it[0])])).expect("the function is traced");
    let compiled = ms::internals::session::Compiled::new(&graph, ms::Precision::Highest);
    compiled.and_then(|it| it.run(std::slice::from_ref(x))).expect("the graph runs").swap_remove(0)
}

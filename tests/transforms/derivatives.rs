//! Derivatives of functions: every transform, in any order, eagerly and compiled.

use ms::prelude::*;
use ms::{All, At, Context, GradOperation, Precision};

fn cube(x: &Tensor) -> Tensor {
    x * x * x
}

fn tanh_thrice(x: &Tensor) -> Tensor {
    ms::grad(ms::grad(ms::grad(|x: &Tensor| x.tanh())))(x)
}

fn matrix(values: [f32; 4]) -> Tensor {
    Tensor::from_slice([2, 2], &values)
}

/// A function of one tensor, eagerly and in a compiled function, with the values that it gives.
fn check(what: &str, f: fn(&Tensor) -> Tensor, x: &Tensor, want: &[f32]) {
    let jitted = |x: &Tensor| ms::grad(|scale: &Tensor| (f(x) * scale).sum((), false))(&Tensor::scalar(1.0f32));
    let close = |got: &[f32]| got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
    let got = f(x).to_vec::<f32>();
    assert!(got.len() == want.len() && close(&got), "{what}, eagerly: {got:?}, not {want:?}");
    // Through another gradient, so that the derivative is differentiated, too.
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
    both!("hessian", |x| ms::hessian(|x: &Tensor| cube(x).sum((), false))(x), tensor![1.0, 2.0], [6.0, 0.0, 0.0, 12.0]);
    both!("vmap of grad", |x| ms::vmap(ms::grad(cube))(x), tensor![1.0, 2.0], [3.0, 12.0]);
    both!("grad of vmap", |x| ms::grad(ms::vmap(cube))(x), tensor![1.0, 2.0], [3.0, 12.0]);
    // -2 (1 - t²) (1 - 3 t²) at t = tanh(0.5).
    both!("third derivative of tanh", tanh_thrice, Tensor::scalar(0.5f32), [-0.565_209_3]);
    both!("jit of grad", |x| ms::jit(ms::grad(cube))(x), x(), [3.0, 12.0, 27.0, 48.0]);
    both!("grad of jit", |x| ms::grad(ms::jit(cube))(x), x(), [3.0, 12.0, 27.0, 48.0]);
    both!("jvp of jit", |x| ms::jvp(ms::jit(cube))(x, x).1, x(), [3.0, 24.0, 81.0, 192.0]);
    both!("hessian of jit", |x| ms::hessian(ms::jit(cube))(x), three(), [18.0]);
}

/// The square, whose gradient is said to be ten times what it is.
fn tenfold(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, g: &Tensor| (g * x * 20.0,))(x)
}

fn kept_short(x: &Tensor) -> Tensor {
    ms::recompute(|x: &Tensor| (x * x).exp())(x)
}

#[test]
fn functions_that_say_how_they_are_differentiated() {
    let x = || tensor![1.0, 2.0];
    both!("custom_vjp", tenfold, x(), [1.0, 4.0]);
    both!("its gradient", |x| ms::grad(tenfold)(x), x(), [20.0, 40.0]);
    both!("its second one", |x| ms::grad(ms::grad(tenfold))(x), x(), [20.0, 20.0]);
    both!("its tangent", |x| ms::jvp(tenfold)(x, x).1, x(), [20.0, 80.0]);
    both!("vmap of its gradient", |x| ms::vmap(ms::grad(tenfold))(x), x(), [20.0, 40.0]);
    both!("gradient of its vmap", |x| ms::grad(ms::vmap(tenfold))(x), x(), [20.0, 40.0]);
    both!("stop_gradient", |x| ms::grad(|x: &Tensor| ops::stop_gradient(x) * x)(x), tensor![3.0], [3.0]);
    let (e, x) = (1f32.exp(), || tensor![1.0, 0.5]);
    let r = 0.25f32.exp();
    both!("recompute", kept_short, x(), [e, r]);
    both!("its gradient", |x| ms::grad(kept_short)(x), x(), [2.0 * e, r]);
    both!("its second one", |x| ms::grad(ms::grad(kept_short))(x), x(), [6.0 * e, 3.0 * r]);
    both!("its tangent", |x| ms::jvp(kept_short)(x, x).1, x(), [2.0 * e, 0.5 * r]);
    both!("vmap of its gradient", |x| ms::vmap(ms::grad(kept_short))(x), x(), [2.0 * e, r]);
    both!("gradient of its vmap", |x| ms::grad(ms::vmap(kept_short))(x), x(), [2.0 * e, r]);
}

/// Rounded, with the gradient of the identity.
fn straight_through(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| ops::round(x), |_: &Tensor, _: &Tensor, g: &Tensor| (g * 1.0,))(x)
}

/// `x²` with the gradient `3 x`.
fn sq(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x * x, |x: &Tensor, _: &Tensor, g: &Tensor| (g * x * 3.0,))(x)
}

/// `exp x` with twice its gradient, taken of the result.
fn doubled_exp(x: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x.exp(), |_: &Tensor, out: &Tensor, g: &Tensor| (g * out * 2.0,))(x)
}

/// `sq`, whose gradient is `sq`.
fn of_sq(x: &Tensor) -> Tensor {
    ms::custom_vjp(sq, |x: &Tensor, _: &Tensor, g: &Tensor| (g * sq(x),))(x)
}

/// `sq` with a gradient that is a gradient.
fn by_grad(x: &Tensor) -> Tensor {
    ms::custom_vjp(sq, |x: &Tensor, _: &Tensor, g: &Tensor| (g * ms::grad(sq)(x),))(x)
}

/// `x y` with the gradients `2 y` and `3 x`.
fn product(x: &Tensor, y: &Tensor) -> Tensor {
    let backward = |x: &Tensor, y: &Tensor, _: &Tensor, g: &Tensor| (g * y * 2.0, g * x * 3.0);
    ms::custom_vjp(|x: &Tensor, y: &Tensor| x * y, backward)(x, y)
}

/// `c x²` with the gradient `3 c x`, where both functions capture `c`.
fn scaled(x: &Tensor, c: &Tensor) -> Tensor {
    ms::custom_vjp(|x: &Tensor| x * x * c, |x: &Tensor, _: &Tensor, g: &Tensor| (g * x * c * 3.0,))(x)
}

/// `sq` as a cell.
#[cell]
struct Sq;

#[cell]
impl Sq {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * x
    }

    fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (dout * x * 3.0,)
    }
}

/// [`Sq`], traced once for all of its calls.
#[cell]
#[lazy_inline]
struct SharedSq;

#[cell]
impl SharedSq {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * x
    }

    fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (dout * x * 3.0,)
    }
}

fn second(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    ms::grad(ms::grad(|x: &Tensor| f(x)))(x)
}

/// Compiled functions at a number, with what they give there, and their gradients: of the compiled
/// function, inside another one, and without compiling.
macro_rules! to_any_order {
    ($($name:ident($x:ident = $at:expr) $body:block gives $want:expr, $gradient:expr;)*) => {
        $(
            #[jit]
            fn $name($x: &Tensor) -> Tensor $body
        )*

        #[test]
        fn rules_of_users_hold_to_any_order() {
            $({
                let inside = ms::jit(|x: &Tensor| ms::grad(|x: &Tensor| $name(x))(x));
                for jit in [false, true] {
                    ms::with_context(Context { jit, ..ms::context() }, || {
                        let x = Tensor::scalar($at);
                        let got = [$name(&x), ms::grad(|x: &Tensor| $name(x))(&x), inside(&x)];
                        let got = got.map(|it| it.item::<f32>());
                        let want: [f32; 3] = [$want, $gradient, $gradient];
                        let close = got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 2e-5 * (1.0 + b.abs()));
                        assert!(close, "{}, compiled {jit}: {got:?}, not {want:?}", stringify!($name));
                    });
                }
            })*
        }
    };
}

to_any_order! {
    straight_through_squared(x = 1.7) { second(|x| straight_through(x) * straight_through(x), x) } gives 2.0, 0.0;
    of_its_own_result(x = 0.7) { second(|x| sq(&sq(x)), x) } gives 17.64, 56.7;
    of_a_square(x = 0.7) { second(|x| sq(x) * sq(x), x) } gives 11.76, 37.8;
    first_of_a_square(x = 0.7) { ms::grad(|x: &Tensor| sq(x) * sq(x))(x) } gives 2.058, 11.76;
    third(x = 0.7) { ms::grad(|x: &Tensor| second(|x| sq(&sq(x)), x))(x) } gives 56.7, 81.0;
    by_the_result(x = 0.5) { second(doubled_exp, x) } gives 6.594_885, 13.189_77;
    inside_another_rule(x = 0.7) { second(of_sq, x) } gives 2.1, 3.0;
    gradient_as_a_rule(x = 0.7) { second(|x| by_grad(&by_grad(x)), x) } gives 17.64, 56.7;
    of_two_arguments(x = 0.7) { second(|x| product(x, x) * x, x) } gives 10.5, 15.0;
    with_a_captured_value(x = 0.7) {
        let c = x * 0.0 + 2.0;
        second(|x| scaled(x, &c) * scaled(x, &c), x)
    } gives 47.04, 151.2;
    with_a_captured_constant(x = 0.7) {
        let c = Tensor::scalar(2.0f32);
        second(|x| scaled(x, &c) * scaled(x, &c), x)
    } gives 47.04, 151.2;
    of_cells(x = 0.7) { second(|x| Sq.call(&Sq.call(x)), x) } gives 17.64, 56.7;
    of_shared_cells(x = 0.7) { second(|x| SharedSq.call(&SharedSq.call(x)), x) } gives 17.64, 56.7;
    recomputed(x = 0.7) { second(|x| ms::recompute(|x: &Tensor| sq(&sq(x)))(x), x) } gives 17.64, 56.7;
    in_an_arm(x = 0.7) {
        ms::grad(ms::grad(|x: &Tensor| if x > 0.0 { sq(&sq(x)) } else { x * 5.0 }))(x)
    } gives 17.64, 56.7;
    in_a_range(x = 0.7) {
        ms::grad(ms::grad(|x: &Tensor| {
            let mut y = x * 1.0;
            for _ in ms::range(0, 2) {
                y = sq(&y);
            }
            y
        }))(x)
    } gives 17.64, 56.7;
    in_a_loop_that_a_tensor_ends(x = 0.7) {
        ms::grad(ms::grad(|x: &Tensor| {
            let (mut y, mut i) = (x * 1.0, x * 0.0);
            while &i < 2.0 {
                y = sq(&y);
                i = i + 1.0;
            }
            y
        }))(x)
    } gives 17.64, 56.7;
    tangent(x = 0.7) { ms::jvp(|x: &Tensor| sq(x) * sq(x))(x, &Tensor::scalar(1.0f32)).1 } gives 2.058, 11.76;
    tangent_of_a_gradient(x = 0.7) {
        ms::jvp(ms::grad(|x: &Tensor| sq(x) * sq(x)))(x, &Tensor::scalar(1.0f32)).1
    } gives 11.76, 37.8;
    gradient_of_a_tangent(x = 0.7) {
        ms::grad(|x: &Tensor| ms::jvp(|x: &Tensor| sq(&sq(x)))(x, &Tensor::scalar(1.0f32)).1)(x)
    } gives 17.64, 56.7;
    tangent_of_a_tangent(x = 0.7) {
        let one = Tensor::scalar(1.0f32);
        ms::jvp(|x: &Tensor| ms::jvp(|x: &Tensor| sq(x) * sq(x))(x, &one).1)(x, &one).1
    } gives 11.76, 37.8;
    pulled_and_pushed(x = 0.7) {
        let one = Tensor::scalar(1.0f32);
        ms::linearize(|x: &Tensor| ms::vjp(sq)(x).1(&sq(x)))(x).1(&one)
    } gives 5.88, 18.9;
    hessians(x = 0.7) { ms::hessian(|x: &Tensor| sq(x) * sq(x))(x) } gives 11.76, 37.8;
    over_lanes(x = 0.7) {
        let f = |x: &Tensor| {
            let y = ms::vmap(sq)(&(x * tensor![1.0, 2.0]));
            (&y * &y).sum((), false)
        };
        second(f, x)
    } gives 199.92, 642.6;
    in_every_lane(x = 0.7) {
        let each = |x: &Tensor| ms::grad(ms::grad(|x: &Tensor| sq(x) * sq(x)))(x);
        ms::vmap(each)(&(x * tensor![1.0, 2.0])).sum((), false)
    } gives 11.76 * 5.0, 37.8 * 5.0;
    in_an_arm_of_a_lane(x = 0.7) {
        let each = |x: &Tensor| {
            ms::grad(ms::grad(|x: &Tensor| if x > 1.0 { sq(&sq(x)) } else { sq(x) * sq(x) }))(x)
        };
        ms::vmap(each)(&(x * tensor![1.0, 2.0])).sum((), false)
    } gives 11.76 + 36.0 * 1.96, 37.8 + 2.0 * 81.0 * 1.4;
}

/// What a recomputed function captures has gradients; what a custom one does has none.
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
    let wrong = |x: &Tensor| ms::custom_vjp(cube, |_: &Tensor, _: &Tensor, g: &Tensor| (g.sum((), false),))(x);
    let error = refused(&|| drop(ms::grad(wrong)(&x)));
    assert_eq!(error.code(), Code::Shape, "{error}");
    let error = refused(&|| drop(ms::vjp(cube)(&x).1(&tensor![1.0])));
    assert_eq!(error.code(), Code::Shape);
    let error = refused(&|| drop(ms::jvp(cube)(&x, &tensor![1.0f64, 2.0].cast(DType::F64))));
    assert_eq!(error.code(), Code::DType);
}

/// The rows of a matrix that a list names, read in some way.
type Read = fn(&Tensor, &[i64]) -> Tensor;

fn positions(rows: &[i64]) -> Tensor {
    Tensor::from_slice([rows.len()], rows)
}

/// The rows by a product with a matrix of ones and zeros: no part of `x` is read by itself.
fn by_product(x: &Tensor, rows: &[i64]) -> Tensor {
    ops::one_hot(positions(rows), 6).cast(x.dtype()).matmul(x)
}

fn by_position(x: &Tensor, rows: &[i64]) -> Tensor {
    ops::stack(&rows.iter().map(|&it| x.at(it as isize)).collect::<Vec<_>>(), 0)
}

fn by_unstacking(x: &Tensor, rows: &[i64]) -> Tensor {
    let all = ops::unstack(x, 0);
    ops::stack(&rows.iter().map(|&it| all[it as usize].clone()).collect::<Vec<_>>(), 0)
}

/// Evenly spaced rows as one slice, others as two.
fn by_slices(x: &Tensor, rows: &[i64]) -> Tensor {
    let step = rows[1] - rows[0];
    if step == 0 || rows.windows(2).any(|it| it[1] - it[0] != step) {
        return ops::concat(&[by_position(x, &rows[..1]), by_position(x, &rows[1..])], 0);
    }
    let stop = rows[rows.len() - 1] + step.signum();
    let range = ms_core::tensor::Index::Slice {
        start: Some(rows[0] as isize),
        stop: (stop >= 0).then_some(stop as isize),
        step: step as isize,
    };
    x.i((range, ..))
}

fn by_gathering(x: &Tensor, rows: &[i64]) -> Tensor {
    let (front, back) = rows.split_at(rows.len() / 2);
    let front = ops::gather(x, positions(front), 0);
    ops::concat(&[front, ops::gather(x, positions(back).cast(DType::I32), 0)], 0)
}

fn by_points(x: &Tensor, rows: &[i64]) -> Tensor {
    let (first, rest) = rows.split_at(1);
    let first = ops::gather_nd(x, &positions(first));
    let rest = ops::gather_nd(x, ops::reshape(positions(rest), [1, rest.len(), 1]));
    ops::concat(&[ops::reshape(first, [1, 3]), ops::reshape(rest, [rest_len(rows), 3])], 0)
}

fn rest_len(rows: &[i64]) -> usize {
    rows.len() - 1
}

fn by_elements(x: &Tensor, rows: &[i64]) -> Tensor {
    let (front, back) = rows.split_at(rows.len() / 2);
    let part = |rows: &[i64]| {
        let index = ops::broadcast_to(ops::reshape(positions(rows), [rows.len(), 1]), [rows.len(), 3]);
        ops::take_along_axis(x, index, 0)
    };
    ops::concat(&[part(front), part(back)], 0)
}

fn in_a_scan(x: &Tensor, rows: &[i64]) -> Tensor {
    let step = |sum: &Tensor, at: &Tensor| {
        let row = ops::gather(x, at, 0);
        // Constants are read at fixed places in loops, too.
        ((sum + &row + x.at(0)) * 0.0, row)
    };
    let (rest, all) = ops::scan(step, x.at(0) * 0.0, &positions(rows));
    all + rest
}

fn in_a_while(x: &Tensor, rows: &[i64]) -> Tensor {
    let (list, count) = (positions(rows), rows.len() as i64);
    let start = Tensor::zeros([rows.len(), 3]).cast(x.dtype());
    let body = |(i, out): &(Tensor, Tensor)| {
        let row = ops::reshape(ops::gather(x, ops::gather(&list, i, 0), 0), [1, 3]);
        (i + 1, ops::index_add(out, ops::reshape(i, [1]), row, 0))
    };
    ops::while_loop(|(i, _): &(Tensor, Tensor)| i.lt(count), body, (Tensor::scalar(0i64), start)).1
}

fn in_nested_loops(x: &Tensor, rows: &[i64]) -> Tensor {
    let pairs = ops::reshape(positions(rows), [rows.len() / 2, 2]);
    let outer = |carry: &Tensor, pair: &Tensor| {
        let inner = |carry: &Tensor, at: &Tensor| (carry.clone(), ops::gather(x, at, 0));
        (carry.clone(), ops::scan(inner, Tensor::scalar(0.0f32), pair).1)
    };
    ops::reshape(ops::scan(outer, Tensor::scalar(0.0f32), &pairs).1, [rows.len(), 3])
}

fn in_calls(x: &Tensor, rows: &[i64]) -> Tensor {
    let read = ms::jit(|x: &Tensor, at: &Tensor| ops::gather(x, at, 0) + x.at(1) * 0.0);
    ops::stack(&rows.iter().map(|&it| read(x, &Tensor::scalar(it))).collect::<Vec<_>>(), 0)
}

fn in_branches(x: &Tensor, rows: &[i64]) -> Tensor {
    let row = |&it: &i64| {
        let other = move |x: &Tensor| x.at(it as isize) * 1.0;
        ops::cond(x.at(0).sum((), false).lt(100.0), move |x: &Tensor| x.at(it as isize), other, x)
    };
    ops::stack(&rows.iter().map(row).collect::<Vec<_>>(), 0)
}

/// What is computed from rows: some of them are read several times, forwards, backwards and in
/// strides.
fn of_rows(x: &Tensor, read: Read) -> Tensor {
    let lists: [&[i64]; 6] = [&[0, 1, 2, 3], &[5, 4, 3, 2], &[4, 2, 0, 4], &[1, 3], &[2, 2, 2, 2], &[0, 1, 2, 3, 4, 5]];
    let of = |(at, rows): (usize, &&[i64])| {
        let rows = read(x, rows);
        let weights = Tensor::arange(rows.shape()[0] as i64).cast(x.dtype()).reshape([rows.shape()[0], 1]) + at as f64;
        (rows * weights * 0.1).sin().sum(0, false)
    };
    let sums = lists.iter().enumerate().map(of);
    sums.reduce(|a, b| a * b).expect("there are lists") + (x * x).sum(0, false)
}

static WAYS: &[(&str, Read)] = &[
    ("product", by_product),
    ("positions", by_position),
    ("unstack", by_unstacking),
    ("slices", by_slices),
    ("gather", by_gathering),
    ("gather_nd", by_points),
    ("take_along_axis", by_elements),
    ("scan", in_a_scan),
    ("while", in_a_while),
    ("nested loops", in_nested_loops),
    ("calls", in_calls),
    ("branches", in_branches),
];

/// A function, and its derivatives to the third order, in both modes and over lanes.
fn derivatives(x: &Tensor, way: usize) -> Vec<Tensor> {
    let f = move |x: &Tensor| of_rows(x, WAYS[way].1);
    let g = move |x: &Tensor| ms::grad(f)(x);
    let second = move |x: &Tensor| ms::grad(move |x: &Tensor| g(x) * x)(x);
    vec![
        f(x),
        g(x),
        second(x),
        ms::jvp(g)(x, &x.cos()).1,
        ms::grad(move |x: &Tensor| ms::jvp(f)(x, &x.cos()).1)(x),
        ms::vmap(g)(&ops::stack(&[x, &(x * 0.5)], 0)),
        ms::grad(move |x: &Tensor| second(x) * x)(x),
    ]
}

#[test]
fn parts_of_a_tensor() {
    let x = (Tensor::arange(18).cast(DType::F64) * 0.37).sin().reshape([6, 3]);
    let values = |all: Vec<Tensor>| all.iter().map(Tensor::to_vec::<f64>).collect::<Vec<_>>();
    let compiled = ms::jit(|x: &Tensor, way: &usize| derivatives(x, *way));
    let want = values(derivatives(&x, 0));
    for (way, (name, _)) in WAYS.iter().enumerate() {
        for (mode, got) in [("eagerly", derivatives(&x, way)), ("compiled", compiled(&x, &way))] {
            for (at, (got, want)) in values(got).iter().zip(&want).enumerate() {
                let close = got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + b.abs()));
                assert!(got.len() == want.len() && close, "{name} {mode}, {at}: {got:?}, not {want:?}");
            }
        }
    }
}

/// Gradients of parts are added in one order, that of the steps backwards: eagerly and compiled, to
/// the bit.
#[test]
fn parts_are_added_in_one_order() {
    let windows = |x: &Tensor, rows: &Tensor| {
        let part = |at: usize| x.i((at..at + 7, ..)).sum((), false) * rows.at(at as isize).sum((), false);
        let sum = (0..20).map(part).reduce(|a, b| a + b).expect("there are some");
        // Through the whole, then through parts again.
        let sum = (0..20).fold(sum + (x * 0.3).sum((), false), |sum, at| {
            sum + (ops::gather(rows, Tensor::scalar(at % 3), 0) * x.at(3)).sum((), false)
        });
        let body = |at: &Tensor, sum: &Tensor| sum + (ops::gather(x, at, 0) * rows.at(1)).sum((), false);
        ops::fori_loop(0, 20, body, sum)
    };
    for dtype in [DType::F32, DType::BF16] {
        let random = |scale: f64| ((Tensor::arange(26 * 5).cast(DType::F64) * scale).sin() * 3.0).reshape([26, 5]);
        let (x, rows) = (random(0.73).cast(dtype), random(1.31).cast(dtype));
        let both = |(a, b): (Tensor, Tensor)| [a.cast(DType::F64).to_vec::<f64>(), b.cast(DType::F64).to_vec::<f64>()];
        let gradients = ms::grad(windows).wrt(All);
        let compiled = ms::jit(move |x: &Tensor, rows: &Tensor| ms::grad(windows).wrt(All)(x, rows));
        let strict = Context { precision: Precision::Strict, ..ms::context() };
        ms::with_context(strict, || assert_eq!(both(gradients(&x, &rows)), both(compiled(&x, &rows)), "{dtype}"));
    }
}

/// A number that looks random.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 33) as usize
}

/// A call, in which both arguments are used many times.
#[no_inline]
#[cell]
struct Mixed;

#[cell]
impl Mixed {
    fn construct(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let c = ops::sin(a) * b - a * 0.71;
        &c * b + ops::cos(b) * a - c
    }
}

/// Statements on a few numbers that a seed decides: sums, products and sines of values that are used
/// many times, in loops, branches and calls, inside of one another.
fn random_statements(state: &mut u64, pool: &mut Vec<Tensor>, depth: usize) {
    for _ in 0..2 + next(state) % 3 {
        let [a, b] = [(); 2].map(|()| pool[next(state) % pool.len()].clone());
        let at = next(state) % pool.len();
        let seed = next(state) as u64 | 1;
        // What stands inside takes the pool as it is there; what it gives is one number, or two.
        let inside = move |pool: &[Tensor], more: &[&Tensor]| {
            let mut pool: Vec<Tensor> = pool.iter().cloned().chain(more.iter().map(|&it| it.clone())).collect();
            random_statements(&mut seed.clone(), &mut pool, depth - 1);
            let last = pool.len() - 1;
            (pool[last].clone(), pool[last - 1].clone())
        };
        pool[at] = match next(state) % if depth > 0 { 11 } else { 5 } {
            0 => &a * &b,
            1 => &a * 0.37 + ops::sin(&b),
            2 => ops::cos(&a) - &b * &a,
            3 => &a + &b,
            4 => Mixed.call(&a, &b),
            5 => ops::fori_loop(0, 3, |_, it: &Tensor| inside(pool, &[it]).0 * 0.3, a),
            6 => {
                let body = |_: &Tensor, (p, q): &(Tensor, Tensor)| {
                    let (last, before) = inside(pool, &[p, q]);
                    (ops::cos(last), ops::sin(before))
                };
                let both = ops::fori_loop(0, 2, body, (a, b));
                pool.push(both.0);
                both.1
            }
            7 => {
                let goes_on = |(i, _): &(Tensor, Tensor)| i.lt(2.5);
                let body = |(i, it): &(Tensor, Tensor)| (i + 1.0, ops::cos(inside(pool, &[it]).0));
                ops::while_loop(goes_on, body, (Tensor::scalar(0.0f64), a)).1
            }
            // What both arms or an iteration leave as it is, is no result in a graph: here all is changed.
            8 => ops::cond(a.gt(&b), |it: &Tensor| ops::sin(inside(pool, &[it]).0), |it: &Tensor| it.clone(), &a),
            9 => {
                let one = |(p, q): &(Tensor, Tensor)| {
                    let (last, before) = inside(pool, &[p, q]);
                    (ops::cos(last), before)
                };
                let other = |(p, q): &(Tensor, Tensor)| (q.clone(), p * q);
                let both = ops::cond(b.gt(0.1), one, other, &(a, b));
                pool.push(both.1);
                both.0
            }
            _ => {
                let rows = ops::stack(&[&a, &b, &a], 0);
                let (last, all) = ops::scan(|it: &Tensor, x: &Tensor| inside(pool, &[it, x]), b, &rows);
                pool.push(all.sum((), false));
                last
            }
        };
        // Values stay of a size at which the last digit is seen.
        pool[at] = ops::sin(&pool[at]);
    }
}

/// A function whose structure a seed decides.
fn random_function(x: &Tensor, y: &Tensor, seed: &usize) -> Tensor {
    let mut pool = vec![x.clone(), y.clone(), x * y];
    random_statements(&mut (*seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15), &mut pool, 2);
    pool.iter().skip(1).fold(pool[0].clone(), |sum, it| sum + it)
}

fn random_gradients(x: &Tensor, y: &Tensor, seed: &usize) -> (Tensor, Tensor) {
    ms::grad(random_function).wrt((At::<0>, At::<1>))(x, y, seed)
}

/// Gradients are sums of many numbers: each is rounded in the same order in all modes, and by the
/// interpreter in a process of its own.
#[test]
fn gradients_of_random_structures_have_the_same_bits() {
    // Which zero it is, is not told apart.
    let bits = |it: f64| (it + 0.0).to_bits();
    let strict = |jit| ms::Context { jit, precision: ms::Precision::Strict, ..ms::context() };
    let run = |jit, f: &dyn Fn() -> (Tensor, Tensor)| {
        let (x, y) = ms::with_context(strict(jit), f);
        [x, y].map(|it| bits(it.item::<f64>()))
    };
    let (x, y) = (Tensor::scalar(0.37).cast(DType::F64), Tensor::scalar(-0.81).cast(DType::F64));
    let (mut wrong, mut all) = (Vec::new(), Vec::new());
    for seed in 1..=44usize {
        let want = run(false, &|| random_gradients(&x, &y, &seed));
        let inside = run(true, &|| ms::jit(random_gradients)(&x, &y, &seed));
        let outside = run(true, &|| ms::grad(ms::jit(random_function)).wrt((At::<0>, At::<1>))(&x, &y, &seed));
        for (how, got) in [("inside", inside), ("outside", outside)] {
            if got != want {
                wrong.push((seed, how, got.map(f64::from_bits), want.map(f64::from_bits)));
            }
        }
        all.extend(want);
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:?}", wrong.len());
    let all = format!("bits {all:x?}");
    println!("{all}");
    if std::env::var_os("MS_CPU_ISA").is_none() {
        let mut test = std::process::Command::new(std::env::current_exe().expect("this test is a file"));
        test.args(["derivatives::gradients_of_random_structures_have_the_same_bits", "--exact", "--nocapture"]);
        let output = test.env("MS_CPU_ISA", "interp").output().expect("the test starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(&all), "interpreted: {text}, not {all}");
    }
}

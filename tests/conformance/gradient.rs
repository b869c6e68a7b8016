//! Checks the gradients of MindSpore's tests of automatic differentiation, by the numbers of its cases, eagerly and
//! compiled.

use crate::gradients::{case, pair, scalar};
use ms::prelude::*;
use ms::{All, At, Context, with_context};

fn cube(x: &Tensor) -> Tensor {
    x * x * x
}

#[jit]
fn jitted_cube(x: &Tensor) -> Tensor {
    cube(x)
}

#[cell]
struct MulAdd {}

#[cell]
impl MulAdd {
    fn construct(&self, x: &Tensor, y: &Tensor) -> Tensor {
        x * y
    }

    fn bprop(&self, _x: &Tensor, y: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor, Tensor) {
        (dout * 2.0, y * 2.0)
    }
}

#[cell]
struct Fivefold {}

#[cell]
impl Fivefold {
    fn construct(&self, x: &Tensor) -> Tensor {
        x.relu()
    }

    fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (x * dout * 5.0,)
    }
}

#[test]
fn automatic_differentiation() {
    let x = || Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    let y = || Tensor::from_slice([2, 2], &[-2.0f32, 3.0, -1.0, 2.0]);
    let z = || Tensor::from_slice([2, 2], &[0.0f32, 3.0, 5.0, -1.0]);
    case("76", || vec![ms::grad(cube)(&x())], &[&[3.0, 12.0, 27.0, 48.0]]);
    case("76, two outputs", || vec![ms::grad(|x: &Tensor| (cube(x), x * 2.0))(&x())], &[&[5.0, 14.0, 29.0, 50.0]]);
    let product = |x: &Tensor, y: &Tensor, z: &Tensor| x * y * z;
    let run = || pair(ms::grad(product).wrt((At::<1>, At::<2>))(&x(), &y(), &z()));
    case("77", run, &[&[0.0, 6.0, 15.0, -4.0], &[-2.0, 6.0, -3.0, 8.0]]);
    let both = |x: &Tensor, y: &Tensor, z: &Tensor| (x * x + y * y + z * z, x * y * z);
    let run = || pair(ms::grad(both).wrt((At::<1>, At::<2>))(&x(), &y(), &z()));
    case("78", run, &[&[-4.0, 12.0, 13.0, 0.0], &[-2.0, 12.0, 7.0, 6.0]]);
    let net = MulAdd {};
    let (one, two) = (|| scalar(1.0), || scalar(2.0));
    let run = || pair(ms::grad(|x: &Tensor, y: &Tensor| net.call(x, y)).wrt_all()(&one(), &two()));
    case("83", run, &[&[2.0], &[4.0]]);
    let run = || pair(ms::grad(|x: &Tensor, y: &Tensor| net.call(x, y) + x + y * 2.0).wrt_all()(&one(), &two()));
    case("83, inlined", run, &[&[3.0], &[6.0]]);
    case("83, without", || pair(ms::grad(|x: &Tensor, y: &Tensor| x * y).wrt_all()(&one(), &two())), &[&[2.0], &[1.0]]);
    case("85", || vec![ms::grad(|x: &Tensor| Fivefold {}.call(x))(&Tensor::ones([2, 2]))], &[&[5.0; 4]]);
    case(
        "88, ones",
        || pair(ms::jvp(cube)(&x(), &Tensor::ones([2, 2]))),
        &[&[1.0, 8.0, 27.0, 64.0], &[3.0, 12.0, 27.0, 48.0]],
    );
    case("88, x", || pair(ms::jvp(cube)(&x(), &x())), &[&[1.0, 8.0, 27.0, 64.0], &[3.0, 24.0, 81.0, 192.0]]);
    let run = || {
        let f = |x: &Tensor, y: &Tensor| (x * 2.0, cube(y));
        pair(ms::jvp(f).wrt(All)(&one(), &two(), &(scalar(1.0), scalar(3.0))).1)
    };
    case("89", run, &[&[2.0], &[36.0]]);
    let run = || {
        let net = nn::Dense::new(10, 1);
        let x = Tensor::ones([1, 10]);
        let weights = net.trainable_parameters();
        let of = |x: &Tensor| net.call(x);
        let (out, pull) = ms::vjp(of).wrt((At::<0>, weights.clone()))(&x);
        let (pulled, of_weights) = pull(&Tensor::ones_like(&out));
        let (gx, gw) = ms::grad(of).wrt((At::<0>, weights))(&x);
        let apart = of_weights.iter().zip(gw.iter()).map(|(a, b)| (a.1 - b.1).abs().sum(()));
        vec![(pulled - gx).abs().sum(()), apart.reduce(|a, b| a + b).expect("a weight")]
    };
    case("91", run, &[&[0.0], &[0.0]]);
    let mut diagonal = [0.0f32; 16];
    (0..4).for_each(|at| diagonal[at * 5] = [3.0, 12.0, 27.0, 48.0][at]);
    case("92", || vec![ms::jacfwd(cube)(&x()), ms::jacrev(cube)(&x())], &[&diagonal, &diagonal]);
    let custom = |x: &Tensor, y: &Tensor| {
        ms::custom_vjp(
            |x: &Tensor, y: &Tensor| x * y,
            |_: &Tensor, y: &Tensor, _: &Tensor, g: &Tensor| (g * 2.0, y * 2.0),
        )(x, y)
    };
    case("93", || pair(ms::grad(custom).wrt_all()(&one(), &two())), &[&[2.0], &[4.0]]);
    let structured = ms::jit(|(x,): &(Tensor,), y: &Tensor| x * 2.0 + y);
    case("94", || vec![ms::grad(|x: &Tensor| structured(&(x * 3.0,), x) - x)(&tensor![1.0, 2.0, 3.0])], &[&[6.0; 3]]);
    let w = Parameter::new(tensor![4.0, 7.0], "w");
    let run = || {
        let f = |x: &Tensor| x * &w;
        let (gx, gw) = ms::grad(f).wrt((At::<0>, vec![w.clone()]))(&tensor![7.0, 7.0]);
        assert!(gw.get(&Parameter::new(scalar(0.0), "other")).is_none());
        vec![gx, gw.get(&w).expect("asked for").clone()]
    };
    case("82", run, &[&[4.0, 7.0], &[7.0, 7.0]]);
    let aux = |x: &Tensor| (cube(x), x * 2.0);
    let run = || {
        let ((value, aux), gradient) = ms::value_and_grad(aux).has_aux()(&two());
        vec![value, aux, gradient]
    };
    case("81, has_aux", run, &[&[8.0], &[4.0], &[12.0]]);
    let run = || {
        // x five times and y eight times through cells of either kind, besides direct terms of both.
        let f = |x: &Tensor, y: &Tensor| Fivefold {}.call(x) + x * 7.0 + Fivefold {}.call(y) + net.call(y, y) * 3.5;
        pair(ms::grad(f).wrt_all()(&Tensor::ones([2, 2]), &Tensor::ones([2, 2])))
    };
    case("85, two inputs", run, &[&[12.0; 4], &[5.0 + 7.0 + 2.0; 4]]);
    let five = || scalar(5.0);
    case("95", || vec![ms::grad(jitted_cube)(&five()), ms::grad(ms::grad(jitted_cube))(&five())], &[&[75.0], &[30.0]]);
    case("95, jit of grad", || vec![ms::jit(ms::grad(cube))(&five())], &[&[75.0]]);
}

/// Computes the square root of `a` by Newton's iteration, until the square is close to `a`.
#[jit]
fn newton(a: &Tensor) -> Tensor {
    let mut x = a.clone();
    while (&x * &x - a).abs() > 1e-5 {
        x = (&x + a / &x) * 0.5;
    }
    x
}

#[test]
fn loops_and_networks() {
    // d sqrt(a)/da = 1 / (2 sqrt(a)); the second derivative is -1 / (4 a sqrt(a)).
    case("Newton", || vec![newton(&scalar(9.0)), ms::grad(newton)(&scalar(9.0))], &[&[3.0], &[1.0 / 6.0]]);
    case("its second derivative", || vec![ms::grad(ms::grad(newton))(&scalar(9.0))], &[&[-1.0 / 108.0]]);
    case("its tangent", || vec![ms::jvp(newton)(&scalar(4.0), &scalar(2.0)).1], &[&[0.5]]);
    case("its lanes", || vec![ms::vmap(ms::grad(newton))(&tensor![4.0, 9.0, 16.0])], &[&[0.25, 1.0 / 6.0, 0.125]]);

    // y = a^1000 x + b (a^1000 - 1) / (a - 1).
    let steps = |a: &Tensor, b: &Tensor, x: &Tensor| {
        ops::scan(|carry: &Tensor, _: &Tensor| (carry * a + b, carry.clone()), x.clone(), &Tensor::zeros([1000])).0
    };
    let (a, b, x) = (0.999f64, 0.5f64, 2.0f64);
    let (p, q) = (a.powi(1000), a.powi(999));
    let want =
        [1000.0 * q * x + b * (1000.0 * q * (a - 1.0) - (p - 1.0)) / (a - 1.0).powi(2), (p - 1.0) / (a - 1.0), p]
            .map(|it| [it as f32]);
    let run = || {
        let (ga, gb, gx) = ms::grad(steps).wrt_all()(&scalar(a as f32), &scalar(b as f32), &scalar(x as f32));
        // The gradients are sums of a thousand terms in f32, so the test compares ratios.
        vec![(ga / want[0][0]), (gb / want[1][0]), (gx / want[2][0])]
    };
    let close = |jit: bool| {
        let got = with_context(Context { jit, ..ms::context() }, run);
        got.iter().for_each(|it| assert!((it.item::<f32>() - 1.0).abs() < 1e-3, "a scan of 1000 steps: {got:?}"));
    };
    close(false);
    close(true);
    let compiled = ms::jit(move |x: &Tensor| {
        let f = |x: &Tensor| {
            ops::scan(
                |carry: &Tensor, _: &Tensor| (carry * 0.999 + 0.5, carry.clone()),
                x.clone(),
                &Tensor::zeros([1000]),
            )
            .0
        };
        ms::grad(f)(x)
    });
    assert!((compiled(&scalar(2.0)).item::<f32>() / want[2][0] - 1.0).abs() < 1e-3);
}

/// Compares the Hessian of a network of two layers with central differences of its gradient.
#[test]
fn hessian_of_a_network() {
    let weights: Vec<f64> = (0..12).map(|i| (i as f64 * 0.618).fract() - 0.5).collect();
    let (w1, w2) = (Tensor::from_slice([3, 3], &weights[..9]), Tensor::from_slice([3, 1], &weights[9..]));
    let net = |x: &Tensor| x.reshape([1, 3]).matmul(&w1).tanh().matmul(&w2).sigmoid().sum(());
    let x = Tensor::from_slice([3], &[0.3f64, -0.7, 1.1]);
    let hessian = ms::hessian(net)(&x).to_vec::<f64>();
    for at in 0..3 {
        let moved = |step: f64| {
            let mut values = x.to_vec::<f64>();
            values[at] += step;
            ms::grad(net)(&Tensor::from_slice([3], &values)).to_vec::<f64>()
        };
        let (up, down) = (moved(1e-5), moved(-1e-5));
        for other in 0..3 {
            let (got, want) = (hessian[other * 3 + at], (up[other] - down[other]) / 2e-5);
            assert!((got - want).abs() < 1e-8, "({other}, {at}): {got}, not {want}");
        }
    }
}

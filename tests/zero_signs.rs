//! Gradients have the same bits in all modes, zeros among them: where no gradient arrives, and where
//! one of either sign does, it is 0.

use ms::prelude::*;
use ms::{At, Context, Precision};

/// A function of a vector `[4]` and of a number that decides.
type Body = fn(&Tensor, &Tensor) -> Tensor;

fn bits(x: &Tensor) -> Vec<u64> {
    x.cast(DType::F64).to_vec::<f64>().into_iter().map(f64::to_bits).collect()
}

/// Both gradients are the same to the bit: eagerly, compiled as a whole, and of the compiled function
/// under an eager gradient; and no zero in them is negative.
fn check(name: &str, body: Body, whole: Body) -> Vec<String> {
    let mut wrong = Vec::new();
    for decides in [-1.0, 0.0, 1.0, 3.0] {
        for precision in [Precision::Strict, Precision::Highest] {
            let x = Tensor::from_slice([4], &[1.5f32, -0.0, 0.0, -2.0]);
            let n = Tensor::scalar(decides);
            let run = |jit, f: &dyn Fn() -> (Tensor, Tensor)| {
                let (dx, dn) = ms::with_context(Context { jit, precision, ..ms::context() }, f);
                [bits(&dx), bits(&dn)]
            };
            let gradients = |f: Body| ms::grad(f).wrt((At::<0>, At::<1>))(&x, &n);
            let want = run(false, &|| gradients(body));
            let jitted = || {
                let both = whole(&x, &n);
                (both.i(0..4), both.i(4..5).reshape(()))
            };
            for (how, got) in [
                ("compiled", run(true, &jitted)),
                ("as a whole, eagerly", run(false, &jitted)),
                ("compiled under an eager gradient", run(true, &|| gradients(body))),
            ] {
                let floats = |it: &[Vec<u64>; 2]| it.concat().into_iter().map(f64::from_bits).collect::<Vec<_>>();
                if got != want {
                    let (got, want) = (floats(&got), floats(&want));
                    wrong.push(format!("{name} of {decides}, {precision:?}, {how}: {got:?}, eagerly {want:?}"));
                }
            }
            if want.concat().contains(&(-0.0f64).to_bits()) {
                wrong.push(format!("{name} of {decides}, {precision:?}: a zero is negative"));
            }
        }
    }
    wrong
}

macro_rules! cases {
    ($($name:ident($x:ident, $n:ident) $body:block)*) => {
        $(mod $name {
            use super::*;

            #[jit]
            pub fn body($x: &Tensor, $n: &Tensor) -> Tensor $body

            #[jit]
            pub fn whole(x: &Tensor, n: &Tensor) -> Tensor {
                let (dx, dn) = ms::grad(body).wrt((At::<0>, At::<1>))(x, n);
                ops::concat(&[dx, dn.reshape([1])], 0)
            }
        })*

        #[test]
        fn gradients_have_the_same_zeros() {
            let wrong = [$(check(stringify!($name), |x, n| $name::body(x, n), |x, n| $name::whole(x, n))),*].concat();
            assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        }
    };
}

/// Called with a graph of its own.
#[cell]
#[lazy_inline]
struct Part {
    at: usize,
}

#[cell]
impl Part {
    fn construct(&self, x: &Tensor) -> Tensor {
        x.at(self.at) * -2.0
    }
}

/// Gives its gradient the sign of what arrives.
#[cell]
struct Signed;

#[cell]
impl Signed {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * 2.0
    }

    fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        (1.0 / dout,)
    }
}

cases! {
    products_with_negative_zeros(x, n) {
        (x * -0.0).sum((), false) * n
    }

    a_slice(x, n) {
        x.i(1..3).sum((), false) * n
    }

    two_slices_that_overlap(x, n) {
        (x.i(0..2) * -0.0).sum((), false) + x.i(1..3).sum((), false) * n
    }

    slices_that_tile(x, n) {
        (x.i(0..2) * -0.0).sum((), false) + (x.i(2..4) * n).sum((), false)
    }

    a_gather(x, n) {
        (ops::gather(x, tensor![3, 3, 1], 0) * -0.0).sum((), false) + n * -0.0
    }

    a_selection(x, n) {
        ops::select(x.gt(0.5), x * n, 1.0).sum((), false)
    }

    a_mask(x, n) {
        ops::select(x.gt(n), x * x, x * -0.0).sum((), false)
    }

    an_arm_that_leaves_it_out(x, n) {
        let y = if n > 0.5 { (x * n).sum((), false) } else { n * 2.0 };
        y * 1.0
    }

    an_arm_with_a_slice(x, n) {
        let y = if n > 0.5 { x.at(2) * n } else { n * -0.0 };
        y * 1.0
    }

    an_arm_in_an_arm(x, n) {
        let mut y = n * 1.0;
        if n > -0.5 {
            if n > 0.5 {
                y = y * x.at(0);
            } else {
                y = y + x.i(1..2).sum((), false) * -0.0;
            }
        }
        y
    }

    a_use_before_an_arm(x, n) {
        let before = (x * -0.0).sum((), false);
        let y = if n > 0.5 { x.at(1) * n } else { n * 1.0 };
        before + y
    }

    a_use_behind_an_arm(x, n) {
        let y = if n > 0.5 { (x * -0.0).sum((), false) } else { n * 1.0 };
        y + (x.i(0..2) * -0.0).sum((), false)
    }

    a_loop_that_may_not_run(x, n) {
        let (mut i, mut y) = (Tensor::scalar(0.0f32), n * 1.0);
        while &i < n {
            y = y + x.at(1) * 3.0;
            i = i + 1.0;
        }
        y
    }

    a_loop_of_whole_terms(x, n) {
        let (mut i, mut y) = (Tensor::scalar(0.0f32), n * 1.0);
        while &i < n {
            y = y + (x * -0.0).sum((), false);
            i = i + 1.0;
        }
        y
    }

    a_loop_over_a_range(x, n) {
        let mut y = n * 1.0;
        for i in ms::range(0, 3) {
            y = y * ops::gather(x, &i, 0) * -1.0;
        }
        y
    }

    a_loop_over_nothing(x, n) {
        let mut y = n * -0.0;
        for i in ms::range(0, 0) {
            y = y * ops::gather(x, &i, 0);
        }
        y
    }

    an_arm_in_a_loop(x, n) {
        let mut y = n * 1.0;
        for i in ms::range(0, 3) {
            if i.cast(DType::F32) < n {
                y = y + ops::gather(x, &i, 0) * n;
            }
        }
        y
    }

    a_call(x, n) {
        let part = Part { at: 1 };
        part.call(x) * n
    }

    two_calls(x, n) {
        let part = Part { at: 1 };
        part.call(x) * n + part.call(&(x * -0.0))
    }

    a_call_in_an_arm(x, n) {
        let part = Part { at: 3 };
        let y = if n > 0.5 { part.call(x) * n } else { n * 1.0 };
        y * -1.0
    }

    a_gradient_of_its_own(x, n) {
        let y = Signed.call(x);
        let z = if n > 0.5 { y.at(0) * 2.0 } else { y.at(1) * n };
        z * 1.0
    }

    a_gradient_of_a_gradient(x, n) {
        let inner = |x: &Tensor| (x.i(0..2) * x.i(0..2) * n).sum((), false);
        (1.0 / (ms::grad(inner)(x) + 0.0) * 0.0 + ms::grad(inner)(x)).i(0..1).sum((), false)
    }

    recomputed(x, n) {
        let f = ms::recompute(|x: &Tensor| x.at(1) * -0.0);
        f(x) + n * -0.0
    }

    what_is_not_used(x, n) {
        let _unused = x * 2.0;
        n * -0.0
    }
}

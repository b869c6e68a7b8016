//! Tests backward functions that write parameters.
//!
//! The writes occur in the order in which gradients are pulled back: eagerly, compiled, and compiled again.

mod calls;
mod cells;
mod refusals;

use cells::Net;
use ms::Context;
use ms::prelude::*;

const MODES: [(&str, bool); 3] = [("eagerly", false), ("compiled", true), ("compiled again", true)];

type Body = fn(&Net, &Tensor) -> Vec<Tensor>;

/// Checks that `body` computes these numbers, and leaves these values in the parameters.
fn check(name: &str, body: Body, x: f64, want: &[f32], left: [f32; 2]) {
    for (how, jit) in MODES {
        let net = Net::new();
        let got = ms::with_context(Context { jit, ..ms::context() }, || body(&net, &Tensor::scalar(x)));
        let got: Vec<f32> = got.iter().map(|it| it.item::<f32>()).collect();
        let held = [&net.p, &net.q].map(|it| it.value().item::<f32>());
        assert_eq!((&*got, held), (want, left), "{name}, {how}");
    }
}

macro_rules! cases {
    ($($name:ident($net:ident, $x:ident = $value:literal) $body:block gives $want:expr, leaves $left:expr;)*) => {
        $(
            #[jit]
            fn $name($net: &Net, $x: &Tensor) -> Vec<Tensor> $body
        )*

        #[test]
        fn writes_of_backward_functions_persist() {
            $(check(stringify!($name), |net, x| $name(net, x), $value, &$want, $left);)*
        }
    };
}

cases! {
    one(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.adds.call(x))(x)]
    } gives [3.0], leaves [3.0, 100.0];

    no_gradient(net, x = 1.0) {
        vec![net.adds.call(x)]
    } gives [3.0], leaves [1.0, 100.0];

    not_of_the_input(net, x = 1.0) {
        let y = net.adds.call(x);
        vec![ms::grad(|x: &Tensor| x * &y + net.also.call(&y))(x)]
    } gives [3.0], leaves [1.0, 100.0];

    not_of_the_result(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| {
            let unused = net.adds.call(x);
            (x * 2.0, unused).0
        })(x)]
    } gives [2.0], leaves [1.0, 100.0];

    one_after_the_other(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.also.call(&net.adds.call(x)))(x)]
    } gives [27.0], leaves [9.0, 100.0];

    beside_each_other(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.adds.call(x) + net.also.call(x) * 10.0)(x)]
    } gives [12.0 * 10.0 + 25.0], leaves [25.0, 100.0];

    of_two_parameters(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.other.call(&net.adds.call(x)))(x)]
    } gives [203.0 * 201.0], leaves [203.0, 201.0];

    twice(net, x = 1.0) {
        let a = ms::grad(|x: &Tensor| net.adds.call(x))(x);
        let b = ms::grad(|x: &Tensor| net.adds.call(x))(x);
        vec![a, b]
    } gives [3.0, 7.0], leaves [7.0, 100.0];

    read_in_between(net, x = 1.0) {
        let before = net.p.value();
        let a = ms::grad(|x: &Tensor| net.adds.call(x) * &net.p)(x);
        vec![before, a, net.p.value() + 0.0]
    } gives [1.0, 3.0, 3.0], leaves [3.0, 100.0];

    with_the_value(net, x = 2.0) {
        let (y, g) = ms::value_and_grad(|x: &Tensor| net.adds.call(x))(x);
        vec![y, g]
    } gives [6.0, 3.0], leaves [3.0, 100.0];

    by_grad_operation(net, x = 2.0) {
        let sens = x * 5.0;
        vec![ms::GradOperation::new().sens_param().of(|x: &Tensor| net.adds.call(x))(x, &sens)]
    } gives [120.0], leaves [12.0, 100.0];

    of_parameters(net, x = 2.0) {
        let (y, g) = ms::value_and_grad(|q: &Parameter, x: &Tensor| net.adds.call(&(x * q)))(&net.q, x);
        vec![y, g]
    } gives [600.0, 6.0], leaves [3.0, 100.0];

    of_the_parameter_itself(net, x = 2.0) {
        let (y, g) = ms::value_and_grad(|p: &Parameter, x: &Tensor| net.adds.call(&(x * p)))(&net.p, x);
        vec![y, g]
    } gives [6.0, 6.0], leaves [3.0, 100.0];

    by_vjp(net, x = 1.0) {
        let (y, pull) = ms::vjp(|x: &Tensor| net.adds.call(x))(x);
        let held = net.p.value() + 0.0;
        vec![y, held, pull(x), pull(&(x * 2.0))]
    } gives [3.0, 1.0, 3.0, 16.0], leaves [8.0, 100.0];

    written_before_the_pull(net, x = 1.0) {
        let (_, pull) = ms::vjp(|x: &Tensor| net.adds.call(x))(x);
        net.p.set(&(x * 4.0));
        vec![pull(x)]
    } gives [9.0], leaves [9.0, 100.0];

    in_the_arm_that_is_taken(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| if x > 0.0 { net.adds.call(x) } else { x * 5.0 })(x)]
    } gives [3.0], leaves [3.0, 100.0];

    in_the_arm_that_is_not_taken(net, x = -1.0) {
        vec![ms::grad(|x: &Tensor| if x > 0.0 { net.adds.call(x) } else { x * 5.0 })(x)]
    } gives [5.0], leaves [1.0, 100.0];

    in_both_arms(net, x = -1.0) {
        vec![ms::grad(|x: &Tensor| {
            let y = if x > 0.0 { net.adds.call(x) } else { net.also.call(&net.adds.call(x)) };
            net.adds.call(&y)
        })(x)]
    } gives [27.0 * 45.0], leaves [45.0, 100.0];

    in_a_range(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| {
            let mut y = x * 1.0;
            for _ in ms::range(0, 3) {
                y = net.adds.call(&y);
            }
            y
        })(x)]
    } gives [27.0 * 45.0], leaves [45.0, 100.0];

    in_a_loop_that_a_tensor_ends(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| {
            let mut y = x * 1.0;
            while &y < 20.0 {
                y = net.adds.call(&y);
            }
            y
        })(x)]
    } gives [27.0 * 45.0], leaves [45.0, 100.0];

    in_a_branch_of_a_loop(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| {
            let (mut y, mut i) = (x * 1.0, x * 0.0);
            while &i < 4.0 {
                if &i == 1.0 || &i == 3.0 {
                    y = net.adds.call(&y);
                }
                i = i + 1.0;
            }
            y
        })(x)]
    } gives [27.0], leaves [9.0, 100.0];

    in_a_loop_around_the_gradient(net, x = 1.0) {
        let mut all = x * 0.0;
        for _ in ms::range(0, 3) {
            all = all + ms::grad(|x: &Tensor| net.adds.call(x))(x);
        }
        vec![all]
    } gives [25.0], leaves [15.0, 100.0];

    in_a_condition(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| {
            let mut y = x * 1.0;
            while net.adds.call(&y) < 20.0 && net.also.call(&y) < 30.0 {
                y = y * 2.0;
            }
            y
        })(x)]
    } gives [8.0], leaves [1.0, 100.0];

    in_a_loop_as_a_function(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| ops::fori_loop(0, 3, |_, y: &Tensor| net.adds.call(y), x.clone()))(x)]
    } gives [27.0 * 45.0], leaves [45.0, 100.0];

    of_an_argument_that_is_written(net, x = 2.0) {
        let f = ms::custom_vjp(
            |p: &Parameter, x: &Tensor| x * p,
            |p: &Parameter, x: &Tensor, _: &Tensor, dout: &Tensor| {
                p.set(&(p * 10.0));
                (dout * x, dout * p)
            },
        );
        let (gp, gx) = ms::grad(|p: &Parameter, x: &Tensor| f(p, x)).wrt_all()(&net.p, x);
        vec![gp, gx]
    } gives [2.0, 10.0], leaves [10.0, 100.0];

    traced_once(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.shared.call(&net.shared.call(x)))(x)]
    } gives [27.0], leaves [9.0, 100.0];

    recomputed(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.adds.call(&ms::recompute(|x: &Tensor| net.also.call(x))(x)))(x)]
    } gives [27.0], leaves [9.0, 100.0];

    written_forward_too(net, x = 2.0) {
        let (y, g) = ms::value_and_grad(|x: &Tensor| net.both.call(x))(x);
        vec![y, g]
    } gives [20.0, 11.0], leaves [11.0, 100.0];

    written_forward_behind(net, x = 2.0) {
        vec![ms::grad(|x: &Tensor| {
            let y = net.adds.call(x);
            net.p.set(&(x * 3.0));
            y
        })(x)]
    } gives [13.0], leaves [13.0, 100.0];

    read_as_written_forward(net, x = 2.0) {
        vec![ms::grad(|x: &Tensor| net.saves.call(x))(x)]
    } gives [8.0], leaves [8.0, 100.0];

    read_as_written_backward(net, x = 2.0) {
        vec![ms::grad(|x: &Tensor| net.adds.call(&net.saves.call(x)))(x)]
    } gives [17.0 * 17.0], leaves [17.0, 100.0];

    by_a_decision(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.decides.call(&(net.decides.call(x) * 2.0)))(x)]
    } gives [2.0], leaves [3.0, 100.0];

    read_by_others(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.apart.call(&net.adds.call(x)))(x)]
    } gives [100.0 * 102.0], leaves [102.0, 100.0];

    read_in_another_gradient(net, x = 1.0) {
        let a = ms::grad(|x: &Tensor| net.adds.call(x))(x);
        vec![a, ms::grad(|x: &Tensor| net.reads.call(x))(x)]
    } gives [3.0, 3.0], leaves [3.0, 100.0];

    by_a_loop_and_a_gradient_inside(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.nested.call(&net.nested.call(x)))(x)]
    } gives [25.0], leaves [25.0, 100.0];

    within_another_derivative(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.around.call(x))(x)]
    } gives [7.0], leaves [1.0, 100.0];

    beside_another_derivative(net, x = 1.0) {
        vec![ms::grad(|x: &Tensor| net.adds.call(&net.around.call(&net.adds.call(x))))(x)]
    } gives [3.0 * 7.0 * 27.0], leaves [27.0, 100.0];

    the_second_time(net, x = 2.0) {
        let inner = ms::grad(|x: &Tensor| net.adds.call(&(x * x)));
        vec![ms::grad(|x: &Tensor| inner(x) * x)(x)]
    } gives [24.0], leaves [3.0, 100.0];

    by_the_value_the_second_time(net, x = 1.0) {
        let square = |x: &Tensor| net.counts.call(x) * net.counts.call(x);
        vec![ms::grad(ms::grad(square))(x)]
    } gives [24.0], leaves [5.0, 100.0];

    by_the_gradient_alone_the_second_time(net, x = 1.0) {
        vec![ms::grad(ms::grad(|x: &Tensor| net.counts.call(x)))(x)]
    } gives [3.0], leaves [2.0, 100.0];

    pushed_the_second_time(net, x = 1.0) {
        vec![ms::jvp(ms::grad(|x: &Tensor| net.counts.call(x)))(x, &Tensor::scalar(1.0)).1]
    } gives [3.0], leaves [2.0, 100.0];

    pushed_through_a_loop_the_second_time(net, x = 1.0) {
        let looped = |x: &Tensor| {
            let mut y = x * 2.0;
            for _ in ms::range(0, 2) {
                y = if x > 0.0 { y + net.counts.call(x) } else { y * 1.0 };
            }
            y
        };
        vec![ms::jvp(ms::grad(looped))(x, &Tensor::scalar(1.0)).1]
    } gives [6.0], leaves [3.0, 100.0];

    in_a_loop_the_second_time(net, x = 1.0) {
        vec![ms::grad(ms::grad(|x: &Tensor| {
            let mut y = x * 1.0;
            for _ in ms::range(0, 2) {
                y = net.counts.call(&y);
            }
            &y * &y
        }))(x)]
    } gives [234.0], leaves [5.0, 100.0];

    around_a_gradient_of_others(net, x = 2.0) {
        vec![ms::grad(|x: &Tensor| {
            let y = net.adds.call(x);
            ms::grad(|z: &Tensor| z * z * &y)(x)
        })(x)]
    } gives [12.0 + 4.0 * 6.0], leaves [6.0, 100.0];

    not_differentiated_within_a_gradient(net, x = 2.0) {
        vec![ms::grad(|x: &Tensor| ms::grad(|z: &Tensor| z * z * net.adds.call(x))(x))(x)]
    } gives [12.0 + 4.0 * 6.0], leaves [6.0, 100.0];
}

/// Backward passes of all dtypes print, and draw random numbers.
#[test]
fn writes_of_every_kind_persist() {
    #[jit]
    fn counted(count: &Parameter, x: &Tensor) -> Tensor {
        let f = ms::custom_vjp(
            |x: &Tensor| x * 2.0,
            |_: &Tensor, _: &Tensor, dout: &Tensor| {
                count.set(&(count + count));
                (dout * 2.0,)
            },
        );
        ms::grad(|x: &Tensor| f(&f(x)))(x)
    }
    #[jit]
    fn printed(x: &Tensor) -> Tensor {
        let f = ms::custom_vjp(
            |x: &Tensor| {
                ms::print!("x {}", x);
                x * 2.0
            },
            |_: &Tensor, _: &Tensor, dout: &Tensor| {
                ms::print!("dout {}", dout);
                (dout * 2.0,)
            },
        );
        let g = ms::grad(|x: &Tensor| f(&f(x)))(x);
        ms::print!("g {}", g);
        g
    }
    #[jit]
    fn drawn(x: &Tensor) -> Tensor {
        let f = ms::custom_vjp(
            |x: &Tensor| x * ops::random::uniform((), 0.0, 1.0),
            |_: &Tensor, _: &Tensor, _: &Tensor| (ops::random::uniform((), 0.0, 1.0),),
        );
        let (y, a) = ms::value_and_grad(|x: &Tensor| f(x))(x);
        let b = ms::grad(|x: &Tensor| f(x))(x);
        ops::stack(&[&y, &a, &b, &ops::random::uniform((), 0.0, 1.0)], 0)
    }
    let dtypes = [DType::I8, DType::I32, DType::I64, DType::U8, DType::U64, DType::F16, DType::F32, DType::F64];
    let one = Tensor::scalar(1.0);
    for (how, jit) in MODES {
        ms::with_context(Context { jit, ..ms::context() }, || {
            for dtype in dtypes {
                let count = Parameter::new(ops::cast(tensor![3, 7], dtype), "");
                assert_eq!(counted(&count, &one).item::<f32>(), 4.0, "{dtype:?} {how}");
                let held = ops::cast(count.value(), DType::I64).to_vec::<i64>();
                assert_eq!((count.value().dtype(), held), (dtype, vec![12, 28]), "{dtype:?} {how}");
            }
            let large = Parameter::new(tensor![i64::MAX / 8], "");
            let _ = counted(&large, &one);
            assert_eq!(large.value().to_vec::<i64>(), [i64::MAX / 8 * 4], "{how}");

            let (_, lines) = ops::capture_prints(|| printed(&one).item::<f32>());
            assert_eq!(lines, ["x 1.0", "x 2.0", "dout 1.0", "dout 2.0", "g 4.0"], "{how}");

            ops::random::set_seed(5);
            let got = drawn(&one).to_vec::<f32>();
            ops::random::set_seed(5);
            let all: Vec<f32> = (0..5).map(|_| ops::random::uniform((), 0.0, 1.0).item::<f32>()).collect();
            assert_eq!(got, [all[0], all[1], all[3], all[4]], "{how}");
        });
    }
}

//! Tests higher derivatives through loops in branches that each lane takes or skips.

use ms::prelude::*;

fn sum(x: &Tensor) -> Tensor {
    ops::sum(x, ())
}

#[jit]
fn loop_in_one_arm(x: &Tensor) -> Tensor {
    let mut y = x * 1.0;
    if sum(x) > 0.5 {
        while sum(&y) < 10.0 {
            y = &y * x + x;
        }
    } else {
        y = &y * &y;
    }
    sum(&y)
}

#[jit]
fn loops_in_both_arms(x: &Tensor) -> Tensor {
    let mut y = x * 1.0;
    if sum(x) > 1.5 {
        while sum(&y) < 10.0 {
            y = &y * x + x;
        }
    } else {
        while sum(&y) < 3.0 {
            y = &y * &y * 0.5 + 1.0;
        }
    }
    sum(&y)
}

#[jit]
fn loop_in_nested_arms(x: &Tensor) -> Tensor {
    let mut y = x * 1.0;
    if sum(x) > 0.5 {
        if sum(x) > 1.2 {
            while sum(&y) < 10.0 {
                y = &y * x + x;
            }
        } else {
            y = &y * x;
        }
    } else {
        y = &y * &y;
    }
    sum(&y)
}

#[jit]
fn branch_in_a_range(x: &Tensor) -> Tensor {
    let mut y = x * 1.0;
    for _ in ms::range(0, 3) {
        if sum(&y) > 0.5 {
            while sum(&y) < 4.0 {
                y = &y * x + x;
            }
        } else {
            y = &y * &y + 0.3;
        }
    }
    sum(&y)
}

#[jit]
fn branch_in_the_loop(x: &Tensor) -> Tensor {
    let mut y = x * 1.0;
    if sum(x) > 0.5 {
        while sum(&y) < 10.0 {
            if sum(&y) > 2.0 {
                y = &y * x + x;
            } else {
                y = &y * 1.5 + x;
            }
        }
    }
    sum(&y)
}

#[jit]
fn loop_in_a_loop(x: &Tensor) -> Tensor {
    let mut y = x * 1.0;
    while sum(&y) < 20.0 {
        if sum(&y) > 1.5 {
            while sum(&y) < 10.0 {
                y = &y + x * x * x + 1.0;
            }
        }
        y = &y * 1.5 + 1.0;
    }
    sum(&y)
}

type Function = fn(&Tensor) -> Tensor;

/// Returns lanes that take either arm, and leave their loops after different numbers of iterations.
fn lanes() -> Tensor {
    tensor![1.5f32, 0.3, 2.0, 1.1, 0.1]
}

#[track_caller]
fn check(name: &str, got: &Tensor, one: impl Fn(&Tensor) -> Tensor) {
    for (got, x) in got.to_vec::<f32>().into_iter().zip(&lanes()) {
        let want = one(&x).item::<f32>();
        assert!((got - want).abs() <= 1e-4 * want.abs().max(1.0), "{name}: {got}, not {want}");
    }
}

#[test]
fn second_and_third_derivatives_over_lanes() {
    let cases: [(&str, Function); 6] = [
        ("one arm", loop_in_one_arm),
        ("both arms", loops_in_both_arms),
        ("nested arms", loop_in_nested_arms),
        ("a range", branch_in_a_range),
        ("in the loop", branch_in_the_loop),
        ("a loop in a loop", loop_in_a_loop),
    ];
    let x = lanes();
    for (name, f) in cases {
        let second = |x: &Tensor| ms::grad(ms::grad(f))(x);
        check(name, &ms::vmap(second)(&x), second);
        check(name, &ms::grad(|x: &Tensor| sum(&ms::vmap(ms::grad(f))(x)))(&x), second);
        let over_all = |x: &Tensor| sum(&ms::vmap(f)(x));
        check(name, &ms::grad(|x: &Tensor| sum(&ms::grad(over_all)(x)))(&x), second);
        let third = |x: &Tensor| ms::grad(ms::grad(ms::grad(f)))(x);
        match ms::catch(|| ms::vmap(third)(&x)) {
            Ok(got) => check(name, &got, third),
            // The residuals of nested branches for third derivatives are not supported.
            Err(error) => assert!(name == "nested arms" && error.code() == ms::Code::NoGradient, "{name}: {error}"),
        }
    }
}

/// The cases have no lane, one lane, and lanes that all take the same arm.
#[test]
fn few_lanes() {
    let second = |x: &Tensor| ms::grad(ms::grad(loop_in_one_arm))(x);
    for values in [vec![], vec![0.2f32], vec![2.0], vec![0.1, 0.2], vec![2.0, 1.5]] {
        let x = Tensor::from(values.clone());
        let got = ms::vmap(second)(&x).to_vec::<f32>();
        let want: Vec<f32> = values.iter().map(|&it| second(&Tensor::scalar(it)).item()).collect();
        assert_eq!(got.len(), want.len());
        got.iter().zip(&want).for_each(|(a, b)| assert!((a - b).abs() <= 1e-4 * b.abs().max(1.0), "{values:?}"));
    }
}

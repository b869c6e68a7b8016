//! Tests programs that mix effects of all kinds with jumps, calls, derivatives and symbolic sizes.
//!
//! Each program has the same effects in every execution mode.

use ms::prelude::*;
use ms_conformance::ways::{check, parameter, rounded};

/// Returns the number of draws since the seed was set.
fn draws() -> u64 {
    random::default_generator().state().value().to_vec::<u64>()[1]
}

// --- jumps, `&&` and `||` ---

#[jit]
fn jumps(p: &Parameter, x: &Tensor) -> Tensor {
    for i in 0..5 {
        ops::assign_add(p, 1.0);
        ms::print!("at {} {}", i, p);
        if p > x {
            break;
        }
        if p.value() > 2.5 {
            p.set(&(p + 0.25));
            continue;
        }
        ms::print!("drew {}", &(random::uniform((), 0.0, 1.0) * 0.0));
    }
    if x > 100.0 {
        ops::assign(p, x);
        return x * 2.0;
    }
    ms::print!("end {}", p);
    p + random::uniform((), 0.0, 1.0) * 0.0
}

#[test]
fn effects_before_and_after_jumps() {
    let cases: [(f32, [f32; 2], u64, &str); 4] = [
        (1.5, [2.0, 2.0], 2, "at 0 1.0, drew 0.0, at 1 2.0, end 2.0"),
        (3.5, [4.25, 4.25], 3, "at 0 1.0, drew 0.0, at 1 2.0, drew 0.0, at 2 3.0, at 3 4.25, end 4.25"),
        (50.0, [5.75, 5.75], 3, "at 0 1.0, drew 0.0, at 1 2.0, drew 0.0, at 2 3.0, at 3 4.25, at 4 5.5, end 5.75"),
        (200.0, [400.0, 200.0], 2, "at 0 1.0, drew 0.0, at 1 2.0, drew 0.0, at 2 3.0, at 3 4.25, at 4 5.5"),
    ];
    for (x, want, drawn, lines) in cases {
        let (got, printed) = check("jumps", || {
            let p = parameter(0.0);
            let y = jumps(&p, &Tensor::scalar(x));
            ([y, p.value()].map(|it| it.item::<f32>()), draws())
        });
        assert_eq!((got, &*printed.join(", ")), ((want, drawn), lines), "{x}");
    }
}

#[jit]
fn logic(p: &Parameter, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    if x > 0.0 && ops::assign_add(p, 1.0) > 1.5 {
        y = y + p;
    }
    if x > 10.0 || ops::assign_add(p, 10.0) > 1.5 {
        y = y * p;
    }
    y
}

#[test]
fn the_right_operand_has_effects_when_evaluated() {
    for (x, want) in [(-1.0, [-10.0, 10.0]), (5.0, [55.0, 11.0]), (20.0, [20.0, 1.0])] {
        let (got, _) = check("logic", || {
            let p = parameter(0.0);
            let y = logic(&p, &Tensor::scalar(x));
            [y, p.value()].map(|it| it.item::<f32>())
        });
        assert_eq!(got, want, "{x}");
    }
}

// --- compiled functions in compiled functions ---

#[jit]
fn inner(p: &Parameter, x: &Tensor) -> Tensor {
    ms::print!("inner {}", p);
    ops::assign_add(p, x)
}

#[jit]
fn outer(p: &Parameter, q: &Parameter, x: &Tensor) -> Tensor {
    let a = inner(p, x);
    p.set(&(p * 2.0));
    let b = inner(q, &a);
    let c = inner(p, &b);
    ms::print!("{} {} {}", &a, &b, &c);
    a + b + c
}

#[test]
fn calls_of_compiled_functions() {
    let x = &Tensor::scalar(3.0);
    type Case = fn(&Parameter, &Parameter, &Tensor) -> Vec<Tensor>;
    // Each case has the value, its derivatives, and the values of both parameters, which start as 1 and 2. A write is a
    // constant: the derivative of `outer(x) * x` is `outer(x)`.
    let cases: [(&str, Case, bool, &[f32]); 4] = [
        ("value", |p, q, x| vec![outer(p, q, x)], false, &[24.0, 14.0, 6.0]),
        ("one parameter", |p, q, x| vec![outer(p, q, x)], true, &[40.0, 24.0, 24.0]),
        ("gradient", |p, q, x| vec![ms::grad(|x: &Tensor| outer(p, q, x) * x)(x)], false, &[24.0, 14.0, 6.0]),
        (
            "tangent",
            |p, q, x| {
                let (y, t) = ms::jvp(|x: &Tensor| outer(p, q, x) * x)(x, &Tensor::scalar(1.0));
                vec![y, t]
            },
            false,
            &[72.0, 24.0, 14.0, 6.0],
        ),
    ];
    for (name, case, aliased, want) in cases {
        let (got, lines) = check(name, || {
            let p = parameter(1.0);
            let q = if aliased { p.clone() } else { parameter(2.0) };
            let mut all = case(&p, &q, x);
            all.extend([p.value(), q.value()]);
            all.iter().map(|it| it.item::<f32>()).collect::<Vec<_>>()
        });
        assert_eq!(got, want, "{name}");
        let second = if aliased {
            ["inner 8.0", "inner 12.0", "4.0 12.0 24.0"]
        } else {
            ["inner 2.0", "inner 8.0", "4.0 6.0 14.0"]
        };
        assert_eq!(lines, [&["inner 1.0"][..], &second].concat(), "{name}");
    }
}

// --- derivatives and lanes ---

#[jit]
fn recomputed(p: &Parameter, x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| {
        ms::recompute(|x: &Tensor| {
            ms::print!("in {}", x);
            ops::assign_add(p, 1.0);
            x.sin() * random::uniform((), 0.5, 1.0)
        })(x)
    })(x)
}

#[jit]
fn pulled_back(p: &Parameter, x: &Tensor) -> Tensor {
    let noisy = ms::custom_vjp(
        |x: &Tensor| x * 2.0,
        |_: &Tensor, _: &Tensor, d: &Tensor| {
            ops::assign_add(p, 1.0);
            (d * random::uniform((), 0.5, 1.0) * p,)
        },
    );
    ms::grad(|x: &Tensor| noisy(&noisy(x)))(x)
}

#[jit]
fn lanes(p: &Parameter, x: &Tensor) -> Tensor {
    ms::vmap(|x: &Tensor| {
        ms::print!("lane {}", x);
        ops::assert_that(&x.lt(9.0), "large", &[]);
        x * p
    })(&(x + ops::arange(2)))
    .sum(())
}

#[test]
fn effects_in_transforms() {
    type Case = fn(&Parameter, &Tensor) -> Tensor;
    let cases: [(&str, Case, f32, u64, &[&str]); 3] = [
        ("recomputed", |p, x| recomputed(p, x), 3.0, 1, &["in 1.0"]),
        ("pulled back", |p, x| pulled_back(p, x), 4.0, 2, &[]),
        ("lanes", |p, x| lanes(p, x), 2.0, 0, &["lane 1.0", "lane 2.0"]),
    ];
    for (name, case, held, drawn, lines) in cases {
        let (got, printed) = check(name, || {
            let p = parameter(2.0);
            (rounded(&[case(&p, &Tensor::scalar(1.0))], 4), p.value().item::<f32>(), draws())
        });
        assert_eq!(
            ((got.1, got.2), printed.as_slice()),
            ((held, drawn), &*lines.iter().map(|it| it.to_string()).collect::<Vec<_>>()),
            "{name}"
        );
    }
}

// --- symbolic sizes ---

#[cell]
struct Net {
    fc: nn::Dense,
    norm: nn::BatchNorm,
    calls: Parameter,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        ms::print!("call {}", &ops::assign_add(&self.calls, 1.0));
        self.norm(&self.fc(x)).tanh()
    }
}

#[jit(dims(x = [n, _]))]
fn of_any_size(net: &Net, x: &Tensor) -> Tensor {
    let mut y = net.call(x);
    ops::assert_that(&y.lt(5.0), "large {}", &[&y]);
    if x.i((0, 0)) > 0.0 {
        y = net.call(&y);
        ms::print!("first of {}", &ops::size(x.dim(0), DType::F32));
    } else {
        y = y + random::normal((x.dim(0), 2), 0.0, 1.0);
    }
    let mut i = Tensor::scalar(0.0);
    while i < 2.0 {
        y = net.call(&y) + random::uniform((x.dim(0), 2), 0.0, 0.1);
        i = i + 1.0;
    }
    for j in ms::range(0, x.dim(0)) {
        ms::print!("row {}", &j);
        ops::assign_add(&net.calls, 0.5);
    }
    y
}

#[test]
fn effects_of_functions_of_any_size() {
    let ((_, calls, drawn), lines) = check("sizes", || {
        let calls = parameter(0.0);
        calls.set_requires_grad(false);
        let net = Net { fc: nn::Dense::new(2, 2), norm: nn::BatchNorm::new(2), calls };
        random::set_seed(9);
        let call = |(n, first): (usize, f32)| {
            let numbers: Vec<f32> = (0..2 * n).map(|i| first + 0.3 * i as f32).collect();
            of_any_size(&net, &Tensor::from_slice([n, 2], &numbers))
        };
        let mut all: Vec<Tensor> = [(3, -0.7), (5, 0.1), (2, 0.4), (3, -0.2)].map(call).to_vec();
        all.extend([net.norm.moving_mean.value(), net.norm.moving_variance.value()]);
        (rounded(&all, 3), net.calls.value().item::<f32>(), draws())
    });
    // Each has three calls, and a fourth one where the first number is positive. Each row draws half of one.
    assert_eq!((calls, drawn), (4.0 * 3.0 + 2.0 + 0.5 * 13.0, 4 * 2 + 2));
    assert_eq!(lines.len(), 14 + 2 + 13);
    assert_eq!(lines[..6], ["call 1.0", "call 2.0", "call 3.0", "row 0", "row 1", "row 2"]);
    assert_eq!(lines[6..9], ["call 5.5", "call 6.5", "first of 5.0"]);
}

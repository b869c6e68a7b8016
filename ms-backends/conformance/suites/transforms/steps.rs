//! Tests the warning about gradients that are zero because every path to the result leads through a step function.

use ms::error::collect_warnings;
use ms::ops::{Derivative, OpDef};
use ms::prelude::*;
use ms::tensor::Type;
use ms::{Code, ops};
use std::cell::Cell;
use std::collections::BTreeSet;

type Function = fn(&Tensor) -> Tensor;

/// A function that takes a derivative.
type Take = fn(Function, &Tensor);

thread_local! {
    /// The function that compiled code calls. Functions cannot be its arguments.
    static CALLED: Cell<Function> = const { Cell::new(Tensor::clone) };
}

/// Calls compiled code that has a version for each function.
fn compiled(f: Function, call: impl FnOnce(&usize)) {
    CALLED.set(f);
    call(&(f as usize));
}

/// The ways to take a derivative, all of which warn.
const MODES: [(&str, Take); 6] = [
    ("an eager gradient", |f, x| drop(ms::grad(f)(x))),
    ("a compiled gradient", |f, x| {
        compiled(f, |at| drop(ms::jit(|x: &Tensor, _: &usize| ms::grad(CALLED.get())(x))(x, at)));
    }),
    ("a gradient of compiled code", |f, x| {
        compiled(f, |at| drop(ms::grad(|x: &Tensor| ms::jit(|x: &Tensor, _: &usize| CALLED.get()(x))(x, at))(x)));
    }),
    ("an eager tangent", |f, x| drop(ms::jvp(f)(x, x))),
    ("a compiled tangent", |f, x| {
        compiled(f, |at| drop(ms::jit(|x: &Tensor, _: &usize| ms::jvp(CALLED.get())(x, x))(x, at)));
    }),
    ("an eager Jacobian", |f, x| drop(ms::jacrev(f)(x))),
];

fn x() -> Tensor {
    tensor![0.5, -1.5, 2.5]
}

/// Returns the ops in the warnings of a derivative.
fn told(mode: Take, f: Function) -> Vec<String> {
    let (_, warnings) = collect_warnings(|| mode(f, &x()));
    let told = warnings.iter().filter(|it| it.code() == Code::HiddenByStep);
    told.map(|it| {
        let location = it.report().location.expect("the user's line");
        assert!(location.file().ends_with("steps.rs"), "{location:?}");
        it.report().op.clone().expect("the step").to_string()
    })
    .collect()
}

fn floats(x: Tensor) -> Tensor {
    ops::cast(x, DType::F32)
}

/// Every op on the list of the book warns. The modes take turns, since a line warns once. Logic casts floats to bools.
#[test]
fn every_step_is_warned_of() {
    let cases: &[(&str, Function)] = &[
        ("argmax", |x| floats(x.argmax(0))),
        ("argmin", |x| floats(x.argmin(0))),
        ("equal", |x| floats(ops::equal(x, 0.5))),
        ("not_equal", |x| floats(ops::not_equal(x, 0.5))),
        ("less", |x| floats(ops::less(x, 0.5))),
        ("less_equal", |x| floats(ops::less_equal(x, 0.5))),
        ("greater", |x| floats(ops::greater(x, 0.5))),
        ("greater_equal", |x| floats(ops::greater_equal(x, 0.5))),
        ("isnan", |x| floats(x.isnan())),
        ("isinf", |x| floats(x.isinf())),
        ("isfinite", |x| floats(x.isfinite())),
        ("cast", |x| floats(x.logical_and(true))),
        ("cast", |x| floats(x.logical_or(false))),
        ("cast", |x| floats(x.logical_xor(true))),
        ("cast", |x| floats(x.logical_not())),
        ("sign", |x| x.sign()),
        ("floor", |x| x.floor()),
        ("ceil", |x| x.ceil()),
        ("round", |x| x.round()),
        ("trunc", |x| x.trunc()),
        ("floor_div", |x| ops::floor_div(x, 2.0)),
        ("cast", |x| floats(ops::cast(x, DType::I32))),
        ("cast", |x| floats(ops::cast(x, DType::Bool))),
        ("sort", |x| floats(ops::sort(x, 0, false).1)),
        ("topk", |x| floats(ops::topk(x, 2, 0, true).1)),
    ];
    let [mut by_mode, mut missing] = [vec![0; MODES.len()], Vec::new()].map(|it: Vec<usize>| it);
    for (at, (op, f)) in cases.iter().enumerate() {
        let (name, mode) = MODES[at % MODES.len()];
        by_mode[at % MODES.len()] += 1;
        let found = told(mode, *f);
        if found != [*op] {
            eprintln!("{op} by {name}: {found:?}");
            missing.push(at);
        }
        assert_eq!(told(mode, *f), [""; 0], "{op}: the line is known");
    }
    assert!(missing.is_empty() && by_mode.iter().all(|it| *it >= 4), "{missing:?}");
}

#[jit]
fn branched(x: &Tensor) -> Tensor {
    if x.sum(()) > 0.0 { Tensor::ones([3]) } else { Tensor::zeros([3]) }
}

#[jit]
fn branched_again(x: &Tensor) -> Tensor {
    if x.sum(()) > 0.0 { Tensor::ones([3]) } else { Tensor::zeros([3]) }
}

#[jit]
fn counted(x: &Tensor) -> Tensor {
    let mut steps = Tensor::scalar(0.0);
    while steps < x.sum(()) {
        steps = steps + 1.0;
    }
    steps
}

#[jit]
fn repeated(x: &Tensor) -> Tensor {
    let mut steps = x.floor();
    let mut count = Tensor::scalar(0);
    while count < 3 {
        steps = steps * 0.5;
        count = count + 1;
    }
    steps
}

/// Steps on paths through control flow, other ops, and calls are found.
#[test]
fn steps_are_found_on_every_way() {
    let [eager, compiled, of_compiled, ..] = MODES.map(|it| it.1);
    let cases: &[(&str, Take, Function)] = &[
        ("greater", eager, |x| ops::select(ops::greater(x, 0.0), Tensor::ones([3]), Tensor::zeros([3]))),
        ("greater", compiled, |x| ops::select(ops::greater(x, 0.0), Tensor::ones([3]), Tensor::zeros([3]))),
        ("greater", of_compiled, |x| ops::select(ops::greater(x, 0.0), Tensor::ones([3]), Tensor::zeros([3]))),
        ("argmax", eager, |x| ops::one_hot(x.exp().argmax(0), 3) * 2.0),
        ("argmax", compiled, |x| ops::one_hot(x.exp().argmax(0), 3) * 2.0),
        ("argmax", eager, |x| floats(Tensor::arange(6)).reshape([3, 2]).at(x.argmax(0)) * 1.5),
        ("argmax", compiled, |x| floats(Tensor::arange(6)).reshape([3, 2]).at(x.argmax(0)) * 1.5),
        ("round", eager, |x| ms::jit(|y: &Tensor| y * 2.0)(&x.round())),
        ("round", eager, |x| ms::jit(|y: &Tensor| y.round() * 2.0)(x) * 3.0),
        ("round", compiled, |x| ms::jit(|y: &Tensor| y.round() * 2.0)(x) * 3.0),
        ("round", eager, |x| ms::vmap(|y: &Tensor| y.round())(x)),
        ("round", compiled, |x| ms::vmap(|y: &Tensor| y.round())(x)),
        ("greater", compiled, branched),
        ("greater", of_compiled, branched_again),
        ("less", compiled, counted),
        ("floor", compiled, repeated),
        ("floor", eager, |x| ms::recompute(|y: &Tensor| y.floor())(x)),
    ];
    for (at, (op, mode, f)) in cases.iter().enumerate() {
        assert_eq!(told(*mode, *f), [*op], "case {at}");
    }
}

/// No warning occurs if some path has no step, if gradients are stopped, or if the step belongs to a derivative.
#[test]
fn others_are_not_warned_of() {
    let straight_through = |x: &Tensor| x + ops::stop_gradient(x.round() - x);
    let cases: &[(&str, Function)] = &[
        ("a smooth way", |x| x * floats(ops::greater(x, 0.0))),
        ("a stop", |x| floats(ops::greater(ops::stop_gradient(x), 0.0))),
        ("a stop behind the step", |x| ops::stop_gradient(x.round())),
        ("no way", |_| Tensor::ones([2])),
        ("relu", |x| ops::relu(x)),
        ("clip", |x| ops::clamp(x, -1.0, 1.0)),
        ("max", |x| x.max(0)),
        ("the values of sort", |x| ops::sort(x, 0, true).0),
        ("softmax", |x| ops::softmax(x, 0)),
        ("a remainder", |x| ops::remainder(x, 1.0)),
        ("a second derivative", |x| ms::grad(|y: &Tensor| y.abs())(x)),
        ("a derivative of a rule with steps", |x| ms::grad(|y: &Tensor| ops::relu(y))(x)),
        ("a tangent", |x| ms::jvp(|y: &Tensor| y.abs())(x, x).1),
        ("a Jacobian", |x| ms::jacrev(|y: &Tensor| y.abs())(x)),
        ("logsumexp", |x| ops::logsumexp(x, 0)),
        ("a shape", |x| Tensor::full(x.shape(), x.numel() as f32)),
        ("a length", |x| ops::zeros_like(x)),
        ("a given derivative", |x| {
            ms::custom_vjp(|y: &Tensor| y.round(), |_: &Tensor, _: &Tensor, dout: &Tensor| (dout.clone(),))(x)
        }),
    ];
    for (mode, take) in MODES {
        assert_eq!(told(take, straight_through), [""; 0], "straight through by {mode}");
        for (name, f) in cases {
            assert_eq!(told(take, *f), [""; 0], "{name} by {mode}");
        }
    }
}

/// A loss that only compares parameters warns, in a step of an optimiser and in an eager gradient.
#[test]
fn steps_on_the_way_to_parameters_warn() {
    let net = nn::Dense::new(3, 2);
    let opt = SGD::new(0.1);
    let warned = |f: &mut dyn FnMut()| {
        let (_, warnings) = collect_warnings(f);
        warnings.iter().filter(|it| it.code() == Code::HiddenByStep).count()
    };
    let loss = |net: &nn::Dense, x: &Tensor| floats(ops::greater(net.call(x), 0.0)).mean(());
    let mut step = || drop(opt.step(&net, &x(), loss));
    assert_eq!((warned(&mut step), warned(&mut step)), (1, 0));
    let loss = |net: &nn::Dense, x: &Tensor| net.call(x).round().mean(());
    let mut step = || drop(ms::grad(loss)(&net, &x()));
    assert_eq!((warned(&mut step), warned(&mut step)), (1, 0));
}

/// The page has every op that takes floats and has a zero derivative, unless gradients are meant to stop there.
#[test]
fn the_book_lists_all_steps() {
    const STOPS: [&str; 7] =
        ["stop_gradient", "assert", "assign", "print", "get_float_status", "clear_float_status", "largest_finite"];
    let page = include_str!("../pages/MS075.md");
    let row = |it: &&str| it.starts_with("| ");
    let listed: BTreeSet<&str> = page
        .lines()
        .filter(row)
        .flat_map(|it| it.split('`').skip(1).step_by(2))
        .filter(|it| *it != "multinomial")
        .collect();
    // The operands are replaced by floats.
    let is_step = |def: &OpDef| {
        (def.samples)().iter().any(|sample| {
            let types: Vec<Type> = sample.arrays().iter().map(|it| Type::of(DType::F32, it.shape())).collect();
            let Ok(results) = (def.infer)(&sample.attrs, &types.iter().collect::<Vec<_>>()) else { return false };
            let is_zero = matches!(ops::transform_rules(def).derivative, Derivative::Zero);
            !types.is_empty() && (is_zero || results.iter().any(|it| !it.dtype.is_float()))
        })
    };
    let steps = ops::definitions().filter(|it| is_step(it)).map(|it| it.info.name);
    let wanted: BTreeSet<&str> = steps.filter(|it| !STOPS.contains(it)).chain(["cast"]).collect();
    assert_eq!(listed, wanted);
}

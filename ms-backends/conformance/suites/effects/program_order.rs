//! Tests that prints, assertions and writes happen in program order, eagerly and compiled.

use ms::prelude::*;
use ms::tensor::Device;
use ms::{Code, Context, Parameter};

fn eagerly<R>(run: impl FnOnce() -> R) -> R {
    ms::with_context(Context { jit: false, ..ms::context() }, run)
}

/// Checks the result and prints of a case eagerly, compiled for the first time, and compiled again.
#[track_caller]
fn check<R: PartialEq + std::fmt::Debug>(name: &str, case: impl Fn() -> R, want: R, lines: &[&str]) {
    let how = ["eagerly", "compiled", "compiled again"];
    for (i, how) in how.into_iter().enumerate() {
        let run = || ops::capture_prints(&case);
        let (got, printed) = if i == 0 { eagerly(run) } else { run() };
        assert_eq!(got, want, "{name}, {how}");
        assert_eq!(printed, lines, "{name}, {how}");
    }
}

#[jit]
fn prints_and_writes(p: &Parameter, x: &Tensor) -> Tensor {
    ms::print!("before {} {}", p, 1);
    p.set(&(x * 2.0));
    ms::print!("after {}", p);
    let y = x + p;
    ms::print!("result {}", &y);
    y
}

#[jit]
fn same_line_twice(x: &Tensor) -> Tensor {
    ms::print!("x {}", x);
    ms::print!("x {}", x);
    x.clone()
}

#[jit]
fn unused_print(x: &Tensor) {
    let y = x + 1.0;
    ms::print!("{}", &y);
}

#[jit]
fn gradient_of_print(x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| {
        ms::print!("inside {}", x);
        x * x
    })(x)
}

#[jit]
fn inner(x: &Tensor) -> Tensor {
    ms::print!("inner {}", x);
    x + 1.0
}

#[jit]
fn calls(x: &Tensor) -> Tensor {
    ms::print!("outer {}", x);
    let y = inner(&inner(x));
    ms::print!("done");
    y
}

#[test]
fn prints_keep_program_order() {
    let x = &Tensor::scalar(3.0);
    let p = &Parameter::new(Tensor::scalar(1.0), "p");
    let case = || {
        p.store(Tensor::scalar(1.0));
        prints_and_writes(p, x).item::<f32>()
    };
    check("writes", case, 9.0, &["before 1.0 1", "after 6.0", "result 9.0"]);
    check("twice", || same_line_twice(x).item::<f32>(), 3.0, &["x 3.0", "x 3.0"]);
    check("unused", || unused_print(x), (), &["4.0"]);
    check("gradient", || gradient_of_print(x).item::<f32>(), 6.0, &["inside 3.0"]);
    let want = ["outer 3.0", "inner 3.0", "inner 4.0", "done"];
    check("calls", || calls(x).item::<f32>(), 5.0, &want);
    check("gradient of compiled", || ms::grad(calls)(x).item::<f32>(), 1.0, &want);
}

#[jit]
fn asserts(p: &Parameter, x: &Tensor) -> Tensor {
    ms::print!("first {}", x);
    p.set(x);
    ops::assert_that(&x.gt(0.0), "not positive: {} ({})", &[x, &"always"]);
    ms::print!("second");
    x * 2.0
}

#[test]
fn assertions_end_the_run_at_the_users_line() {
    let p = &Parameter::new(Tensor::scalar(0.0), "p");
    let case = |x: f32| {
        p.store(Tensor::scalar(0.0));
        let result = ms::catch(|| asserts(p, &Tensor::scalar(x)).item::<f32>());
        result.map_err(|error| {
            assert_eq!(error.code(), Code::Assertion);
            let text = error.to_string();
            assert!(text.contains(&format!("not positive: {} (always)", Tensor::scalar(x))), "{text}");
            assert!(text.contains(concat!(file!(), ":")), "{text}");
        })
    };
    check("holds", || case(2.0), Ok(4.0), &["first 2.0", "second"]);
    check("fails", || case(-2.0), Err(()), &["first -2.0"]);
    // A compiled call writes its parameters when it completes.
    case(-2.0).expect_err("it does not hold");
    assert_eq!(p.value().item::<f32>(), 0.0);
}

#[jit]
fn depends(x: &Tensor, y: &Tensor) -> Tensor {
    let a = x.exp();
    ops::sqrt(&ops::depend(y, &a))
}

#[test]
fn depend_returns_its_value() {
    let (x, y) = (&Tensor::scalar(1.0), &Tensor::scalar(4.0));
    check("value", || depends(x, y).item::<f32>(), 2.0, &[]);
    check("gradient", || ms::grad(|y: &Tensor| depends(x, y))(y).item::<f32>(), 0.25, &[]);
    check("no gradient", || ms::grad(|x: &Tensor| depends(x, y))(x).item::<f32>(), 0.0, &[]);
}

#[jit]
fn overflow_of_sum(status: &ops::FloatStatus, x: &Tensor) -> (Tensor, Tensor) {
    let before = x * 1e4;
    status.clear();
    let sum = ops::sub(x, &-x);
    let got = status.get();
    let after = &before * &before;
    (sum + after * 0.0, got)
}

#[jit]
fn overflow_of_gradient(status: &ops::FloatStatus, x: &Tensor) -> Tensor {
    status.clear();
    // The value is small, but the gradient is not: the root is taken at `x` = 0.
    let gradient = ms::grad(|x: &Tensor| x.sqrt())(x);
    let got = status.get();
    got + gradient.sum(()) * 0.0
}

#[jit]
fn overflow_in_loop(status: &ops::FloatStatus, x: &Tensor, n: &Tensor) -> Tensor {
    status.clear();
    // The value is infinite only inside the loop.
    let next = |y: &Tensor| ops::select((y * 1e30).gt(1e35), 1.0, y * 10.0);
    let step = |(i, y): &(Tensor, Tensor)| (i + 1.0, next(y));
    let _ = ops::while_loop(|it: &(Tensor, Tensor)| it.0.lt(n), step, (Tensor::scalar(0.0), x.clone()));
    status.get()
}

#[jit]
fn overflow_of_loss(status: &ops::FloatStatus, x: &Tensor, classes: &Tensor) -> Tensor {
    status.clear();
    let some = ops::CrossEntropy { ignore_index: Some(0), ..Default::default() };
    let _ = some.of(x, classes);
    status.get()
}

#[jit]
fn float_status_made_inside(x: &Tensor) -> Tensor {
    let status = ops::FloatStatus::alloc();
    status.clear();
    let _ = x.log();
    status.get()
}

#[test]
fn float_status() {
    let status = &ops::FloatStatus::alloc();
    let half = |x: f64| ops::cast(Tensor::full([3], x), DType::F16);
    let case = |x: f64| {
        let (sum, got) = overflow_of_sum(status, &half(x));
        (ops::cast(&sum, DType::F32).to_vec::<f32>()[0], got.to_vec::<f32>()[0])
    };
    // An overflow before the clear or after the get does not count.
    let finite = || {
        let (sum, got) = case(5.0);
        (sum.is_nan() || sum == 10.0, got)
    };
    check("fives", finite, (true, 0.0), &[]);
    check("sixty thousands", || case(60000.0).1, 1.0, &[]);
    let scalar = Tensor::scalar;
    check("gradient", || overflow_of_gradient(status, &scalar(4.0)).to_vec::<f32>()[0], 0.0, &[]);
    let infinite = || ms::catch(|| overflow_of_gradient(status, &scalar(0.0)).to_vec::<f32>()[0].is_nan());
    check("infinite gradient", || infinite().expect("it runs"), true, &[]);
    for (n, want) in [(2.0, 0.0), (5.0, 0.0), (12.0, 1.0)] {
        let looped = || overflow_in_loop(status, &scalar(if n > 9.0 { 1e9 } else { 1.0 }), &scalar(n));
        check("loop", || looped().to_vec::<f32>(), vec![want; 8], &[]);
    }
    // A value that a composite computes for its derivative alone does not count: the first example is ignored.
    let logits = |x: f32| tensor![[x, f32::NEG_INFINITY], [1.0, x]];
    for (x, classes, want) in
        [(f32::NEG_INFINITY, tensor![0, 0], 1.0), (1.0, tensor![0, 1], 0.0), (f32::NAN, tensor![0, 1], 1.0)]
    {
        check("loss", || overflow_of_loss(status, &logits(x), &classes).to_vec::<f32>()[0], want, &[]);
    }
    let ignored = tensor![[f32::NEG_INFINITY, f32::NEG_INFINITY], [1.0, 2.0]];
    check("ignored", || overflow_of_loss(status, &ignored, &tensor![0, 1]).to_vec::<f32>()[0], 0.0, &[]);
    for (x, want) in [(1.0, 0.0), (-1.0, 1.0)] {
        check("made inside", || float_status_made_inside(&scalar(x)).to_vec::<f32>()[7], want, &[]);
    }
    // Calls a compiled function between an eager clear and get.
    status.clear();
    inner(&scalar(f32::MAX));
    calls(&scalar(f32::INFINITY));
    assert_eq!(status.get().to_vec::<f32>(), [1.0; 8]);
    assert_eq!(status.get().to_vec::<f32>(), [1.0; 8]);
    calls(&scalar(f32::INFINITY));
    status.clear();
    assert_eq!(status.get().to_vec::<f32>(), [0.0; 8]);
}

/// The calls return results that do not depend on each other, but `B` runs after `A`.
#[jit]
fn a_before_b(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let a = ops::cumsum(x, 0);
    let y = ops::depend(y, &a);
    (a, ops::cumsum(&y, 0))
}

#[jit]
fn writes_in_a_branch(p: &Parameter, x: &Tensor) -> Tensor {
    let before = ops::cumsum(p, 0);
    if x.sum(()) > 0.0 {
        ms::print!("up from {}", p);
        p.set(&ops::cumsum(x, 0));
    } else {
        ms::print!("down from {}", p);
        p.set(&-x);
    }
    ms::print!("to {}", p);
    before + p
}

#[jit]
fn writes_in_a_loop(p: &Parameter, x: &Tensor) -> Tensor {
    let mut i = x * 0.0;
    while i.sum(()) < 4.0 {
        ms::print!("round {}", p);
        p.set(&ops::cumsum(p, 0));
        i = i + p;
    }
    ms::print!("end {}", p);
    i
}

#[cell]
struct Counting {
    count: Parameter,
}

#[cell]
impl Counting {
    #[no_inline]
    fn construct(&self, x: &Tensor) -> Tensor {
        ms::print!("call {}", &self.count);
        self.count.set(&(&self.count + 1.0));
        ops::cumsum(x * &self.count, 0)
    }
}

#[jit]
fn writes_in_calls(net: &Counting, x: &Tensor) -> Tensor {
    let y = net.call(x);
    net.count.set(&(&net.count * 10.0));
    net.call(&y) + &net.count
}

/// Returns the routines of the plan that a call compiles, with their buffers and steps.
fn routines(name: &str, run: impl FnOnce()) -> String {
    let folder = std::env::temp_dir().join(format!("ms-plans-{}-{name}", std::process::id()));
    // Another precision forces functions of other tests to be compiled again.
    let precision = ms::Precision::Strict;
    let context = Context { precision, save_graphs: 2, save_graphs_path: Some(folder.clone()), ..ms::context() };
    ops::capture_prints(|| ms::with_context(context, run));
    let compilation = std::fs::read_dir(&folder).expect("one was saved").next().expect("one").expect("readable").path();
    let plan = std::fs::read_to_string(compilation.join("04_plan.txt")).expect("level 2 saves the plan");
    std::fs::remove_dir_all(folder).expect("it was made here");
    let line = |line: &str| line.split(concat!(file!(), ":")).next().expect("a line").to_owned();
    plan.lines().skip_while(|it| !it.starts_with("routine")).map(|it| line(it) + "\n").collect()
}

/// Compares the places where steps read and write, in the order of the CPU's plans, with a snapshot. `MS_BLESS=1`
/// updates `plans.txt`.
#[test]
fn plans_keep_program_order() {
    let context = Context { device_target: Device::CPU.kind(), device_id: Device::CPU.id(), ..ms::context() };
    let plans = ms::with_context(context, || {
        let p = || Parameter::new(Tensor::ones([2]), "p");
        let x = &Tensor::ones([2]);
        let net = Counting { count: Parameter::new(Tensor::scalar(0.0), "") };
        [
            routines("prints_and_writes", || drop(prints_and_writes(&p(), x))),
            routines("asserts", || drop(asserts(&Parameter::new(Tensor::scalar(0.0), ""), &Tensor::scalar(1.0)))),
            routines("a_before_b", || drop(a_before_b(x, x))),
            routines("branch", || drop(writes_in_a_branch(&p(), x))),
            routines("loop", || drop(writes_in_a_loop(&p(), x))),
            routines("calls", || drop(writes_in_calls(&net, x))),
        ]
    });
    let got = plans.join("\n");
    let path = ms_conformance::data("effects/plans.txt");
    if std::env::var_os("MS_BLESS").is_some_and(|it| it == "1") {
        std::fs::write(&path, &got).expect("the folder can be written");
    }
    assert_eq!(got, std::fs::read_to_string(path).unwrap_or_default(), "MS_BLESS=1 takes this over");
}

#[test]
fn programs_of_the_plans() {
    let x = &Tensor::ones([2]);
    let show = |it: Tensor| it.to_vec::<f32>();
    let branch = || {
        let p = Parameter::new(tensor![3.0, 4.0], "p");
        (show(writes_in_a_branch(&p, x)), show(p.value()))
    };
    check("branch", branch, (vec![4.0, 9.0], vec![1.0, 2.0]), &["up from [3. 4.]", "to [1. 2.]"]);
    let looped = || {
        let p = Parameter::new(Tensor::ones([2]), "p");
        (show(writes_in_a_loop(&p, x)), show(p.value()))
    };
    check("loop", looped, (vec![2.0, 5.0], vec![1.0, 3.0]), &["round [1. 1.]", "round [1. 2.]", "end [1. 3.]"]);
    let calls = || {
        let net = Counting { count: Parameter::new(Tensor::scalar(0.0), "") };
        (show(writes_in_calls(&net, x)), show(net.count.value()))
    };
    check("calls", calls, (vec![22.0, 44.0], vec![11.0]), &["call 0.0", "call 10.0"]);
    check("depend", || show(a_before_b(x, x).1), vec![1.0, 2.0], &[]);
}

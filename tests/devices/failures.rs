//! Tests calls and steps of a device that fail: the error has the user's line, and no slot is half written.

use super::*;

#[jit]
fn bump(slot: &Parameter, x: &Tensor) -> Tensor {
    slot.set(&(slot.value() + x));
    slot.value() * 2.0
}

/// Slots keep their values and no memory is lost, whichever call of the device fails.
#[test]
fn a_run_that_fails_changes_nothing() {
    let device = sim(2);
    let _alone = alone();
    on(device, || {
        let (slot, x) = (Parameter::new(tensor![1., 2.], "slot"), tensor![10., 20.]);
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        let mut value = vec![1., 2.];
        // The first call compiles the function.
        bump(&slot, &x);
        value.iter_mut().zip([10., 20.]).for_each(|(value, by)| *value += by);
        // Memory that earlier work released is freed after this wait.
        ms::synchronize().expect("nothing failed");
        let before = simulation.counts();
        for nth in 1.. {
            simulation.fail_call(nth);
            let result = catch(|| bump(&slot, &x));
            simulation.fail_call(0);
            match result {
                Err(error) => assert_eq!(error.code(), Code::Backend, "call {nth}"),
                Ok(out) => {
                    assert!(nth > 2, "several calls can fail");
                    assert_eq!((slot.value().to_vec::<f32>(), out.to_vec::<f32>()), (vec![21., 42.], vec![42., 84.]));
                    break;
                }
            }
            assert_eq!(slot.value().to_vec::<f32>(), value, "call {nth}");
            assert_eq!(simulation.counts().live_bytes, before.live_bytes, "call {nth}");
        }
    });
}

#[no_inline]
fn squashed(x: &Tensor, by: &Tensor) -> Tensor {
    ops::cumsum(x * by, 0).tanh()
}

#[jit]
fn structured(slot: &Parameter, other: &Parameter, x: &Tensor) -> Tensor {
    let mut y = squashed(x, &slot.value());
    while y.sum(()) < 5.0 {
        y = squashed(&y, &slot.value()) + &y;
    }
    if y.sum(()) > 5.5 {
        other.set(&(other.value() + &y));
    } else {
        other.set(&(other.value() - &y));
    }
    let picked = ops::gather(&y, ops::cumsum(tensor![1i64, 0], 0), 0);
    slot.set(&(slot.value() + 1.0));
    picked
}

/// A run with a loop, a branch and a routine fails cleanly, whichever call of the device fails. The error has the
/// user's line, slots keep their values, and no memory is lost.
#[test]
fn a_structured_run_that_fails_changes_nothing() {
    let device = sim(2);
    let _alone = alone();
    let want = {
        let (slot, other) = (Parameter::new(tensor![1., 2.], "slot"), Parameter::new(tensor![0., 0.], "other"));
        let out = structured(&slot, &other, &tensor![3., 4.]);
        [out, slot.value(), other.value()].map(|it| it.to_vec::<f32>())
    };
    on(device, || {
        let (slot, other) = (Parameter::new(tensor![1., 2.], "slot"), Parameter::new(tensor![0., 0.], "other"));
        let x = tensor![3., 4.];
        // The first call compiles the function.
        structured(&slot, &other, &x);
        slot.set(&tensor![1., 2.]);
        other.set(&tensor![0., 0.]);
        let values = || [&slot, &other].map(|it| it.value().to_vec::<f32>());
        let kept = values();
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        // Memory that earlier work released is freed after this wait.
        ms::synchronize().expect("nothing failed");
        let before = simulation.counts();
        let mut failed = 0;
        for nth in 1.. {
            simulation.fail_call(nth);
            let result = catch(|| structured(&slot, &other, &x));
            let line = line!() - 1;
            simulation.fail_call(0);
            match result {
                Ok(out) => {
                    assert_eq!([out, slot.value(), other.value()].map(|it| it.to_vec::<f32>()), want);
                    break;
                }
                Err(error) => {
                    let said = error.to_string();
                    assert_eq!(error.code(), Code::Backend, "call {nth}: {said}");
                    assert!(said.contains(&format!("failures.rs:{line}:")), "call {nth}: {said}");
                }
            }
            failed += 1;
            ms::synchronize().expect("what was submitted does not fail");
            assert_eq!(values(), kept, "call {nth}");
            assert_eq!(simulation.counts().live_bytes, before.live_bytes, "call {nth}");
        }
        assert!(failed > 18, "{failed} calls");
    });
}

#[jit]
fn checked_bump(slot: &Parameter, other: &Parameter, x: &Tensor) -> Tensor {
    let before = slot.value();
    slot.set(&(slot.value() + x));
    other.set(&(&before * 2.0));
    ops::assert_that(x.lt(100.0), "too large: {}", &[x]);
    slot.value() * 2.0
}

/// Slots keep their values, whichever step of the device fails while it runs. Later steps have no effect, and the first
/// wait reports the error, whatever the order of the streams.
#[test]
fn a_run_that_fails_later_changes_nothing() {
    let device = sim(2);
    let _alone = alone();
    on(device, || {
        let slots = ["slot", "other"].map(|it| Parameter::new(tensor![1., 2.], it));
        let (small, large) = (tensor![10., 20.], tensor![10., 200.]);
        let [slot, other] = &slots;
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        let values = || slots.each_ref().map(|it| it.value().to_vec::<f32>());
        checked_bump(slot, other, &small);
        let mut kept = values();
        assert_eq!(kept, [[11., 22.], [2., 4.]]);
        // An assertion fails between runs that succeed.
        for seed in 0..20 {
            SimBackend::set_schedule(device.id(), seed).expect("it exists");
            let before = simulation.counts();
            let fine = checked_bump(slot, other, &small);
            let wrong = checked_bump(slot, other, &large);
            let behind = checked_bump(slot, other, &small);
            let unrelated = &small * 3.0;
            assert_eq!(simulation.counts().waits, before.waits, "nothing is waited for");
            kept = [[kept[0][0] + 10., kept[0][1] + 20.], [kept[0][0] * 2., kept[0][1] * 2.]].map(|it| it.to_vec());
            assert_eq!(fine.to_vec::<f32>(), [kept[0][0] * 2., kept[0][1] * 2.]);
            let error = [&behind, &slot.value()][seed as usize % 2].try_to_vec::<f32>().expect_err("it was poisoned");
            assert_eq!(error.code(), Code::Assertion);
            let said = error.to_string();
            assert!(said.contains("too large: [ 10. 200.]") && said.contains("failures.rs"), "{said}");
            assert_eq!(values(), kept, "schedule {seed}");
            assert_eq!(wrong.try_to_vec::<f32>().expect_err("it failed").code(), Code::Assertion);
            assert_eq!(catch(|| &behind + 1.0).expect_err("it has no value").code(), Code::Assertion);
            assert!(unrelated.try_to_vec::<f32>().is_err(), "it was queued behind");
            ms::synchronize().expect("everything was told");
        }
        // Each step fails in turn.
        let before = simulation.counts();
        for nth in 1.. {
            simulation.fail_step(nth);
            let out = checked_bump(slot, other, &small);
            let again = checked_bump(slot, other, &small);
            let result = ms::synchronize();
            simulation.fail_step(0);
            let (runs, expected) = match nth {
                1 => (0, true),
                2 => (1, true),
                _ => (2, false),
            };
            assert_eq!(result.is_err(), expected, "step {nth}");
            for _ in 0..runs {
                kept = [[kept[0][0] + 10., kept[0][1] + 20.], [kept[0][0] * 2., kept[0][1] * 2.]].map(|it| it.to_vec());
            }
            assert_eq!(values(), kept, "step {nth}");
            drop((out, again));
            assert_eq!(simulation.counts().live_bytes, before.live_bytes, "step {nth}");
            if !expected {
                break;
            }
        }
    });
}

#[jit]
fn counted_noise(slot: &Parameter, x: &Tensor) -> Tensor {
    slot.set(&(slot.value() + 1.0));
    let noise = random::uniform([2], 0.0, 1.0);
    ops::assert_that(x.lt(100.0), "too large", &[]);
    (x * noise).sum(())
}

/// Slots and states of generators keep their values after a failure. This holds on a tape, in compiled code and for
/// eager draws.
#[test]
fn states_survive_failures() {
    let device = sim(2);
    let _alone = alone();
    let slope = |slot: &Parameter, x: &Tensor| grad(|x: &Tensor| counted_noise(slot, x))(x);
    let eager = |_: &Parameter, x: &Tensor| {
        ops::assert_that(x.lt(100.0), "too large", &[]);
        random::uniform([2], 0.0, 1.0) + x * 0.0
    };
    let compiled = |slot: &Parameter, x: &Tensor| counted_noise(slot, x);
    type Run<'a> = (&'a str, &'a dyn Fn(&Parameter, &Tensor) -> Tensor, f32);
    let runs: [Run<'_>; 3] = [("on a tape", &slope, 1.0), ("compiled", &compiled, 1.0), ("eager", &eager, 0.0)];
    on(device, || {
        for (name, run, writes) in runs {
            let (small, large) = (tensor![1., 2.], tensor![1., 200.]);
            let drawn = |fails: bool| {
                random::set_seed(3);
                let slot = Parameter::new(tensor![0.], "slot");
                let first = run(&slot, &small).to_vec::<f32>();
                if fails {
                    let results = [&large, &small].map(|x| run(&slot, x));
                    let error = ms::synchronize().expect_err("the assertion does not hold");
                    assert_eq!(error.code(), Code::Assertion, "{name}");
                    assert!(results.iter().all(|it| it.try_to_vec::<f32>().is_err()), "{name}");
                }
                let last = [first, run(&slot, &small).to_vec()];
                assert_eq!(slot.value().item::<f32>(), 2.0 * writes, "{name}");
                last
            };
            assert_eq!(drawn(true), drawn(false), "{name}");
        }
    });
}

/// A gather waits for nothing. The device checks the positions, and reports the error later with the line of the
/// gather.
#[test]
fn eager_gathers_wait_for_nothing() {
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let table = ops::arange(12).cast(DType::F32).reshape([4, 3]);
        let (valid, invalid) = (tensor![3, 0, 2], tensor![3, 4, 0]);
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        type Gather<'a> = (&'a str, &'a dyn Fn(&Tensor) -> Tensor);
        let gathers: [Gather<'_>; 2] =
            [("gather", &|at| ops::gather(&table, at, 0)), ("embedding", &|at| ops::embedding(at, &table, None))];
        for (name, run) in gathers {
            let before = simulation.counts();
            let (found, wrong) = (run(&valid), run(&invalid));
            assert_eq!(simulation.counts().waits, before.waits, "{name}");
            assert_eq!(found.to_vec::<f32>(), [9., 10., 11., 0., 1., 2., 6., 7., 8.], "{name}");
            let error = wrong.try_to_vec::<f32>().expect_err("there is no such row");
            assert_eq!(error.code(), Code::OutOfRange, "{name}");
            let said = error.to_string();
            let parts = ["index 4 is outside axis 0", "`gather`", "f32[4, 3]", "failures.rs"];
            assert!(parts.iter().all(|it| said.contains(it)), "{name}: {said}");
        }
    });
}

#[jit]
fn bump_if(slot: &Parameter, x: &Tensor) -> Tensor {
    if x.sum(()) > 0.0 {
        slot.set(&(slot.value() + x));
    }
    let mut y = slot.value();
    while y.sum(()) < 1000.0 {
        y = &y * 2.0;
    }
    y
}

/// Slots, and the function that uses them.
type Program = (Vec<Parameter>, Box<dyn Fn() -> Tensor>);

/// The name of a program, whether its slots are written all or none, and its constructor.
type Case = (&'static str, bool, fn() -> Program);

fn programs() -> [Case; 6] {
    fn slot() -> Parameter {
        Parameter::new(tensor![1., 2.], "slot")
    }
    fn trained(eagerly: bool) -> Program {
        let net = Net { hidden: nn::Dense::new(2, 3), out: nn::Dense::new(3, 1) };
        let batch = (random::normal([4, 2], 0.0, 1.0), random::normal([4, 1], 0.0, 1.0));
        let (slots, optimizer) = (net.parameters(), SGD::new(1e-2));
        let loss = |net: &Net, (x, y): &(Tensor, Tensor)| ops::mse_loss(net.call(x), y);
        let step = move || match eagerly {
            true => optimizer.step_eagerly(&net, &batch, loss),
            false => optimizer.step(&net, &batch, loss),
        };
        (slots, Box::new(step))
    }
    fn classified() -> Program {
        let net =
            ConvNet { first: nn::Conv2d::new(1, 2, 3), norm: nn::BatchNorm::new(2), out: nn::Dense::new(2 * 4 * 4, 3) };
        let batch = (random::normal([2, 1, 6, 6], 0.0, 1.0), tensor![0, 2]);
        let (slots, optimizer) = (net.parameters(), Adam::new(1e-2));
        let loss = |net: &ConvNet, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
        (slots, Box::new(move || optimizer.step(&net, &batch, loss)))
    }
    fn with(x: Tensor, run: impl Fn(&Parameter, &Tensor) -> Tensor + 'static) -> Program {
        let slot = slot();
        (vec![slot.clone()], Box::new(move || run(&slot, &x)))
    }
    [
        ("a step", true, || trained(false)),
        ("a step of a convolution", true, classified),
        ("an eager step", false, || trained(true)),
        ("control flow", true, || with(tensor![3., 4.], |slot, x| bump_if(slot, x))),
        ("a tape", true, || with(tensor![3., 4.], |slot, x| grad(|x: &Tensor| (bump(slot, x) * x).sum(()))(x))),
        ("vmap", false, || {
            let rows = |slot: &Parameter, x: &Tensor| ms::vmap(|row: &Tensor| (row * slot.value()).tanh())(x);
            with(tensor![[3., 4.], [5., 6.]], rows)
        }),
    ]
}

/// Whichever call or step of the device fails, the error has a line of this file. No slot is half written, and the
/// program works again.
#[test]
fn failures_at_every_call_and_step() {
    let device = sim(2);
    let _alone = alone();
    let simulation = SimBackend::simulation(device.id()).expect("it exists");
    let values = |slots: &[Parameter]| slots.iter().map(|it| it.value().to_vec::<f32>()).collect::<Vec<_>>();
    let run = |program: &Program| {
        let result = catch(|| {
            random::set_seed(2);
            (program.1)().to_vec::<f32>()
        });
        result.and_then(|it| ms::synchronize().map(|()| it))
    };
    let mut nowhere: Vec<String> = Vec::new();
    on(device, || {
        for (name, at_once, make) in programs() {
            let made = || {
                random::set_seed(1);
                let made = make();
                ms::synchronize().expect("nothing fails");
                made
            };
            let clean = made();
            let want = run(&clean).expect("nothing fails");
            let new = values(&clean.0);
            for what in ["call", "step"] {
                let fail =
                    |nth: u64| if what == "call" { simulation.fail_call(nth) } else { simulation.fail_step(nth) };
                for nth in 1.. {
                    let program = made();
                    let old = values(&program.0);
                    fail(nth);
                    let result = run(&program);
                    fail(0);
                    let case = format!("{name}, {what} {nth}");
                    let Err(error) = result else {
                        assert!(nth > 2, "{case}: several can fail");
                        break;
                    };
                    assert_eq!(error.code(), Code::Backend, "{case}");
                    if !error.to_string().contains("tests/devices/failures.rs:") {
                        nowhere.push(format!("{case}: {error}"));
                    }
                    ms::synchronize().expect("everything was told");
                    if at_once {
                        let now = values(&program.0);
                        assert!(now == old || now == new, "{case}: {now:?}");
                        if now == old {
                            assert_eq!(run(&program).expect("nothing fails"), want, "{case}");
                        }
                    }
                    assert_eq!(run(&made()).expect("nothing fails"), want, "{case}");
                }
            }
        }
    });
    assert!(nowhere.is_empty(), "{} errors are at no line of this file:\n{}", nowhere.len(), nowhere.join("\n"));
}

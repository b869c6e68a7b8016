//! Programs on a device with memory of its own, beside the host.

use ms::prelude::*;
use ms::tensor::Device;
use ms::{Code, catch, grad, random};
use ms_sim::SimBackend;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "common/gpt.rs"]
mod gpt;

fn sim(id: u16) -> Device {
    format!("sim:{id}").parse().expect("a name")
}

/// Runs `f` with new tensors on a device.
fn on<R>(device: Device, f: impl FnOnce() -> R) -> R {
    ms::with_context(Context { device_target: device.kind(), device_id: device.id(), ..ms::context() }, f)
}

#[jit]
fn scaled_sum(x: &Tensor, y: &Tensor) -> Tensor {
    (x * 2.0 + y).sum((), false)
}

#[jit]
fn constant() -> Tensor {
    ops::arange(4) * 3
}

#[jit]
fn noisy(x: &Tensor) -> Tensor {
    x + random::uniform([3], 0.0, 1.0)
}

/// One function has code for each device, and runs where its arguments are.
#[test]
fn compiled_functions_run_where_their_arguments_are() {
    let (x, y) = (tensor![1., 2., 3.], tensor![10., 20., 30.]);
    for device in [Device::CPU, sim(0), sim(1), Device::CPU, sim(0)] {
        let out = scaled_sum(&x.to(device), &y.to(device));
        assert_eq!((out.device(), out.item::<f32>()), (device, 72.0));
    }
    let error = catch(|| scaled_sum(&x.to(sim(0)), &y)).expect_err("two devices");
    assert_eq!(error.code(), Code::Devices);
    let said = error.to_string();
    assert!(["`sim:0`", "`cpu`", "`scaled_sum`"].iter().all(|it| said.contains(it)), "{said}");
    // Numbers follow.
    let out = scaled_sum(&x.to(sim(0)), &Tensor::scalar(1.0));
    assert_eq!((out.device(), out.item::<f32>()), (sim(0), 15.0));
}

#[test]
fn new_tensors_are_on_the_device_of_the_settings() {
    for device in [sim(0), Device::CPU, sim(1)] {
        on(device, || {
            let made = [
                tensor![1., 2.],
                Tensor::from(vec![1u8]),
                Tensor::scalar(1.5),
                Tensor::zeros([2]),
                ops::eye(3),
                random::normal([3], 0.0, 1.0),
                constant(),
            ];
            made.iter().enumerate().for_each(|(at, it)| assert_eq!(it.device(), device, "tensor {at}"));
            assert_eq!(constant().to_vec::<i64>(), [0, 3, 6, 9]);
        });
    }
    for target in ["Ascend", "cuda", "GPU"] {
        let none = Context { device_target: target.parse().expect("a name"), ..ms::context() };
        let error = catch(|| ms::with_context(none, || ())).expect_err("no such device");
        assert_eq!(error.code(), Code::DeviceUnavailable);
        assert!(error.to_string().contains("backends for cpu, sim"), "{error}");
    }
}

/// The state of a generator goes where numbers are drawn; the numbers are the same everywhere.
#[test]
fn random_numbers_are_those_of_the_seed_on_every_device() {
    let x = tensor![0., 0., 0.];
    let drawn = |devices: [Device; 4]| {
        random::set_seed(5);
        devices.map(|it| {
            let drawn = noisy(&x.to(it));
            assert_eq!(drawn.device(), it);
            drawn.to_vec::<f32>()
        })
    };
    assert_eq!(drawn([sim(0), Device::CPU, sim(1), sim(0)]), drawn([Device::CPU; 4]));
}

#[cell]
struct Net {
    hidden: nn::Dense,
    out: nn::Dense,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.out(&self.hidden(x).relu())
    }
}

/// Training step by step, with eager and compiled steps, to the same bits on the device as on the host.
#[test]
fn training_is_the_same_on_every_device() {
    let train = |device: Device, eagerly: bool| {
        on(device, || {
            random::set_seed(1);
            let net = Net { hidden: nn::Dense::new(4, 8), out: nn::Dense::new(8, 1) };
            let optimizer = Adam::new(1e-2);
            let batch = (random::normal([16, 4], 0.0, 1.0), random::normal([16, 1], 0.0, 1.0));
            let loss = |net: &Net, (x, y): &(Tensor, Tensor)| ops::mse_loss(net.call(x), y);
            let losses = (0..5).map(|_| match eagerly {
                true => optimizer.step_eagerly(&net, &batch, loss),
                false => optimizer.step(&net, &batch, loss),
            });
            let losses: Vec<f32> = losses.map(|it| it.item::<f32>()).collect();
            net.parameters().iter().for_each(|it| assert_eq!(it.value().device(), device));
            losses
        })
    };
    for eagerly in [true, false] {
        let host = train(Device::CPU, eagerly);
        assert!(host[4] < host[0], "{host:?}");
        assert_eq!(train(sim(0), eagerly), host);
    }
}

#[test]
fn cells_move() {
    let net = Net { hidden: nn::Dense::new(4, 8), out: nn::Dense::new(8, 1) };
    let compiled = ms::jit(|net: &Net, x: &Tensor| net.call(x));
    let x = random::normal([2, 4], 0.0, 1.0);
    let want = [net.call(&x), compiled(&net, &x)].map(|it| it.to_vec::<f32>());
    for device in [sim(0), sim(1), Device::CPU] {
        let there = x.to(device);
        let got = [net.to(device).call(&there), compiled(&net, &there)];
        got.iter().for_each(|it| assert_eq!(it.device(), device));
        assert_eq!(got.map(|it| it.to_vec::<f32>()), want);
    }
    let error = catch(|| drop(net.to("sim:9").parameters())).expect_err("no such device");
    assert_eq!(error.code(), Code::DeviceUnavailable);
    net.parameters().iter().for_each(|it| assert_eq!(it.value().device(), Device::CPU));
}

/// A copy to another device is the same value to a gradient, which lies where the tensor does.
#[test]
fn gradients_flow_through_copies() {
    let cubes = |x: &Tensor| {
        let there = (x * x).to("sim:0");
        (&there * x.to("sim:0")).sum((), false)
    };
    let x = tensor![1., 2., 3.];
    let slope = grad(cubes)(&x);
    assert_eq!((slope.device(), slope.to_vec::<f32>()), (Device::CPU, vec![3., 12., 27.]));
    let second = grad(move |x: &Tensor| grad(cubes)(x).sum((), false))(&x);
    assert_eq!((second.device(), second.to_vec::<f32>()), (Device::CPU, vec![6., 12., 18.]));
    let (_, tangent) = ms::jvp(cubes)(&x, &tensor![1., 0., 0.]);
    assert_eq!(tangent.to_vec::<f32>(), [3.]);
}

#[test]
fn traced_values_are_on_no_device() {
    let moved = ms::jit(|x: &Tensor| x.to("cpu") + 1.0);
    let error = catch(|| moved(&tensor![1.])).expect_err("refused");
    assert_eq!(error.code(), Code::TracedValue);
    assert!(error.to_string().contains("move them before the call"), "{error}");
}

#[jit]
fn bump(slot: &Parameter, x: &Tensor) -> Tensor {
    slot.set(&(slot.value() + x));
    slot.value() * 2.0
}

/// Whichever call of the device fails, slots keep their values, and no memory is lost.
#[test]
fn a_run_that_fails_changes_nothing() {
    let device = sim(2);
    let _alone = alone();
    on(device, || {
        let (slot, x) = (Parameter::new(tensor![1., 2.], "slot"), tensor![10., 20.]);
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        let mut value = vec![1., 2.];
        // Compiled first.
        bump(&slot, &x);
        value.iter_mut().zip([10., 20.]).for_each(|(value, by)| *value += by);
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
    while y.sum((), false) < 5.0 {
        y = squashed(&y, &slot.value()) + &y;
    }
    if y.sum((), false) > 5.5 {
        other.set(&(other.value() + &y));
    } else {
        other.set(&(other.value() - &y));
    }
    let picked = ops::gather(&y, ops::cumsum(tensor![1i64, 0], 0), 0);
    slot.set(&(slot.value() + 1.0));
    picked
}

/// Whichever call of the device fails in a run with a loop, a branch and a routine, the error is at the user's line,
/// slots keep their values, and no memory is lost.
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
        // Compiled first.
        structured(&slot, &other, &x);
        slot.set(&tensor![1., 2.]);
        other.set(&tensor![0., 0.]);
        let values = || [&slot, &other].map(|it| it.value().to_vec::<f32>());
        let kept = values();
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
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
                    assert!(said.contains(&format!("devices.rs:{line}:")), "call {nth}: {said}");
                }
            }
            failed += 1;
            ms::synchronize().expect("what was submitted does not fail");
            assert_eq!(values(), kept, "call {nth}");
            assert_eq!(simulation.counts().live_bytes, before.live_bytes, "call {nth}");
        }
        assert!(failed > 30, "{failed} calls");
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

/// Whichever step of the device fails when it is run, slots keep their values, what is behind it has no effect, and
/// the first wait tells, whatever the order of the streams.
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
        // An assertion, in the middle of runs that do not fail.
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
            assert!(said.contains("too large: [ 10. 200.]") && said.contains("devices.rs"), "{said}");
            assert_eq!(values(), kept, "schedule {seed}");
            assert_eq!(wrong.try_to_vec::<f32>().expect_err("it failed").code(), Code::Assertion);
            assert_eq!(catch(|| &behind + 1.0).expect_err("it has no value").code(), Code::Assertion);
            assert!(unrelated.try_to_vec::<f32>().is_err(), "it was queued behind");
            ms::synchronize().expect("everything was told");
        }
        // Every step in turn.
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
    (x * noise).sum((), false)
}

/// Also on a tape, slots and states of generators keep their values behind a failure; those that draw eagerly, too.
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

/// Positions are checked on the device: a gather waits for nothing, and refuses them later, at its line.
#[test]
fn eager_gathers_wait_for_nothing() {
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let table = ops::arange(12).cast(DType::F32).reshape([4, 3]);
        let (valid, invalid) = (tensor![3, 0, -1], tensor![3, 4, 0]);
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        type Gather<'a> = (&'a str, &'a dyn Fn(&Tensor) -> Tensor);
        let gathers: [Gather<'_>; 2] =
            [("gather", &|at| ops::gather(&table, at, 0)), ("embedding", &|at| ops::embedding(at, &table, None))];
        for (name, run) in gathers {
            let before = simulation.counts();
            let (found, wrong) = (run(&valid), run(&invalid));
            assert_eq!(simulation.counts().waits, before.waits, "{name}");
            assert_eq!(found.to_vec::<f32>(), [9., 10., 11., 0., 1., 2., 9., 10., 11.], "{name}");
            let error = wrong.try_to_vec::<f32>().expect_err("there is no such row");
            assert_eq!(error.code(), Code::OutOfRange, "{name}");
            let said = error.to_string();
            let parts = ["index 4 is outside axis 0", "`gather`", "f32[4, 3]", "devices.rs"];
            assert!(parts.iter().all(|it| said.contains(it)), "{name}: {said}");
        }
    });
}

#[jit]
fn bump_if(slot: &Parameter, x: &Tensor) -> Tensor {
    if x.sum((), false) > 0.0 {
        slot.set(&(slot.value() + x));
    }
    let mut y = slot.value();
    while y.sum((), false) < 1000.0 {
        y = &y * 2.0;
    }
    y
}

/// Slots, and what is done with them.
type Program = (Vec<Parameter>, Box<dyn Fn() -> Tensor>);

/// The name of a program, whether its slots are written all or not at all, and what makes it.
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
        ("a tape", true, || with(tensor![3., 4.], |slot, x| grad(|x: &Tensor| (bump(slot, x) * x).sum((), false))(x))),
        ("vmap", false, || {
            let rows = |slot: &Parameter, x: &Tensor| ms::vmap(|row: &Tensor| (row * slot.value()).tanh())(x);
            with(tensor![[3., 4.], [5., 6.]], rows)
        }),
    ]
}

/// Whichever call or step of the device fails: the error is at a line of this file, no slot is half written, and the
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
                    if !error.to_string().contains("tests/devices.rs:") {
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

/// One test at a time counts, or waits for all devices.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Steps of training, and the waits until the losses are read.
fn waits_of_steps(device: Device, step: impl Fn() -> Tensor) -> u64 {
    step().item::<f32>();
    let simulation = SimBackend::simulation(device.id()).expect("it exists");
    let before = simulation.counts();
    let losses: Vec<Tensor> = (0..4).map(|_| step()).collect();
    let counts = simulation.counts();
    assert_eq!(counts.runs - before.runs, 4, "one plan a step");
    assert_eq!((counts.copies_to_host, counts.copies_from_host), (before.copies_to_host, before.copies_from_host));
    assert_eq!(counts.steps, before.steps, "nothing runs before");
    assert_eq!(counts.live_bytes - before.live_bytes, 4 * 4, "the losses");
    assert!(losses.iter().all(|it| it.item::<f32>().is_finite()));
    let read = simulation.counts();
    assert_eq!((read.copies_to_host - before.copies_to_host, read.waits - counts.waits), (4, 4));
    counts.waits - before.waits
}

#[jit]
fn straight(x: &Tensor) -> Tensor {
    (0..3).fold(x.clone(), |x, _| (&x * 0.5).tanh())
}

#[jit]
fn over_a_range(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for _ in ms::range(0, 5) {
        y = (&y * 0.5).tanh();
    }
    y
}

#[jit]
fn branches(x: &Tensor) -> Tensor {
    if x.sum((), false) > 0.0 {
        ops::assert_that(x.lt(100.0), "too large: {}", &[x]);
    }
    x * 2.0
}

#[jit]
fn repeats(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.sum((), false) < 10.0 {
        y = &y * 2.0;
    }
    y
}

#[jit]
fn slope_of_repeats(x: &Tensor) -> Tensor {
    grad(|x: &Tensor| repeats(x).sum((), false))(x)
}

#[jit]
fn prints(x: &Tensor) -> Tensor {
    ms::print!("{}", x);
    x * 2.0
}

/// What a compiled function waits for is known, and a run waits if there is anything.
#[test]
fn waits_are_known_and_counted() {
    use ms::Waits;
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let x = tensor![1., 2.];
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        let none = Waits::default();
        type Case = (&'static str, fn(&Tensor) -> Tensor, Waits, u64);
        let cases: [Case; 6] = [
            ("straight", |x| straight(x), none, 0),
            ("over_a_range", |x| over_a_range(x), none, 0),
            ("branches", |x| branches(x), Waits { conditions: 1, ..none }, 1),
            // Two iterations: 3, 6, 12.
            ("repeats", |x| repeats(x), Waits { conditions: 1, ..none }, 3),
            // And the number of iterations, with that of the stack.
            ("slope_of_repeats", |x| slope_of_repeats(x), Waits { conditions: 1, stacks: 2, ..none }, 4),
            ("prints", |x| prints(x), Waits { host_steps: 1, ..none }, 1),
        ];
        for (name, run, want, waits) in cases {
            let (_, printed) = ops::capture_prints(|| drop(run(&x)));
            assert_eq!(printed.len(), want.host_steps, "{name}");
            let report = ms::compile_report().into_iter().rev().find(|it| it.name == name).expect("it was compiled");
            let plan = report.stages.iter().find_map(|it| it.plan).expect("a plan");
            assert_eq!(plan.waits, want, "{name}");
            let before = simulation.counts();
            ops::capture_prints(|| drop(run(&x)));
            assert_eq!(simulation.counts().waits - before.waits, waits, "{name}");
        }
    });
}

ms::custom_op! {
    /// The largest element of each row, on the host.
    fn largest(x: &Tensor) -> Tensor;

    fn types(x: &ms::custom::Type) -> ms::custom::Type {
        ms::custom::Type::new(x.dtype, x.dims[..x.rank() - 1].into())
    }

    fn run(x: ms::custom::View<'_, f32>, y: &mut [f32]) -> Result<(), String> {
        for (y, row) in y.iter_mut().zip(x.rows()) {
            *y = row.iter().copied().max_by(f32::total_cmp).ok_or("a row is empty")?;
            if *y > 1000.0 {
                return Err(format!("{y} is too large"));
            }
        }
        Ok(())
    }
}

ms::kernel! {
    /// `x` where it is positive, otherwise `x / 10`.
    fn leaky(x: Float) -> Float {
        if x > 0.0 { x } else { x / 10 }
    }
}

#[jit]
fn of_the_program(x: &Tensor) -> Tensor {
    largest(&leaky(x * 2.0)) + 1.0
}

/// Functions of the program run on the host, which waits for the device, and kernels of the program on the device.
#[test]
fn ops_of_the_program_run_where_they_say() {
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let x = tensor![[-10., -30.], [1., 2.]];
        let want = [-1., 5.];
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        let eager = || largest(&leaky(&x * 2.0)) + 1.0;
        for (name, run, waits) in
            [("eagerly", &eager as &dyn Fn() -> Tensor, 1), ("compiled", &|| of_the_program(&x), 1)]
        {
            assert_eq!(run().to_vec::<f32>(), want, "{name}");
            let before = simulation.counts();
            let out = run();
            assert_eq!(out.device(), device, "{name}");
            let counts = simulation.counts();
            assert_eq!(counts.waits - before.waits, waits, "{name}");
            assert_eq!(out.to_vec::<f32>(), want, "{name}");
        }
        let report = ms::compile_report().into_iter().rev().find(|it| it.name == "of_the_program");
        let plan = report.expect("it was compiled").stages.iter().find_map(|it| it.plan).expect("a plan");
        assert_eq!(plan.waits, ms::Waits { host_steps: 1, ..ms::Waits::default() });
        let only_kernels = ms::jit(|x: &Tensor| leaky(x * 2.0) + 1.0);
        drop(only_kernels(&x));
        let before = simulation.counts();
        drop(only_kernels(&x));
        assert_eq!(simulation.counts().waits, before.waits, "a kernel is not waited for");
        // The host has waited, so that the error comes at once.
        for run in [&|| largest(&(&x * 1000.0)), &|| of_the_program(&(&x * 1000.0))] as [&dyn Fn() -> Tensor; 2] {
            let error = catch(run).expect_err("it is too large");
            assert_eq!(error.code(), Code::CustomOp, "{error}");
            assert!(
                error.to_string().contains("devices.largest`: ") && error.to_string().contains("devices.rs"),
                "{error}"
            );
        }
        assert_eq!(of_the_program(&x).to_vec::<f32>(), want, "afterwards");
    });
}

#[cell]
struct ConvNet {
    first: nn::Conv2d,
    norm: nn::BatchNorm,
    out: nn::Dense,
}

#[cell]
impl ConvNet {
    fn construct(&self, x: &Tensor) -> Tensor {
        let x = self.norm(&self.first(x)).relu();
        self.out(&ops::flatten(&x, 1))
    }
}

/// A compiled step waits for nothing until its loss is read.
#[test]
fn a_step_waits_for_nothing() {
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let optimizer = Adam::new(1e-2);
        let net = Net { hidden: nn::Dense::new(4, 8), out: nn::Dense::new(8, 1) };
        let batch = (random::normal([16, 4], 0.0, 1.0), random::normal([16, 1], 0.0, 1.0));
        let loss = |net: &Net, (x, y): &(Tensor, Tensor)| ops::mse_loss(net.call(x), y);
        assert_eq!(waits_of_steps(device, || optimizer.step(&net, &batch, loss)), 0, "MLP");

        let net = ConvNet {
            first: nn::Conv2d::new(1, 4, 3),
            norm: nn::BatchNorm::new(4),
            out: nn::Dense::new(4 * 6 * 6, 10),
        };
        let optimizer = Adam::new(1e-2);
        let batch = (random::normal([4, 1, 8, 8], 0.0, 1.0), random::randint([4], 0, 10));
        let loss = |net: &ConvNet, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
        assert_eq!(waits_of_steps(device, || optimizer.step(&net, &batch, loss)), 0, "ConvNet");

        let net = gpt::plain::Gpt::new(2, 16, 8);
        let optimizer = Adam::new(1e-2);
        let batch = (random::randint([2, 6], 0, 16), random::randint([2, 6], 0, 16));
        let loss = |net: &gpt::plain::Gpt, (x, y): &(Tensor, Tensor)| {
            ops::cross_entropy(net.call(x).reshape([12, 16]), y.reshape([12]))
        };
        assert_eq!(waits_of_steps(device, || optimizer.step(&net, &batch, loss)), 0, "GPT");
    });
}

/// Training to the same bits under every schedule, with eager and compiled steps, and with batches that another thread
/// brings.
#[test]
fn schedules_change_nothing() {
    let device = sim(1);
    let _alone = alone();
    let train = |device: Device, eagerly: bool| {
        on(device, || {
            random::set_seed(1);
            let net = Net { hidden: nn::Dense::new(4, 8), out: nn::Dense::new(8, 1) };
            let optimizer = Adam::new(1e-2);
            let losses: Vec<Tensor> = (0..3)
                .map(|at| {
                    let batch = std::thread::scope(|scope| {
                        let bring = move || {
                            let x = ops::arange(64).cast(DType::F32).reshape([16, 4]) * (0.01 * (at + 1) as f64);
                            let y = x.sum(1, true);
                            (x.to(device), y.to(device))
                        };
                        scope.spawn(bring).join().expect("it works")
                    });
                    let loss = |net: &Net, (x, y): &(Tensor, Tensor)| ops::mse_loss(net.call(x), y);
                    match eagerly {
                        true => optimizer.step_eagerly(&net, &batch, loss),
                        false => optimizer.step(&net, &batch, loss),
                    }
                })
                .collect();
            let parameters = net.parameters();
            let values = parameters.iter().flat_map(|it| it.value().to_vec::<f32>());
            losses.iter().map(|it| it.item::<f32>()).chain(values).collect::<Vec<f32>>()
        })
    };
    for eagerly in [true, false] {
        let want = train(Device::CPU, eagerly);
        for seed in 0..100 {
            SimBackend::set_schedule(device.id(), seed).expect("it exists");
            assert_eq!(train(device, eagerly), want, "schedule {seed}");
        }
    }
}

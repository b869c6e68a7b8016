//! Tests branches and loops of compiled functions whose conditions the device decides.

use super::*;

#[jit]
fn steps_of_collatz(start: &Tensor) -> Tensor {
    let mut value = start.clone();
    let mut steps = start * 0.0;
    while value.gt(1.0).any(()) {
        if (&value % 2.0).eq(0.0).all(()) {
            value = &value * 0.5;
        } else {
            value = &value * 3.0 + 1.0;
        }
        steps = steps + 1.0;
    }
    steps
}

#[jit]
fn damped(x: &Tensor) -> Tensor {
    let (mut before, mut now) = (x.clone(), x * 0.5);
    while (&now - &before).abs().sum(()) > 0.01 {
        let next = ops::cumsum(&(&now * 0.3), 0) * 0.25 + &before * 0.1;
        before = now;
        now = next;
    }
    now
}

#[jit]
fn searched(x: &Tensor) -> Tensor {
    let mut sum = x * 0.0;
    for i in ms::range(0, 6) {
        let row = x + i.cast(DType::F32);
        let mut y = row.clone();
        while y.sum(()) < 40.0 {
            y = &y * 1.5 + &row;
            if y.max(()) > 20.0 {
                break;
            }
        }
        sum = sum + y;
    }
    sum
}

#[jit]
fn counted(slot: &Parameter, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.sum(()) < 50.0 {
        slot.set(&(slot.value() + 1.0));
        y = ops::cumsum(&(&y + 1.0), 0);
    }
    if y.sum(()) > 100.0 {
        slot.set(&(slot.value() * 2.0));
    }
    y
}

/// Functions with nested control flow have the bits of the host, and the host waits for nothing before it reads the
/// result, whatever the order of the streams.
#[test]
fn control_flow_waits_for_nothing() {
    let device = sim(3);
    let _alone = alone();
    let whole: fn(i64) -> Tensor = |it| tensor![3., 3.] + it as f64;
    let real: fn(i64) -> Tensor = |it| tensor![0.5, 1.0, 2.0] * (it as f64 + 0.5);
    type Case = (&'static str, fn(&Parameter, &Tensor) -> Tensor, fn(i64) -> Tensor);
    let cases: [Case; 4] = [
        ("steps_of_collatz", |_, x| steps_of_collatz(x), whole),
        ("damped", |_, x| damped(x), real),
        ("searched", |_, x| searched(x), real),
        ("counted", |slot, x| counted(slot, x), real),
    ];
    let simulation = SimBackend::simulation(device.id()).expect("it exists");
    for (name, run, make) in cases {
        let all = |device: Device| {
            on(device, || {
                let slot = Parameter::new(tensor![1., 2.], "slot");
                let inputs: Vec<Tensor> = (0..6).map(make).collect();
                drop(run(&slot, &inputs[0]));
                ms::synchronize().expect("nothing fails");
                let before = simulation.counts();
                let outputs: Vec<Tensor> = inputs.iter().map(|it| run(&slot, it)).collect();
                assert_eq!(simulation.counts().waits, before.waits, "{name}");
                let outputs: Vec<Vec<f64>> = outputs.iter().map(|it| it.cast(DType::F64).to_vec()).collect();
                (outputs, slot.value().to_vec::<f32>())
            })
        };
        let want = all(Device::CPU);
        for seed in 0..40 {
            SimBackend::set_schedule(device.id(), seed).expect("it exists");
            assert_eq!(all(device), want, "{name}, schedule {seed}");
        }
        let report = ms::compile_report().into_iter().rev().find(|it| it.name == name).expect("it was compiled");
        assert_eq!(report.stages.iter().find_map(|it| it.plan).expect("a plan").waits, ms::Waits::default(), "{name}");
    }
}

#[jit]
fn bounded(slot: &Parameter, x: &Tensor, limit: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.sum(()) < 100.0 {
        y = &y * 2.0;
        ops::assert_that(y.lt(limit), "beyond the limit: {}", &[&y]);
    }
    if y.sum(()) > 10.0 {
        slot.set(&(slot.value() + &y));
    }
    y
}

/// A check in a loop ends it and is reported by the first wait, with the user's line. Slots keep their values.
#[test]
fn checks_fail_in_bodies() {
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let slot = Parameter::new(tensor![0., 0.], "slot");
        let (x, high, low) = (tensor![1., 2.], tensor![1000., 1000.], tensor![10., 1000.]);
        drop(bounded(&slot, &x, &high));
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        for seed in 0..40 {
            SimBackend::set_schedule(device.id(), seed).expect("it exists");
            let kept = slot.value().to_vec::<f32>();
            let before = simulation.counts();
            let refused = bounded(&slot, &x, &low);
            let behind = bounded(&slot, &x, &high);
            assert_eq!(simulation.counts().waits, before.waits, "nothing is waited for");
            let error = [&refused, &behind][seed as usize % 2].try_to_vec::<f32>().expect_err("it was refused");
            let said = error.to_string();
            assert_eq!(error.code(), Code::Assertion, "{said}");
            assert!(said.contains("beyond the limit: [16. 32.]") && said.contains("conditions.rs"), "{said}");
            assert_eq!(slot.value().to_vec::<f32>(), kept, "schedule {seed}");
            let fine = bounded(&slot, &x, &high).to_vec::<f32>();
            assert_eq!(fine, [64., 128.]);
            assert_eq!(slot.value().to_vec::<f32>(), [kept[0] + 64., kept[1] + 128.], "schedule {seed}");
        }
    });
}

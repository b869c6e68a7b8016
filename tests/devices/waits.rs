//! Tests which operations wait for a device, and the orders in which its streams run.

use super::*;

/// Returns the number of waits of ten training steps until the losses are read. They share an arena.
fn waits_of_steps(device: Device, step: impl Fn() -> Tensor) -> u64 {
    step().item::<f32>();
    ms::synchronize().expect("nothing fails");
    let simulation = SimBackend::simulation(device.id()).expect("it exists");
    let before = simulation.counts();
    let losses: Vec<Tensor> = (0..10).map(|_| step()).collect();
    let counts = simulation.counts();
    assert_eq!(counts.runs - before.runs, 10, "one plan a step");
    assert_eq!((counts.copies_to_host, counts.copies_from_host), (before.copies_to_host, before.copies_from_host));
    assert_eq!(counts.steps, before.steps, "nothing runs before");
    assert_eq!(counts.live_bytes - before.live_bytes, 10 * 4, "the losses");
    assert_eq!(counts.reserved_bytes - before.reserved_bytes, 10 * 64, "one arena");
    assert_eq!(counts.allocations - before.allocations, 10, "the losses");
    assert!(losses.iter().all(|it| it.item::<f32>().is_finite()));
    let read = simulation.counts();
    assert_eq!((read.copies_to_host - before.copies_to_host, read.waits - counts.waits), (10, 10));
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
    if x.sum(()) > 0.0 {
        ops::assert_that(x.lt(100.0), "too large: {}", &[x]);
    }
    x * 2.0
}

#[jit]
fn repeats(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.sum(()) < 10.0 {
        y = &y * 2.0;
    }
    y
}

#[jit]
fn slope_of_repeats(x: &Tensor) -> Tensor {
    grad(|x: &Tensor| repeats(x).sum(()))(x)
}

#[jit]
fn prints_in_a_loop(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y.sum(()) < 10.0 {
        ms::print!("{}", y);
        y = &y * 2.0;
    }
    y
}

#[jit]
fn prints(x: &Tensor) -> Tensor {
    ms::print!("{}", x);
    x * 2.0
}

/// The report of a compiled function has its waits, and a run waits only for these.
#[test]
fn waits_are_known_and_counted() {
    use ms::Waits;
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let x = tensor![1., 2.];
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        let none = Waits::default();
        type Case = (&'static str, fn(&Tensor) -> Tensor, Waits, [u64; 2]);
        let cases: [Case; 7] = [
            ("straight", |x| straight(x), none, [0, 0]),
            ("over_a_range", |x| over_a_range(x), none, [0, 0]),
            ("branches", |x| branches(x), none, [0, 0]),
            ("repeats", |x| repeats(x), none, [0, 0]),
            // The loop runs two iterations: 3, 6, 12.
            ("prints_in_a_loop", |x| prints_in_a_loop(x), Waits { conditions: 1, host_steps: 1, ..none }, [5, 2]),
            // The run also waits for the number of iterations, and for the number in the stack.
            ("slope_of_repeats", |x| slope_of_repeats(x), Waits { conditions: 1, stacks: 2, ..none }, [4, 0]),
            ("prints", |x| prints(x), Waits { host_steps: 1, ..none }, [1, 1]),
        ];
        for (name, run, want, [waits, prints]) in cases {
            let (_, printed) = ops::capture_prints(|| drop(run(&x)));
            assert_eq!(printed.len() as u64, prints, "{name}");
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
    /// Returns the largest element of each row, on the host.
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
    /// Returns `x` where it is positive, and `x / 10` elsewhere.
    fn leaky(x: Float) -> Float {
        if x > 0.0 { x } else { x / 10 }
    }
}

#[jit]
fn of_the_program(x: &Tensor) -> Tensor {
    largest(&leaky(x * 2.0)) + 1.0
}

/// Custom ops run on the host, which waits for the device. Kernels of the program run on the device.
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
        // The host has waited, so the error is immediate.
        for run in [&|| largest(&(&x * 1000.0)), &|| of_the_program(&(&x * 1000.0))] as [&dyn Fn() -> Tensor; 2] {
            let error = catch(run).expect_err("it is too large");
            assert_eq!(error.code(), Code::CustomOp, "{error}");
            assert!(
                error.to_string().contains("devices.waits.largest`: ") && error.to_string().contains("waits.rs"),
                "{error}"
            );
        }
        assert_eq!(of_the_program(&x).to_vec::<f32>(), want, "afterwards");
    });
}

/// Asserts that the latest compiled step has at least `least` checks, and waits for nothing.
fn assert_checks(least: usize) {
    let plans = ms::compile_report().into_iter().rev().filter_map(|it| it.stages.iter().find_map(|it| it.plan));
    let plan = plans.into_iter().next().expect("a step was compiled");
    assert!(plan.checks >= least, "{} checks", plan.checks);
    assert_eq!(plan.waits, ms::Waits::default());
}

/// A compiled step waits for nothing until its loss is read, also if it checks indices.
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

        let net = conv_net();
        let optimizer = Adam::new(1e-2);
        let batch = (random::normal([4, 1, 8, 8], 0.0, 1.0), random::randint([4], 0, 10));
        let loss = |net: &ConvNet, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
        assert_eq!(waits_of_steps(device, || optimizer.step(&net, &batch, loss)), 0, "ConvNet");
        assert_checks(1);

        let net = gpt::plain::Gpt::new(2, 16, 8);
        let optimizer = Adam::new(1e-2);
        let batch = (random::randint([2, 6], 0, 16), random::randint([2, 6], 0, 16));
        let loss = |net: &gpt::plain::Gpt, (x, y): &(Tensor, Tensor)| {
            ops::cross_entropy(net.call(x).reshape([12, 16]), y.reshape([12]))
        };
        assert_eq!(waits_of_steps(device, || optimizer.step(&net, &batch, loss)), 0, "GPT");
        assert_checks(2);
    });
}

/// Training gives the same bits under every schedule, with eager and compiled steps, and with batches that another
/// thread provides.
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
                            let y = x.sum(ops::keepdims(1));
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

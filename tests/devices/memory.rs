//! Tests the memory that compiled functions keep on a device.

use super::*;

#[jit]
fn sum_of_squares(x: &Tensor) -> Tensor {
    let sums = ops::cumsum(x * 2.0, 0);
    (&sums * &sums).sum(())
}

/// A compiled function keeps its arena, so that a run allocates only its results. The device gets the arena back when
/// it has no other memory, and the function allocates it again.
#[test]
fn arenas_are_kept_while_there_is_memory() {
    const BYTES: u64 = 1 << 20;
    let device = sim(3);
    let _alone = alone();
    on(device, || {
        let simulation = SimBackend::simulation(device.id()).expect("it exists");
        let x = Tensor::full([BYTES as usize / 4], 0.0);
        let block = || catch(|| Tensor::full([BYTES as usize / 4], 1.0));
        ms::synchronize().expect("nothing fails");
        let unloaded = simulation.counts();
        assert_eq!(sum_of_squares(&x).item::<f32>(), 0.0);
        ms::synchronize().expect("nothing fails");
        let loaded = simulation.counts();
        assert!(loaded.live_bytes - unloaded.live_bytes >= BYTES, "the arena has the intermediate values");
        assert_eq!(sum_of_squares(&x).item::<f32>(), 0.0);
        assert_eq!(simulation.counts().allocations - loaded.allocations, 1, "the result");

        ms::synchronize().expect("nothing fails");
        simulation.limit_memory(loaded.reserved_bytes + BYTES / 2);
        let other = block();
        ms::synchronize().expect("nothing fails");
        let released = simulation.counts();
        simulation.limit_memory(released.reserved_bytes + BYTES / 2);
        let none = block();
        simulation.limit_memory(0);
        assert_eq!(none.expect_err("no memory is left to release").code(), Code::Memory);
        assert_eq!(other.expect("the arena was released").to_vec::<f32>()[..3], [1.; 3]);
        assert!(released.live_bytes <= unloaded.live_bytes + BYTES, "{released:?}");
        assert_eq!(sum_of_squares(&x).item::<f32>(), 0.0);
    });
}

#[jit]
fn sum_and_bump(slot: &Parameter, x: &Tensor) -> Tensor {
    slot.set(&(slot.value() + 1.0));
    ops::cumsum(x * &slot.value(), 0).sum(())
}

/// Queued runs share an arena under every schedule, also with those of other threads that follow.
#[test]
fn queued_runs_do_not_mix_up_their_values() {
    let device = sim(3);
    let _alone = alone();
    let run = |device: Device| {
        on(device, || {
            let (slot, x) = (Parameter::new(tensor![0., 0., 0.], "slot"), tensor![1., 10., 100.]);
            let sums = |count: usize| (0..count).map(|_| sum_and_bump(&slot, &x)).collect::<Vec<_>>();
            let mut all = sums(5);
            all.extend(std::thread::scope(|scope| {
                scope.spawn(|| on(device, || sums(5))).join().expect("the runs work")
            }));
            all.extend(sums(5));
            all.iter().map(|it| it.item::<f32>()).collect::<Vec<_>>()
        })
    };
    let want = run(Device::CPU);
    for seed in 0..30 {
        SimBackend::set_schedule(device.id(), seed).expect("it exists");
        assert_eq!(run(device), want, "schedule {seed}");
    }
}

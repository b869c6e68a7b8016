//! Tests copies between devices, and transfers through the ring of pinned memory.

use ms_core::tensor::{Array, Device, Memory, MemorySpace, PeerAddress, StagingRing, StreamKind};
use ms_core::{Code, Tensor, exec, ops, tensor};
use ms_sim::{Counts, SimBackend, Simulation};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn sim(id: u16) -> Device {
    format!("sim:{id}").parse().expect("a name")
}

fn simulation(id: u16) -> &'static Simulation {
    SimBackend::simulation(id).expect("it exists")
}

fn memory(device: Device) -> &'static dyn Memory {
    match exec::backend(device).expect("it exists").memory() {
        MemorySpace::Device(memory) => memory,
        MemorySpace::Host => panic!("a simulated device has memory of its own"),
    }
}

/// Locks the devices, as the work of other tests would be counted.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes(array: &Array) -> Vec<u8> {
    array.on_host().expect("nothing fails").to_bytes()
}

/// A copy to a device of the same kind moves no byte to the host and waits for nothing. Any other goes through the
/// host.
#[test]
fn copies_between_devices() {
    /// Copies a view, and checks the number of copies between the devices.
    fn check(name: &str, x: &Tensor, to: Device, peers: u64) {
        let from = simulation(0);
        let target = match to.kind().name() {
            "simops" => SimBackend::simulation_of_ops(to.id()).expect("it exists"),
            _ => simulation(to.id()),
        };
        let x = x.try_array().expect("it is an array");
        let want = bytes(&x);
        let before = [from, target].map(Simulation::counts);
        let there = x.to_space(MemorySpace::Device(memory(to))).expect("there is memory");
        let after = [from, target].map(Simulation::counts);
        let through_host = |it: &[Counts; 2]| (it[0].copies_to_host, it[1].copies_from_host, it[0].waits);
        assert_eq!(through_host(&before) == through_host(&after), peers > 0, "{name}");
        assert_eq!(after[1].copies_from_peers - before[1].copies_from_peers, peers, "{name}");
        assert_eq!((there.device(), there.ty()), (to, x.ty()), "{name}");
        assert_eq!(bytes(&there), want, "{name}");
    }

    let _alone = alone();
    let x = ops::arange(24).reshape([4, 6]).to(sim(0));
    check("dense", &x, sim(1), 1);
    check("computed", &(&x * 3), sim(1), 1);
    check("transposed", &x.transpose(0, 1), sim(1), 1);
    check("rows", &ops::slice(&x, &[1, 0], &[2, 6]), sim(1), 1);
    check("columns", &ops::slice(&x, &[0, 2], &[4, 3]), sim(1), 1);
    check("broadcast", &ops::slice(&x, &[0, 0], &[1, 6]).broadcast_to([5, 6]), sim(1), 1);
    check("a scalar", &x.sum(()), sim(1), 1);
    check("nothing", &ops::slice(&x, &[2, 0], &[0, 6]), sim(1), 1);
    check("one of six columns", &ops::slice(&x, &[0, 0], &[4, 1]), sim(1), 0);
    check("another kind", &x, "simops:0".parse().expect("a name"), 0);
}

/// The copy follows the earlier work of both streams and precedes their later work. Under some schedules, the work of
/// other streams does not.
#[test]
fn copies_between_devices_are_in_stream_order() {
    let _alone = alone();
    let [from, to] = [0, 1].map(|it| memory(sim(it)));
    let [a, other] = [from.lend(StreamKind::Compute), from.lend(StreamKind::Compute)];
    let b = to.lend(StreamKind::Communicate);
    let run = |seed: u64, writer| {
        (0..2).for_each(|it| SimBackend::set_schedule(it, seed).expect("it exists"));
        let source = from.allocate(a, 1).expect("there is memory");
        let target = to.allocate(b, 1).expect("there is memory");
        from.wait(from.fence(a)).expect("nothing fails");
        let mut read = [MaybeUninit::new(0)];
        // SAFETY: both blocks have one byte and are freed once. A device runs one item of work at a time, so accesses
        // that nothing orders do not overlap.
        unsafe {
            from.fill(writer, source.as_ptr(), 1, 7).expect("a fill");
            let peer = PeerAddress { memory: from, stream: a, address: source.as_ptr() };
            assert!(to.copy_from_peer(b, peer, target.as_ptr(), 1).expect("a copy"));
            from.fill(writer, source.as_ptr(), 1, 9).expect("a fill");
            from.order_after(a, from.fence(writer));
            from.free(a, source, 1);
            to.copy_to_host(b, target.as_ptr(), &mut read).expect("nothing fails");
            to.free(b, target, 1);
            from.synchronize(None).expect("nothing fails");
            read[0].assume_init()
        }
    };
    assert!((0..100).all(|seed| run(seed, a) == 7));
    let wrong = (0..100).filter(|&seed| run(seed, other) != 7).count();
    assert!(wrong > 20, "{wrong} of 100 schedules show it");
    [a, other].iter().for_each(|&it| from.give_back(it));
    to.give_back(b);
}

/// A failure reaches the device that copies what failed, is told once, and is then forgotten on both devices.
#[test]
fn failures_reach_other_devices() {
    let _alone = alone();
    for (seed, told_by) in (0..20).zip([0, 1].into_iter().cycle()) {
        (0..2).for_each(|it| SimBackend::set_schedule(it, seed).expect("it exists"));
        let x = tensor![1., 2.].to(sim(0));
        let y = tensor![5., 6.].to(sim(1));
        ms_core::synchronize().expect("nothing fails");
        simulation(0).fail_step(1);
        let failed = &x + &x;
        let there = failed.to(sim(1));
        let behind = &there + &y;
        let reader = if told_by == 0 { &failed } else { &behind };
        let error = reader.try_to_vec::<f32>().expect_err("it depends on it");
        simulation(0).fail_step(0);
        assert!(error.code() == Code::Backend && error.to_string().contains("`add`"), "{error}");
        ms_core::synchronize().expect("it was told");
        for (name, tensor) in [("failed", &failed), ("there", &there), ("behind", &behind)] {
            assert!(tensor.try_to_vec::<f32>().is_err(), "`{name}` has no value");
        }
        assert_eq!(((&x + &x).to_vec::<f32>(), (&y + &y).to_vec::<f32>()), (vec![2., 4.], vec![10., 12.]));
        assert_eq!(x.to(sim(1)).to_vec::<f32>(), [1., 2.]);
    }
}

/// Transfers of any size are exact, and the device has at most one ring of pinned memory. Its bytes are read late, so
/// that a slot that is reused too early shows under some schedule.
#[test]
fn transfers_go_through_a_bounded_ring() {
    let _alone = alone();
    let device = sim(2);
    let part = StagingRing::PART_BYTES;
    let sizes = [0, 1, 63, 4096, part, part + 1, StagingRing::BYTES + 5, 2 * part + 64];
    for seed in 0..5 {
        SimBackend::set_schedule(device.id(), seed).expect("it exists");
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    let array = |(at, &len): (usize, &usize)| {
                        let pattern: Vec<u8> = (0..251u8).map(|it| it ^ (at * 2 + thread) as u8).collect();
                        let bytes = pattern.repeat(len / pattern.len() + 1);
                        Array::from_slice(&[len], &bytes[..len])
                    };
                    let arrays: Vec<Array> =
                        sizes.iter().cycle().skip(4 * thread).take(12).enumerate().map(array).collect();
                    let space = MemorySpace::Device(memory(device));
                    let there: Vec<Array> =
                        arrays.iter().map(|it| it.to_space(space).expect("there is memory")).collect();
                    for (at, (here, there)) in arrays.iter().zip(&there).enumerate() {
                        assert!(bytes(there) == bytes(here), "schedule {seed}, thread {thread}, array {at}");
                    }
                });
            }
        });
    }
    assert_eq!(simulation(2).counts().pinned_bytes, StagingRing::BYTES as u64);
}

/// Small transfers wait for nothing until the ring is full.
#[test]
fn transfers_wait_when_the_ring_is_full() {
    let _alone = alone();
    let device = sim(3);
    ms_core::synchronize().expect("nothing fails");
    let simulation = simulation(3);
    let part = Array::zeros(&[StagingRing::BYTES / 16], ms_core::DType::U8);
    let space = MemorySpace::Device(memory(device));
    // The ring begins again.
    drop(part.to_space(space).expect("there is memory"));
    ms_core::synchronize().expect("nothing fails");
    let before = simulation.counts();
    let waits: Vec<u64> = (0..20)
        .map(|_| {
            drop(part.to_space(space).expect("there is memory"));
            simulation.counts().waits - before.waits
        })
        .collect();
    assert!(waits[..14].iter().all(|&it| it == 0), "{waits:?}");
    assert!(waits[16] > 0, "{waits:?}");
}

/// Whichever call of a transfer fails, no memory is lost, and the transfer works afterwards.
#[test]
fn every_call_of_a_transfer_may_fail() {
    let _alone = alone();
    let array = Array::from_slice(&[2 * StagingRing::PART_BYTES], &vec![7u8; 2 * StagingRing::PART_BYTES]);
    let [first, second] = [0, 1].map(|it| MemorySpace::Device(memory(sim(it))));
    let transfer = || {
        let copy = array.to_space(first)?.to_space(second)?;
        copy.on_host().map(|it| it.to_bytes())
    };
    ms_core::synchronize().expect("nothing fails");
    for id in 0..2 {
        let before = [0, 1].map(|it| simulation(it).counts().live_blocks);
        for nth in 1.. {
            simulation(id).fail_call(nth);
            let result = transfer();
            simulation(id).fail_call(0);
            ms_core::synchronize().expect("what was submitted does not fail");
            assert_eq!([0, 1].map(|it| simulation(it).counts().live_blocks), before, "device {id}, call {nth}");
            match result {
                Err(error) => assert_eq!(error.code(), Code::Backend, "device {id}, call {nth}"),
                Ok(bytes) => {
                    assert!(nth > 3 && bytes == array.on_host().expect("it is there").to_bytes(), "call {nth}");
                    break;
                }
            }
        }
    }
}

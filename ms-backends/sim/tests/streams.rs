//! Tests that work on a simulated device is queued. Nothing runs before a wait, then it runs in any order that the
//! fences allow, and errors are reported by the wait.

use ms_core::tensor::{Device, Memory, MemorySpace, Storage, Stream, StreamKind};
use ms_core::{Code, Result, Tensor, catch, exec, ops, tensor};
use ms_sim::{SimBackend, Simulation};
use std::mem::MaybeUninit;
use std::process::Command;
use std::ptr::NonNull;

fn sim(id: u16) -> Device {
    format!("sim:{id}").parse().expect("a name")
}

/// Returns the memory of a device that only the calling test uses, and its counters.
fn device(id: u16) -> (&'static dyn Memory, &'static Simulation) {
    let MemorySpace::Device(memory) = exec::backend(sim(id)).expect("it exists").memory() else {
        panic!("a simulated device has memory of its own")
    };
    (memory, SimBackend::simulation(id).expect("it exists"))
}

/// Locks the devices, as the work of other tests would be counted.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Blocks of one byte each. Tests queue their work on streams directly.
struct Bytes(&'static dyn Memory, Vec<NonNull<u8>>);

impl Bytes {
    /// Allocates blocks that all streams may use.
    fn new(memory: &'static dyn Memory, count: usize) -> Self {
        let stream = memory.lend(StreamKind::Compute);
        let bytes = Self(memory, (0..count).map(|_| memory.allocate(stream, 1).expect("there is memory")).collect());
        memory.wait(memory.fence(stream)).expect("nothing fails");
        memory.give_back(stream);
        bytes
    }

    fn fill(&self, stream: Stream, at: usize, value: u8) {
        // SAFETY: each block has one byte. The tests are about the order of accesses, which the queue runs one at a
        // time.
        unsafe { self.0.fill(stream, self.1[at].as_ptr(), 1, value) }.expect("no call fails");
    }

    fn copy(&self, stream: Stream, from: usize, to: usize) {
        // SAFETY: both blocks have one byte, and they are different blocks.
        unsafe { self.0.copy(stream, self.1[from].as_ptr(), self.1[to].as_ptr(), 1) }.expect("no call fails");
    }

    fn read(&self, stream: Stream, at: usize) -> Result<u8> {
        let mut out = [MaybeUninit::new(0)];
        // SAFETY: the block has one byte, like `out`.
        unsafe { self.0.copy_to_host(stream, self.1[at].as_ptr(), &mut out)? };
        // SAFETY: `out` was initialised before the copy.
        Ok(unsafe { out[0].assume_init() })
    }

    fn free(self, stream: Stream) {
        // SAFETY: each block is freed once, and no later work uses it.
        self.1.iter().for_each(|it| unsafe { self.0.free(stream, *it, 1) });
    }
}

#[test]
fn nothing_runs_before_a_wait() {
    let _alone = alone();
    let (_, simulation) = device(0);
    let before = simulation.counts();
    let x = tensor![1., 2., 3.].to(sim(0));
    let sum = &x + &x;
    let all = ops::cumsum(&sum, 0);
    drop((x, sum));
    let queued = simulation.counts();
    assert_eq!((queued.steps, queued.waits), (before.steps, before.waits));
    assert_eq!(queued.runs - before.runs, 2);
    assert_eq!(queued.live_blocks - before.live_blocks, 1, "what is dropped is given up");
    assert_eq!(all.to_vec::<f32>(), [2., 6., 12.]);
    let read = simulation.counts();
    assert_eq!((read.steps - before.steps, read.waits - before.waits), (4, 1));
    // The source of a copy is read at once.
    let mut source = vec![1f32, 2.];
    let there = Tensor::from_slice([2], &source).to(sim(0));
    source.fill(9.0);
    assert_eq!(there.to_vec::<f32>(), [1., 2.]);
}

/// A stream writes what another stream reads. With the wait every schedule gives the right result, and without it some
/// do not.
#[test]
fn a_missing_wait_is_found() {
    let _alone = alone();
    let (memory, _) = device(1);
    let [writer, reader] = [StreamKind::Compute, StreamKind::Copy].map(|it| memory.lend(it));
    let run = |seed: u64, waits: bool| {
        SimBackend::set_schedule(1, seed).expect("it exists");
        let bytes = Bytes::new(memory, 2);
        bytes.fill(writer, 0, 7);
        if waits {
            memory.depend_on(reader, memory.fence(writer));
        }
        bytes.copy(reader, 0, 1);
        let got = bytes.read(reader, 1).expect("nothing fails");
        memory.order_after(writer, memory.fence(reader));
        bytes.free(writer);
        memory.synchronize(None).expect("nothing fails");
        got
    };
    assert!((0..100).all(|seed| run(seed, true) == 7));
    let wrong = (0..100).filter(|&seed| run(seed, false) != 7).count();
    assert!(wrong > 20, "{wrong} of 100 schedules show it");
    let repeated: Vec<Vec<u8>> = (0..2).map(|_| (0..100).map(|seed| run(seed, false)).collect()).collect();
    assert_eq!(repeated[0], repeated[1], "a seed repeats its schedule");
    [writer, reader].iter().for_each(|&it| memory.give_back(it));
}

/// A failure propagates to later work on its stream, and to streams that depend on it, until a wait has reported it.
#[test]
fn failures_spread_until_they_are_reported() {
    let _alone = alone();
    let (memory, simulation) = device(1);
    let [a, b, apart] = [StreamKind::Compute; 3].map(|it| memory.lend(it));
    let mut ran = [0; 2];
    for seed in 0..40 {
        SimBackend::set_schedule(1, seed).expect("it exists");
        let bytes = Bytes::new(memory, 5);
        (0..5).for_each(|at| bytes.fill(a, at, 1));
        memory.wait(memory.fence(a)).expect("nothing fails");
        simulation.fail_step(1);
        bytes.fill(a, 0, 2);
        let failed = memory.fence(a);
        bytes.fill(a, 1, 2);
        memory.depend_on(b, memory.fence(a));
        bytes.fill(b, 2, 2);
        memory.order_after(apart, memory.fence(a));
        bytes.fill(apart, 3, 2);
        // Where the failure does not reach, nothing is reported, and nothing is restored.
        assert_eq!(bytes.read(apart, 3).expect("it does not depend on it"), 2);
        assert_eq!(memory.check(failed).ok(), Some(()), "no wait has told yet");
        let reported = bytes.read(b, 2).expect_err("it depends on it");
        assert_eq!(reported.code(), Code::Backend);
        // From then on everything works, and steps without results are known. Steps behind the failure have run or not.
        assert!(memory.check(failed).is_err());
        assert_eq!(bytes.read(apart, 3).expect("it was told"), 2);
        for at in 1..3 {
            ran[at - 1] += u32::from(bytes.read(a, at).expect("it was told") == 2);
        }
        memory.synchronize(None).expect("it was told");
        simulation.fail_step(0);
        bytes.free(a);
    }
    assert!(ran.iter().all(|it| (5..35).contains(it)), "{ran:?} of 40 ran");
    [a, b, apart].iter().for_each(|&it| memory.give_back(it));
}

/// All protected values are restored together, in any order, if any work before them fails.
#[test]
fn values_are_restored() {
    use ms_core::tensor::Restored;
    let _alone = alone();
    let (memory, simulation) = device(1);
    let stream = memory.lend(StreamKind::Compute);
    for fails in [false, true] {
        let bytes = Bytes::new(memory, 3);
        (0..3).for_each(|at| bytes.fill(stream, at, at as u8));
        memory.wait(memory.fence(stream)).expect("nothing fails");
        simulation.fail_step(u64::from(fails));
        // The new value 1 shares the memory of the old value 0, and the new value 0 that of the old value 2.
        bytes.fill(stream, 2, 20);
        // Work that writes over an old value is guarded.
        if !fails {
            bytes.fill(stream, 0, 10);
        }
        let restored =
            |old: usize, new: usize| Restored { old: bytes.1[old].as_ptr(), new: bytes.1[new].as_ptr(), bytes: 1 };
        // SAFETY: the blocks have one byte each, and no other work uses them.
        unsafe { memory.restore(stream, &[restored(0, 2), restored(1, 0)]) };
        let kept = memory.fence(stream);
        if fails {
            assert!(memory.wait(kept).is_err());
        }
        assert_eq!(memory.check(kept).ok(), Some(()), "there is a value in any case");
        let want = if fails { [1, 1, 0] } else { [10, 1, 20] };
        assert_eq!([0, 1, 2].map(|at| bytes.read(stream, at).expect("it was told")), want);
        simulation.fail_step(0);
        bytes.free(stream);
    }
    memory.give_back(stream);
}

/// The error of an op that fails when it is executed names the op, its operands and its line, wherever the wait is.
#[test]
fn errors_that_come_later_are_those_of_the_op() {
    let _alone = alone();
    let (_, simulation) = device(2);
    let before = simulation.counts();
    let x = tensor![1., 2., 3.].to(sim(2));
    let good = &x * 2.0;
    let scattered = ops::scatter(&x, tensor![7i64].to(sim(2)), tensor![0.0].to(sim(2)), 0);
    let line = line!() - 1;
    let behind = &scattered + &x;
    let reported = |tensor: &Tensor| tensor.try_to_vec::<f32>().expect_err("it depends on what failed");
    assert_eq!(good.to_vec::<f32>(), [2., 4., 6.], "it came before");
    let error = reported(&behind);
    let said = error.to_string();
    assert_eq!(error.code(), Code::OutOfRange, "{said}");
    for part in ["`scatter`", "f32[3]", &format!("{}:{line}:", file!())] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    // The error was reported, but results without a value still give an error.
    assert_eq!((&x + &x).to_vec::<f32>(), [2., 4., 6.]);
    assert_eq!(reported(&scattered).code(), Code::OutOfRange);
    assert_eq!(catch(|| &behind * 2.0).expect_err("there is nothing to read").code(), Code::OutOfRange);
    ms_core::synchronize().expect("it was told");
    drop((x, good, scattered, behind));
    assert_eq!(simulation.counts().live_blocks, before.live_blocks);
    // A wait for all streams reports errors, too.
    let x = tensor![1., 2.].to(sim(2));
    simulation.fail_step(2);
    let _sum = &x + &x;
    let error = ms_core::synchronize().expect_err("a step fails");
    assert!(error.to_string().contains("`add`") && error.code() == Code::Backend, "{error}");
    simulation.fail_step(0);
}

/// Every thread has separate streams. Other threads may use and drop what a thread has computed.
#[test]
fn threads_use_what_others_made() {
    let _alone = alone();
    for seed in 0..50 {
        SimBackend::set_schedule(3, seed).expect("it exists");
        let x = tensor![1., 2., 3.].to(sim(3));
        let doubled: Vec<Tensor> = std::thread::scope(|scope| {
            let started = [2.0, 3.0, 4.0].map(|by| {
                let x = x.clone();
                scope.spawn(move || &(&x + &x) * by)
            });
            started.into_iter().map(|it| it.join().expect("it works")).collect()
        });
        let sum = doubled.iter().fold(x * 0.0, |sum, it| sum + it);
        drop(doubled);
        assert_eq!(sum.to_vec::<f32>(), [18., 36., 54.], "schedule {seed}");
    }
}

/// Freed memory is available when its work has ended, at the latest when it is needed.
#[test]
fn memory_that_is_given_up_is_used_again() {
    let _alone = alone();
    let (memory, simulation) = device(3);
    let before = simulation.counts();
    for _ in 0..20 {
        let space = MemorySpace::Device(memory);
        drop(Storage::uninit_in(space, 1 << 30).expect("there is room for it"));
    }
    assert_eq!(simulation.counts().live_bytes, before.live_bytes);
    let steps = simulation.counts().steps;
    let mut x = tensor![1.].to(sim(3));
    for _ in 0..5000 {
        x = &x + 1.0;
    }
    assert!(simulation.counts().steps > steps + 3000, "a long queue is run meanwhile");
    assert_eq!(x.item::<f32>(), 5001.0);
}

/// Queued steps on one stream reuse the memory of earlier ones, without a wait: they reserve that of one step.
#[test]
fn freed_memory_is_reused_in_stream_order() {
    let _alone = alone();
    let (memory, simulation) = device(3);
    ms_core::synchronize().expect("nothing fails");
    let (stream, other) = (memory.lend(StreamKind::Compute), memory.lend(StreamKind::Compute));
    let before = simulation.counts();
    let out = Bytes::new(memory, 10);
    let kept = simulation.counts().reserved_bytes;
    let waits = simulation.counts().waits;
    for (at, sizes) in [[1000usize, 3000], [3000, 1000], [4000, 1]].into_iter().cycle().take(10).enumerate() {
        let blocks = sizes.map(|it| (memory.allocate(stream, it).expect("there is memory"), it));
        for (block, bytes) in blocks {
            // SAFETY: the block has `bytes` bytes, at least one, and was allocated for this stream.
            unsafe {
                memory.fill(stream, block.as_ptr(), bytes, at as u8).expect("a fill");
                memory.copy(stream, block.as_ptr(), out.1[at].as_ptr(), 1).expect("a copy");
            }
        }
        // SAFETY: each block is freed once, with its size, and later work does not use it.
        blocks.iter().for_each(|it| unsafe { memory.free(stream, it.0, it.1) });
        // The first two blocks fill a range of 1024 and one of 3008 bytes, which are then joined.
        assert_eq!(simulation.counts().reserved_bytes - kept, if at < 2 { 4032 } else { 4096 }, "step {at}");
    }
    // Other streams do not use this memory before the work has ended.
    let block = memory.allocate(other, 1000).expect("there is memory");
    assert_eq!(simulation.counts().reserved_bytes - kept, 4096 + 1024);
    // SAFETY: the block is freed once, with its size.
    unsafe { memory.free(other, block, 1000) };
    assert_eq!(simulation.counts().waits, waits, "nothing is waited for");
    assert_eq!([0, 5, 9].map(|at| out.read(stream, at).expect("nothing fails")), [0, 5, 9]);
    out.free(stream);
    memory.synchronize(None).expect("nothing fails");
    assert_eq!(simulation.counts().reserved_bytes, before.reserved_bytes);
    [stream, other].iter().for_each(|&it| memory.give_back(it));
}

/// A block may be used on a stream that did not allocate it, after the fence of the allocation. Without the fence,
/// some schedules mix up earlier uses of the memory.
#[test]
fn a_use_before_the_allocation_is_found() {
    let _alone = alone();
    let (memory, _) = device(1);
    let [first, second] = [StreamKind::Compute, StreamKind::Compute].map(|it| memory.lend(it));
    let run = |seed: u64, awaits: bool| {
        SimBackend::set_schedule(1, seed).expect("it exists");
        let (out, source) = (Bytes::new(memory, 1), Bytes::new(memory, 1));
        source.fill(second, 0, 7);
        memory.wait(memory.fence(second)).expect("nothing fails");
        let old = memory.allocate(first, 1).expect("there is memory");
        // SAFETY: the block has one byte, and is freed once.
        unsafe {
            memory.fill(first, old.as_ptr(), 1, 3).expect("a fill");
            memory.free(first, old, 1);
        }
        let new = memory.allocate(first, 1).expect("there is memory");
        assert_eq!(new, old, "it is reused at once");
        if awaits {
            memory.order_after(second, memory.fence(first));
        }
        // SAFETY: the block has one byte. The queue runs one item of work at a time, so accesses that nothing orders
        // do not overlap.
        unsafe {
            memory.copy(second, source.1[0].as_ptr(), new.as_ptr(), 1).expect("a copy");
            memory.order_after(first, memory.fence(second));
            memory.copy(first, new.as_ptr(), out.1[0].as_ptr(), 1).expect("a copy");
            memory.free(first, new, 1);
        }
        let got = out.read(first, 0).expect("nothing fails");
        source.free(first);
        out.free(first);
        memory.synchronize(None).expect("nothing fails");
        got
    };
    assert!((0..100).all(|seed| run(seed, true) == 7));
    let found: Vec<u8> = (0..100).map(|seed| run(seed, false)).filter(|&it| it != 7).collect();
    assert!(found.len() > 20 && found.iter().all(|&it| it == 0xff), "{found:?}");
    [first, second].iter().for_each(|&it| memory.give_back(it));
}

/// Storage awaits its allocation wherever it is first used: another stream sees no earlier use of its memory.
#[test]
fn storage_begins_with_the_fence_of_its_allocation() {
    let _alone = alone();
    let (memory, _) = device(1);
    let other = memory.lend(StreamKind::Compute);
    let run = |seed: u64, awaits: bool| {
        SimBackend::set_schedule(1, seed).expect("it exists");
        let out = Bytes::new(memory, 1);
        let storage = Storage::uninit_in(MemorySpace::Device(memory), 1).expect("there is memory");
        if awaits {
            storage.await_unused(other);
        }
        // SAFETY: both blocks have one byte. The queue runs one item of work at a time.
        unsafe {
            memory.fill(other, storage.device_ptr(), 1, 5).expect("a fill");
            ms_core::tensor::with_stream(memory, StreamKind::Compute, |own| {
                memory.order_after(own, memory.fence(other));
                memory.copy(own, storage.device_ptr(), out.1[0].as_ptr(), 1).expect("a copy");
                storage.written_by(memory.fence(own));
                let got = out.read(own, 0).expect("nothing fails");
                out.free(own);
                got
            })
        }
    };
    assert!((0..50).all(|seed| run(seed, true) == 5));
    assert!((0..50).any(|seed| run(seed, false) == 0xff));
    memory.give_back(other);
}

/// Returns what a child process prints on standard error.
fn child(name: &str, variables: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("a test has a path");
    let mut command = Command::new(program);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env("MS_TEST_STREAMS_CHILD", "1");
    command.envs(variables.iter().copied());
    let output = command.output().expect("a test runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).expect("text")
}

fn is_child() -> bool {
    std::env::var_os("MS_TEST_STREAMS_CHILD").is_some()
}

fn refused(there: Device) -> Tensor {
    ops::scatter(tensor![1.].to(there), tensor![7i64].to(there), tensor![0.0].to(there), 0)
}

#[test]
fn errors_that_nobody_fetched_are_warned_of_at_exit() {
    if is_child() {
        let _forgotten = refused(sim(0));
        return;
    }
    let said = child("errors_that_nobody_fetched_are_warned_of_at_exit", &[]);
    for part in ["warning[MS102]", "`scatter`", "streams.rs", "for which nobody waited"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

#[test]
fn every_step_is_waited_for_on_demand() {
    if is_child() {
        let error = catch(|| refused(sim(0))).expect_err("it comes at once");
        assert_eq!(error.code(), Code::OutOfRange);
        return;
    }
    let said = child("every_step_is_waited_for_on_demand", &[("MS_DEVICE_SYNC", "1")]);
    assert!(!said.contains("warning"), "{said}");
}

//! Tests forks and joins of steps.

use super::*;
use ms_ir::data::{Device, DeviceKind};
use ms_ir::error::Code;

/// Returns the memory of one more device.
fn memory(id: u16) -> &'static SimMemory {
    let device = Device::new(DeviceKind::named("forks"), id);
    Box::leak(Box::new(SimMemory::new(device).expect("the system has addresses")))
}

/// Eight-byte numbers, and a driver for the device of the tests.
struct Numbers {
    driver: SimDriver,
    all: Vec<Storage>,
}

impl Numbers {
    fn new(memory: &'static SimMemory, count: usize) -> Self {
        let number = |_| Storage::uninit_in(MemorySpace::Device(memory), 8).expect("there is memory");
        Self { driver: SimDriver::of_executable(memory), all: (0..count).map(number).collect() }
    }

    fn at(&self, number: usize) -> u64 {
        self.all[number].device_ptr() as u64
    }

    fn set(&self, commands: &mut Commands, to: usize, value: u64) {
        // SAFETY: the number has eight bytes. The device runs one item of work at a time.
        unsafe { self.driver.set_number(commands, self.at(to), value) }.expect("no call fails");
    }

    fn copy(&self, commands: &mut Commands, from: usize, to: usize) {
        // SAFETY: both numbers have eight bytes. The device runs one item of work at a time.
        unsafe { self.driver.copy(commands, self.at(from), self.at(to), 8) }.expect("no call fails");
    }

    fn read(&self, number: usize) -> Result<u64> {
        let mut out = [0];
        // SAFETY: the number was written, and nothing writes it meanwhile.
        unsafe { self.driver.numbers(&mut Commands::default(), &[self.at(number)], &mut out)? };
        Ok(out[0])
    }

    /// Forks a copy between two numbers.
    fn fork(&self, commands: &mut Commands, fork: u32, from: usize, to: usize) {
        let mut body = self.driver.body(commands);
        self.copy(&mut body, from, to);
        // SAFETY: the numbers are live until the submission ends.
        unsafe { self.driver.fork(commands, fork, StreamKind::Communicate, body) }.expect("no call fails");
    }

    fn submit(&self, mut commands: Commands) {
        self.driver.submit(&mut commands).expect("no call fails");
    }
}

/// A fork sees the steps before it, and a join the steps of the fork. Under some schedules, steps that nothing joins
/// do not see them.
#[test]
fn forks_and_joins_order_steps() {
    let memory = memory(0);
    let numbers = Numbers::new(memory, 4);
    let run = |seed: u64, joins: bool| {
        memory.set_seed(seed);
        let mut commands = Commands::default();
        (0..4).for_each(|it| numbers.set(&mut commands, it, 0));
        numbers.set(&mut commands, 0, 7);
        numbers.fork(&mut commands, 0, 0, 1);
        numbers.set(&mut commands, 3, 5);
        numbers.fork(&mut commands, 1, 3, 2);
        if joins {
            numbers.driver.join(&mut commands, 0).expect("no call fails");
        }
        numbers.copy(&mut commands, 1, 3);
        // Nothing joins the second fork before the end of the submission.
        numbers.submit(commands);
        [3, 1, 2].map(|it| numbers.read(it).expect("nothing fails"))
    };
    // The second fork reads number 3 before or after the last step writes it.
    for seed in 0..100 {
        let [copied, forked, other] = run(seed, true);
        assert!((copied, forked) == (7, 7) && [5, 7].contains(&other), "schedule {seed}");
    }
    let wrong = (0..100).filter(|&seed| run(seed, false)[0] != 7).count();
    assert!(wrong > 20, "{wrong} of 100 schedules show a missing join");
    assert!((0..100).all(|seed| run(seed, false)[1] == 7), "a submission ends after its forks");
}

/// A failure of a fork reaches what joins it.
#[test]
fn failures_of_forks_reach_the_join() {
    let memory = memory(1);
    for nth in 1..=4 {
        let numbers = Numbers::new(memory, 3);
        let mut first = Commands::default();
        (0..3).for_each(|it| numbers.set(&mut first, it, 0));
        numbers.submit(first);
        assert_eq!(numbers.read(2).expect("nothing fails"), 0);
        // A piece before the fork, the fork, one beside it, and one behind the join.
        memory.simulation.fail_step(nth);
        let guarded = numbers.at(2)..numbers.at(2) + 8;
        let mut commands = Commands::default();
        numbers.driver.begin(&mut commands, &[guarded]);
        numbers.set(&mut commands, 0, 1);
        numbers.fork(&mut commands, 0, 0, 1);
        numbers.set(&mut commands, 0, 1);
        numbers.driver.join(&mut commands, 0).expect("no call fails");
        numbers.set(&mut commands, 2, 9);
        numbers.submit(commands);
        let error = numbers.read(2).expect_err("a step fails");
        assert_eq!(error.code(), Code::Backend, "step {nth}");
        memory.simulation.fail_step(0);
        assert_eq!(numbers.read(2).expect("it was told"), 0, "step {nth}");
        let own = |stream: Stream| memory.wait(memory.fence(stream));
        with_stream(memory, StreamKind::Communicate, own).expect("it was told");
    }
}

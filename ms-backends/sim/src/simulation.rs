//! What a test observes and decides about a simulated device.

use ms_core::error::{Code, Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a simulated device, and the failures that it is to have: see
/// [`SimBackend::simulation`](crate::SimBackend::simulation).
#[derive(Default)]
pub struct Simulation {
    calls: AtomicU64,
    /// The number of the call that fails; zero for none.
    failing: AtomicU64,
    steps: AtomicU64,
    /// The number of the step that fails; zero for none.
    failing_step: AtomicU64,
    waits: AtomicU64,
    from_host: AtomicU64,
    to_host: AtomicU64,
    runs: AtomicU64,
    live_bytes: AtomicU64,
    live_blocks: AtomicU64,
    peak_bytes: AtomicU64,
}

/// What a simulated device did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Calls that may fail: allocations, transfers, fills, each step that is issued, also of plans, each submission.
    pub calls: u64,
    /// Copies of bytes of the host to the device.
    pub copies_from_host: u64,
    /// Copies of bytes of the device to the host, for which the host waits.
    pub copies_to_host: u64,
    /// What the device was given to run: ops, and plans, or their parts between one wait and the next.
    pub runs: u64,
    /// Steps of streams that were run: transfers, fills, and what [`runs`](Self::runs) counts. The work behind a
    /// failure is not run.
    pub steps: u64,
    /// Waits of the host for the device.
    pub waits: u64,
    /// Bytes that are allocated, and not given up. A block is free when the work before that has ended.
    pub live_bytes: u64,
    /// Blocks that are allocated.
    pub live_blocks: u64,
    /// The most live bytes since [`Simulation::reset_peak`].
    pub peak_bytes: u64,
}

impl Simulation {
    /// What the device did so far.
    pub fn counts(&self) -> Counts {
        let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
        Counts {
            calls: read(&self.calls),
            copies_from_host: read(&self.from_host),
            copies_to_host: read(&self.to_host),
            runs: read(&self.runs),
            steps: read(&self.steps),
            waits: read(&self.waits),
            live_bytes: read(&self.live_bytes),
            live_blocks: read(&self.live_blocks),
            peak_bytes: read(&self.peak_bytes),
        }
    }

    /// Counts the peak from here on.
    pub fn reset_peak(&self) {
        self.peak_bytes.store(self.live_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Makes the `nth` of the next calls that may fail, counted from 1, fail with [`Code::Backend`]; 0
    /// for none.
    pub fn fail_call(&self, nth: u64) {
        let failing = if nth == 0 { 0 } else { self.calls.load(Ordering::Relaxed) + nth };
        self.failing.store(failing, Ordering::Relaxed);
    }

    /// Makes the `nth` of the next steps of streams, counted from 1, fail with [`Code::Backend`] when it is run; 0 for
    /// none.
    pub fn fail_step(&self, nth: u64) {
        let failing = if nth == 0 { 0 } else { self.steps.load(Ordering::Relaxed) + nth };
        self.failing_step.store(failing, Ordering::Relaxed);
    }

    /// Counts a step that is run.
    ///
    /// # Errors
    /// [`Code::Backend`] for the step that is to fail.
    pub(crate) fn step(&self) -> Result<()> {
        let number = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.failing_step.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Backend, "the simulated device fails later, as a test demands"));
        }
        Ok(())
    }

    pub(crate) fn waited(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that may fail.
    ///
    /// # Errors
    /// [`Code::Backend`] for the call that is to fail.
    pub(crate) fn call(&self) -> Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.failing.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Backend, "the simulated device fails, as a test demands"));
        }
        Ok(())
    }

    pub(crate) fn ran(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn copied_from_host(&self) {
        self.from_host.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn copied_to_host(&self) {
        self.to_host.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn allocated(&self, bytes: usize) {
        self.live_blocks.fetch_add(1, Ordering::Relaxed);
        let live = self.live_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.peak_bytes.fetch_max(live, Ordering::Relaxed);
    }

    pub(crate) fn freed(&self, bytes: usize) {
        self.live_blocks.fetch_sub(1, Ordering::Relaxed);
        self.live_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

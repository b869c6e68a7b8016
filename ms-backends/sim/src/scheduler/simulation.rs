//! Lets tests observe a simulated device and inject failures.

use ms_ir::error::{Code, Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a simulated device, and the failures to inject: see
/// [`SimBackend::simulation`](crate::SimBackend::simulation) for those of this crate.
#[derive(Default)]
pub struct Simulation {
    calls: AtomicU64,
    /// The number of the call that fails. Zero for none.
    failing: AtomicU64,
    steps: AtomicU64,
    /// The number of the step that fails. Zero for none.
    failing_step: AtomicU64,
    waits: AtomicU64,
    from_host: AtomicU64,
    to_host: AtomicU64,
    from_peers: AtomicU64,
    pinned_bytes: AtomicU64,
    runs: AtomicU64,
    replays: AtomicU64,
    allocations: AtomicU64,
    /// The limit of reserved bytes. Zero for none.
    limit: AtomicU64,
    live_bytes: AtomicU64,
    live_blocks: AtomicU64,
    reserved_bytes: AtomicU64,
    peak_bytes: AtomicU64,
}

/// The activity of a simulated device so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// The number of calls that may fail: allocations, copies, fills, submissions, and each issued step, including
    /// the steps of plans.
    pub calls: u64,
    /// The number of copies from the host to the device. Long transfers consist of several.
    pub copies_from_host: u64,
    /// The number of copies from the device to the host, for which the host waits. Long transfers consist of several.
    pub copies_to_host: u64,
    /// The number of copies from other devices.
    pub copies_from_peers: u64,
    /// The number of bytes of pinned host memory.
    pub pinned_bytes: u64,
    /// The number of pieces of work that the device received: ops, and plans or their parts between one wait and the
    /// next.
    pub runs: u64,
    /// The number of submissions of plans that replayed captured steps: an earlier run of the executable issued the
    /// same steps on the same addresses.
    pub replays: u64,
    /// The number of executed steps of streams: transfers, fills, and the pieces that [`runs`](Self::runs) counts. Work
    /// behind a failure does not count, whether or not it runs.
    pub steps: u64,
    /// The number of times that the host waited for the device.
    pub waits: u64,
    /// The number of allocations.
    pub allocations: u64,
    /// The number of bytes that are allocated and not yet passed to `free`.
    pub live_bytes: u64,
    /// The number of allocated blocks.
    pub live_blocks: u64,
    /// The number of bytes that are not available to all streams, in multiples of 64 for each block. A freed block is
    /// available to its stream at once, and to others when the work before it has ended.
    pub reserved_bytes: u64,
    /// The largest number of live bytes since [`Simulation::reset_peak`].
    pub peak_bytes: u64,
}

impl Simulation {
    /// Returns the activity of the device so far.
    pub fn counts(&self) -> Counts {
        let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
        Counts {
            calls: read(&self.calls),
            copies_from_host: read(&self.from_host),
            copies_to_host: read(&self.to_host),
            copies_from_peers: read(&self.from_peers),
            pinned_bytes: read(&self.pinned_bytes),
            runs: read(&self.runs),
            replays: read(&self.replays),
            steps: read(&self.steps),
            waits: read(&self.waits),
            allocations: read(&self.allocations),
            live_bytes: read(&self.live_bytes),
            live_blocks: read(&self.live_blocks),
            reserved_bytes: read(&self.reserved_bytes),
            peak_bytes: read(&self.peak_bytes),
        }
    }

    /// Restarts the measurement of the peak.
    pub fn reset_peak(&self) {
        self.peak_bytes.store(self.live_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Makes allocations fail with [`Code::Memory`] that would reserve more than `bytes` bytes. 0 removes the limit.
    pub fn limit_memory(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the limit of reserved bytes.
    pub fn limit(&self) -> usize {
        match self.limit.load(Ordering::Relaxed) {
            0 => usize::MAX,
            limit => limit as usize,
        }
    }

    /// Makes the `nth` of the next calls that may fail, counted from 1, fail with [`Code::Backend`]. 0 disables the
    /// failure.
    pub fn fail_call(&self, nth: u64) {
        let failing = if nth == 0 { 0 } else { self.calls.load(Ordering::Relaxed) + nth };
        self.failing.store(failing, Ordering::Relaxed);
    }

    /// Makes the `nth` of the next steps of streams, counted from 1, fail with [`Code::Backend`] when it is executed. 0
    /// disables the failure.
    pub fn fail_step(&self, nth: u64) {
        let failing = if nth == 0 { 0 } else { self.steps.load(Ordering::Relaxed) + nth };
        self.failing_step.store(failing, Ordering::Relaxed);
    }

    /// Counts an executed step.
    ///
    /// # Errors
    /// [`Code::Backend`] for the step that was chosen to fail.
    pub fn step(&self) -> Result<()> {
        let number = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.failing_step.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Backend, "the simulated device fails later, as a test demands"));
        }
        Ok(())
    }

    /// Counts a wait of the host.
    pub fn waited(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that may fail.
    ///
    /// # Errors
    /// [`Code::Backend`] for the call that was chosen to fail.
    pub fn call(&self) -> Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.failing.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Backend, "the simulated device fails, as a test demands"));
        }
        Ok(())
    }

    /// Counts a piece of work that the device receives.
    pub fn ran(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a submission that replays captured steps.
    pub fn replayed(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a copy from the host.
    pub fn copied_from_host(&self) {
        self.from_host.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a copy to the host.
    pub fn copied_to_host(&self) {
        self.to_host.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a copy from a device of the same kind.
    pub fn copied_from_peer(&self) {
        self.from_peers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts pinned host memory.
    pub fn pinned(&self, bytes: usize) {
        self.pinned_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts an allocated block.
    pub fn allocated(&self, bytes: usize) {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.live_blocks.fetch_add(1, Ordering::Relaxed);
        let live = self.live_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.peak_bytes.fetch_max(live, Ordering::Relaxed);
    }

    /// Sets the number of reserved bytes.
    pub fn reserved(&self, bytes: usize) {
        self.reserved_bytes.store(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a freed block.
    pub fn freed(&self, bytes: usize) {
        self.live_blocks.fetch_sub(1, Ordering::Relaxed);
        self.live_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

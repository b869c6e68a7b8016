//! Implements the streams of a simulated device, and the scheduler that runs their work.

use super::simulation::Simulation;
use ms_ir::data::{Fence, Origin, Stream, StreamKind};
use ms_ir::error::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The limit of queued work. Beyond it the device runs some, as a real one would in the meantime.
const MAX_WORK: usize = 1024;

/// The number of failed steps that each stream remembers.
const MAX_FAILURES: usize = 4096;

/// A generator of random numbers, SplitMix64.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns either value.
    pub fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Returns a generator of other numbers.
    fn split(&self) -> Self {
        Self(self.clone().next())
    }
}

/// A step of a stream. The first argument is whether it is behind a failure. Then it has no result, and the generator
/// decides which of its unguarded parts run.
type Step = Box<dyn FnOnce(bool, &mut Random) -> Result<()> + Send>;

/// An item of work of a stream.
pub enum Work {
    /// A step that may fail.
    Step(Step),
    /// Frees memory, even after a failure.
    Free(Box<dyn FnOnce() + Send>),
    /// Marks allocated memory as uninitialised, even after a failure.
    Mark(Box<dyn FnOnce() + Send>),
    /// Restores values after a failure, and does nothing otherwise.
    Restore(Box<dyn FnOnce() + Send>),
    /// Awaits work of another stream.
    Await {
        /// The fence of the work.
        fence: Fence,
        /// Whether the stream reads results of the work, so that failures propagate.
        depends: bool,
    },
    /// Awaits work of another device.
    AwaitPeer {
        /// The queue of this work.
        own: Peer,
        /// The queue of the other device.
        peer: Peer,
        /// The fence of the other device's work.
        fence: Fence,
        /// Whether the stream reads results of the work, so that failures propagate.
        depends: bool,
    },
}

/// The queue of a device, for the work of another device.
#[derive(Clone)]
pub struct Peer {
    /// The queue.
    pub queue: Arc<Queue>,
    /// The counters and failures of the device.
    pub simulation: Arc<Simulation>,
}

/// An item of work in the queue of a stream.
struct Queued {
    work: Work,
    origin: Option<Arc<dyn Origin>>,
}

/// The error of a step, shared by all steps that have no results because of it.
struct Failure {
    error: Error,
    /// Whether a wait has returned the error.
    is_reported: AtomicBool,
    /// The devices on which it set error words, if there are several.
    spread: Mutex<Vec<Peer>>,
}

impl Failure {
    fn spread(&self) -> MutexGuard<'_, Vec<Peer>> {
        self.spread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A range of a stream's steps, by number, during which its error word was set.
struct Period {
    first: u64,
    /// The last step of the range. `None` while the word is set.
    last: Option<u64>,
    failure: Arc<Failure>,
}

struct StreamState {
    kind: StreamKind,
    is_lent: bool,
    /// The origin of the next work, for error messages.
    origin: Option<Arc<dyn Origin>>,
    work: VecDeque<Queued>,
    /// The numbers of the last item that was queued, and of the last one that has ended.
    put: u64,
    ended: u64,
    /// The number of the last queued item that does more than free memory.
    last: u64,
    /// The periods during which the error word was set. It is set now if the last period has no end.
    periods: Vec<Period>,
    /// The failures of steps that have no results.
    failures: BTreeMap<u64, Arc<Failure>>,
}

impl StreamState {
    fn new(kind: StreamKind) -> Self {
        let (work, failures, periods) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        Self { kind, is_lent: true, origin: None, work, put: 0, ended: 0, last: 0, periods, failures }
    }

    /// Returns the error word.
    fn word(&self) -> Option<&Arc<Failure>> {
        self.periods.last().filter(|it| it.last.is_none()).map(|it| &it.failure)
    }

    /// Sets the error word from a step on, unless it is already set.
    fn set_word(&mut self, first: u64, failure: Arc<Failure>) {
        if self.word().is_none() {
            self.periods.push(Period { first, last: None, failure });
        }
    }

    /// Returns the error word as of the end of a step, unless a wait has returned its error.
    fn word_at(&self, serial: u64) -> Option<&Arc<Failure>> {
        let covers = |it: &&Period| it.first <= serial && it.last.is_none_or(|last| serial <= last);
        let covering = self.periods.iter().find(covers).map(|it| &it.failure);
        covering.filter(|it| !it.is_reported.load(Ordering::Relaxed))
    }

    fn failed(&mut self, serial: u64, failure: Arc<Failure>) {
        if self.failures.len() >= MAX_FAILURES {
            self.failures.pop_first();
        }
        self.failures.insert(serial, failure);
    }
}

/// The streams of a device. Nothing runs before a wait, unless too much work is queued. Then a seeded scheduler picks
/// among the streams whose next work is ready.
pub struct Queue {
    state: Mutex<State>,
    /// A lock that the thread that runs work holds.
    running: Mutex<()>,
}

struct State {
    streams: Vec<StreamState>,
    /// The number of queued items on all streams.
    work: usize,
    /// The random numbers of the scheduler.
    random: Random,
}

impl State {
    fn stream(&mut self, stream: Stream) -> &mut StreamState {
        &mut self.streams[stream.0 as usize]
    }

    /// Whether the first work of a stream may run.
    fn is_ready(&self, at: usize) -> bool {
        match self.streams[at].work.front() {
            Some(Queued { work: Work::Await { fence, .. }, .. }) => self.has_ended(*fence),
            Some(_) => true,
            None => false,
        }
    }

    fn has_ended(&self, fence: Fence) -> bool {
        self.streams[fence.stream.0 as usize].ended >= fence.serial
    }

    /// Returns the failure that propagates to work that depends on a fence.
    fn failure_at(&self, fence: Fence) -> Option<&Arc<Failure>> {
        let stream = &self.streams[fence.stream.0 as usize];
        stream.word_at(fence.serial).or_else(|| stream.failures.get(&fence.serial))
    }

    /// Picks a stream whose first work may run.
    fn pick(&mut self) -> Option<usize> {
        let ready: Vec<usize> = (0..self.streams.len()).filter(|&it| self.is_ready(it)).collect();
        let number = self.random.next();
        ready.get(number as usize % ready.len().max(1)).copied()
    }

    /// Returns an error that no wait has returned, of the streams in `streams`, or of any stream.
    fn unreported(&self, streams: Option<&[Stream]>) -> Option<Arc<Failure>> {
        let is_selected = |at: usize| streams.is_none_or(|it| it.contains(&Stream(at as u32)));
        let unreported = |it: &&Arc<Failure>| !it.is_reported.load(Ordering::Relaxed);
        let mut words = self.streams.iter().enumerate().filter(|it| is_selected(it.0)).filter_map(|it| it.1.word());
        words.find(unreported).cloned()
    }
}

impl Queue {
    /// Creates a queue without streams. `seed` initialises the scheduler.
    pub fn new(seed: u64) -> Self {
        Self {
            state: Mutex::new(State { streams: Vec::new(), work: 0, random: Random(seed) }),
            running: Mutex::new(()),
        }
    }

    /// Returns the failure that propagates to work of another device that depends on a fence.
    fn failure_at(&self, fence: Fence) -> Option<Arc<Failure>> {
        self.state().failure_at(fence).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restarts the scheduler with a seed.
    pub fn set_seed(&self, seed: u64) {
        self.state().random = Random(seed);
    }

    /// See [`Streams::lend`](ms_ir::data::Streams::lend).
    pub fn lend(&self, kind: StreamKind) -> Stream {
        let mut state = self.state();
        let is_idle = |it: &StreamState| it.kind == kind && !it.is_lent && it.work.is_empty() && it.word().is_none();
        let at = state.streams.iter().position(is_idle).unwrap_or_else(|| {
            state.streams.push(StreamState::new(kind));
            state.streams.len() - 1
        });
        state.streams[at].is_lent = true;
        Stream(at as u32)
    }

    /// See [`Streams::give_back`](ms_ir::data::Streams::give_back).
    pub fn give_back(&self, stream: Stream) {
        self.state().stream(stream).is_lent = false;
        self.set_origin(stream, None);
    }

    /// See [`Streams::set_origin`](ms_ir::data::Streams::set_origin).
    pub fn set_origin(&self, stream: Stream, origin: Option<Arc<dyn Origin>>) {
        let old = std::mem::replace(&mut self.state().stream(stream).origin, origin);
        // The origin is dropped outside the lock, as it may own memory of the device.
        drop(old);
    }

    /// Gives the next work of a stream the origin of another's.
    pub fn share_origin(&self, from: Stream, to: Stream) {
        let origin = self.state().stream(from).origin.clone();
        self.set_origin(to, origin);
    }

    /// See [`Streams::fence`](ms_ir::data::Streams::fence). The fence skips work that only frees memory: it cannot
    /// fail, and nobody awaits it.
    pub fn fence(&self, stream: Stream) -> Fence {
        Fence { stream, serial: self.state().stream(stream).last }
    }

    /// Queues work on a stream.
    pub fn put(&self, stream: Stream, work: Work, simulation: &Simulation) {
        let mut state = self.state();
        if let Work::Await { fence, depends } = work
            && state.has_ended(fence)
            && !(depends && state.failure_at(fence).is_some())
        {
            return;
        }
        let to = state.stream(stream);
        to.put += 1;
        if !matches!(work, Work::Free(_)) {
            to.last = to.put;
        }
        let origin = to.origin.clone();
        to.work.push_back(Queued { work, origin });
        state.work += 1;
        let much = state.work > MAX_WORK;
        drop(state);
        if much {
            self.advance_while(simulation, |it| it.work > MAX_WORK / 2);
        }
    }

    /// See [`Streams::check`](ms_ir::data::Streams::check).
    pub fn check(&self, fence: Fence) -> Result<()> {
        let state = self.state();
        let failure = state.streams[fence.stream.0 as usize].failures.get(&fence.serial);
        match failure.filter(|it| it.is_reported.load(Ordering::Relaxed)) {
            Some(failure) => Err(failure.error.clone()),
            None => Ok(()),
        }
    }

    /// See [`Streams::wait`](ms_ir::data::Streams::wait).
    pub fn wait(&self, fence: Fence, simulation: &Simulation) -> Result<()> {
        let running = self.run_while(self.running(), simulation, |it| !it.has_ended(fence));
        let failure = self.state().failure_at(fence).cloned();
        failure.map_or(Ok(()), |it| Err(self.report(running, simulation, &it)))
    }

    /// Returns whether the work up to a fence has ended.
    pub fn has_ended(&self, fence: Fence) -> bool {
        self.state().has_ended(fence)
    }

    /// See [`Streams::finish`](ms_ir::data::Streams::finish).
    pub fn finish(&self, fence: Fence, simulation: &Simulation) {
        drop(self.run_while(self.running(), simulation, |it| !it.has_ended(fence)));
    }

    /// See [`Streams::synchronize`](ms_ir::data::Streams::synchronize).
    pub fn synchronize(&self, streams: Option<&[Stream]>, simulation: &Simulation) -> Result<()> {
        let running = self.run_while(self.running(), simulation, |_| true);
        let failure = self.state().unreported(streams);
        failure.map_or(Ok(()), |it| Err(self.report(running, simulation, &it)))
    }

    /// Runs all work, whether or not it fails.
    pub fn finish_all(&self, simulation: &Simulation) {
        drop(self.run_while(self.running(), simulation, |_| true));
    }

    /// Runs all work, unless another thread is running work.
    pub fn advance(&self, simulation: &Simulation) {
        self.advance_while(simulation, |_| true);
    }

    fn advance_while(&self, simulation: &Simulation, goes_on: impl Fn(&State) -> bool) {
        let running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(it)) => it.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        drop(self.run_while(running, simulation, goes_on));
    }

    /// Returns the error of a failure. Before that, it ends the work queued behind the failure, and clears the error
    /// words that the failure set, on all devices.
    fn report(&self, running: MutexGuard<'_, ()>, simulation: &Simulation, failure: &Arc<Failure>) -> Error {
        let mut running = self.run_while(running, simulation, |_| true);
        let mut peers = failure.spread().clone();
        peers.retain(|it| !std::ptr::eq(&*it.queue, self));
        if !peers.is_empty() {
            // See `run_while`.
            drop(running);
            peers.iter().for_each(|it| it.queue.finish_all(&it.simulation));
            running = self.running();
        }
        failure.is_reported.store(true, Ordering::Relaxed);
        self.clear_words(&running, failure);
        drop(running);
        peers.iter().for_each(|it| it.queue.clear_words(&it.queue.running(), failure));
        failure.error.clone()
    }

    /// Clears the error words that a failure set.
    fn clear_words(&self, _running: &MutexGuard<'_, ()>, failure: &Arc<Failure>) {
        let mut state = self.state();
        for stream in &mut state.streams {
            let ended = stream.ended;
            if let Some(period) = stream.periods.last_mut()
                && period.last.is_none()
                && Arc::ptr_eq(&period.failure, failure)
            {
                period.last = Some(ended);
                if stream.work.is_empty() {
                    // A later wait for the stream without new work must not return what failed.
                    stream.put += 1;
                    (stream.ended, stream.last) = (stream.put, stream.put);
                }
            }
            stream.periods.retain(|it| it.last.is_none() || !it.failure.is_reported.load(Ordering::Relaxed));
        }
    }

    fn running(&self) -> MutexGuard<'_, ()> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs work while there is any and `goes_on` holds.
    fn run_while<'q>(
        &'q self,
        mut running: MutexGuard<'q, ()>,
        simulation: &Simulation,
        goes_on: impl Fn(&State) -> bool,
    ) -> MutexGuard<'q, ()> {
        loop {
            let mut state = self.state();
            if !goes_on(&state) {
                return running;
            }
            let Some(at) = state.pick() else {
                assert_eq!(state.work, 0, "a stream awaits work that nobody has queued");
                return running;
            };
            let mut merged = None;
            if let Some(Queued { work: Work::AwaitPeer { own, peer, fence, depends }, .. }) =
                state.streams[at].work.front()
            {
                let (own, peer, fence, depends) = (own.clone(), peer.clone(), *fence, *depends);
                drop(state);
                if !peer.queue.has_ended(fence) {
                    // A thread that holds this lock does not wait for the work of another device, which may await
                    // work of this one.
                    drop(running);
                    peer.queue.finish(fence, &peer.simulation);
                    running = self.running();
                    continue;
                }
                merged = if depends { peer.queue.failure_at(fence) } else { None };
                if let Some(failure) = &merged {
                    failure.spread().extend([own, peer]);
                }
                state = self.state();
            }
            let stream = &mut state.streams[at];
            let serial = stream.ended + 1;
            let Queued { work, origin } = stream.work.pop_front().expect("the stream has work");
            let word = stream.word().cloned();
            if let Work::Await { fence, depends: true } = work {
                merged = state.failure_at(fence).cloned();
            }
            let mut random = state.random.split();
            drop(state);
            // Other threads may queue work in the meantime.
            let (ended, failure) = run(work, word.as_ref(), simulation, &mut random);
            let failure = failure.map(|error| {
                let error = match &origin {
                    Some(origin) => origin.explain(error),
                    None => error,
                };
                Arc::new(Failure { error, is_reported: AtomicBool::new(false), spread: Mutex::default() })
            });
            let mut state = self.state();
            state.work -= 1;
            let stream = &mut state.streams[at];
            stream.ended = serial;
            match ended {
                Ended::Behind => stream.failed(serial, word.expect("the word was set")),
                Ended::Run | Ended::Panicked(_) => {}
            }
            if let Some(failure) = &failure {
                stream.failed(serial, failure.clone());
            }
            if let Some(failure) = failure.or(merged) {
                stream.set_word(serial, failure);
            }
            drop(state);
            // The origin is dropped outside the lock, as it may own memory of the device.
            drop(origin);
            if let Ended::Panicked(payload) = ended {
                resume_unwind(payload);
            }
        }
    }
}

/// The outcome of an item of work.
enum Ended {
    Run,
    /// The error word of its stream was set, so it has no result.
    Behind,
    Panicked(Box<dyn std::any::Any + Send>),
}

/// Runs an item of work on a stream with this error word. Also returns the error of the item.
fn run(
    work: Work,
    word: Option<&Arc<Failure>>,
    simulation: &Simulation,
    random: &mut Random,
) -> (Ended, Option<Error>) {
    let run = || match (work, word) {
        (Work::Step(step), Some(_)) => {
            // Only the first failure is reported.
            let _unreported = step(true, random);
            (Ended::Behind, None)
        }
        (Work::Step(step), None) => match simulation.step() {
            Ok(()) => (Ended::Run, step(false, random).err()),
            Err(error) => {
                let _unreported = step(true, random);
                (Ended::Run, Some(error))
            }
        },
        (Work::Free(free), _) => {
            free();
            (Ended::Run, None)
        }
        (Work::Mark(mark), word) => {
            mark();
            (if word.is_none() { Ended::Run } else { Ended::Behind }, None)
        }
        (Work::Restore(restore), Some(_)) => {
            restore();
            (Ended::Run, None)
        }
        (Work::Restore(_), None) | (Work::Await { .. } | Work::AwaitPeer { .. }, _) => (Ended::Run, None),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| (Ended::Panicked(payload), None))
}

//! Collects the steps of plans and submits them as work of a stream: [`SimDriver`].

use crate::capture::Captures;
use crate::forks::{Piece, queue};
use crate::kernel::SimKernel;
use crate::memory::{Copied, SimMemory};
use crate::reference::{ReferenceContraction, ReferenceDriver, ReferenceStep};
use crate::scheduler::Random;
use crate::submission::{CallWords, HostSteps, IssuedStep, Step, Steps, with_call};
use ms_compile::exec::{Check, Driver, EpilogueCode, KernelView, LibraryCall, LoopCondition, Prepared, StepCall};
use ms_ir::Contraction;
use ms_ir::data::{Array, MemorySpace, Storage, Stream, StreamKind, Streams, with_stream};
use ms_ir::error::Result;
use ms_x64::KernelCode;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The number of steps that loops collect before a submission. Without a limit, the memory of commands would grow with
/// the iterations.
const MAX_STEPS: usize = 1024;

/// A driver that runs the steps of plans on a simulated device.
///
/// Steps that are submitted together are one piece of work of a stream, like a launched graph. It fails as a whole, or
/// at a step that fails on its operands. Behind a failure, the seed of the device decides which steps run, except for
/// guarded ones, which do not run. A run with in-place state writes the state after everything that it waits for. So it
/// has updated either all of the state or nothing.
///
/// The driver of an executable captures what it submits, unless there are forks. If a later run issues the same steps on
/// the same addresses, it replays what was captured.
#[derive(Clone)]
pub struct SimDriver {
    pub memory: &'static SimMemory,
    captures: Option<Arc<Captures>>,
}

/// The steps that were issued and not yet submitted.
#[derive(Default)]
pub struct Commands {
    /// The pieces before the last fork or join.
    pieces: Vec<Piece>,
    /// The steps after it.
    steps: Steps,
    /// The number of issued steps.
    issued: usize,
    /// The memory to free after the steps.
    freed: Vec<Storage>,
    /// The addresses of the run's outputs in the memory of old values of slots, in ascending order.
    overwritten: Vec<Range<u64>>,
}

impl Commands {
    /// Adds the addresses of a call.
    fn add_call(&mut self, call: StepCall<'_>) -> CallWords {
        CallWords {
            operands: self.steps.add_addresses(call.operands.iter().map(|it| it.address)),
            results: self.steps.add_addresses(call.results.iter().copied()),
        }
    }

    /// Returns whether a result at this address is in the memory of an old value of a slot.
    fn is_overwritten(&self, address: u64) -> bool {
        let after = self.overwritten.partition_point(|it| it.start <= address);
        after > 0 && self.overwritten[after - 1].contains(&address)
    }

    /// Returns whether a step does not run behind a failure: it writes over old values of slots. Library ops do not run
    /// there either, as definitions of ops require valid values of their dtypes.
    fn is_guarded(&self, step: &Step) -> bool {
        let words = &self.steps.words;
        match step {
            Step::Launch { kernel, block } => {
                kernel.results().iter().any(|&it| self.is_overwritten(words[block.clone()][it]))
            }
            Step::Contraction { call, .. } => words[call.results.clone()].iter().any(|&it| self.is_overwritten(it)),
            Step::Copy { to, .. } | Step::SetNumber { to, .. } => self.is_overwritten(words[*to]),
            Step::Library { .. } | Step::Check { .. } => true,
            // The steps of the bodies are guarded.
            Step::Branch { .. } | Step::Repeat { .. } => false,
        }
    }
}

impl SimDriver {
    /// Creates the driver of single steps.
    pub fn of_steps(memory: &'static SimMemory) -> Self {
        Self { memory, captures: None }
    }

    /// Creates the driver of an executable.
    pub fn of_executable(memory: &'static SimMemory) -> Self {
        Self { memory, captures: Some(Arc::default()) }
    }

    /// Calls `f` with the compute stream of the calling thread.
    fn on_stream<R>(&self, f: impl FnOnce(Stream) -> R) -> R {
        with_stream(self.memory, StreamKind::Compute, f)
    }

    /// Waits for the work of the calling thread's compute stream.
    fn wait(&self) -> Result<()> {
        self.on_stream(|stream| self.memory.wait(self.memory.fence(stream)))
    }

    /// Reads values of `N` bytes with one wait, after everything that was submitted.
    ///
    /// # Safety
    /// The values were written, and nobody writes them during the call.
    unsafe fn read<const N: usize>(&self, at: &[u64]) -> Result<SmallVec<[[u8; N]; 4]>> {
        // SAFETY: the `N` bytes at each address are inside a block, as they were written by this function's contract.
        let copy = |stream: Stream, at: u64| unsafe { self.memory.read(stream, at as *const u8, N) };
        let copies = self.on_stream(|stream| at.iter().map(|&it| copy(stream, it)).collect::<Result<Vec<_>>>())?;
        self.wait()?;
        let value = |it: &Copied| {
            let bytes = it.get().expect("the copy was waited for");
            // SAFETY: these bytes were written, by this function's contract.
            std::array::from_fn(|at| unsafe { bytes[at].assume_init() })
        };
        Ok(copies.iter().map(value).collect())
    }

    /// Runs a single step on arrays of the device, as work of the calling thread's stream. `run` receives arrays on the
    /// bytes behind them. An op that acts on the host runs on the calling thread, when earlier work has ended.
    ///
    /// # Safety
    /// The conditions of [`StepCode::run`](ms_compile::exec::StepCode::run) hold for the arrays when the work runs, and
    /// `run` retains none of them.
    ///
    /// # Errors
    /// The errors of the device, and of an op that acts on the host.
    pub unsafe fn run_step(
        &self,
        acts_on_host: bool,
        operands: &[&Array],
        results: &[Array],
        run: impl FnOnce(&[&Array], &[Array]) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let memory = self.memory;
        memory.simulation.call()?;
        // SAFETY: memory is freed after the work of its streams, and `run` retains no array.
        let borrowed = |it: &Array| unsafe { memory.borrowed(it) };
        let operands: SmallVec<[Array; 4]> = operands.iter().map(|it| borrowed(it)).collect();
        let results: SmallVec<[Array; 1]> = results.iter().map(borrowed).collect();
        let run = move || run(&operands.iter().collect::<SmallVec<[&Array; 4]>>(), &results);
        if acts_on_host {
            memory.simulation.ran();
            self.wait()?;
            return run();
        }
        // Definitions of ops require valid values of their dtypes, which operands behind a failure may not hold.
        let run = move |is_behind: bool, _: &mut Random| if is_behind { Ok(()) } else { run() };
        self.on_stream(|stream| memory.run(stream, run));
        Ok(())
    }

    /// Issues a step and counts it as a call.
    fn issue(&self, commands: &mut Commands, step: Step) -> Result<()> {
        self.memory.simulation.call()?;
        let is_guarded = commands.is_guarded(&step);
        commands.steps.steps.push(IssuedStep { step, is_guarded });
        commands.issued += 1;
        Ok(())
    }

    /// Cuts the submission at a fork or a join, which is a call, too.
    fn cut(&self, commands: &mut Commands, piece: Piece) -> Result<()> {
        self.memory.simulation.call()?;
        let steps = std::mem::take(&mut commands.steps);
        let before = (!steps.steps.is_empty()).then(|| Piece::Steps(Arc::new(self.prepared(steps))));
        commands.pieces.extend(before.into_iter().chain([piece]));
        commands.issued += 1;
        Ok(())
    }

    /// Returns the host address of the bytes behind a device address.
    pub fn real(&self, address: u64) -> u64 {
        self.memory.real(address as usize) as u64
    }

    /// Returns steps with host addresses.
    fn prepared(&self, steps: Steps) -> HostSteps {
        HostSteps::new(steps, |it| self.real(it))
    }

    /// Returns the steps of a body, with host addresses.
    fn prepared_body(&self, body: Commands) -> HostSteps {
        debug_assert!(body.pieces.is_empty(), "a body has no forks");
        self.prepared(body.steps)
    }

    /// Returns steps with host addresses: those that were captured before, if they are the same.
    fn captured(&self, stream: Stream, steps: Steps) -> Arc<HostSteps> {
        let known = self.captures.as_ref().and_then(|it| it.find(stream, &steps));
        if let Some(known) = known {
            self.memory.simulation.replayed();
            return known;
        }
        let made = Arc::new(self.prepared(steps));
        if let Some(captures) = &self.captures {
            captures.add(stream, made.clone());
        }
        made
    }
}

// SAFETY: the steps run in order, as work of one stream, on the bytes behind their addresses.
unsafe impl Driver for SimDriver {
    type Kernel = Arc<SimKernel>;
    type Contraction = ReferenceContraction;
    type LibraryStep = ReferenceStep;
    type Commands = Commands;
    const QUEUED: bool = true;
    const CONDITIONS: bool = true;
    const FORKS: bool = true;

    fn space(&self) -> MemorySpace {
        MemorySpace::Device(self.memory)
    }

    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        kernel.code.view()
    }

    fn begin(&self, commands: &mut Commands, overwritten: &[Range<u64>]) {
        commands.overwritten = overwritten.to_vec();
        commands.overwritten.sort_unstable_by_key(|it| it.start);
    }

    unsafe fn launch(&self, commands: &mut Commands, kernel: &Self::Kernel, block: &[u64]) -> Result<()> {
        let block = commands.steps.add_block(block, kernel.addresses());
        self.issue(commands, Step::Launch { kernel: kernel.clone(), block })
    }

    fn prepare_contraction(
        &self,
        contraction: &Contraction,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<ReferenceContraction>> {
        ReferenceContraction::prepare(contraction, epilogues)
    }

    fn prepare_library(
        &self,
        call: &Arc<LibraryCall>,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<ReferenceStep>> {
        ReferenceStep::prepare(call, epilogues)
    }

    unsafe fn contract(
        &self,
        commands: &mut Commands,
        code: &Arc<ReferenceContraction>,
        call: StepCall<'_>,
    ) -> Result<()> {
        let call = commands.add_call(call);
        self.issue(commands, Step::Contraction { code: code.clone(), call })
    }

    unsafe fn library(&self, commands: &mut Commands, code: &Arc<ReferenceStep>, call: StepCall<'_>) -> Result<()> {
        if code.acts_on_host() {
            self.submit(commands)?;
            self.memory.simulation.call()?;
            self.memory.simulation.ran();
            self.wait()?;
            let mut own = Commands::default();
            let call = own.add_call(call);
            let words: SmallVec<[u64; 8]> = own.steps.words.iter().map(|&it| self.real(it)).collect();
            // SAFETY: the conditions of `Driver::library` hold by this function's contract, as all earlier work has
            // ended.
            return with_call(&words, &call, |it| unsafe { ReferenceDriver.library(&mut (), code, it) });
        }
        let call = commands.add_call(call);
        self.issue(commands, Step::Library { code: code.clone(), call })
    }

    unsafe fn check(&self, commands: &mut Commands, check: &Arc<Check>, record: u64, views: &[u64]) -> Result<()> {
        let record = commands.steps.add_address(record);
        let views = commands.steps.add_addresses(views.iter().copied());
        self.issue(commands, Step::Check { check: check.clone(), record, views })
    }

    unsafe fn copy(&self, commands: &mut Commands, from: u64, to: u64, bytes: usize) -> Result<()> {
        let (from, to) = (commands.steps.add_address(from), commands.steps.add_address(to));
        self.issue(commands, Step::Copy { from, to, bytes })
    }

    unsafe fn set_number(&self, commands: &mut Commands, to: u64, number: u64) -> Result<()> {
        let to = commands.steps.add_address(to);
        self.issue(commands, Step::SetNumber { to, number })
    }

    fn body(&self, commands: &Commands) -> Commands {
        Commands { overwritten: commands.overwritten.clone(), ..Commands::default() }
    }

    unsafe fn branch(&self, commands: &mut Commands, condition: u64, bodies: [Commands; 2]) -> Result<()> {
        let condition = commands.steps.add_address(condition);
        let bodies = Box::new(bodies.map(|it| self.prepared_body(it)));
        self.issue(commands, Step::Branch { condition, bodies })
    }

    unsafe fn repeat(&self, commands: &mut Commands, condition: LoopCondition, body: Commands) -> Result<()> {
        let [first, next] = [condition.first, condition.next].map(|it| commands.steps.add_address(it));
        let body = Box::new(self.prepared_body(body));
        self.issue(commands, Step::Repeat { first, next, body })
    }

    unsafe fn fork(&self, commands: &mut Commands, fork: u32, kind: StreamKind, body: Commands) -> Result<()> {
        let body = Arc::new(self.prepared_body(body));
        self.cut(commands, Piece::Fork { fork, kind, body })
    }

    fn join(&self, commands: &mut Commands, fork: u32) -> Result<()> {
        self.cut(commands, Piece::Join { fork })
    }

    unsafe fn condition(&self, commands: &mut Commands, at: u64) -> Result<bool> {
        self.submit(commands)?;
        // SAFETY: the bool was written, and nobody writes it during the call, by this function's contract.
        let read = unsafe { self.read::<1>(&[at])? };
        Ok(read[0] != [0])
    }

    unsafe fn numbers(&self, commands: &mut Commands, at: &[u64], to: &mut [u64]) -> Result<()> {
        self.submit(commands)?;
        // SAFETY: the numbers were written, and nobody writes them during the call, by this function's contract.
        let read = unsafe { self.read::<8>(at)? };
        to.iter_mut().zip(read).for_each(|(to, it)| *to = u64::from_ne_bytes(it));
        Ok(())
    }

    fn free(&self, commands: &mut Commands, block: Storage) {
        commands.freed.push(block);
    }

    fn iterated(&self, commands: &mut Commands) -> Result<()> {
        if commands.issued < MAX_STEPS { Ok(()) } else { self.submit(commands) }
    }

    fn submit(&self, commands: &mut Commands) -> Result<()> {
        let Commands { mut pieces, steps, issued, freed, overwritten } = std::mem::take(commands);
        commands.overwritten = overwritten;
        if issued > 0 {
            self.memory.simulation.call()?;
            self.on_stream(|stream| {
                if pieces.is_empty() {
                    pieces.push(Piece::Steps(self.captured(stream, steps)));
                } else if !steps.steps.is_empty() {
                    pieces.push(Piece::Steps(Arc::new(self.prepared(steps))));
                }
                // SAFETY: the contract of each issuing call covers the time when the step runs. Kernels, contractions
                // and copies access the memory in their contracts whatever their operands hold.
                unsafe { queue(self.memory, stream, pieces) };
            });
        }
        // The memory is freed after the steps, in the order of the stream.
        drop(freed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

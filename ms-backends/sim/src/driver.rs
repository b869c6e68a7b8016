//! Collects the steps of plans and submits them as work of a stream: [`SimDriver`]. A driver of the host runs them on
//! the bytes of the device.

use crate::memory::{Copied, SimMemory};
use crate::scheduler::Random;
use ms_compile::exec::{
    Check, Driver, EpilogueCode, KernelLaunch, KernelView, LibraryCall, Prepared, StepCall, StepOperand,
};
use ms_ir::data::{Array, MemorySpace, Storage, Stream, StreamKind, Streams, with_stream};
use ms_ir::error::Result;
use ms_ir::{Contraction, Kernel, Role};
use ms_ops::ops::definition;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The number of steps that loops collect before a submission. Without a limit, the memory of commands would grow with
/// the iterations.
const MAX_STEPS: usize = 1024;

/// A driver that runs the steps of plans on a simulated device, by a driver `H` of the host.
///
/// Steps that are submitted together are one piece of work of a stream, like a launched graph. It fails as a whole, or
/// at a step that fails on its operands. Behind a failure, the seed of the device decides which steps run, except for
/// guarded ones, which do not run. A run with in-place state writes the state after everything that it waits for. So it
/// has updated either all of the state or nothing.
#[derive(Clone, Copy)]
pub struct SimDriver<H> {
    pub host: H,
    pub memory: &'static SimMemory,
}

/// A kernel whose argument blocks contain addresses of the device.
pub struct SimKernel<K> {
    code: K,
    /// The words of an argument block that are addresses.
    addresses: SmallVec<[usize; 4]>,
    /// The words that are addresses of results.
    results: SmallVec<[usize; 2]>,
}

impl<K> SimKernel<K> {
    /// Creates a kernel from its code for the host.
    pub fn new(kernel: &Kernel, code: K) -> Self {
        let is_result = |at: &usize| kernel.params[*at].role.is_written();
        let results = (0..kernel.params.len()).filter(is_result).map(|at| kernel.param_word(at)).collect();
        Self { code, addresses: addresses(kernel), results }
    }
}

/// Returns the words of a kernel's argument block that are addresses, in the order of the params.
pub fn addresses(kernel: &Kernel) -> SmallVec<[usize; 4]> {
    let is_addressed = |at: &usize| !matches!(kernel.params[*at].role, Role::Iota | Role::Immediate);
    (0..kernel.params.len()).filter(is_addressed).map(|at| kernel.param_word(at)).collect()
}

/// The steps that were issued and not yet submitted.
pub struct Commands<H: Driver> {
    steps: Vec<IssuedStep<H>>,
    /// The argument blocks of kernels, one after another.
    blocks: Vec<u64>,
    /// The memory to free after the steps.
    freed: Vec<Storage>,
    /// The addresses of the run's outputs in the memory of old values of slots, in ascending order.
    overwritten: Vec<Range<u64>>,
}

/// The words that are addresses in the argument block of an epilogue.
struct EpilogueWords {
    addresses: SmallVec<[usize; 4]>,
    /// The words that are addresses of results.
    results: SmallVec<[usize; 2]>,
}

/// A step prepared by the host's driver as `C`, with the words of its epilogues.
pub struct SimStepCode<C> {
    code: Arc<C>,
    epilogues: SmallVec<[EpilogueWords; 1]>,
    /// Whether the op acts on the host.
    acts_on_host: bool,
}

impl<C> SimStepCode<C> {
    /// Prepares a step: `prepare` prepares it with the epilogues' code for the host.
    fn prepared<K>(
        epilogues: &[EpilogueCode<'_, Arc<SimKernel<K>>>],
        acts_on_host: bool,
        prepare: impl FnOnce(&[EpilogueCode<'_, K>]) -> Result<Prepared<C>>,
    ) -> Result<Prepared<Self>> {
        let of_host = epilogues.iter().map(|it| EpilogueCode {
            kernel: it.kernel,
            code: &it.code.code,
            block: it.block,
            words: it.words,
        });
        let Prepared { code, workspace } = prepare(&of_host.collect::<SmallVec<[_; 1]>>())?;
        // The address of a contraction's result is set when the epilogue runs.
        let words = |it: &EpilogueCode<'_, Arc<SimKernel<K>>>| EpilogueWords {
            addresses: it.code.addresses.iter().copied().filter(|&word| Some(word) != it.words.result).collect(),
            results: it.code.results.clone(),
        };
        let epilogues = epilogues.iter().map(words).collect();
        Ok(Prepared { code: Self { code: Arc::new(code), epilogues, acts_on_host }, workspace })
    }
}

/// The memory of a call of a prepared step, with device addresses.
struct CallMemory {
    operands: SmallVec<[u64; 4]>,
    results: SmallVec<[u64; 1]>,
    /// The argument blocks of epilogues.
    blocks: SmallVec<[Range<usize>; 1]>,
    workspace: u64,
}

impl<H: Driver> Default for Commands<H> {
    fn default() -> Self {
        Self { steps: Vec::new(), blocks: Vec::new(), freed: Vec::new(), overwritten: Vec::new() }
    }
}

impl<H: Driver> Commands<H> {
    /// Records the memory of a call.
    fn memory(&mut self, call: StepCall<'_>) -> CallMemory {
        CallMemory {
            operands: call.operands.iter().map(|it| it.address).collect(),
            results: call.results.into(),
            blocks: call.epilogues.iter().map(|it| self.add_block(it)).collect(),
            workspace: call.workspace,
        }
    }

    /// Adds the argument block of a kernel.
    fn add_block(&mut self, block: &[u64]) -> Range<usize> {
        let first = self.blocks.len();
        self.blocks.extend_from_slice(block);
        first..self.blocks.len()
    }

    /// Returns whether a result at this address is in the memory of an old value of a slot.
    fn is_overwritten(&self, address: u64) -> bool {
        let after = self.overwritten.partition_point(|it| it.start <= address);
        after > 0 && self.overwritten[after - 1].contains(&address)
    }

    /// Returns whether a step does not run behind a failure: it writes over old values of slots. Library ops do not run
    /// there either, because the host's implementations require valid values of their dtypes.
    fn is_guarded(&self, step: &Step<H>) -> bool {
        let writes = |results: &[usize], block: &Range<usize>| {
            results.iter().any(|&it| self.is_overwritten(self.blocks[block.clone()][it]))
        };
        match step {
            Step::Launch { kernel, block } => writes(&kernel.results, block),
            Step::Contraction { code, memory } => {
                memory.results.iter().any(|&it| self.is_overwritten(it))
                    || code.epilogues.iter().zip(&memory.blocks).any(|(words, block)| writes(&words.results, block))
            }
            Step::Copy { to, .. } | Step::SetNumber { to, .. } => self.is_overwritten(*to),
            Step::Library { .. } | Step::Check { .. } => true,
        }
    }
}

/// A step, and whether it does not run behind a failure.
struct IssuedStep<H: Driver> {
    step: Step<H>,
    is_guarded: bool,
}

/// A step with device addresses.
enum Step<H: Driver> {
    Launch { kernel: Arc<SimKernel<H::Kernel>>, block: Range<usize> },
    Contraction { code: Arc<SimStepCode<H::Contraction>>, memory: CallMemory },
    Library { code: Arc<SimStepCode<H::LibraryStep>>, memory: CallMemory },
    Check { check: Arc<Check>, record: u64, views: SmallVec<[u64; 2]> },
    Copy { from: u64, to: u64, bytes: usize },
    SetNumber { to: u64, number: u64 },
}

impl<H: Driver<Commands = ()> + Copy + 'static> SimDriver<H> {
    /// Calls `f` with the compute stream of the calling thread.
    pub fn on_stream<R>(&self, f: impl FnOnce(Stream) -> R) -> R {
        with_stream(self.memory, StreamKind::Compute, f)
    }

    /// Waits for the work of the calling thread's compute stream.
    ///
    /// # Errors
    /// The errors of [`Streams::wait`].
    pub fn wait(&self) -> Result<()> {
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
        // Ops of the host require valid values of their dtypes, which operands behind a failure may not hold.
        let run = move |is_behind: bool, _: &mut Random| if is_behind { Ok(()) } else { run() };
        self.on_stream(|stream| memory.run(stream, run));
        Ok(())
    }

    /// Issues a step and counts it as a call.
    fn issue(&self, commands: &mut Commands<H>, step: Step<H>) -> Result<()> {
        self.memory.simulation.call()?;
        let is_guarded = commands.is_guarded(&step);
        commands.steps.push(IssuedStep { step, is_guarded });
        Ok(())
    }

    /// Returns the host address of the bytes behind a device address.
    pub fn real(&self, address: u64) -> u64 {
        self.memory.real(address as usize) as u64
    }

    /// Calls `run` with the code of a step and the bytes behind the memory of its call.
    fn with_real<C>(
        &self,
        SimStepCode { code, epilogues, .. }: &SimStepCode<C>,
        memory: &CallMemory,
        blocks: &mut [u64],
        run: impl FnOnce(&H, &Arc<C>, StepCall<'_>) -> Result<()>,
    ) -> Result<()> {
        for (words, block) in epilogues.iter().zip(&memory.blocks) {
            let block = &mut blocks[block.clone()];
            words.addresses.iter().for_each(|&it| block[it] = self.real(block[it]));
        }
        let operand = |&it: &u64| StepOperand::at(self.real(it));
        let operands: SmallVec<[StepOperand<'_>; 4]> = memory.operands.iter().map(operand).collect();
        let results: SmallVec<[u64; 1]> = memory.results.iter().map(|&it| self.real(it)).collect();
        let blocks: SmallVec<[&[u64]; 1]> = memory.blocks.iter().map(|it| &blocks[it.clone()]).collect();
        let workspace = if memory.workspace == 0 { 0 } else { self.real(memory.workspace) };
        run(&self.host, code, StepCall { operands: &operands, results: &results, epilogues: &blocks, workspace })
    }

    /// Runs a step whose argument block is in `blocks`.
    ///
    /// # Safety
    /// The conditions of the call that issued the step hold, for the bytes behind its addresses.
    unsafe fn run(&self, step: &Step<H>, blocks: &mut [u64]) -> Result<()> {
        let host = &self.host;
        // SAFETY: the conditions of each step hold by this function's contract, and `real` translates every address.
        unsafe {
            match step {
                Step::Launch { kernel, block } => {
                    let block = &mut blocks[block.clone()];
                    kernel.addresses.iter().for_each(|&it| block[it] = self.real(block[it]));
                    host.launch(&mut (), &kernel.code, block)
                }
                Step::Contraction { code, memory } => {
                    self.with_real(code, memory, blocks, |host, code, call| host.contract(&mut (), code, call))
                }
                Step::Library { code, memory } => {
                    self.with_real(code, memory, blocks, |host, code, call| host.library(&mut (), code, call))
                }
                Step::Check { check, record, views } => {
                    let views: SmallVec<[u64; 2]> = views.iter().map(|&it| self.real(it)).collect();
                    host.check(&mut (), check, self.real(*record), &views)
                }
                Step::Copy { from, to, bytes } => host.copy(&mut (), self.real(*from), self.real(*to), *bytes),
                Step::SetNumber { to, number } => host.set_number(&mut (), self.real(*to), *number),
            }
        }
    }
}

// SAFETY: the host's driver runs the steps in order, as work of one stream, on the bytes behind their addresses.
unsafe impl<H: Driver<Commands = ()> + Copy + 'static> Driver for SimDriver<H> {
    type Kernel = Arc<SimKernel<H::Kernel>>;
    type Contraction = SimStepCode<H::Contraction>;
    type LibraryStep = SimStepCode<H::LibraryStep>;
    type Commands = Commands<H>;
    const QUEUED: bool = true;

    fn space(&self) -> MemorySpace {
        MemorySpace::Device(self.memory)
    }

    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        self.host.view(&kernel.code)
    }

    fn prepare_kernel(&self, KernelLaunch { kernel, block }: KernelLaunch<'_, Self::Kernel>) -> Self::Kernel {
        let code = self.host.prepare_kernel(KernelLaunch { kernel: &kernel.code, block });
        Arc::new(SimKernel { code, addresses: kernel.addresses.clone(), results: kernel.results.clone() })
    }

    fn begin(&self, commands: &mut Commands<H>, overwritten: &[Range<u64>]) {
        commands.overwritten = overwritten.to_vec();
        commands.overwritten.sort_unstable_by_key(|it| it.start);
    }

    unsafe fn launch(&self, commands: &mut Commands<H>, kernel: &Self::Kernel, block: &[u64]) -> Result<()> {
        let block = commands.add_block(block);
        self.issue(commands, Step::Launch { kernel: kernel.clone(), block })
    }

    fn prepare_contraction(
        &self,
        contraction: &Contraction,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<Self::Contraction>> {
        SimStepCode::prepared(epilogues, false, |it| self.host.prepare_contraction(contraction, it))
    }

    fn prepare_library(
        &self,
        call: &Arc<LibraryCall>,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<Self::LibraryStep>> {
        let acts_on_host = definition(call.op).effects.act_on_host();
        SimStepCode::prepared(epilogues, acts_on_host, |it| self.host.prepare_library(call, it))
    }

    unsafe fn contract(
        &self,
        commands: &mut Commands<H>,
        code: &Arc<Self::Contraction>,
        call: StepCall<'_>,
    ) -> Result<()> {
        let memory = commands.memory(call);
        self.issue(commands, Step::Contraction { code: code.clone(), memory })
    }

    unsafe fn library(
        &self,
        commands: &mut Commands<H>,
        code: &Arc<Self::LibraryStep>,
        call: StepCall<'_>,
    ) -> Result<()> {
        if code.acts_on_host {
            self.submit(commands)?;
            self.memory.simulation.call()?;
            self.memory.simulation.ran();
            self.wait()?;
            let mut own = Commands::<H>::default();
            let memory = own.memory(call);
            // SAFETY: the conditions of `Driver::library` hold by this function's contract, as all earlier work has
            // ended.
            let run = |host: &H, code: &_, call: StepCall<'_>| unsafe { host.library(&mut (), code, call) };
            return self.with_real(code, &memory, &mut own.blocks, run);
        }
        let memory = commands.memory(call);
        self.issue(commands, Step::Library { code: code.clone(), memory })
    }

    unsafe fn check(&self, commands: &mut Commands<H>, check: &Arc<Check>, record: u64, views: &[u64]) -> Result<()> {
        self.issue(commands, Step::Check { check: check.clone(), record, views: views.into() })
    }

    unsafe fn copy(&self, commands: &mut Commands<H>, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.issue(commands, Step::Copy { from, to, bytes })
    }

    unsafe fn set_number(&self, commands: &mut Commands<H>, to: u64, number: u64) -> Result<()> {
        self.issue(commands, Step::SetNumber { to, number })
    }

    unsafe fn condition(&self, commands: &mut Commands<H>, at: u64) -> Result<bool> {
        self.submit(commands)?;
        // SAFETY: the bool was written, and nobody writes it during the call, by this function's contract.
        let read = unsafe { self.read::<1>(&[at])? };
        Ok(read[0] != [0])
    }

    unsafe fn numbers(&self, commands: &mut Commands<H>, at: &[u64], to: &mut [u64]) -> Result<()> {
        self.submit(commands)?;
        // SAFETY: the numbers were written, and nobody writes them during the call, by this function's contract.
        let read = unsafe { self.read::<8>(at)? };
        to.iter_mut().zip(read).for_each(|(to, it)| *to = u64::from_ne_bytes(it));
        Ok(())
    }

    fn free(&self, commands: &mut Commands<H>, block: Storage) {
        commands.freed.push(block);
    }

    fn iterated(&self, commands: &mut Commands<H>) -> Result<()> {
        if commands.steps.len() < MAX_STEPS { Ok(()) } else { self.submit(commands) }
    }

    fn submit(&self, commands: &mut Commands<H>) -> Result<()> {
        let Commands { steps, mut blocks, freed, overwritten } = std::mem::take(commands);
        commands.overwritten = overwritten;
        if !steps.is_empty() {
            self.memory.simulation.call()?;
            let driver = *self;
            let run = move |is_behind: bool, random: &mut Random| {
                let mut done = Ok(());
                for IssuedStep { step, is_guarded } in &steps {
                    let is_behind = is_behind || done.is_err();
                    if is_behind && (*is_guarded || random.flip()) {
                        continue;
                    }
                    // SAFETY: the contract of each issuing call covers the time when the step runs. Kernels,
                    // contractions and copies access the memory in their contracts whatever their operands hold.
                    let ran = unsafe { driver.run(step, &mut blocks) };
                    done = done.and(ran);
                }
                done
            };
            self.on_stream(|stream| self.memory.run(stream, run));
        }
        // The memory is freed after the steps, in the order of the stream.
        drop(freed);
        Ok(())
    }
}

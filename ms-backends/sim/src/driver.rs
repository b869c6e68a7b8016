//! [`SimDriver`]: the steps of plans are collected, submitted as work of a stream, and run by the CPU's driver on the
//! bytes of the device.

use crate::memory::{Copied, SimMemory};
use ms_core::error::Result;
use ms_core::exec::{
    Check, ContractionOperand, Driver, EpilogueCall, EpilogueWords, KernelView, LibraryCall, MemoryView,
};
use ms_core::ir::{Contraction, Kernel, Role};
use ms_core::ops::definition;
use ms_core::tensor::{MemorySpace, Storage, Stream, StreamKind, Streams, with_stream};
use ms_cpu::{CpuDriver, KernelCode};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Steps that loops collect before they are submitted: without a limit, commands would take memory by iterations.
const MOST_STEPS: usize = 1024;

/// Runs the steps of plans on a simulated device.
///
/// What is submitted at once is one piece of work of a stream, as a graph is that is launched: it fails as a whole, or
/// runs up to a step that refuses its operands. So a run that overwrites slots, after everything that it waits for, has
/// either overwritten all of them or none.
#[derive(Clone, Copy)]
pub struct SimDriver {
    pub cpu: CpuDriver,
    pub memory: &'static SimMemory,
}

/// A kernel whose blocks have addresses of the device.
pub struct SimKernel {
    code: Arc<dyn KernelCode>,
    /// The words of a block with addresses.
    addresses: SmallVec<[usize; 4]>,
}

impl SimKernel {
    /// A kernel with its code for the CPU.
    pub fn new(kernel: &Kernel, code: Arc<dyn KernelCode>) -> Self {
        let is_addressed = |at: &usize| match kernel.params[*at].role {
            Role::Input | Role::Output | Role::Indexed => true,
            Role::Position | Role::Immediate => false,
        };
        let addresses = (0..kernel.params.len()).filter(is_addressed).map(|at| kernel.param_word(at)).collect();
        Self { code, addresses }
    }
}

/// Steps that are issued and not submitted.
#[derive(Default)]
pub struct Commands {
    steps: Vec<Step>,
    /// The blocks of kernels, one after the other.
    blocks: Vec<u64>,
    /// Memory that is freed behind the steps.
    freed: Vec<Storage>,
}

impl Commands {
    /// Adds the block of a kernel.
    fn add_block(&mut self, block: &[u64]) -> Range<usize> {
        let first = self.blocks.len();
        self.blocks.extend_from_slice(block);
        first..self.blocks.len()
    }
}

/// A step, with addresses of the device.
enum Step {
    Launch { kernel: Arc<SimKernel>, block: Range<usize> },
    Contraction { contraction: Arc<Contraction>, operands: [u64; 2], result: u64 },
    Epilogues { contraction: Arc<Contraction>, operands: [u64; 2], epilogues: SmallVec<[Epilogue; 1]> },
    Library { call: Arc<LibraryCall>, operands: Views, results: Views },
    Check { check: Arc<Check>, operand: MemoryView },
    Copy { from: u64, to: u64, bytes: usize },
    SetNumber { to: u64, number: u64 },
}

/// A kernel on the result of a contraction, with the block of a call.
struct Epilogue {
    kernel: Arc<SimKernel>,
    block: Range<usize>,
    words: EpilogueWords,
}

type Views = Vec<MemoryView>;

impl SimDriver {
    /// Calls `f` with the stream of the calling thread for computing.
    pub fn on_stream<R>(&self, f: impl FnOnce(Stream) -> R) -> R {
        with_stream(self.memory, StreamKind::Compute, f)
    }

    /// Waits for the work of the calling thread.
    ///
    /// # Errors
    /// As [`Streams::wait`].
    pub fn wait(&self) -> Result<()> {
        self.on_stream(|stream| self.memory.wait(self.memory.fence(stream)))
    }

    /// Reads values of `N` bytes, after everything that was submitted, with one wait.
    ///
    /// # Safety
    /// They were written, and nobody writes them meanwhile.
    unsafe fn read<const N: usize>(&self, at: &[u64]) -> Result<SmallVec<[[u8; N]; 4]>> {
        // SAFETY: as the caller's.
        let copy = |stream: Stream, at: u64| unsafe { self.memory.read(stream, at as *const u8, N) };
        let copies = self.on_stream(|stream| at.iter().map(|&it| copy(stream, it)).collect::<Result<Vec<_>>>())?;
        self.wait()?;
        let value = |it: &Copied| {
            let bytes = it.get().expect("the copy was waited for");
            // SAFETY: by the caller's contract these bytes were written.
            std::array::from_fn(|at| unsafe { bytes[at].assume_init() })
        };
        Ok(copies.iter().map(value).collect())
    }

    /// Issues a step, which counts as a call.
    fn issue(&self, commands: &mut Commands, step: Step) -> Result<()> {
        self.memory.simulation.call()?;
        commands.steps.push(step);
        Ok(())
    }

    /// The address of the host for one of the device.
    fn real(&self, address: u64) -> u64 {
        self.memory.real(address as usize) as u64
    }

    /// An operand at an address of the device.
    fn operand(&self, address: u64) -> ContractionOperand<'static> {
        ContractionOperand::at(self.real(address))
    }

    /// Views of the bytes.
    fn real_views(&self, views: &[MemoryView]) -> SmallVec<[MemoryView; 4]> {
        views.iter().map(|it| MemoryView { address: self.real(it.address), held: None, ..it.clone() }).collect()
    }

    /// Runs a step, whose block is among `blocks`.
    ///
    /// # Safety
    /// That of the calls that issued it, for the bytes behind the addresses.
    unsafe fn run(&self, step: &Step, blocks: &mut [u64]) -> Result<()> {
        let cpu = &self.cpu;
        // SAFETY: as the caller's.
        unsafe {
            match step {
                Step::Launch { kernel, block } => {
                    let block = &mut blocks[block.clone()];
                    kernel.addresses.iter().for_each(|&it| block[it] = self.real(block[it]));
                    cpu.launch(&mut (), &kernel.code, block)
                }
                Step::Epilogues { contraction, operands, epilogues } => {
                    for Epilogue { kernel, block, words } in epilogues {
                        let block = &mut blocks[block.clone()];
                        let others = kernel.addresses.iter().filter(|&&it| Some(it) != words.result);
                        others.for_each(|&it| block[it] = self.real(block[it]));
                    }
                    let calls: SmallVec<[EpilogueCall<'_, _>; 2]> = epilogues
                        .iter()
                        .map(|Epilogue { kernel, block, words }| EpilogueCall {
                            kernel: &kernel.code,
                            block: &blocks[block.clone()],
                            words: *words,
                        })
                        .collect();
                    cpu.contract_with(&mut (), contraction, operands.map(|it| self.operand(it)), &calls)
                }
                Step::Contraction { contraction, operands, result } => {
                    cpu.contract(&mut (), contraction, operands.map(|it| self.operand(it)), self.real(*result))
                }
                Step::Library { call, operands, results } => {
                    cpu.library(&mut (), call, &self.real_views(operands), &self.real_views(results))
                }
                Step::Check { check, operand } => {
                    cpu.check(&mut (), check, &self.real_views(std::slice::from_ref(operand))[0])
                }
                Step::Copy { from, to, bytes } => cpu.copy(&mut (), self.real(*from), self.real(*to), *bytes),
                Step::SetNumber { to, number } => cpu.set_number(&mut (), self.real(*to), *number),
            }
        }
    }
}

// SAFETY: the CPU's driver runs the steps in order, as work of one stream, on the bytes behind the addresses.
unsafe impl Driver for SimDriver {
    type Kernel = Arc<SimKernel>;
    type Commands = Commands;
    const QUEUED: bool = true;

    fn space(&self) -> MemorySpace {
        MemorySpace::Device(self.memory)
    }

    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        kernel.code.view()
    }

    fn specialized(&self, kernel: &Self::Kernel, extents: &[u64]) -> Self::Kernel {
        let code = self.cpu.specialized(&kernel.code, extents);
        Arc::new(SimKernel { code, addresses: kernel.addresses.clone() })
    }

    unsafe fn launch(&self, commands: &mut Commands, kernel: &Self::Kernel, block: &[u64]) -> Result<()> {
        let block = commands.add_block(block);
        self.issue(commands, Step::Launch { kernel: kernel.clone(), block })
    }

    unsafe fn contract(
        &self,
        commands: &mut Commands,
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        result: u64,
    ) -> Result<()> {
        let operands = operands.map(|it| it.address);
        self.issue(commands, Step::Contraction { contraction: contraction.clone(), operands, result })
    }

    unsafe fn contract_with(
        &self,
        commands: &mut Commands,
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        let (contraction, operands) = (contraction.clone(), operands.map(|it| it.address));
        let epilogue = |&EpilogueCall { kernel, block, words }: &EpilogueCall<'_, Self::Kernel>| {
            let block = commands.add_block(block);
            Epilogue { kernel: kernel.clone(), block, words }
        };
        let epilogues = epilogues.iter().map(epilogue).collect();
        self.issue(commands, Step::Epilogues { contraction, operands, epilogues })
    }

    unsafe fn library(
        &self,
        commands: &mut Commands,
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
    ) -> Result<()> {
        if definition(call.op).effects.act_on_host() {
            self.submit(commands)?;
            self.memory.simulation.call()?;
            self.memory.simulation.ran();
            self.wait()?;
            let (operands, results) = (self.real_views(operands), self.real_views(results));
            // SAFETY: as the caller's, as everything before is done.
            return unsafe { self.cpu.library(&mut (), call, &operands, &results) };
        }
        let [operands, results] = [operands, results].map(<[MemoryView]>::to_vec);
        self.issue(commands, Step::Library { call: call.clone(), operands, results })
    }

    unsafe fn check(&self, commands: &mut Commands, check: &Arc<Check>, operand: &MemoryView) -> Result<()> {
        self.issue(commands, Step::Check { check: check.clone(), operand: operand.clone() })
    }

    unsafe fn copy(&self, commands: &mut Commands, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.issue(commands, Step::Copy { from, to, bytes })
    }

    unsafe fn set_number(&self, commands: &mut Commands, to: u64, number: u64) -> Result<()> {
        self.issue(commands, Step::SetNumber { to, number })
    }

    unsafe fn condition(&self, commands: &mut Commands, at: u64) -> Result<bool> {
        self.submit(commands)?;
        // SAFETY: as the caller's.
        let read = unsafe { self.read::<1>(&[at])? };
        Ok(read[0] != [0])
    }

    unsafe fn numbers(&self, commands: &mut Commands, at: &[u64], to: &mut [u64]) -> Result<()> {
        self.submit(commands)?;
        // SAFETY: as the caller's.
        let read = unsafe { self.read::<8>(at)? };
        to.iter_mut().zip(read).for_each(|(to, it)| *to = u64::from_ne_bytes(it));
        Ok(())
    }

    fn free(&self, commands: &mut Commands, block: Storage) {
        commands.freed.push(block);
    }

    fn iterated(&self, commands: &mut Commands) -> Result<()> {
        if commands.steps.len() < MOST_STEPS { Ok(()) } else { self.submit(commands) }
    }

    fn submit(&self, commands: &mut Commands) -> Result<()> {
        let Commands { steps, mut blocks, freed } = std::mem::take(commands);
        if !steps.is_empty() {
            self.memory.simulation.call()?;
            let driver = *self;
            // SAFETY: that of the calls that issued the steps.
            let run = move || steps.iter().try_for_each(|it| unsafe { driver.run(it, &mut blocks) });
            self.on_stream(|stream| self.memory.run(stream, run));
        }
        // Behind the steps, in the order of the stream.
        drop(freed);
        Ok(())
    }
}

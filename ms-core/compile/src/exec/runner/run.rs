//! Executes one run of a loaded plan.

use super::read_inputs::ReadInputs;
use super::repeat::Repeated;
use super::stack::Stacks;
use crate::exec::{
    Check, ContractionOperand, Driver, EpilogueCall, EpilogueWords, KernelLaunch, LibraryCall, MemoryView,
};
use crate::lower::Place;
use ms_ir::Contraction;
use ms_ir::data::{Array, DType, Layout, Storage, Type};
use ms_ir::error::{Missing, Result};
use ms_ir::op::definition;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A plan prepared as far as possible without addresses, with kernels of type `K`.
///
/// The argument blocks of all calls, of kernels and of routines, are in one template of words. A routine is never
/// active twice in a run, so each has one range of words and one of the arena. A run copies the template. Addresses in
/// the arena and of constants are written into the copy once per arena. Addresses of inputs and outputs are written
/// once per call of a routine.
pub(super) struct Program<K> {
    pub constants: Vec<Array>,
    pub arena_bytes: usize,
    pub template: Vec<u64>,
    /// The words with addresses in the arena, and their offsets there.
    pub arena_words: Vec<(u32, usize)>,
    /// The last one is the main routine.
    pub routines: Vec<Routine<K>>,
    /// The argument block of the main routine.
    pub main_block: usize,
}

/// A routine. The argument block of a call has the addresses of its inputs, then of its outputs.
pub(super) struct Routine<K> {
    pub name: Arc<str>,
    pub patches: Vec<Patch>,
    pub steps: Vec<Step<K>>,
    /// The number of inputs.
    pub inputs: usize,
    /// Sizes in bytes of inputs and outputs.
    pub bytes: Vec<usize>,
    /// Whether it opens stacks.
    pub opens_stacks: bool,
    /// Whether it returns none of the stacks that it opens, so that they are closed when it ends.
    pub closes_stacks: bool,
}

/// A word with an address in an input or output.
#[derive(Clone, Copy)]
pub(super) struct Patch {
    pub word: u32,
    /// The position in the call's argument block.
    pub arg: u32,
    pub offset: usize,
}

pub(super) enum Step<K> {
    /// A call of a kernel with an argument block of the template.
    Kernel { code: K, words: Range<usize> },
    /// Calls of kernels that may run concurrently, each with an argument block of the template.
    Kernels(Box<[(K, Range<usize>)]>),
    /// A kernel that only copies operands to results. It is skipped if all results share their operands' memory.
    /// `pairs` are the words with the addresses of source and destination.
    Copy { code: K, words: Range<usize>, pairs: SmallVec<[[usize; 2]; 1]> },
    /// A contraction of these operands, with the word of the result's address.
    Contraction { contraction: Arc<Contraction>, operands: [OperandWord; 2], result: usize },
    /// A contraction with its epilogues.
    Epilogues { contraction: Arc<Contraction>, operands: [OperandWord; 2], epilogues: Box<[Epilogue<K>]> },
    /// A library call, with its epilogues.
    Library { call: Arc<LibraryCall>, inputs: Vec<PlacedView>, outputs: Vec<PlacedView>, epilogues: Box<[Epilogue<K>]> },
    /// A check of elements, which are then copied if there is a result. `copy` has the words of the two addresses and
    /// the size in bytes.
    Check { check: Arc<Check>, of: PlacedView, copy: Option<(Range<usize>, usize)> },
    /// A call of a routine.
    Call { routine: usize, block: usize },
    /// A branch: a call of one of two routines.
    Branch { condition: usize, routines: [usize; 2], block: usize },
    /// A loop: successive calls of a routine.
    Loop(Box<Repeated>),
}

impl<K> Step<K> {
    /// Returns whether a queued driver may submit the issued steps before later ones are issued, if it may in the
    /// `submitting` routines. It does so to read a condition, to act on the host, or because a loop is long.
    fn submits(&self, submitting: &[bool]) -> bool {
        match self {
            Self::Kernel { .. } | Self::Kernels(_) | Self::Copy { .. } => false,
            Self::Contraction { .. } | Self::Epilogues { .. } | Self::Check { .. } => false,
            Self::Library { call, .. } => definition(call.op).effects.act_on_host(),
            Self::Call { routine, .. } => submitting[*routine],
            Self::Branch { .. } | Self::Loop(_) => true,
        }
    }
}

/// An epilogue of a contraction or a library op, with the argument block of a call.
pub(super) struct Epilogue<K> {
    pub code: K,
    pub block: Range<usize>,
    pub words: EpilogueWords,
}

impl<K> Epilogue<K> {
    /// Returns the call, with its argument block in `words`.
    fn call<'a>(&'a self, words: &'a [u64]) -> EpilogueCall<'a, K> {
        EpilogueCall { kernel: &self.code, block: &words[self.block.clone()], words: self.words }
    }
}

/// The word with the address of an operand of a contraction.
#[derive(Clone, Copy)]
pub(super) struct OperandWord {
    pub word: usize,
    /// Whether it is an input of its routine, and so possibly an input of the run.
    pub is_input: bool,
}

/// A view whose layout is relative to the start of its buffer's memory, or of the whole arena.
pub(super) struct PlacedView {
    pub place: Place,
    pub dtype: DType,
    pub layout: Layout,
}

impl<K> Program<K> {
    /// Returns the number of steps of the main routine up to the last one at which a queued driver submits issued
    /// steps.
    pub fn submitting_steps(&self) -> u32 {
        // Callees come before their callers.
        let mut submitting = vec![false; self.routines.len()];
        for at in 0..self.routines.len() {
            submitting[at] = self.routines[at].steps.iter().any(|it| it.submits(&submitting));
        }
        let main = self.routines.last().map_or(&[][..], |it| &it.steps);
        main.iter().rposition(|it| it.submits(&submitting)).map_or(0, |it| it as u32 + 1)
    }

    /// Relocates a copy of the template to an arena.
    pub fn place(&self, words: &mut [u64], arena: &Storage) {
        for &(word, at) in &self.arena_words {
            words[word as usize] = arena.device_ptr() as u64 + at as u64;
        }
    }
}

/// The state of one run.
///
/// The unsafe blocks below rely on these invariants. The loader checked that every step is in bounds of its buffers,
/// and that argument blocks fit the routines that they are passed to. Buffers are constants, ranges of the arena, or
/// inputs and outputs of a call. This run owns the arena until everything is submitted, and the contract of
/// [`Run::call`] covers the addresses of inputs and outputs. In a well-formed plan the buffers of a step overlap only
/// if its contract allows it.
pub(super) struct Run<'a, 'r, D: Driver> {
    pub program: &'a Program<D::Kernel>,
    pub driver: &'a D,
    pub commands: D::Commands,
    pub words: &'a mut [u64],
    pub arena: Option<&'a Storage>,
    pub stacks: &'a mut Stacks,
    /// The inputs, if the run writes none of them.
    pub read: ReadInputs<'r>,
}

impl<'r, D: Driver> Run<'_, 'r, D> {
    /// Issues the main routine.
    ///
    /// # Safety
    /// `places` are the addresses of the inputs, which are valid for reads when the steps run, and of the outputs,
    /// which nothing else accesses meanwhile.
    pub unsafe fn main(&mut self, places: impl Iterator<Item = u64>) -> Result<()> {
        let block = self.program.main_block;
        let mut words = self.words[block..].iter_mut();
        places.for_each(|place| *words.next().expect("a block has a word for every input and output") = place);
        // SAFETY: the main block now has the addresses of valid inputs and outputs.
        unsafe { self.call(self.program.routines.len() - 1, block) }
    }

    /// Calls a routine.
    ///
    /// # Safety
    /// The block has the addresses of the routine's inputs, which are valid for reads when the steps run. It also has
    /// those of its outputs, which nothing else accesses meanwhile.
    pub unsafe fn call(&mut self, routine: usize, block: usize) -> Result<()> {
        let routine = &self.program.routines[routine];
        self.patch(&routine.patches, block);
        if !routine.closes_stacks {
            // SAFETY: the words are patched from `block`, whose addresses are valid by this method's contract.
            return unsafe { self.steps(routine, block) };
        }
        let mark = self.stacks.mark();
        // SAFETY: the words are patched from `block`, whose addresses are valid by this method's contract.
        unsafe { self.steps(routine, block)? };
        self.close_stacks(mark);
        Ok(())
    }

    /// Closes the stacks that were opened since a mark.
    pub fn close_stacks(&mut self, mark: usize) {
        self.stacks.close_from(mark).for_each(|it| self.driver.free(&mut self.commands, it));
    }

    /// Copies addresses from a block to the words of the routine's steps.
    #[inline]
    pub fn patch(&mut self, patches: &[Patch], block: usize) {
        for patch in patches {
            self.words[patch.word as usize] = self.words[block + patch.arg as usize] + patch.offset as u64;
        }
    }

    /// Runs the steps of a routine whose words are patched with the addresses of the block.
    ///
    /// # Safety
    /// The words of the routine's steps are patched from `block`, whose addresses are valid as for [`Run::call`].
    pub unsafe fn steps(&mut self, routine: &Routine<D::Kernel>, block: usize) -> Result<()> {
        let driver = self.driver;
        for (at, step) in routine.steps.iter().enumerate() {
            if D::WATCHED {
                driver.at_step(&mut self.commands, &routine.name, at);
            }
            match step {
                // SAFETY: the loader checked that the block fits the kernel and stays within live buffers.
                Step::Kernel { code, words } => unsafe {
                    driver.launch(&mut self.commands, code, &self.words[words.clone()])?;
                },
                Step::Kernels(calls) => {
                    let launches: SmallVec<[KernelLaunch<'_, D::Kernel>; 16]> = calls
                        .iter()
                        .map(|(kernel, words)| KernelLaunch { kernel, block: &self.words[words.clone()] })
                        .collect();
                    // SAFETY: the loader checked that each block fits its kernel and stays within live buffers, and
                    // that the kernels are independent.
                    unsafe { driver.launch_together(&mut self.commands, &launches)? }
                }
                Step::Copy { code, words, pairs } => {
                    if pairs.iter().any(|&[from, to]| self.words[from] != self.words[to]) {
                        // SAFETY: the loader checked that the block fits the kernel and stays within live buffers.
                        unsafe { driver.launch(&mut self.commands, code, &self.words[words.clone()])? };
                    }
                }
                Step::Contraction { contraction, operands, result } => {
                    let (operands, result) = (operands.map(|it| self.operand(it)), self.words[*result]);
                    // SAFETY: the loader checked that operands and result stay within their live buffers, and lowering
                    // keeps them disjoint.
                    unsafe { driver.contract(&mut self.commands, contraction, operands, result) }
                        .map_err(|it| it.of_memory(Missing::Product))?;
                }
                Step::Epilogues { contraction, operands, epilogues } => {
                    let operands = operands.map(|it| self.operand(it));
                    let calls: SmallVec<[EpilogueCall<'_, D::Kernel>; 2]> =
                        epilogues.iter().map(|it| it.call(self.words)).collect();
                    // SAFETY: the loader checked that the epilogues fit the contraction and stay within their buffers.
                    // Lowered epilogues write no operands, and access elements that another writes at the same rows
                    // only.
                    unsafe { driver.contract_with(&mut self.commands, contraction, operands, &calls) }
                        .map_err(|it| it.of_memory(Missing::Product))?;
                }
                Step::Library { call, inputs, outputs, epilogues } => {
                    let view = |it: &PlacedView| self.view(it, routine, block);
                    let from: SmallVec<[MemoryView; 4]> = inputs.iter().map(view).collect();
                    let to: SmallVec<[MemoryView; 1]> = outputs.iter().map(view).collect();
                    let calls: SmallVec<[EpilogueCall<'_, D::Kernel>; 2]> =
                        epilogues.iter().map(|it| it.call(self.words)).collect();
                    // SAFETY: the loader checked that all views stay within their buffers. Lowering guarantees that
                    // operands and results fit the op, and that its epilogues write neither operands nor elements that
                    // another accesses.
                    unsafe { driver.library_with(&mut self.commands, call, &from, &to, &calls)? }
                }
                Step::Check { check, of, copy } => {
                    let of = self.view(of, routine, block);
                    // SAFETY: the loader checked that the operand stays within its buffer, which earlier steps wrote.
                    unsafe { driver.check(&mut self.commands, check, &of)? };
                    if let Some((words, bytes)) = copy {
                        let at = &self.words[words.clone()];
                        // SAFETY: the loader checked that both ranges stay within their buffers; the operand and the
                        // result do not overlap.
                        unsafe { driver.copy(&mut self.commands, at[0], at[1], *bytes)? };
                    }
                }
                // SAFETY: the loader checked that the block fits the routine, and its addresses are those of live
                // buffers of this one.
                Step::Call { routine, block } => unsafe { self.call(*routine, *block)? },
                Step::Branch { condition, routines: [yes, no], block } => {
                    // SAFETY: the condition is a bool that earlier steps wrote as 0 or 1, and the loader checked that
                    // the block fits both routines.
                    unsafe {
                        let taken = driver.condition(&mut self.commands, self.words[*condition])?;
                        self.call(if taken { *yes } else { *no }, *block)?;
                    }
                }
                // SAFETY: the addresses of this routine's buffers are valid, and the loader checked that the loop's
                // blocks fit its body.
                Step::Loop(repeated) => unsafe { repeated.run(self)? },
            }
        }
        Ok(())
    }

    /// Returns an operand of a contraction, with its block if that belongs to an input that the run does not write.
    fn operand(&self, OperandWord { word, is_input }: OperandWord) -> ContractionOperand<'r> {
        let address = self.words[word];
        let held = if is_input { self.read.block_at(address as usize) } else { None };
        ContractionOperand { address, held: held.map(|it| &**it) }
    }

    /// Returns a view in the running call of the routine, whose argument block is `block`.
    fn view(&self, view: &PlacedView, routine: &Routine<D::Kernel>, block: usize) -> MemoryView {
        let argument = |at: usize| (self.words[block + at], routine.bytes[at]);
        let whole = |it: &Storage| (it.device_ptr() as u64, it.len());
        let (address, bytes) = match view.place {
            Place::Input(i) => argument(i as usize),
            Place::Output(i) => argument(routine.inputs + i as usize),
            Place::Constant(i) => whole(self.program.constants[i as usize].storage()),
            Place::Arena(_) => whole(self.arena.expect("a plan with arena buffers has an arena")),
            Place::Position => unreachable!("a view of positions is refused when the plan is loaded"),
        };
        let block = match view.place {
            Place::Input(_) => self.read.block_at(address as usize).filter(|it| it.may_be_held()),
            _ => None,
        };
        MemoryView { address, bytes, held: block.cloned(), dtype: view.dtype, layout: view.layout.clone() }
    }

    /// Copies the rows of a stack into an array.
    pub fn gather(&mut self, number: u64, row: &Type) -> Result<Array> {
        let shape = row.shape().expect("rows have a constant shape");
        let row_bytes = shape.iter().product::<usize>() * row.dtype.size();
        let rows = self.stacks.rows(number, row_bytes)?;
        let shape: SmallVec<[usize; 4]> = std::iter::once(rows).chain(shape).collect();
        // SAFETY: the loop below writes all rows before the array is read.
        let out = unsafe { Array::uninit_in(self.driver.space(), &shape, row.dtype)? };
        for i in 0..if row_bytes == 0 { 0 } else { rows } {
            let to = out.device_ptr() as u64 + (i * row_bytes) as u64;
            // SAFETY: the stack has row `i`, and row `i` of the new array has `row_bytes` bytes.
            unsafe { self.driver.copy(&mut self.commands, self.stacks.row(number, i), to, row_bytes)? };
        }
        Ok(out)
    }
}

//! One run of a loaded plan.

use super::repeat::Repeated;
use super::stack::Stacks;
use super::{Host, MatrixProduct};
use crate::error::{Error, Result, in_op};
use crate::exec::KernelCode;
use crate::lower::{Place, value_bytes};
use crate::ops::host::check_positions;
use crate::tensor::{Array, Attrs, DType, Layout, Op, Shape, Storage, Type};
use smallvec::SmallVec;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A plan with everything prepared that does not depend on addresses.
///
/// The blocks of all calls, of kernels and of routines, are in one template of words. A routine is
/// never active twice in a run, so that each has one range of words and one of the arena. Addresses
/// in the arena and of constants are written into a copy of the template once per arena, those of
/// inputs and outputs once per call of a routine.
pub(super) struct Program {
    pub host: Arc<dyn Host>,
    pub constants: Vec<Array>,
    pub arena_bytes: usize,
    pub template: Vec<u64>,
    /// Words with addresses in the arena: word, and offset in the arena.
    pub arena_words: Vec<(u32, usize)>,
    /// The last one is the main routine.
    pub routines: Vec<Routine>,
    /// The block of the main routine.
    pub main_block: usize,
}

/// A routine. The block of a call has the addresses of its inputs, then of its outputs.
pub(super) struct Routine {
    pub patches: Vec<Patch>,
    pub steps: Vec<Step>,
    /// The number of inputs.
    pub inputs: usize,
    /// Sizes in bytes of inputs and outputs.
    pub bytes: Vec<usize>,
    /// Whether it opens stacks.
    pub opens_stacks: bool,
    /// Whether it returns none of them, so that they are closed when it ends.
    pub closes_stacks: bool,
}

/// A word with an address in an input or output.
#[derive(Clone, Copy)]
pub(super) struct Patch {
    pub word: u32,
    /// The position in the call's block.
    pub arg: u32,
    pub offset: usize,
}

pub(super) enum Step {
    /// A call of a kernel with a block of the template.
    Kernel { code: Arc<dyn KernelCode>, words: Range<usize> },
    /// A kernel that only copies operands to results, and is skipped if all results share their
    /// operands' memory: pairs of words with the addresses.
    Copy { code: Arc<dyn KernelCode>, words: Range<usize>, pairs: SmallVec<[[usize; 2]; 1]> },
    /// A product, with the words of its three addresses.
    Product { product: Box<MatrixProduct>, words: Range<usize> },
    /// A library call on arrays.
    Library { op: Op, attrs: Attrs, inputs: Vec<PlacedView>, outputs: Vec<PlacedView>, node: Option<u32> },
    /// A copy of elements that are checked, with the words of its two addresses.
    Checked { of: Box<Checked>, words: Range<usize> },
    /// Positions that have to exist.
    Check { of: Box<Positions>, positions: PlacedView },
    /// A call of a routine.
    Call { routine: usize, block: usize },
    /// A branch: a call of one of two routines.
    Branch { condition: usize, routines: [usize; 2], block: usize },
    /// A loop: successive calls of a routine.
    Loop(Box<Repeated>),
}

/// An op of [`Lowering::Check`](crate::ops::Lowering::Check) with row-major operand and result.
pub(super) struct Checked {
    pub op: Op,
    pub check: fn(&Attrs, DType, &[u8]) -> Result<()>,
    pub attrs: Attrs,
    pub ty: Type,
    pub node: Option<u32>,
}

/// Positions along an axis of an operand that an op gathers.
pub(super) struct Positions {
    pub op: Op,
    pub of: Type,
    pub shape: Shape,
    pub axis: usize,
    pub node: Option<u32>,
}

/// A view whose layout is relative to the start of its place's memory, or of the whole arena.
pub(super) struct PlacedView {
    pub place: Place,
    pub dtype: DType,
    pub layout: Layout,
}

impl Program {
    /// Relocates a copy of the template to an arena.
    pub fn place(&self, words: &mut [u64], arena: &Storage) {
        for &(word, at) in &self.arena_words {
            words[word as usize] = arena.device_ptr() as u64 + at as u64;
        }
    }
}

/// The error of an op, with the op, its operands and the line.
#[cold]
fn refused<'a>(error: Error, op: Op, operands: impl Iterator<Item = &'a Type>, node: Option<u32>) -> Error {
    let error = error.with_op(op.name()).with_operands(operands.map(|it| it.to_string()));
    match node {
        Some(node) => error.of_node(node),
        None => error,
    }
}

/// The state of one run.
///
/// Safety of the unsafe blocks below: the loader checked that every step is in bounds of its
/// buffers, and that blocks fit the routines that they are passed to. Buffers are constants, ranges
/// of the arena, which this run owns, and inputs and outputs of a call, whose addresses are the
/// caller's contract. In a well-formed plan the buffers of a step overlap only if its contract
/// allows it.
pub(super) struct Run<'a> {
    pub program: &'a Program,
    pub words: &'a mut [u64],
    pub arena: Option<&'a Arc<Storage>>,
    pub stacks: &'a mut Stacks,
}

impl Run<'_> {
    /// Runs the main routine.
    ///
    /// # Safety
    /// The addresses are those of its inputs, which are valid for reads during the call, and of its
    /// outputs, which nobody else accesses meanwhile.
    pub unsafe fn main(&mut self, places: impl Iterator<Item = u64>) -> Result<()> {
        let block = self.program.main_block;
        for (word, place) in self.words[block..].iter_mut().zip(places) {
            *word = place;
        }
        // SAFETY: as the caller's.
        unsafe { self.call(self.program.routines.len() - 1, block) }
    }

    /// Calls a routine.
    ///
    /// # Safety
    /// The block has addresses as in [`Run::main`].
    pub unsafe fn call(&mut self, routine: usize, block: usize) -> Result<()> {
        let routine = &self.program.routines[routine];
        self.patch(&routine.patches, block);
        if !routine.closes_stacks {
            // SAFETY: as the caller's.
            return unsafe { self.steps(routine, block) };
        }
        let mark = self.stacks.mark();
        // SAFETY: as the caller's.
        unsafe { self.steps(routine, block)? };
        self.stacks.close_from(mark);
        Ok(())
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
    /// As for [`Run::call`].
    pub unsafe fn steps(&mut self, routine: &Routine, block: usize) -> Result<()> {
        for step in &routine.steps {
            match step {
                // SAFETY: the loader checked the block, see [`Run`].
                Step::Kernel { code, words } => unsafe { code.call(&self.words[words.clone()]) },
                Step::Copy { code, words, pairs } => {
                    if pairs.iter().any(|&[from, to]| self.words[from] != self.words[to]) {
                        // SAFETY: as above.
                        unsafe { code.call(&self.words[words.clone()]) }
                    }
                }
                Step::Product { product, words } => {
                    let at = &self.words[words.clone()];
                    let (a, b, out) = (at[0] as *const u8, at[1] as *const u8, at[2] as *mut u8);
                    // SAFETY: as above.
                    unsafe { self.program.host.product(product, a, b, out)? }
                }
                Step::Library { op, attrs, inputs, outputs, node } => {
                    // SAFETY: as above.
                    let array = |view: &PlacedView| unsafe { self.array(view, routine, block) };
                    let from: SmallVec<[Array; 4]> = inputs.iter().map(array).collect();
                    let from: SmallVec<[&Array; 4]> = from.iter().collect();
                    let to: SmallVec<[Array; 1]> = outputs.iter().map(array).collect();
                    // SAFETY: as above; operands and results of a lowered step fit its op.
                    in_op(|| unsafe { self.program.host.library(*op, attrs, &from, &to) }).map_err(|it| {
                        let types: SmallVec<[Type; 4]> = from.iter().map(|it| it.ty()).collect();
                        refused(it, *op, types.iter(), *node)
                    })?;
                }
                Step::Checked { of, words } => {
                    let at = &self.words[words.clone()];
                    let bytes = value_bytes(&of.ty).expect("views have constant shapes");
                    // SAFETY: as above; the operand and the result do not overlap.
                    let given = unsafe { std::slice::from_raw_parts(at[0] as *const u8, bytes) };
                    (of.check)(&of.attrs, of.ty.dtype, given)
                        .map_err(|it| refused(it, of.op, std::iter::once(&of.ty), of.node))?;
                    // SAFETY: as above.
                    unsafe { given.as_ptr().copy_to_nonoverlapping(at[1] as *mut u8, bytes) };
                }
                Step::Check { of, positions } => {
                    // SAFETY: as above.
                    let positions = unsafe { self.array(positions, routine, block) };
                    check_positions(&positions, of.axis, &of.shape)
                        .map_err(|it| refused(it, of.op, [&of.of, &positions.ty()].into_iter(), of.node))?;
                }
                // SAFETY: the loader checked that the block fits the routine, see [`Run`].
                Step::Call { routine, block } => unsafe { self.call(*routine, *block)? },
                Step::Branch { condition, routines: [yes, no], block } => {
                    // SAFETY: as above; kernels write bools as 0 and 1.
                    unsafe {
                        let taken = if *(self.words[*condition] as *const u8) != 0 { *yes } else { *no };
                        self.call(taken, *block)?;
                    }
                }
                // SAFETY: as above.
                Step::Loop(repeated) => unsafe { repeated.run(self)? },
            }
        }
        Ok(())
    }

    /// The array of a view in this call.
    ///
    /// # Safety
    /// The block is that of the running call of the routine, and the array is dropped before it ends.
    unsafe fn array(&self, view: &PlacedView, routine: &Routine, block: usize) -> Array {
        // SAFETY: the addresses in the block are valid for that many bytes.
        let at = |arg: usize| unsafe {
            let first = NonNull::new(self.words[block + arg] as *mut u8).expect("a block holds addresses");
            Arc::new(Storage::borrowed(first, routine.bytes[arg]))
        };
        let storage = match view.place {
            Place::Input(i) => at(i as usize),
            Place::Output(i) => at(routine.inputs + i as usize),
            Place::Constant(i) => self.program.constants[i as usize].storage().clone(),
            Place::Arena(_) => self.arena.expect("a plan with arena buffers has an arena").clone(),
            Place::Position => unreachable!("a view of positions is refused when the plan is loaded"),
        };
        // SAFETY: steps write what later ones read, and no other array overlaps one that is written.
        unsafe { Array::new(storage, view.layout.clone(), view.dtype) }
    }

    /// The rows of a stack as an array.
    pub fn gather(&self, number: u64, row: &Type) -> Result<Array> {
        let shape = row.shape().expect("rows have a constant shape");
        let row_bytes = shape.iter().product::<usize>() * row.dtype.size();
        let rows = self.stacks.rows(number, row_bytes)?;
        let shape: SmallVec<[usize; 4]> = std::iter::once(rows).chain(shape).collect();
        // SAFETY: all rows are written here.
        let out = unsafe { Array::uninit(&shape, row.dtype)? };
        for i in 0..if row_bytes == 0 { 0 } else { rows } {
            let to = out.device_ptr().wrapping_add(i * row_bytes);
            // SAFETY: the stack has that row, and the new array has room for it.
            unsafe { to.copy_from_nonoverlapping(self.stacks.row(number, i), row_bytes) };
        }
        Ok(out)
    }
}

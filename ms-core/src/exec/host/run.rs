//! One run of a loaded plan.

use super::repeat::Repeated;
use super::stack::Stacks;
use super::{Host, MatrixProduct};
use crate::error::{Error, Result, in_op};
use crate::exec::KernelCode;
use crate::lower::{Place, value_bytes};
use crate::ops;
use crate::tensor::{Array, Attrs, DType, Layout, Op, Storage, Type};
use smallvec::SmallVec;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A plan with everything prepared that does not depend on addresses.
///
/// The blocks of all calls, of kernels and of routines, stand one after the other in one
/// template of words. No routine runs twice at a time, so that each has one place for its words
/// and one in the arena. Addresses in the arena and in constants are written into a copy of the
/// template once per arena, those of inputs and outputs once per call of a routine.
pub(super) struct Program {
    pub host: Arc<dyn Host>,
    pub constants: Vec<Array>,
    pub arena_bytes: usize,
    pub template: Vec<u64>,
    /// Words that hold addresses in the arena: word, and byte of the arena.
    pub arena_words: Vec<(u32, usize)>,
    /// The last one is the program's own.
    pub routines: Vec<Routine>,
    /// Where the block of the program's own routine stands.
    pub main_block: usize,
}

/// The steps of a routine. A call's block holds the addresses of its inputs, then of its outputs.
pub(super) struct Routine {
    pub patches: Vec<Patch>,
    pub steps: Vec<Step>,
    /// The number of inputs.
    pub inputs: usize,
    /// Bytes of inputs and outputs.
    pub bytes: Vec<usize>,
    /// Whether stacks are opened in it.
    pub opens_stacks: bool,
    /// Whether it gives none of those, so that they can be closed when it ends.
    pub closes_stacks: bool,
}

/// A word that holds an address in an input or output.
#[derive(Clone, Copy)]
pub(super) struct Patch {
    pub word: u32,
    /// The position in the call's block.
    pub arg: u32,
    pub offset: usize,
}

pub(super) enum Step {
    /// A call with a block of the template.
    Kernel { code: Arc<dyn KernelCode>, words: Range<usize> },
    /// A kernel that copies each of some operands to a result, which has nothing to do where all lie in
    /// their operands' memory: pairs of words with the addresses.
    Copy { code: Arc<dyn KernelCode>, words: Range<usize>, pairs: SmallVec<[[usize; 2]; 1]> },
    /// A product whose three addresses stand in the template.
    Product { product: Box<MatrixProduct>, words: Range<usize> },
    /// An op on arrays.
    Library { op: Op, attrs: Attrs, inputs: Vec<PlacedView>, outputs: Vec<PlacedView>, node: Option<u32> },
    /// Classes that have to exist: their copy, whose two addresses stand in the template.
    Classes { classes: Box<Classes>, words: Range<usize> },
    /// A call of a routine.
    Call { routine: usize, block: usize },
    /// A call of one of two routines.
    Branch { condition: usize, routines: [usize; 2], block: usize },
    /// Calls of a routine, one after the other.
    Loop(Box<Repeated>),
}

/// A [`CLASS_INDEX`](crate::ops::CLASS_INDEX) of row-major operand and result.
pub(super) struct Classes {
    pub attrs: Attrs,
    pub ty: Type,
    pub node: Option<u32>,
}

/// A view whose layout counts from the start of its place's memory, or of the whole arena.
pub(super) struct PlacedView {
    pub place: Place,
    pub dtype: DType,
    pub layout: Layout,
}

impl Program {
    /// Writes the addresses of an arena into a copy of the template.
    pub fn place(&self, words: &mut [u64], arena: &Storage) {
        for &(word, at) in &self.arena_words {
            words[word as usize] = arena.as_ptr() as u64 + at as u64;
        }
    }
}

/// What an op refuses, with what is known of it.
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
/// Safety of all that follows: the loader checked that every step stays inside its buffers, and
/// that blocks fit the routines that they are given to. Buffers are constants, places of the
/// arena, which belongs to this run, and inputs and outputs of a call, whose addresses its
/// caller vouches for. A well-formed plan gives a step overlapping buffers only where its
/// contract allows them.
pub(super) struct Run<'a> {
    pub program: &'a Program,
    pub words: &'a mut [u64],
    pub arena: Option<&'a Arc<Storage>>,
    pub stacks: &'a mut Stacks,
}

impl Run<'_> {
    /// Runs the program's own routine.
    ///
    /// # Safety
    /// The addresses are those of memory for its inputs, which may be read, and for its outputs,
    /// which nobody else uses, during the call.
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
    /// The block holds addresses as [`Run::main`] wants them.
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

    /// Writes addresses of a block where the routine's steps read them.
    #[inline]
    pub fn patch(&mut self, patches: &[Patch], block: usize) {
        for patch in patches {
            self.words[patch.word as usize] = self.words[block + patch.arg as usize] + patch.offset as u64;
        }
    }

    /// Runs the steps of a routine whose words hold the addresses of the block.
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
                    // SAFETY: as above; lowering gives a step operands and results that fit its op.
                    in_op(|| unsafe { self.program.host.library(*op, attrs, &from, &to) }).map_err(|it| {
                        let types: SmallVec<[Type; 4]> = from.iter().map(|it| it.ty()).collect();
                        refused(it, *op, types.iter(), *node)
                    })?;
                }
                Step::Classes { classes, words } => {
                    let at = &self.words[words.clone()];
                    let bytes = value_bytes(&classes.ty).expect("views have constant shapes");
                    // SAFETY: as above; the operand and the result are apart.
                    let given = unsafe { std::slice::from_raw_parts(at[0] as *const u8, bytes) };
                    ops::check_classes(&classes.attrs, classes.ty.dtype, given)
                        .map_err(|it| refused(it, ops::CLASS_INDEX.op(), std::iter::once(&classes.ty), classes.node))?;
                    // SAFETY: as above.
                    unsafe { given.as_ptr().copy_to_nonoverlapping(at[1] as *mut u8, bytes) };
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

    /// The array that a view names in this call.
    ///
    /// # Safety
    /// The block is that of the running call of the routine, and the array is dropped with it.
    unsafe fn array(&self, view: &PlacedView, routine: &Routine, block: usize) -> Array {
        // SAFETY: the addresses in the block are those of that many bytes.
        let at = |arg: usize| unsafe {
            let first = NonNull::new(self.words[block + arg] as *mut u8).expect("a block holds addresses");
            Arc::new(Storage::borrowed(first, routine.bytes[arg]))
        };
        let storage = match view.place {
            Place::Input(i) => at(i as usize),
            Place::Output(i) => at(routine.inputs + i as usize),
            Place::Constant(i) => self.program.constants[i as usize].storage().clone(),
            Place::Arena(_) => self.arena.expect("a plan with arena buffers has an arena").clone(),
        };
        // SAFETY: steps write what later ones read, and an array that is written is read by none.
        unsafe { Array::new(storage, view.layout.clone(), view.dtype) }
    }

    /// The rows of a stack, one after the other.
    pub fn gather(&self, number: u64, row: &Type) -> Result<Array> {
        let shape = row.shape().expect("rows have a constant shape");
        let row_bytes = shape.iter().product::<usize>() * row.dtype.size();
        let rows = self.stacks.rows(number, row_bytes)?;
        let shape: SmallVec<[usize; 4]> = std::iter::once(rows).chain(shape).collect();
        // SAFETY: all rows are written here.
        let out = unsafe { Array::uninit(&shape, row.dtype)? };
        for i in 0..if row_bytes == 0 { 0 } else { rows } {
            let to = out.as_mut_ptr().wrapping_add(i * row_bytes);
            // SAFETY: the stack has that row, and the fresh array has room for it.
            unsafe { to.copy_from_nonoverlapping(self.stacks.row(number, i), row_bytes) };
        }
        Ok(out)
    }
}

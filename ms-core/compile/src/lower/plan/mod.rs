//! Defines plans: flat lists of steps over buffers, without addresses.

pub(in crate::lower) mod assemble;
pub(in crate::lower) mod conditions;
pub(in crate::lower) mod display;
pub(in crate::lower) mod draft;
pub(in crate::lower) mod horizontal;
pub(in crate::lower) mod locations;
pub(in crate::lower) mod memory;
pub(in crate::lower) mod reuse;
pub(in crate::lower) mod routines;
pub(in crate::lower) mod schedule;
pub(in crate::lower) mod stored;

use ms_ir::data::{Attrs, DType, Dim, Layout, Literal, Op};
use ms_ir::{Contraction, Kernel, LaneAxis, ParamId, Precision, Type};
use smallvec::SmallVec;
use std::ops::Deref;

/// A kernel of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelId(pub u32);

/// A buffer of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);

/// A routine of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RoutineId(pub u32);

/// The program of an executable: kernels, constants, and the routines that use them. Serialisable, and independent of
/// addresses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// Distinct kernels of all routines.
    pub kernels: Vec<Kernel>,
    /// Constant data of all routines.
    pub constants: Vec<Literal>,
    /// The routines, one for each distinct graph. The last is the main routine, and every other comes before its
    /// callers. So there is no recursion, and at most one call of each is active at a time.
    pub routines: Vec<Routine>,
}

impl Plan {
    /// Returns the main routine.
    ///
    /// # Panics
    /// If the plan has no routines.
    pub fn main(&self) -> &Routine {
        self.routines.last().expect("a plan has a routine")
    }

    /// Returns the offset in bytes of each routine's arena within a run's memory, and the total size. A routine's arena
    /// follows the arenas of all its callers. Returns `None` if a routine calls one that does not come before it.
    pub fn arena(&self) -> Option<(Vec<usize>, usize)> {
        let mut bases = vec![0; self.routines.len()];
        let mut all = 0;
        for (at, routine) in self.routines.iter().enumerate().rev() {
            let end = bases[at] + routine.arena_bytes.next_multiple_of(ALIGN);
            all = all.max(end);
            for callee in routine.steps.iter().flat_map(PlanStep::callees) {
                let callee = callee.0 as usize;
                if callee >= at {
                    return None;
                }
                bases[callee] = end.max(bases[callee]);
            }
        }
        Some((bases, all))
    }
}

/// The alignment of routines in the arena, in bytes.
const ALIGN: usize = 64;

/// Steps over buffers, lowered from one graph.
///
/// A value whose first dimension is [`Dim::DYNAMIC`](ms_ir::data::Dim::DYNAMIC) is a stack. Its elements
/// are stored outside of all buffers; its buffer contains an eight-byte handle.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Routine {
    /// The name in reports.
    pub name: String,
    /// Types of the inputs; input arrays are row-major.
    pub inputs: Vec<Type>,
    /// Types of the outputs; output arrays are row-major.
    pub outputs: Vec<Type>,
    /// Memory of values.
    pub buffers: Vec<Buffer>,
    /// Size of the arena for the intermediate values of one run, without those of called routines, in bytes.
    pub arena_bytes: usize,
    /// The steps in execution order.
    pub steps: Vec<PlanStep>,
    /// The outputs that may reuse the memory of donated inputs.
    pub reuse: Reuse,
}

/// The last reads of inputs and the first accesses of outputs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reuse {
    /// The step from which on each input is dead; none if its elements are stored elsewhere (see [`Routine`]).
    pub free_from: Vec<u32>,
    /// The first step that accesses each output.
    pub touched_at: Vec<u32>,
    /// Pairs of an output and an input, sorted. The last reader of the input is the step that first writes to the
    /// output's memory. It reads each element before it overwrites it, or updates them in place.
    pub in_place: Vec<(u32, u32)>,
    /// The number of steps up to the last one that may fail, because it checks values or allocates memory.
    pub fallible: u32,
}

impl Reuse {
    /// Returns whether an output may overwrite an input of the same size in bytes.
    pub fn allows(&self, output: usize, input: usize) -> bool {
        let (Some(free), Some(touched)) = (self.free_from.get(input), self.touched_at.get(output)) else {
            return false;
        };
        free <= touched || self.in_place.binary_search(&(output as u32, input as u32)).is_ok()
    }

    /// Returns the inputs that an output may overwrite in the step that reads them last.
    pub fn in_place_of(&self, output: usize) -> impl Iterator<Item = usize> {
        let output = output as u32;
        let first = self.in_place.partition_point(|it| it.0 < output);
        self.in_place[first..].iter().take_while(move |it| it.0 == output).map(|it| it.1 as usize)
    }

    /// Returns [`Reuse::allows`] for an input that a failing run must not change: the output is written only when no
    /// later step can fail.
    pub fn allows_state(&self, output: usize, input: usize) -> bool {
        self.touched_at.get(output).is_some_and(|&at| at >= self.fallible) && self.allows(output, input)
    }
}

/// A contiguous block of memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// The size in bytes.
    pub bytes: usize,
    /// The location.
    pub place: BufferLocation,
}

/// The location of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BufferLocation {
    /// The memory of an input.
    Input(u32),
    /// The memory of an output.
    Output(u32),
    /// Constant data of the plan.
    Constant(u32),
    /// This offset in the arena, a multiple of 64.
    Arena(usize),
    /// No memory: the argument of a param of [`Role::Iota`](ms_ir::Role).
    Position,
}

/// A strided view of a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// The element type.
    pub dtype: DType,
    /// The layout, in elements.
    pub layout: Layout,
}

/// A row-major value in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// The buffer.
    pub buffer: BufferId,
    /// The offset of its first byte in the buffer.
    pub offset: usize,
}

/// An argument of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// The buffer.
    pub buffer: BufferId,
    /// The offset of the first element, in bytes.
    pub offset: usize,
    /// Bytes from one element to the next, by loop of the kernel.
    pub strides: SmallVec<[i64; 4]>,
    /// The axis of a param that is [indexed](ms_ir::Role::Indexed). `offset` points to the element at index zero.
    pub axis: Option<IndexedAxis>,
}

/// An axis that a kernel indexes with values that it computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexedAxis {
    /// Bytes from one position to the next.
    pub stride: i64,
    /// The number of positions.
    pub extent: usize,
}

/// A call of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelCall {
    /// The kernel.
    pub kernel: KernelId,
    /// The extents of its loops.
    pub extents: SmallVec<[usize; 4]>,
    /// The arguments of its params, in order.
    pub args: SmallVec<[Argument; 4]>,
}

/// A contraction of two buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContractionStep {
    /// Element types, sizes and strides.
    pub contraction: Contraction,
    /// The first element of the left operand.
    pub a: Span,
    /// The first element of the right operand.
    pub b: Span,
    /// The destination of the result.
    pub result: ContractionResult,
}

/// The destination of a contraction's result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ContractionResult {
    /// Stores it, with this first element.
    Stored(Span),
    /// Passes it to kernels, of which there is at least one, and does not materialise it.
    Epilogues(Vec<Epilogue>),
}

/// A kernel that computes with the result of a contraction and writes results of the step. A device runs it on tiles of
/// the result, in any order, as soon as these are computed. All epilogues of a contraction run on each tile, in order.
///
/// The outputs of the kernel do not alias the operands of the contraction or the values that its other epilogues
/// access. Epilogues [chained after](EpilogueLoops::Rows) it are the exception.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epilogue {
    /// The kernel.
    pub kernel: KernelId,
    /// The loops of the kernel.
    pub loops: EpilogueLoops,
    /// The arguments of the params, in order, without the result of the contraction.
    pub args: SmallVec<[Argument; 4]>,
}

/// The loops of an epilogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EpilogueLoops {
    /// Loops over the elements: one for each axis of the result, batch, m and n in that order. If the result has no
    /// axes, there is one loop of one iteration. The loops are parallel, except for the last one of a kernel that
    /// reduces rows.
    ///
    /// This param, an input, is the result. The kernel reads its elements rounded or wrapped to the type of the result,
    /// as if they were in memory.
    Elements(ParamId),
    /// Loops over the rows: one for each row axis of the result, batch and m in that order, then these extents along
    /// each row. All loops are parallel. The kernel does not read the result. It reads the outputs of epilogues before
    /// it, and in each row only the elements of that row.
    Rows(SmallVec<[usize; 2]>),
}

impl EpilogueLoops {
    /// Returns whether a tile must have whole rows for a kernel with these loops.
    ///
    /// A kernel that reduces rows needs this, with the column axis as its lanes. So does one that reads columns other
    /// than those that it computes. Then there is one column axis. Returns `None` if the kernel does not have the loops
    /// of an epilogue.
    pub fn is_by_rows(&self, kernel: &Kernel, contraction: &Contraction) -> Option<bool> {
        match (self, kernel.lanes, kernel.seq) {
            (Self::Elements(_), LaneAxis::Parallel, 0) => Some(false),
            (Self::Elements(_), LaneAxis::Reduced, 0) if contraction.n.len() == 1 => Some(true),
            (Self::Rows(_), LaneAxis::Parallel, 0) if contraction.n.len() == 1 => Some(true),
            _ => None,
        }
    }

    /// Returns the extents of the loops, for an epilogue of this contraction.
    pub fn extents(&self, contraction: &Contraction) -> SmallVec<[usize; 4]> {
        let mut extents: SmallVec<[usize; 4]> = contraction.axes_of(2).map(|it| it.size).collect();
        match self {
            Self::Elements(_) if extents.is_empty() => extents.push(1),
            Self::Elements(_) => {}
            Self::Rows(along) => {
                extents.truncate(Self::rows(contraction));
                extents.extend_from_slice(along);
            }
        }
        extents
    }

    /// Returns the number of row axes of a contraction's result.
    pub fn rows(contraction: &Contraction) -> usize {
        contraction.batch.len() + contraction.m.len()
    }
}

/// Returns the axes of loops over an NCHW result `[n, c, spatial..]`: images, channels, and spatial elements. Axes of
/// size one are dropped.
///
/// ```
/// # use ms_core::lower::image_axes;
/// assert_eq!(image_axes(&[8, 64, 28, 28])[..], [8, 64, 784]);
/// assert_eq!(image_axes(&[1, 64, 7])[..], [64, 7]);
/// ```
pub fn image_axes(shape: &[usize]) -> SmallVec<[usize; 4]> {
    let (leading, plane) = shape.split_at(shape.len().min(2));
    let axes = leading.iter().copied().chain([plane.iter().product()]);
    axes.filter(|&it| it != 1).collect()
}

/// The op of a step. The stored form has the number, or for a custom op the name and source.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlanOp(pub Op);

impl Deref for PlanOp {
    type Target = Op;

    fn deref(&self) -> &Op {
        &self.0
    }
}

/// A step of a [`Plan`].
#[derive(Clone, PartialEq, Debug)]
pub enum PlanStep {
    /// A generated kernel.
    Kernel(KernelCall),
    /// Two or more independent kernels: none accesses a value that another writes. A device runs them in any order
    /// or concurrently.
    Kernels(Vec<KernelCall>),
    /// A contraction.
    Contraction(Box<ContractionStep>),
    /// An op that the backend's library, or the op's own `eval`, runs as a whole.
    Library {
        /// The op.
        op: PlanOp,
        /// The attributes.
        attrs: Attrs,
        /// The precision of the op's products, if it [consists of them](ms_ir::op::Lowering::library_precision).
        precision: Precision,
        /// The operands.
        inputs: Vec<View>,
        /// The results, row-major.
        outputs: Vec<View>,
        /// The number of its node in the traced graph; see [`line_of_node`](crate::lower::line_of_node).
        node: Option<u32>,
        /// Kernels that compute elementwise with its only result. Their loops are the [image axes](image_axes) of the
        /// result, all parallel.
        ///
        /// A device may run them on any tiles of the result, in any order, as soon as these are computed. On each tile
        /// they run in this order. Their outputs do not alias the operands or the values that another accesses, but
        /// may overwrite the result.
        epilogues: Vec<KernelCall>,
    },
    /// Fails if the check of an op's operand has refused an element. A kernel before it writes the record of the check.
    Check {
        /// The op.
        op: PlanOp,
        /// The attributes.
        attrs: Attrs,
        /// The types of all operands of the op.
        operands: Vec<Type>,
        /// The [position](ms_ir::op::OpDef::build_check) of the first refused element, an i64.
        record: Span,
        /// The [checked operand](ms_ir::op::OpDef::checked_operand), and those behind it, which the error shows.
        views: Vec<View>,
        /// See [`PlanStep::Library`].
        node: Option<u32>,
    },
    /// A call of a routine.
    Call {
        /// The routine.
        routine: RoutineId,
        /// The arguments.
        inputs: Vec<Span>,
        /// The locations of its results.
        outputs: Vec<Span>,
    },
    /// A branch to one of two routines, with the same types of arguments and results.
    Branch {
        /// The condition, a bool.
        condition: Span,
        /// The routines of a true and of a false condition.
        routines: [RoutineId; 2],
        /// Their arguments.
        inputs: Vec<Span>,
        /// The locations of their results.
        outputs: Vec<Span>,
        /// Whether the device decides the [condition](crate::target::Target::conditions). Then both routines can be
        /// issued before it is known.
        on_device: bool,
    },
    /// A loop.
    Loop(Box<Loop>),
}

impl PlanStep {
    /// Returns the kernels of a step that consists of kernels only.
    pub fn kernels(&self) -> &[KernelCall] {
        match self {
            Self::Kernel(it) => std::slice::from_ref(it),
            Self::Kernels(all) => all,
            _ => &[],
        }
    }

    /// Returns the routines that a step runs.
    pub fn callees(&self) -> &[RoutineId] {
        match self {
            Self::Kernel(_) | Self::Kernels(_) => &[],
            Self::Contraction(_) | Self::Library { .. } | Self::Check { .. } => &[],
            Self::Call { routine, .. } => std::slice::from_ref(routine),
            Self::Branch { routines, .. } => routines,
            Self::Loop(it) => std::slice::from_ref(&it.body),
        }
    }
}

/// A loop over a routine. The routine's inputs are carries, one element of each sequence, and invariants. Its outputs
/// are the carries that it computes, one element of each series, and, in a [`Repeat::While`], the condition of the next
/// iteration.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// The routine of one iteration.
    pub body: RoutineId,
    /// The number of iterations.
    pub repeat: Repeat,
    /// Values that each iteration replaces.
    pub carries: Vec<Carry>,
    /// Values of which each iteration reads one element.
    pub sequences: Vec<Span>,
    /// Values that are the same in all iterations.
    pub invariants: Vec<Span>,
    /// The locations of the series, to which each iteration adds an element.
    pub series: Vec<Span>,
    /// Memory for the next value of a carry while its current one is still read. There is one for each chain of
    /// carries, in the order of the computed carries. A chain starts with a [computed](NextCarry::Computed) carry and
    /// continues with those that take its previous value.
    pub spares: Vec<Span>,
    /// Whether the device decides the [condition](crate::target::Target::conditions) of a [`Repeat::While`]. Then the
    /// routine can be issued before it is known.
    pub on_device: bool,
}

/// The number of iterations of a loop.
#[derive(Clone, PartialEq, Debug)]
pub enum Repeat {
    /// Iterates while a condition holds. Series are stacks.
    While {
        /// The condition of the first iteration, a bool.
        first: Span,
        /// Memory for the condition of the next iteration.
        next: Span,
        /// The location of the number of iterations, an i64.
        count: Option<Span>,
    },
    /// Iterates a constant number of times. Sequences and series are arrays.
    Fixed {
        /// The number of iterations.
        count: usize,
        /// Whether to run from the last element of sequences and series to the first.
        reverse: bool,
    },
    /// Iterates as often as an i64 says. Sequences and series are stacks.
    Counted {
        /// The number of iterations.
        count: Span,
        /// Whether to run from the last element of sequences and series to the first.
        reverse: bool,
    },
}

/// A value that each iteration of a loop replaces.
#[derive(Clone, PartialEq, Debug)]
pub struct Carry {
    /// The first value.
    pub initial: Span,
    /// The location of the last value; used as scratch memory until then.
    pub result: Span,
    /// The source of the next value.
    pub next: NextCarry,
}

/// The source of a carry's next value. At most one carry takes the value of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextCarry {
    /// The routine computes it.
    Computed,
    /// The routine computes it and may overwrite the current value: see [`Reuse::allows`].
    Updated,
    /// The current value of this carry.
    From(u32),
}

/// Returns the size of a row-major value, or of the handle of a stack, in bytes; `None` if a dimension is symbolic.
pub fn value_bytes(ty: &Type) -> Option<usize> {
    if is_stack(ty) { Some(STACK_BYTES) } else { ty.numel().map(|it| it * ty.dtype.size()) }
}

/// Returns whether a value is a stack, whose length is the number of iterations of a loop.
pub fn is_stack(ty: &Type) -> bool {
    ty.dims.first() == Some(&Dim::DYNAMIC)
}

/// Size of the handle of a stack, in bytes.
pub const STACK_BYTES: usize = 8;

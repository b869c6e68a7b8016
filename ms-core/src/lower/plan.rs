//! Plans: flat steps over buffers, without addresses.

use crate::ir::{Kernel, Precision, Type};
use crate::tensor::{Attrs, DType, Dim, Layout, Literal, Op};
use smallvec::SmallVec;

/// A kernel of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelId(pub u32);

/// A buffer of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);

/// A routine of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RoutineId(pub u32);

/// What an executable runs: kernels, constants, and the routines that use them. Serialisable;
/// knows no addresses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// How products of floats add their terms up.
    pub precision: Precision,
    /// Distinct kernels of all routines.
    pub kernels: Vec<Kernel>,
    /// Constant data of all routines.
    pub constants: Vec<Literal>,
    /// One for each distinct graph: the last is the program's own, and every other one comes
    /// before those that call it. So none calls itself, and of each runs one call at a time.
    pub routines: Vec<Routine>,
}

impl Plan {
    /// The program's own routine.
    ///
    /// # Panics
    /// A plan without routines has none.
    pub fn main(&self) -> &Routine {
        self.routines.last().expect("a plan has a routine")
    }

    /// Where each routine's part of the memory of a run begins, in bytes: behind those of all its
    /// callers; and the length of the whole. Nothing where a routine calls one that does not come
    /// before it.
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

/// Routines begin in the arena at a multiple of this many bytes.
const ALIGN: usize = 64;

/// Steps over buffers: what one graph became.
///
/// A value whose first dimension is [`Dim::DYNAMIC`](crate::tensor::Dim::DYNAMIC) is a stack. Its
/// elements live outside of all buffers; its buffer holds eight bytes by which steps know it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Routine {
    /// The name in reports.
    pub name: String,
    /// Types of the inputs; input arrays are row-major.
    pub inputs: Vec<Type>,
    /// Types of the outputs; output arrays are row-major.
    pub outputs: Vec<Type>,
    /// Where values live.
    pub buffers: Vec<Buffer>,
    /// Bytes of the arena that holds the intermediate values of one run, those of called
    /// routines not counted.
    pub arena_bytes: usize,
    /// What happens, in order.
    pub steps: Vec<PlanStep>,
    /// Which outputs may lie in the memory of inputs that the caller gives up.
    pub reuse: Reuse,
}

/// When inputs are read for the last time, and outputs first touched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reuse {
    /// By input, the first step from which on nobody reads it; of one whose elements lie elsewhere
    /// (see [`Routine`]), none.
    pub free_from: Vec<u32>,
    /// By output, the step that first touches it.
    pub touched_at: Vec<u32>,
    /// Outputs, and inputs that are read for the last time by the step that first writes in the output's
    /// memory: each element before it is written over, or the step updates them. Sorted.
    pub in_place: Vec<(u32, u32)>,
}

impl Reuse {
    /// Whether an output may be written over an input of as many bytes.
    pub fn allows(&self, output: usize, input: usize) -> bool {
        let (Some(free), Some(touched)) = (self.free_from.get(input), self.touched_at.get(output)) else {
            return false;
        };
        free <= touched || self.in_place.binary_search(&(output as u32, input as u32)).is_ok()
    }

    /// The inputs that an output may be written over by the step that reads them for the last time.
    pub fn in_place_of(&self, output: usize) -> impl Iterator<Item = usize> {
        let output = output as u32;
        let first = self.in_place.partition_point(|it| it.0 < output);
        self.in_place[first..].iter().take_while(move |it| it.0 == output).map(|it| it.1 as usize)
    }
}

/// A run of bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Its length in bytes.
    pub bytes: usize,
    /// Where it is.
    pub place: Place,
}

/// Where a buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// The memory of an input.
    Input(u32),
    /// The memory of an output.
    Output(u32),
    /// Constant data of the plan.
    Constant(u32),
    /// The arena, from this byte on; a multiple of 64.
    Arena(usize),
    /// No memory: what a param of [`Role::Position`](crate::ir::Role) is called on.
    Position,
}

/// A strided view of a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// Which buffer.
    pub buffer: BufferId,
    /// The element type.
    pub dtype: DType,
    /// Where the elements lie, in elements.
    pub layout: Layout,
}

/// A row-major value in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// Which buffer.
    pub buffer: BufferId,
    /// Its first byte there.
    pub offset: usize,
}

/// A buffer as a kernel sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// Which buffer.
    pub buffer: BufferId,
    /// The first element, in bytes.
    pub offset: usize,
    /// Bytes from one element to the next, by loop of the kernel.
    pub strides: SmallVec<[i64; 4]>,
    /// The axis of a param that is [indexed](crate::ir::Role::Indexed); the first element is at its position
    /// zero.
    pub axis: Option<IndexedAxis>,
}

/// An axis along which a kernel moves to positions that it computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IndexedAxis {
    /// Bytes from one position to the next.
    pub stride: i64,
    /// Number of positions.
    pub extent: usize,
}

/// One step of a [`Plan`].
#[derive(Clone, PartialEq, Debug)]
pub enum PlanStep {
    /// A generated kernel.
    Kernel {
        /// Which one.
        kernel: KernelId,
        /// Extents of its loops.
        extents: SmallVec<[usize; 4]>,
        /// Its params, in order.
        args: SmallVec<[Argument; 4]>,
    },
    /// A product of matrices, batched over leading dimensions of equal size: `out = a b`.
    Product {
        /// `[.., m, k]`
        a: View,
        /// `[.., k, n]`
        b: View,
        /// `[.., m, n]`, row-major.
        out: View,
    },
    /// An op that the backend's library, or the op's own `eval`, runs as a whole.
    Library {
        /// Which op.
        op: Op,
        /// Its attributes.
        attrs: Attrs,
        /// Its operands.
        inputs: Vec<View>,
        /// Its results, row-major.
        outputs: Vec<View>,
        /// The node of the traced graph that it stands for; see [`line_of_node`](super::line_of_node).
        node: Option<u32>,
    },
    /// Refuses positions that an operand does not have; the kernel that gathers elements there takes any.
    Check {
        /// The op that gathers.
        op: Op,
        /// The type of the operand.
        of: Type,
        /// The axis of the operand along which the positions are.
        axis: usize,
        /// The positions, integers.
        positions: View,
        /// As in [`PlanStep::Library`].
        node: Option<u32>,
    },
    /// A routine on values.
    Call {
        /// Which one.
        routine: RoutineId,
        /// What it takes.
        inputs: Vec<Span>,
        /// Where its results go.
        outputs: Vec<Span>,
    },
    /// One of two routines, which take and give the same types.
    Branch {
        /// A bool.
        condition: Span,
        /// The one that runs where the condition is true, and the other.
        routines: [RoutineId; 2],
        /// What they take.
        inputs: Vec<Span>,
        /// Where their results go.
        outputs: Vec<Span>,
    },
    /// A routine repeated.
    Loop(Box<Loop>),
}

impl PlanStep {
    /// The routines that a step runs.
    pub fn callees(&self) -> SmallVec<[RoutineId; 2]> {
        match self {
            Self::Kernel { .. } | Self::Product { .. } | Self::Library { .. } | Self::Check { .. } => SmallVec::new(),
            Self::Call { routine, .. } => [*routine].into_iter().collect(),
            Self::Branch { routines, .. } => routines.iter().copied().collect(),
            Self::Loop(it) => [it.body].into_iter().collect(),
        }
    }
}

/// A routine repeated: its inputs are carries, one element of each sequence, and values that
/// stay the same; its outputs are the carries that it computes, one element of each series of
/// results, and, in a [`Repeat::While`], whether it runs again.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    /// What is repeated.
    pub body: RoutineId,
    /// How often.
    pub repeat: Repeat,
    /// Values that each iteration replaces.
    pub carries: Vec<Carry>,
    /// Values of which each iteration takes one element.
    pub sequences: Vec<Span>,
    /// Values that stay the same.
    pub invariants: Vec<Span>,
    /// Where the series go, to which each iteration adds an element.
    pub series: Vec<Span>,
    /// Memory for the next value of a carry while its present one is read: one for each chain of
    /// carries that begins with a [computed](NextCarry::Computed) one and goes on with those that
    /// take over from it, in the order of the computed ones.
    pub spares: Vec<Span>,
}

/// How often a loop runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Repeat {
    /// As long as a condition holds: its series are stacks.
    While {
        /// Whether the first iteration takes place, a bool.
        first: Span,
        /// Memory for whether the next one does.
        next: Span,
        /// Where the number of iterations goes, an i64.
        count: Option<Span>,
    },
    /// A fixed number of times; sequences and series are arrays.
    Times {
        /// How often.
        count: usize,
        /// From the last element of sequences and series to the first.
        reverse: bool,
    },
    /// As often as an i64 says; sequences and series are stacks.
    Counted {
        /// The number.
        count: Span,
        /// From the last element of sequences and series to the first.
        reverse: bool,
    },
}

/// A value that each iteration of a loop replaces.
#[derive(Clone, PartialEq, Debug)]
pub struct Carry {
    /// The first value.
    pub initial: Span,
    /// Where the last value goes; memory of the loop's own until then.
    pub result: Span,
    /// Where the next value comes from.
    pub next: NextCarry,
}

/// Where the next value of a carry comes from. Of several carries at most one takes over from
/// the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextCarry {
    /// The routine computes it.
    Computed,
    /// The routine computes it, and may write it over the present one: see [`Reuse::allows`].
    Updated,
    /// It is the present value of this carry.
    From(u32),
}

/// Bytes of a row-major value, or of what stands for a stack; nothing where a dimension is
/// symbolic.
pub fn value_bytes(ty: &Type) -> Option<usize> {
    if is_stack(ty) { Some(STACK_BYTES) } else { ty.numel().map(|it| it * ty.dtype.size()) }
}

/// Whether a value is a stack: as many elements as a loop made.
pub fn is_stack(ty: &Type) -> bool {
    ty.dims.first() == Some(&Dim::DYNAMIC)
}

/// Bytes by which steps know a stack.
pub const STACK_BYTES: usize = 8;

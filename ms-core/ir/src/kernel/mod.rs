//! Defines kernels: affine loops over buffers around a straight-line body of scalar SSA.
//!
//! A kernel has `par` parallel loops, then its lanes, then `seq` reduced loops. Extents, addresses and strides are
//! arguments of the call, so one kernel serves every shape of its class. The argument block of a call is a slice of
//! 64-bit words, [`Kernel::call_words`] of them:
//!
//! ```text
//! extents: par loops.. , lanes , seq loops..          1 + par + seq words
//! then for each param but immediates: address, byte strides in the same order of loops
//! then for each indexed param: byte stride of its axis, extent of its axis
//! then for each immediate: its bits
//! then, if the kernel reads a position: bases in the same order of loops
//! ```
//!
//! - The *extent* of a loop is its number of iterations. A call writes nothing if an extent of the result is zero.
//! - The *address* of a param points to its element at the first iteration of all loops. A *stride* is the distance in
//!   bytes to its element at the next iteration of a loop; it may be negative. The stride along the lanes must match
//!   [`Param::step`], unless there is one lane.
//! - A param of [`Role::Iota`] is an iota and is not materialised. The element at address `a` is `a / 8`, as in an
//!   array of i64 at address zero that contains 0, 1, 2 and so on. So its address is eight times the index of the first
//!   iteration, and a caller that partitions a loop advances it like any other.
//! - A param of [`Role::Immediate`] is a number of the call. Its word has the bits of its dtype in the low bytes, and
//!   the other bytes are not read. It has neither address nor strides, and all iterations read the same number. So one
//!   kernel serves different numbers, and a number needs no memory.
//! - An [indexed](Role::Indexed) param has an axis besides the loops, which [`Inst::Gather`] indexes with a value that
//!   the body computes. The param's address is at index zero of that axis.
//! - The *base* of a loop is the index of its first iteration: [`Inst::Index`] is the base plus the number of
//!   iterations so far. It is zero for a whole call. A caller may partition a loop over the result into several calls.
//!   It passes each part its extent, advances the addresses, and adds to the base; the parts then compute the same as
//!   the whole. Kernels that read no index have no bases, so their calls have no overhead.
//!
//! **Order of loops.** With [`LaneAxis::Parallel`] the lanes are an axis of the result. The reduced loops run inside
//! them, one after the other, outermost first. With [`LaneAxis::Reduced`] the lanes are the innermost reduced axis,
//! inside the `seq` loops.
//!
//! **Stages** run in order for each iteration of the parallel loops (and of the lanes, if those are parallel). A
//! [`Scope::Point`] stage runs once there. A [`Scope::Loop`] stage runs for every iteration of the reduced loops, and
//! may end in [`Inst::Reduce`], whose result later stages read. Values of a `Loop` stage other than reductions are not
//! visible outside it. A value of a `Point` stage is visible in all later stages. With reduced lanes a `Point` value is
//! one scalar per row; with parallel lanes it is a vector of lanes.
//!
//! A loop may read the elements that an earlier loop wrote: [`Inst::Load`] of a [reloaded](Role::Reloaded) output is the
//! element that the last store before it wrote at this iteration. The output then has a separate element for each
//! iteration of the loops. A code generator may keep a row in registers instead. It need not store a row that nobody
//! reads from memory: one of a [scratch](Role::Scratch) output, or one that a later stage overwrites.
//!
//! A [`Scope::Repeat`] stage is a separate loop: it runs while a condition holds, which is uniform over the lanes. It
//! begins with its carries, [`Inst::Carry`]. Then it computes the condition, which [`Inst::While`] tests, and the next
//! values of the carries. [`Inst::Next`] at its end assigns these, all at the same time. Only the carries are visible
//! outside it, with their values when the condition is false. It neither writes memory nor reduces, and a kernel with
//! such a stage has parallel lanes and no reduced loops.
//!
//! **Order of reduction** determines the bits of float sums and products: [`Kernel::order`] names one of the trees that
//! [`ReductionOrder`] describes.
//!
//! **Arithmetic** is done in the compute dtypes ([`DType::compute`]): f32, f64, i32, i64, u32,
//! u64 and bool. Other dtypes occur only in [`Inst::Load`], [`Inst::Gather`], [`Inst::Store`] and
//! [`Inst::Cast`]; [`KernelBuilder`] inserts the casts that make narrow arithmetic round or wrap after every op.
//!
//! **Functions** such as `exp` are [`Inst::Math`] in the bodies of ops. Lowering expands functions that are not native
//! on the target to formulas of the other instructions. It expands all of them if results must be equal on every
//! target.
//!
//! **Text.** A kernel is printed by [`Display`](std::fmt::Display) and parsed by [`Kernel::parse`]:
//!
//! ```text
//! kernel par=1 lanes=reduced seq=0
//!   in %0: f32 unit
//!   out %1: f32 zero
//!   loop:
//!     v0 = load %0
//!     v1 = const f32 0.5
//!     v2 = mul v0, v1
//!     v3 = reduce sum v2
//!   point:
//!     store %1, v3
//! ```
//!
//! White space is not significant, and `//` starts a comment.
//!
//! ```text
//! kernel   = "kernel" "par" "=" int "lanes" "=" ("parallel" | "reduced") "seq" "=" int [order] {param} {stage}
//! order    = "order" "=" ("lanes" | "blocks") ["run" "=" int]          lanes by default
//! param    = ("in" | "indexed" | "out" | "reloaded" | "scratch" | "pos") "%" name ":" dtype ("unit" | "zero" | "any")
//!          | "imm" "%" name ":" dtype
//! stage    = ("point" | "loop" | "repeat") ":" {store | while | next | name "=" inst}
//! store    = "store" "%" name "," value
//! while    = "while" value
//! next     = "next" value "," value           a carry, and its value in the next iteration
//! inst     = "load" "%" name
//!          | "gather" "%" name "," value
//!          | "const" dtype element             as in literals of graphs, see [`text`](super::text)
//!          | "index" int
//!          | op value {"," value}              a unary, binary or comparing op, a function, "fma" or "select"
//!          | "cast" value "to" dtype
//!          | "reduce" reducer value
//!          | "carry" value
//! ```
//!
//! Names are arbitrary; a printed buffer has the number of its [`ParamId`], a value the number of its [`Val`].
//! Dtypes of results are inferred from the operands, so only constants have a written dtype.

mod build;
mod check;
mod conversion;
mod names;
mod order;
mod partition;
mod sign;
mod text;
mod uniform;

pub use build::KernelBuilder;
pub use order::{ReductionOrder, run_multiple};
pub use partition::LoopArguments;
pub use sign::Sign;
pub use text::NamedKernel;

use super::math::Math;
use crate::data::DType;

/// A value of a kernel's body: the number of the instruction that defines it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Val(pub u32);

/// An argument: a buffer, an iota, or an immediate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParamId(pub u32);

/// The kind of an argument and its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// A buffer that is read.
    Input,
    /// A buffer that is written.
    Output,
    /// A buffer that is written, and then read by later loops of the kernel.
    Reloaded,
    /// A buffer that is written, and then read by later loops of the kernel and by nothing else. A caller provides the
    /// memory. What it contains after the call is unspecified.
    Scratch,
    /// An iota of i64, which is read but not materialised: the numbers 0, 1, 2 and so on from address zero.
    Iota,
    /// A buffer that only [`Inst::Gather`] reads, along a separate axis.
    Indexed,
    /// A number in the argument block of the call, which is equal for all iterations.
    Immediate,
}

impl Role {
    /// Returns whether the kernel writes the buffer.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Output | Self::Reloaded | Self::Scratch)
    }

    /// Returns whether the kernel reads elements of the buffer that it wrote.
    pub const fn is_reloaded(self) -> bool {
        matches!(self, Self::Reloaded | Self::Scratch)
    }
}

/// The stride of a buffer along the lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StrideClass {
    /// The stride of one element.
    Unit,
    /// Zero: all lanes share one element.
    Zero,
    /// The stride that the call passes.
    Any,
}

/// An argument: its element type and its stride along the lanes. An output has [`StrideClass::Zero`] if it has
/// one element per row, and [`StrideClass::Any`] only with [parallel](LaneAxis::Parallel) lanes. An immediate
/// has [`StrideClass::Zero`], and a [reloaded](Role::is_reloaded) output has not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// The element type in memory.
    pub dtype: DType,
    /// The access.
    pub role: Role,
    /// The stride along the lanes.
    pub step: StrideClass,
}

/// The axis of the lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneAxis {
    /// The innermost axis of the result.
    Parallel,
    /// The innermost reduced axis.
    Reduced,
}

/// An op on one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    /// Sign flipped; integers wrap.
    Neg,
    /// Magnitude; integers wrap.
    Abs,
    /// Bitwise complement; negation of a bool.
    Not,
    /// Correctly rounded square root.
    Sqrt,
    /// Rounded down.
    Floor,
    /// Rounded up.
    Ceil,
    /// Rounded towards zero.
    Trunc,
    /// Rounded to the nearest integer, halves to even.
    RoundEven,
    /// The bits of a float as an integer of its width (f32 to i32, f64 to i64), or back.
    Bitcast,
}

/// An op on two values of one dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOp {
    /// Sum; integers wrap.
    Add,
    /// Difference; integers wrap.
    Sub,
    /// Product; integers wrap.
    Mul,
    /// Quotient. Integers truncate. Division by zero yields zero, and the minimum divided by -1 the minimum.
    Div,
    /// Remainder of the truncated quotient, for integers only; zero for a zero divisor.
    Rem,
    /// The smaller; NaN if either is NaN; of zeros the negative one.
    Min,
    /// The larger; NaN if either is NaN; of zeros the positive one.
    Max,
    /// Bitwise and; also for bools.
    And,
    /// Bitwise or; also for bools.
    Or,
    /// Bitwise exclusive or; also for bools.
    Xor,
    /// Shifted left; zero when the amount is negative or not below the width.
    Shl,
    /// Shifted right; signed integers preserve the sign. If the amount is negative or not below the width, the result
    /// is zero, or all bits are the sign.
    Shr,
    /// The full product of the low 32 bits of both, for u64 only.
    MulWide,
}

/// A comparison. With NaN, all but [`Compare::Ne`] are false.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compare {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

/// The function of a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reducer {
    /// Sum, from zero (floats from +0).
    Sum,
    /// Product, from one.
    Prod,
    /// The largest; NaN if any is NaN; from the lowest value (-inf for floats).
    Max,
    /// The smallest; NaN if any is NaN; from the highest value (+inf for floats).
    Min,
    /// Whether all bools are true, from true.
    All,
    /// Whether any bool is true, from false.
    Any,
}

/// An instruction. The dtype of its result is in [`Kernel::types`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inst {
    /// The element of a buffer or iota, or the immediate, at this iteration of the loops. It is converted exactly to
    /// the compute dtype of the argument (f16 widens to f32, i8 to i32, ...). A [reloaded](Role::Reloaded) output is
    /// read only in a [`Scope::Loop`] stage, after such a stage that wrote it.
    Load(ParamId),
    /// Like [`Inst::Load`] for an [indexed](Role::Indexed) buffer: the element at this iteration of the loops and at an
    /// index along the buffer's axis, an i64. Negative indices count from the end of the axis. If the index is out of
    /// range, nothing is read, and the result is zero or false.
    Gather(ParamId, Val),
    /// Writes an element; the value has the compute dtype of the buffer. A float is exactly representable in the
    /// buffer's dtype. An integer wraps to that dtype, because reductions of narrow integers have accumulators of the
    /// compute dtype.
    Store(ParamId, Val),
    /// A constant, as the bits of the result's dtype.
    Const(u64),
    /// The index along loop `k` (in the order of extents) as i64: its base in the argument block plus the number of
    /// iterations so far.
    Index(u8),
    /// An op on one value.
    Unary(UnaryOp, Val),
    /// An op on two values of one dtype, which is also the result's.
    Binary(BinaryOp, Val, Val),
    /// `a * b + c`, rounded once; floats only.
    Fma(Val, Val, Val),
    /// A function of one or two floats of the result's dtype, as accurate as the target's.
    Math(Math, Val, Option<Val>),
    /// A comparison of two values of one dtype; the result is bool.
    Compare(Compare, Val, Val),
    /// The second value if the first (a bool) is true, else the third.
    Select(Val, Val, Val),
    /// Conversion. Between compute dtypes, the value converts to the result's dtype. Floats truncate to integers,
    /// saturating, and NaN becomes zero. Integers wrap, a bool is 0 or 1, and a conversion to bool compares with zero.
    /// For a narrow dtype (f16, bf16, or a narrow integer), the value is rounded or wrapped to it. It is then widened
    /// to its compute dtype, which is the result's dtype.
    Cast {
        /// The operand.
        value: Val,
        /// The dtype that the value is rounded or wrapped to.
        to: DType,
    },
    /// The reduction of a value over the reduced loops; only in a [`Scope::Loop`] stage.
    Reduce(Reducer, Val),
    /// A value that each iteration of a [`Scope::Repeat`] stage replaces. The operand is its first value.
    Carry(Val),
    /// Ends the loop of a [`Scope::Repeat`] stage if a bool, which is uniform over the lanes, is false.
    While(Val),
    /// The value of a carry, the first operand, in the next iteration.
    Next(Val, Val),
}

impl Inst {
    /// Returns the cost in basic instructions. A gather checks and scales its position. Functions cost as much as their
    /// [formulas](crate::math::Expansion::cost), which is not counted here.
    pub const fn cost(&self) -> usize {
        match self {
            Self::Gather(..) => 4,
            _ => 1,
        }
    }

    /// Returns the values that the instruction reads, for rewriting.
    pub fn operands_mut(&mut self) -> [Option<&mut Val>; 3] {
        match self {
            Self::Load(_) | Self::Const(_) | Self::Index(_) => [None, None, None],
            Self::Gather(_, a)
            | Self::Store(_, a)
            | Self::Unary(_, a)
            | Self::Cast { value: a, .. }
            | Self::Reduce(_, a)
            | Self::Carry(a)
            | Self::While(a) => [Some(a), None, None],
            Self::Math(_, a, b) => [Some(a), b.as_mut(), None],
            Self::Binary(_, a, b) | Self::Compare(_, a, b) | Self::Next(a, b) => [Some(a), Some(b), None],
            Self::Fma(a, b, c) | Self::Select(a, b, c) => [Some(a), Some(b), Some(c)],
        }
    }

    /// Returns the values that the instruction reads.
    pub fn operands(mut self) -> impl Iterator<Item = Val> {
        self.operands_mut().map(|it| it.copied()).into_iter().flatten()
    }

    /// Returns whether the instruction has an effect instead of a result.
    pub fn is_statement(&self) -> bool {
        matches!(self, Self::Store(..) | Self::While(_) | Self::Next(..))
    }
}

/// The number of executions of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Once for each iteration of the parallel loops.
    Point,
    /// Once for each iteration of the reduced loops as well.
    Loop,
    /// While a condition that the stage computes holds.
    Repeat,
}

/// A range of instructions, from the end of the previous stage to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stage {
    /// The number of its executions.
    pub scope: Scope,
    /// The index after its last instruction.
    pub end: u32,
}

/// A loop nest with its body. Kernels of equal content are interchangeable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// The number of parallel loops outside the lanes.
    pub par: u8,
    /// The number of reduced loops other than the lanes.
    pub seq: u8,
    /// The axis of the lanes.
    pub lanes: LaneAxis,
    /// The tree of its float sums and products; [`ReductionOrder::Lanes`] if there are none.
    pub order: ReductionOrder,
    /// The number of the innermost reduced loops that iterate over one row together with the lanes, if the
    /// [order](ReductionOrder::Blocks) depends on it; zero otherwise.
    pub run: u8,
    /// The arguments.
    pub params: Vec<Param>,
    /// All instructions, in order.
    pub insts: Vec<Inst>,
    /// The dtype of each instruction's result, or, for an instruction without one, of the value that it stores, tests
    /// or assigns.
    pub types: Vec<DType>,
    /// The stages, in order; the last ends with the last instruction.
    pub stages: Vec<Stage>,
}

impl Kernel {
    /// Returns the number of loops: parallel ones, lanes, reduced ones.
    pub fn loops(&self) -> usize {
        self.par as usize + 1 + self.seq as usize
    }

    /// Returns the number of words in the argument block of a call.
    pub fn call_words(&self) -> usize {
        self.base_word(0) + if self.reads_position() { self.loops() } else { 0 }
    }

    /// Returns the word in the argument block with the base of a loop, if there are bases.
    pub fn base_word(&self, axis: usize) -> usize {
        self.axis_word(self.params.len()) + self.count(self.params.len(), Role::Immediate) + axis
    }

    /// Returns the word in the argument block with the byte stride of an indexed param's axis. The next word has the
    /// extent.
    pub fn axis_word(&self, param: usize) -> usize {
        self.loops() + self.addressed() * (1 + self.loops()) + 2 * self.count(param, Role::Indexed)
    }

    /// Returns the word in the argument block with the address of a param, which its strides follow, or with the bits
    /// of an immediate.
    pub fn param_word(&self, param: usize) -> usize {
        let immediates = self.count(param, Role::Immediate);
        match self.params[param].role {
            Role::Immediate => self.axis_word(self.params.len()) + immediates,
            _ => self.loops() + (param - immediates) * (1 + self.loops()),
        }
    }

    /// Returns the number of params with an address and strides: all but immediates.
    pub fn addressed(&self) -> usize {
        self.params.len() - self.count(self.params.len(), Role::Immediate)
    }

    /// Returns the number of params of a role among the first `params`.
    fn count(&self, params: usize, role: Role) -> usize {
        self.params[..params].iter().filter(|it| it.role == role).count()
    }

    /// Returns whether an instruction reads the index along a loop.
    pub fn reads_position(&self) -> bool {
        self.insts.iter().any(|it| matches!(it, Inst::Index(_)))
    }

    /// Returns whether the kernel only copies elements: it stores the values that it loads.
    pub fn is_copy(&self) -> bool {
        self.insts.iter().all(|it| matches!(it, Inst::Load(_) | Inst::Store(..)))
    }

    /// Returns the dtype of a value.
    pub fn ty(&self, val: Val) -> DType {
        self.types[val.0 as usize]
    }

    /// Infers the dtype of an instruction's result from its operands. Returns `None` for a constant, for a bitcast of a
    /// dtype that does not support it, and for operands that do not exist.
    pub(super) fn result(&self, inst: &Inst) -> Option<DType> {
        let ty = |val: Val| self.types.get(val.0 as usize).copied();
        match *inst {
            Inst::Load(param) | Inst::Gather(param, _) => {
                self.params.get(param.0 as usize).map(|it| it.dtype.compute())
            }
            Inst::Const(_) => None,
            Inst::Index(_) => Some(DType::I64),
            Inst::Unary(UnaryOp::Bitcast, value) => match ty(value)? {
                DType::F32 => Some(DType::I32),
                DType::F64 => Some(DType::I64),
                DType::I32 => Some(DType::F32),
                DType::I64 => Some(DType::F64),
                _ => None,
            },
            Inst::Store(_, value) | Inst::Unary(_, value) | Inst::Binary(_, value, _) => ty(value),
            Inst::Fma(value, _, _) | Inst::Math(_, value, _) => ty(value),
            Inst::Select(_, value, _) | Inst::Reduce(_, value) | Inst::Next(_, value) => ty(value),
            Inst::Carry(value) | Inst::While(value) => ty(value),
            Inst::Compare(..) => Some(DType::Bool),
            Inst::Cast { to, .. } => Some(to.compute()),
        }
    }

    /// Returns the instructions of stage `i`, as a range of [`Val`] numbers.
    pub fn stage_range(&self, i: usize) -> std::ops::Range<usize> {
        let start = if i == 0 { 0 } else { self.stages[i - 1].end };
        start as usize..self.stages[i].end as usize
    }
}

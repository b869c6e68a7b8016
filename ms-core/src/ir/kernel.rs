//! Kernels: affine loops over buffers around a straight-line body of scalar SSA.
//!
//! A kernel has `par` parallel loops, then its lanes, then `seq` reduced loops. Extents,
//! addresses and strides arrive with the call, so that one kernel serves every shape of its
//! class. The block of a call is a slice of 64-bit words:
//!
//! ```text
//! extents: par loops.. , lanes , seq loops..          1 + par + seq words
//! then for each param: address, byte strides in the same order of loops
//! ```
//!
//! **Order of loops.** With [`LaneAxis::Parallel`] the lanes are an axis of the result, and the
//! reduced loops run inside them, one after the other, outermost first. With
//! [`LaneAxis::Reduced`] the lanes are the innermost reduced axis, inside the `seq` loops.
//!
//! **Stages** run in order for each step of the parallel loops (and of the lanes, if those
//! are parallel). A [`Scope::Point`] stage runs once there; a [`Scope::Loop`] stage runs for
//! every step of the reduced loops and may end in [`Inst::Reduce`], whose result later stages
//! read. Values of a `Loop` stage other than reductions are not visible outside it. A value of
//! a `Point` stage is visible in all later stages. With reduced lanes a `Point` value is one
//! scalar per row; with parallel lanes it is a vector of lanes.
//!
//! **Order of reduction**, which decides the bits of the result: with parallel lanes each lane
//! folds its elements in loop order. With reduced lanes there are [`virtual_lanes`] accumulators,
//! all starting from the identity; element `i` of the lanes goes to accumulator `i mod n`, over
//! all steps of the `seq` loops; then accumulators are combined by halves: `a[k] = a[k] ⊕ a[k + n/2]`
//! for `k < n/2`, and so on down to one. It depends on nothing else: neither on the instruction set
//! nor on threads nor on what was fused around it.
//!
//! **Arithmetic** is done in the compute dtypes ([`DType::compute`]): f32, f64, i32, i64, u32,
//! u64 and bool. Other dtypes occur only in [`Inst::Load`], [`Inst::Store`] and [`Inst::Cast`];
//! [`KernelBuilder`] inserts the casts that make narrow arithmetic round or wrap after every op.

use crate::tensor::{DType, Scalar};
use smallvec::SmallVec;

/// A value of a kernel's body: the number of the instruction that defines it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Val(pub u32);

/// A buffer argument.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParamId(pub u32);

/// What the kernel does with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Reads it.
    Input,
    /// Writes it.
    Output,
}

/// How a buffer moves when the lanes step by one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StrideClass {
    /// By one element.
    Unit,
    /// Not at all: one element for all lanes.
    Zero,
    /// By the stride of the call.
    Any,
}

/// A buffer argument: its element type and its step along the lanes. Outputs have
/// [`StrideClass::Unit`], or [`StrideClass::Zero`] where they take one element per row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// The element type in memory.
    pub dtype: DType,
    /// Read or written.
    pub role: Role,
    /// The step along the lanes.
    pub step: StrideClass,
}

/// Which axis the lanes are.
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
    /// Quotient. Integers truncate; a zero divisor gives zero, and the least integer by -1 itself.
    Div,
    /// Remainder of the truncated quotient, of integers only; a zero divisor gives zero.
    Rem,
    /// The smaller; nan if either is nan; of zeros the negative one.
    Min,
    /// The larger; nan if either is nan; of zeros the positive one.
    Max,
    /// Bitwise and; of bools too.
    And,
    /// Bitwise or; of bools too.
    Or,
    /// Bitwise exclusive or; of bools too.
    Xor,
    /// Shifted left; zero when the amount is negative or not below the width.
    Shl,
    /// Shifted right: signed integers keep the sign. An amount that is negative or not below
    /// the width gives what shifting one at a time for ever would.
    Shr,
}

/// A comparison; with nan all but [`Compare::Ne`] are false.
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

/// How values are folded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reducer {
    /// Sum, from zero (floats from +0).
    Sum,
    /// Product, from one.
    Prod,
    /// The largest; nan if any is nan; from the lowest value (-inf for floats).
    Max,
    /// The smallest; nan if any is nan; from the highest value (+inf for floats).
    Min,
    /// Whether all are true, of bools, from true.
    All,
    /// Whether any is true, of bools, from false.
    Any,
}

/// One instruction. The dtype of its result is in [`Kernel::types`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Inst {
    /// The element of a buffer at this point, converted to the compute dtype of the buffer
    /// (f16 widens to f32, i8 to i32, ...), which is exact.
    Load(ParamId),
    /// Writes an element; the value has the compute dtype of the buffer. A float is one that the
    /// buffer's dtype holds exactly; an integer wraps to that dtype, as folds of narrow integers
    /// have accumulators of the compute dtype.
    Store(ParamId, Val),
    /// A constant, as the bits of the result's dtype.
    Const(u64),
    /// The position along loop `k` (in the order of extents) as i64.
    Index(u8),
    /// An op on one value.
    Unary(UnaryOp, Val),
    /// An op on two values of one dtype, which is also the result's.
    Binary(BinaryOp, Val, Val),
    /// `a * b + c`, rounded once; floats only.
    Fma(Val, Val, Val),
    /// A comparison of two values of one dtype; the result is bool.
    Compare(Compare, Val, Val),
    /// The second value where the first (a bool) is true, else the third.
    Select(Val, Val, Val),
    /// Conversion. Between compute dtypes: to the result's dtype, where a float becomes an
    /// integer by truncation, saturating, nan to zero; integers wrap; bool is 0 or 1; anything
    /// to bool compares with zero. `narrow` names the dtype through which the value passes
    /// on the way (f16, bf16, or a narrow integer): rounded, or wrapped, to it, then widened
    /// to its compute dtype, which is the result's dtype.
    Cast {
        /// The operand.
        value: Val,
        /// The dtype that the value is rounded or wrapped to.
        to: DType,
    },
    /// The fold of a value over the reduced loops; only in a [`Scope::Loop`] stage.
    Reduce(Reducer, Val),
}

/// How often a stage runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Once for each step of the parallel loops.
    Point,
    /// For each step of the reduced loops too.
    Loop,
}

/// A run of instructions: those from the end of the stage before up to `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stage {
    /// How often it runs.
    pub scope: Scope,
    /// One past its last instruction.
    pub end: u32,
}

/// A loop nest with its body. Kernels of equal content are the same kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// Number of parallel loops outside the lanes.
    pub par: u8,
    /// Number of reduced loops besides the lanes.
    pub seq: u8,
    /// Which axis the lanes are.
    pub lanes: LaneAxis,
    /// Buffer arguments.
    pub params: SmallVec<[Param; 4]>,
    /// All instructions, in order.
    pub insts: Vec<Inst>,
    /// The dtype of each instruction's result; of a store, that of the value.
    pub types: Vec<DType>,
    /// The stages, in order; the last ends with the last instruction.
    pub stages: SmallVec<[Stage; 3]>,
}

/// The number of accumulators of a reduction along the lanes, by the dtype that is reduced.
pub const fn virtual_lanes(dtype: DType) -> usize {
    if dtype.size() == 8 { 8 } else { 16 }
}

impl Kernel {
    /// Number of loops: parallel ones, lanes, reduced ones.
    pub fn loops(&self) -> usize {
        self.par as usize + 1 + self.seq as usize
    }

    /// Words in the block of a call.
    pub fn call_words(&self) -> usize {
        self.loops() + self.params.len() * (1 + self.loops())
    }

    /// The dtype of a value.
    pub fn ty(&self, val: Val) -> DType {
        self.types[val.0 as usize]
    }

    /// The instructions of stage `i`, as a range of [`Val`] numbers.
    pub fn stage_range(&self, i: usize) -> std::ops::Range<usize> {
        let start = if i == 0 { 0 } else { self.stages[i - 1].end };
        start as usize..self.stages[i].end as usize
    }
}

/// Builds the body of a [`Kernel`], one stage after the other.
///
/// Methods take and give values of any dtype of tensors: arithmetic on narrow dtypes is done
/// in the compute dtype and rounded or wrapped back at once. [`KernelBuilder::ty`] gives that
/// tensor dtype.
pub struct KernelBuilder {
    kernel: Kernel,
    /// The tensor dtype of each value: f16 where the compute dtype is f32, and so on.
    logical: Vec<DType>,
}

impl KernelBuilder {
    /// A builder of a kernel with `par` parallel and `seq` reduced loops around its lanes.
    pub fn new(par: u8, seq: u8, lanes: LaneAxis) -> Self {
        Self {
            kernel: Kernel {
                par,
                seq,
                lanes,
                params: SmallVec::new(),
                insts: Vec::new(),
                types: Vec::new(),
                stages: SmallVec::new(),
            },
            logical: Vec::new(),
        }
    }

    /// The tensor dtype of a value.
    pub fn ty(&self, val: Val) -> DType {
        self.logical[val.0 as usize]
    }

    /// Declares a buffer.
    pub fn param(&mut self, dtype: DType, role: Role, step: StrideClass) -> ParamId {
        self.kernel.params.push(Param { dtype, role, step });
        ParamId(self.kernel.params.len() as u32 - 1)
    }

    /// Ends the current stage; an empty one is dropped.
    pub fn end_stage(&mut self, scope: Scope) {
        let end = self.kernel.insts.len() as u32;
        if self.kernel.stages.last().map_or(0, |it| it.end) < end {
            self.kernel.stages.push(Stage { scope, end });
        }
    }

    /// The kernel; every instruction belongs to an ended stage.
    pub fn finish(self) -> Kernel {
        debug_assert_eq!(self.kernel.stages.last().map_or(0, |it| it.end) as usize, self.kernel.insts.len());
        self.kernel
    }

    fn push(&mut self, inst: Inst, compute: DType, logical: DType) -> Val {
        self.kernel.insts.push(inst);
        self.kernel.types.push(compute);
        self.logical.push(logical);
        Val(self.kernel.insts.len() as u32 - 1)
    }

    /// Rounds or wraps the compute value `val` back to `logical`.
    fn narrow(&mut self, val: Val, logical: DType) -> Val {
        let compute = logical.compute();
        if compute == logical {
            self.logical[val.0 as usize] = logical;
            return val;
        }
        self.push(Inst::Cast { value: val, to: logical }, compute, logical)
    }

    /// Reads a buffer.
    pub fn load(&mut self, param: ParamId) -> Val {
        let dtype = self.kernel.params[param.0 as usize].dtype;
        self.push(Inst::Load(param), dtype.compute(), dtype)
    }

    /// Writes a buffer of the value's dtype.
    pub fn store(&mut self, param: ParamId, val: Val) {
        debug_assert_eq!(self.kernel.params[param.0 as usize].dtype, self.ty(val));
        let logical = self.ty(val);
        self.push(Inst::Store(param, val), logical.compute(), logical);
    }

    /// A constant of a dtype.
    pub fn constant(&mut self, value: impl Into<Scalar>, dtype: DType) -> Val {
        let compute = dtype.compute();
        // Round to the narrow dtype first, then hold the result in the compute dtype.
        let rounded = Scalar::from_bits(value.into().to_bits(dtype), dtype);
        self.push(Inst::Const(rounded.to_bits(compute)), compute, dtype)
    }

    /// A constant of the dtype of another value.
    pub fn constant_like(&mut self, value: impl Into<Scalar>, like: Val) -> Val {
        let dtype = self.ty(like);
        self.constant(value, dtype)
    }

    /// The position along a loop, as i64.
    pub fn index(&mut self, axis: u8) -> Val {
        self.push(Inst::Index(axis), DType::I64, DType::I64)
    }

    /// An op on one value.
    pub fn unary(&mut self, op: UnaryOp, a: Val) -> Val {
        let logical = self.ty(a);
        let compute = logical.compute();
        let exact = matches!(op, UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::RoundEven);
        let out = self.push(Inst::Unary(op, a), compute, logical);
        if exact || (logical.is_float() && matches!(op, UnaryOp::Neg | UnaryOp::Abs)) {
            return out;
        }
        self.narrow(out, logical)
    }

    /// The bits of a float as an integer of its width, or back; of f32, f64, i32 and i64 only.
    pub fn bitcast(&mut self, a: Val) -> Val {
        let to = match self.ty(a) {
            DType::F32 => DType::I32,
            DType::F64 => DType::I64,
            DType::I32 => DType::F32,
            DType::I64 => DType::F64,
            other => unreachable!("no bitcast of {other}"),
        };
        self.push(Inst::Unary(UnaryOp::Bitcast, a), to, to)
    }

    /// An op on two values of one dtype.
    pub fn binary(&mut self, op: BinaryOp, a: Val, b: Val) -> Val {
        let logical = self.ty(a);
        debug_assert_eq!(logical, self.ty(b));
        let out = self.push(Inst::Binary(op, a, b), logical.compute(), logical);
        if matches!(op, BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) {
            return out;
        }
        self.narrow(out, logical)
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: Val, b: Val, c: Val) -> Val {
        let logical = self.ty(a);
        let out = self.push(Inst::Fma(a, b, c), logical.compute(), logical);
        self.narrow(out, logical)
    }

    /// A comparison.
    pub fn compare(&mut self, op: Compare, a: Val, b: Val) -> Val {
        debug_assert_eq!(self.ty(a), self.ty(b));
        self.push(Inst::Compare(op, a, b), DType::Bool, DType::Bool)
    }

    /// `then` where `condition` is true, else `other`.
    pub fn select(&mut self, condition: Val, then: Val, other: Val) -> Val {
        let logical = self.ty(then);
        debug_assert_eq!(logical, self.ty(other));
        self.push(Inst::Select(condition, then, other), logical.compute(), logical)
    }

    /// One conversion instruction; [`KernelBuilder::cast`] rounds once and saturates.
    pub(super) fn convert(&mut self, value: Val, to: DType) -> Val {
        self.push(Inst::Cast { value, to }, to.compute(), to)
    }

    /// A fold over the reduced loops.
    pub fn reduce(&mut self, reducer: Reducer, value: Val) -> Val {
        let dtype = self.ty(value);
        self.push(Inst::Reduce(reducer, value), dtype.compute(), dtype)
    }
}

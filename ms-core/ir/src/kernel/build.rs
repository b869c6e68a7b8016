//! Builds kernels.

use super::{
    BinaryOp, Compare, Inst, Kernel, LaneAxis, Param, ParamId, Reducer, ReductionOrder, Role, Scope, Stage,
    StrideClass, UnaryOp, Val,
};
use crate::Math;
use crate::data::{DType, Scalar};

/// The initial capacity of a builder in instructions. Most bodies have fewer.
const INSTS: usize = 16;

/// Builds the body of a [`Kernel`], stage by stage.
///
/// Values may have any tensor dtype ([`KernelBuilder::ty`]): arithmetic on narrow dtypes is done in the compute dtype
/// and rounded or wrapped after every op.
pub struct KernelBuilder {
    kernel: Kernel,
    /// The tensor dtype of each value: for example f16 with compute dtype f32.
    logical: Vec<DType>,
}

impl KernelBuilder {
    /// Creates a builder of a kernel with `par` parallel and `seq` reduced loops around its lanes.
    pub fn new(par: u8, seq: u8, lanes: LaneAxis) -> Self {
        Self {
            kernel: Kernel {
                par,
                seq,
                lanes,
                order: ReductionOrder::Lanes,
                run: 0,
                params: Vec::new(),
                insts: Vec::with_capacity(INSTS),
                types: Vec::with_capacity(INSTS),
                stages: Vec::new(),
            },
            logical: Vec::with_capacity(INSTS),
        }
    }

    /// Sets the order of float sums and products. With reduced lanes, the innermost `run` reduced loops and the lanes
    /// are one row.
    pub fn with_order(mut self, order: ReductionOrder, run: u8) -> Self {
        (self.kernel.order, self.kernel.run) = (order, run);
        self
    }

    /// Returns the tensor dtype of a value.
    pub fn ty(&self, val: Val) -> DType {
        self.logical[val.0 as usize]
    }

    /// Declares an argument; an immediate has [`StrideClass::Zero`].
    pub fn param(&mut self, dtype: DType, role: Role, step: StrideClass) -> ParamId {
        self.kernel.params.push(Param { dtype, role, step });
        ParamId(self.kernel.params.len() as u32 - 1)
    }

    /// Ends the current stage. An empty stage is omitted.
    pub fn end_stage(&mut self, scope: Scope) {
        let end = self.kernel.insts.len() as u32;
        if self.kernel.stages.last().map_or(0, |it| it.end) < end {
            self.kernel.stages.push(Stage { scope, end });
        }
    }

    /// Returns the kernel, after the last stage was ended.
    pub fn finish(self) -> Kernel {
        let mut kernel = self.kernel;
        debug_assert_eq!(kernel.stages.last().map_or(0, |it| it.end) as usize, kernel.insts.len());
        if !(0..kernel.insts.len()).any(|it| kernel.is_ordered_reduction(it)) {
            kernel.order = ReductionOrder::Lanes;
        }
        if kernel.order == ReductionOrder::Lanes || kernel.lanes == LaneAxis::Parallel {
            kernel.run = 0;
        }
        kernel
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

    /// Loads from a buffer.
    pub fn load(&mut self, param: ParamId) -> Val {
        let dtype = self.kernel.params[param.0 as usize].dtype;
        self.push(Inst::Load(param), dtype.compute(), dtype)
    }

    /// Gathers from an indexed buffer at an i64 index.
    pub fn gather(&mut self, param: ParamId, position: Val) -> Val {
        let dtype = self.kernel.params[param.0 as usize].dtype;
        self.push(Inst::Gather(param, position), dtype.compute(), dtype)
    }

    /// Writes a buffer of the value's dtype.
    pub fn store(&mut self, param: ParamId, val: Val) {
        debug_assert_eq!(self.kernel.params[param.0 as usize].dtype, self.ty(val));
        let logical = self.ty(val);
        self.push(Inst::Store(param, val), logical.compute(), logical);
    }

    /// Emits a constant of a dtype.
    pub fn constant(&mut self, value: impl Into<Scalar>, dtype: DType) -> Val {
        let compute = dtype.compute();
        let bits = value.into().to_bits(dtype);
        // The value is rounded to a narrow dtype first, then converted to the compute dtype.
        let bits = if compute == dtype { bits } else { Scalar::from_bits(bits, dtype).to_bits(compute) };
        self.push(Inst::Const(bits), compute, dtype)
    }

    /// Emits a constant of the dtype of another value.
    pub fn constant_like(&mut self, value: impl Into<Scalar>, like: Val) -> Val {
        let dtype = self.ty(like);
        self.constant(value, dtype)
    }

    /// Emits the index along a loop, as i64.
    pub fn index(&mut self, axis: u8) -> Val {
        self.push(Inst::Index(axis), DType::I64, DType::I64)
    }

    /// Emits an op on one value.
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

    /// Emits a bitcast between floats and integers of equal width: f32, f64, i32 and i64 only.
    pub fn bitcast(&mut self, a: Val) -> Val {
        let inst = Inst::Unary(UnaryOp::Bitcast, a);
        let to = self.kernel.result(&inst).expect("these four dtypes have a bitcast");
        self.push(inst, to, to)
    }

    /// Emits an op on two values of one dtype.
    pub fn binary(&mut self, op: BinaryOp, a: Val, b: Val) -> Val {
        let logical = self.ty(a);
        debug_assert_eq!(logical, self.ty(b));
        let out = self.push(Inst::Binary(op, a, b), logical.compute(), logical);
        if matches!(op, BinaryOp::Min | BinaryOp::Max | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) {
            return out;
        }
        self.narrow(out, logical)
    }

    /// Emits `a * b + c`, rounded once.
    pub fn fma(&mut self, a: Val, b: Val, c: Val) -> Val {
        let logical = self.ty(a);
        let out = self.push(Inst::Fma(a, b, c), logical.compute(), logical);
        self.narrow(out, logical)
    }

    /// Emits a function of one or two floats of a compute dtype.
    pub fn math(&mut self, math: Math, a: Val, b: Option<Val>) -> Val {
        let dtype = self.ty(a);
        debug_assert!(dtype.is_float() && dtype.compute() == dtype, "functions are computed in f32 and f64");
        debug_assert!(math.arity() == 1 + usize::from(b.is_some()) && b.is_none_or(|it| self.ty(it) == dtype));
        self.push(Inst::Math(math, a, b), dtype, dtype)
    }

    /// Emits a comparison.
    pub fn compare(&mut self, op: Compare, a: Val, b: Val) -> Val {
        debug_assert_eq!(self.ty(a), self.ty(b));
        self.push(Inst::Compare(op, a, b), DType::Bool, DType::Bool)
    }

    /// Emits a select: `then` if `condition` is true, else `other`.
    pub fn select(&mut self, condition: Val, then: Val, other: Val) -> Val {
        let logical = self.ty(then);
        debug_assert_eq!(logical, self.ty(other));
        self.push(Inst::Select(condition, then, other), logical.compute(), logical)
    }

    /// Emits one conversion instruction. [`KernelBuilder::cast`] instead rounds once and saturates.
    pub(super) fn convert(&mut self, value: Val, to: DType) -> Val {
        self.push(Inst::Cast { value, to }, to.compute(), to)
    }

    /// Emits a value that each iteration of a [`Scope::Repeat`] stage replaces. `first` is its first value.
    pub fn carry(&mut self, first: Val) -> Val {
        let dtype = self.ty(first);
        self.push(Inst::Carry(first), dtype.compute(), dtype)
    }

    /// Ends the loop of a [`Scope::Repeat`] stage if `condition` is false.
    pub fn end_unless(&mut self, condition: Val) {
        self.push(Inst::While(condition), DType::Bool, DType::Bool);
    }

    /// Assigns a carry its value in the next iteration.
    pub fn next(&mut self, carry: Val, value: Val) {
        debug_assert_eq!(self.ty(carry), self.ty(value));
        let dtype = self.ty(carry);
        self.push(Inst::Next(carry, value), dtype.compute(), dtype);
    }

    /// Emits a reduction over the reduced loops.
    pub fn reduce(&mut self, reducer: Reducer, value: Val) -> Val {
        let dtype = self.ty(value);
        self.push(Inst::Reduce(reducer, value), dtype.compute(), dtype)
    }
}

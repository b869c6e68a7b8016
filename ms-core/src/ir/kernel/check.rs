//! Verification of kernels: stored ones are verified before they are used.

use super::{
    BinaryOp, Inst, Kernel, LaneAxis, Param, ParamId, Reducer, ReductionOrder, Role, Scope, StrideClass, UnaryOp, Val,
};
use crate::error::{Code, Error, Result};
use crate::tensor::DType;

/// Maximum number of loops of one kind; more than any shape has.
const MAX_LOOPS: u8 = 64;

impl Kernel {
    /// Checks that the kernel is well formed: instructions use only values that are visible to them,
    /// and their operands and results have valid dtypes.
    ///
    /// # Errors
    /// [`Code::Verify`] with the first defect.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::new(Code::Verify, format!("the kernel is not well formed: {what}")));
        if self.par > MAX_LOOPS || self.seq > MAX_LOOPS {
            return refuse("it has too many loops");
        }
        let has_rows = self.order == ReductionOrder::Blocks && self.lanes == LaneAxis::Reduced;
        if self.run > if has_rows { self.seq } else { 0 } {
            return refuse("loops that belong to a row are reduced ones, around reduced lanes");
        }
        if self.types.len() != self.insts.len() {
            return refuse("it has a dtype for each instruction");
        }
        let is_apart = |it: &Param| it.role == Role::Output && it.step == StrideClass::Any;
        if self.lanes == LaneAxis::Reduced && self.params.iter().any(is_apart) {
            return refuse("reduced lanes are written one after the other");
        }
        if self.params.iter().any(|it| it.role == Role::Position && it.dtype != DType::I64) {
            return refuse("positions are i64");
        }
        if self.params.iter().any(|it| it.role == Role::Immediate && it.step != StrideClass::Zero) {
            return refuse("an immediate has no stride");
        }
        let mut start = 0;
        for (number, stage) in self.stages.iter().enumerate() {
            let end = stage.end as usize;
            if end < start || end > self.insts.len() {
                return refuse("its stages stand one after the other");
            }
            for at in start..end {
                if !self.is_right(at, start, number) {
                    return refuse(&format!("instruction {at}, {:?} of {}", self.insts[at], self.types[at]));
                }
            }
            start = end;
        }
        if start != self.insts.len() {
            return refuse("every instruction belongs to a stage");
        }
        Ok(())
    }

    /// Checks instruction `at` of a stage that begins at `start`.
    fn is_right(&self, at: usize, start: usize, stage: usize) -> bool {
        let (inst, out) = (self.insts[at], self.types[at]);
        let visible = |val: Val| {
            let val = val.0 as usize;
            val < at && if val >= start { !matches!(self.insts[val], Inst::Reduce(..)) } else { self.leaves(val) }
        };
        let is = |val: Val| visible(val) && self.ty(val) == out;
        let has = |id: ParamId, role| self.params.get(id.0 as usize).is_some_and(|it| it.role == role);
        let (float, bool) = (out.is_float(), out == DType::Bool);
        let operands = match inst {
            Inst::Load(id) => [Role::Input, Role::Position, Role::Immediate].into_iter().any(|role| has(id, role)),
            Inst::Gather(id, position) => {
                has(id, Role::Indexed) && visible(position) && self.ty(position) == DType::I64
            }
            Inst::Store(id, val) => {
                has(id, Role::Output) && is(val) && self.params[id.0 as usize].dtype.compute() == out
            }
            // With bits beyond the dtype, kernels that compute the same would differ.
            Inst::Const(bits) if bool => bits <= 1,
            Inst::Const(bits) => bits <= u64::MAX >> (64 - 8 * out.size()),
            Inst::Index(axis) => usize::from(axis) < self.loops(),
            Inst::Unary(UnaryOp::Bitcast, val) => visible(val),
            Inst::Unary(op, val) => {
                is(val)
                    && match op {
                        UnaryOp::Neg | UnaryOp::Abs => !bool,
                        UnaryOp::Not => !float,
                        _ => float,
                    }
            }
            Inst::Binary(op, a, b) => {
                is(a)
                    && is(b)
                    && match op {
                        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div => !bool,
                        BinaryOp::Min | BinaryOp::Max => !bool,
                        BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr => !bool && !float,
                        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !float,
                        BinaryOp::MulWide => out == DType::U64,
                    }
            }
            Inst::Fma(a, b, c) => float && is(a) && is(b) && is(c),
            Inst::Math(math, a, b) => {
                float && is(a) && b.is_none_or(is) && math.arity() == 1 + usize::from(b.is_some())
            }
            Inst::Compare(_, a, b) => visible(a) && visible(b) && self.ty(a) == self.ty(b),
            Inst::Select(condition, then, other) => {
                visible(condition) && self.ty(condition) == DType::Bool && is(then) && is(other)
            }
            Inst::Cast { value, .. } => visible(value),
            Inst::Reduce(reducer, val) => {
                self.stages[stage].scope == Scope::Loop
                    && is(val)
                    && match reducer {
                        Reducer::All | Reducer::Any => bool,
                        Reducer::Sum | Reducer::Prod => !bool,
                        Reducer::Max | Reducer::Min => true,
                    }
            }
        };
        let constant = matches!(inst, Inst::Const(_));
        operands && out.compute() == out && (constant || self.result(&inst) == Some(out))
    }

    /// Returns whether a value of an earlier stage is visible in later ones.
    fn leaves(&self, val: usize) -> bool {
        let stage = self.stages.partition_point(|it| it.end as usize <= val);
        self.stages[stage].scope == Scope::Point || matches!(self.insts[val], Inst::Reduce(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{KernelBuilder, LaneAxis, Math};

    /// The sum of the squares of each row.
    fn kernel() -> Kernel {
        let mut builder = KernelBuilder::new(1, 0, LaneAxis::Reduced);
        let x = builder.param(DType::F32, Role::Input, StrideClass::Unit);
        let out = builder.param(DType::F32, Role::Output, StrideClass::Zero);
        let value = builder.load(x);
        let square = builder.binary(BinaryOp::Mul, value, value);
        let sum = builder.reduce(Reducer::Sum, square);
        builder.end_stage(Scope::Loop);
        builder.store(out, sum);
        builder.end_stage(Scope::Point);
        builder.finish()
    }

    /// What is read where: positions are i64, and indexed buffers are read at positions alone.
    #[test]
    fn positions_are_of_indexed_buffers() {
        for dtype in [DType::I64, DType::I32, DType::F64, DType::Bool] {
            for role in [Role::Indexed, Role::Input] {
                let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
                let x = builder.param(DType::F32, role, StrideClass::Unit);
                let at = builder.param(dtype, Role::Input, StrideClass::Zero);
                let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
                let at = builder.load(at);
                let value = builder.gather(x, at);
                builder.store(out, value);
                builder.end_stage(Scope::Point);
                let is_right = (dtype, role) == (DType::I64, Role::Indexed);
                assert_eq!(builder.finish().check().is_ok(), is_right, "{role:?} at {dtype}");
            }
        }
    }

    /// Which values each reducer accepts.
    #[test]
    fn reductions_have_dtypes() {
        use Reducer::{All, Any, Max, Min, Prod, Sum};
        for dtype in [DType::Bool, DType::I32, DType::F64] {
            for reducer in [Sum, Prod, Max, Min, All, Any] {
                let mut builder = KernelBuilder::new(0, 0, LaneAxis::Reduced);
                let [x, out] = [(Role::Input, StrideClass::Unit), (Role::Output, StrideClass::Zero)]
                    .map(|(role, step)| builder.param(dtype, role, step));
                let value = builder.load(x);
                let reduced = builder.reduce(reducer, value);
                builder.end_stage(Scope::Loop);
                builder.store(out, reduced);
                builder.end_stage(Scope::Point);
                let is_bool = dtype == DType::Bool;
                let valid = match reducer {
                    All | Any => is_bool,
                    Sum | Prod => !is_bool,
                    Max | Min => true,
                };
                assert_eq!(builder.finish().check().is_ok(), valid, "{reducer:?} of {dtype}");
            }
        }
    }

    #[test]
    fn defects_are_found() {
        assert!(kernel().check().is_ok());
        let check = |change: &dyn Fn(&mut Kernel)| {
            let mut changed = kernel();
            change(&mut changed);
            assert!(changed.check().is_err(), "{changed:?}");
        };
        check(&|it| it.insts[1] = Inst::Binary(BinaryOp::Mul, Val(0), Val(1)));
        check(&|it| it.insts[1] = Inst::Binary(BinaryOp::Mul, Val(0), Val(u32::MAX)));
        check(&|it| it.insts[1] = Inst::Binary(BinaryOp::Rem, Val(0), Val(0)));
        check(&|it| it.insts[3] = Inst::Store(ParamId(1), Val(1)));
        check(&|it| it.insts[3] = Inst::Store(ParamId(0), Val(2)));
        check(&|it| it.insts[0] = Inst::Load(ParamId(2)));
        check(&|it| it.insts[0] = Inst::Index(2));
        check(&|it| it.params[0].role = Role::Indexed);
        check(&|it| it.params[0].role = Role::Immediate);
        check(&|it| (it.params[1].role, it.params[1].step) = (Role::Immediate, StrideClass::Zero));
        check(&|it| it.insts[1] = Inst::Gather(ParamId(0), Val(0)));
        check(&|it| (it.params[0].role, it.insts[0]) = (Role::Indexed, Inst::Gather(ParamId(0), Val(0))));
        check(&|it| it.insts[0] = Inst::Const(1 << 32));
        check(&|it| it.insts[1] = Inst::Math(Math::Pow, Val(0), None));
        check(&|it| it.insts[1] = Inst::Math(Math::Exp, Val(0), Some(Val(0))));
        check(&|it| it.insts[1] = Inst::Math(Math::Exp, Val(1), None));
        check(&|it| it.types[0] = DType::F16);
        check(&|it| it.types[2] = DType::F64);
        check(&|it| it.types.truncate(3));
        check(&|it| it.stages.truncate(1));
        check(&|it| it.stages[0].end = 9);
        check(&|it| it.stages[0].scope = Scope::Point);
        check(&|it| it.params[1].step = StrideClass::Any);
        check(&|it| it.par = 200);
        check(&|it| it.run = 1);
        check(&|it| (it.order, it.run) = (ReductionOrder::Blocks, 1));
        check(&|it| (it.order, it.run, it.seq, it.lanes) = (ReductionOrder::Blocks, 1, 1, LaneAxis::Parallel));
    }
}

//! Verifies kernels. Stored kernels are verified before they are used.

use super::{
    BinaryOp, Inst, Kernel, LaneAxis, Param, ParamId, Reducer, ReductionOrder, Role, Scope, StrideClass, UnaryOp, Val,
};
use crate::data::DType;
use crate::error::{Code, Error, Result};

/// The maximum number of loops of one kind. No shape has more.
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
        let is_apart = |it: &Param| it.role.is_written() && it.step == StrideClass::Any;
        if self.lanes == LaneAxis::Reduced && self.params.iter().any(is_apart) {
            return refuse("reduced lanes are written one after the other");
        }
        if self.params.iter().any(|it| it.role.is_reloaded() && it.step == StrideClass::Zero) {
            return refuse("what is reloaded has an element for each lane");
        }
        if self.params.iter().any(|it| it.role == Role::Iota && it.dtype != DType::I64) {
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
        match self.stages.iter().any(|it| it.scope == Scope::Repeat) {
            true => self.check_repeats().or_else(refuse),
            false => Ok(()),
        }
    }

    /// Checks the form of the stages that are loops, assuming that their instructions are valid.
    fn check_repeats(&self) -> std::result::Result<(), &'static str> {
        let is_alone = self.lanes == LaneAxis::Parallel && self.seq == 0;
        if !is_alone || self.stages.iter().any(|it| it.scope == Scope::Loop) {
            return Err("a loop has parallel lanes, and no reduced loops around it");
        }
        let uniform = self.uniform();
        for stage in (0..self.stages.len()).filter(|&it| self.stages[it].scope == Scope::Repeat) {
            let range = self.stage_range(stage);
            let of = |form: fn(&Inst) -> bool| range.clone().filter(move |&at| form(&self.insts[at]));
            let carries = of(|it| matches!(it, Inst::Carry(_))).count();
            let next = range.end - carries.min(range.len())..range.end;
            let assigned = next.clone().enumerate().all(|(carry, at)| match self.insts[at] {
                Inst::Next(to, _) => to.0 as usize == range.start + carry,
                _ => false,
            });
            let begins = self.insts[range.clone()].iter().take(carries).all(|it| matches!(it, Inst::Carry(_)));
            if !begins || !assigned || of(|it| matches!(it, Inst::Next(..))).count() != carries {
                return Err("a loop begins with its carries, and ends with their next values, in the same order");
            }
            let mut conditions = of(|it| matches!(it, Inst::While(_)));
            let (Some(at), None) = (conditions.next(), conditions.next()) else {
                return Err("a loop has one condition");
            };
            if !uniform[at] {
                return Err("the condition of a loop is the same for all lanes");
            }
        }
        Ok(())
    }

    /// Checks instruction `at` of a stage that begins at `start`.
    fn is_right(&self, at: usize, start: usize, stage: usize) -> bool {
        let (inst, out) = (self.insts[at], self.types[at]);
        let visible = |val: Val| {
            let val = val.0 as usize;
            let is_result = |inst: &Inst| !matches!(inst, Inst::Reduce(..) | Inst::While(_) | Inst::Next(..));
            val < at && if val >= start { is_result(&self.insts[val]) } else { self.leaves(val) }
        };
        let is = |val: Val| visible(val) && self.ty(val) == out;
        let scope = self.stages[stage].scope;
        let has = |id: ParamId, role| self.params.get(id.0 as usize).is_some_and(|it| it.role == role);
        let (float, bool) = (out.is_float(), out == DType::Bool);
        let operands = match inst {
            Inst::Load(id) => self.params.get(id.0 as usize).is_some_and(|it| match it.role {
                Role::Input | Role::Iota | Role::Immediate => true,
                Role::Reloaded | Role::Scratch => scope == Scope::Loop && self.is_written_before(id, at, start),
                Role::Output | Role::Indexed => false,
            }),
            Inst::Gather(id, position) => {
                has(id, Role::Indexed) && visible(position) && self.ty(position) == DType::I64
            }
            Inst::Store(id, val) => {
                scope != Scope::Repeat
                    && self
                        .params
                        .get(id.0 as usize)
                        .is_some_and(|it| it.role.is_written() && it.dtype.compute() == out)
                    && is(val)
            }
            // Bits beyond the dtype would distinguish kernels that compute the same values.
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
                scope == Scope::Loop
                    && is(val)
                    && match reducer {
                        Reducer::All | Reducer::Any => bool,
                        Reducer::Sum | Reducer::Prod => !bool,
                        Reducer::Max | Reducer::Min => true,
                    }
            }
            Inst::Carry(first) => scope == Scope::Repeat && (first.0 as usize) < start && is(first),
            Inst::While(condition) => scope == Scope::Repeat && bool && is(condition),
            Inst::Next(carry, value) => scope == Scope::Repeat && carry.0 as usize >= start && is(carry) && is(value),
        };
        let constant = matches!(inst, Inst::Const(_));
        operands && out.compute() == out && (constant || self.result(&inst) == Some(out))
    }

    /// Returns whether a loop wrote a buffer before the stage that begins at `start`, and nothing wrote it since, up to
    /// instruction `at`.
    fn is_written_before(&self, buffer: ParamId, at: usize, start: usize) -> bool {
        let is_store = |at: &usize| matches!(self.insts[*at], Inst::Store(to, _) if to == buffer);
        let last = (0..at).rev().find(is_store);
        last.is_some_and(|it| it < start && self.stages[self.stage_of(it)].scope == Scope::Loop)
    }

    /// Returns the stage of an instruction that belongs to one.
    fn stage_of(&self, at: usize) -> usize {
        self.stages.partition_point(|it| it.end as usize <= at)
    }

    /// Returns whether a value of an earlier stage is visible in later ones.
    fn leaves(&self, val: usize) -> bool {
        self.stages[self.stage_of(val)].scope == Scope::Point
            || matches!(self.insts[val], Inst::Reduce(..) | Inst::Carry(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KernelBuilder, LaneAxis, Math};

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

    /// Indices are i64, and indexed buffers are read only by gathers.
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

    /// The dtypes that each reducer accepts.
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

    /// The form of loops, and conditions that are uniform over the lanes.
    #[test]
    fn loops_have_a_form() {
        let read = |stage: &str| {
            let text = format!(
                "kernel par=0 lanes=parallel seq=0 in %x: f32 unit in %n: f32 zero out %y: f32 unit
                 point: x = load %x n = load %n
                 repeat: {stage}
                 point: store %y, last"
            );
            Kernel::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).check()
        };
        let valid = [
            "last = carry x i = carry n c = lt i, n while c s = add last, i next last, s next i, n",
            "last = carry x c = lt n, n while c next last, last",
            "last = carry n c = lt last, n while c s = add last, n next last, s",
        ];
        let invalid = [
            // The condition varies over the lanes: by its first value, by its next value, or by the value after that.
            "last = carry x c = lt last, n while c next last, n",
            "last = carry n c = lt last, n while c next last, x",
            "last = carry n i = carry n c = lt last, n while c next last, i next i, x",
            "last = carry x c = lt n, n next last, x",
            "last = carry x c = lt n, n while c while c next last, x",
            "last = carry x while n next last, x",
            "last = carry x c = lt n, n while c",
            "last = carry x c = lt n, n while c next last, x next last, x",
            "last = carry x i = carry n c = lt n, n while c next i, n next last, x",
            "last = carry x c = lt n, n while c next last, c",
            "last = carry x c = lt n, n while c next last, x s = add x, x",
            "c = lt n, n last = carry x while c next last, x",
            "last = carry x i = carry last c = lt n, n while c next last, x next i, x",
            "last = carry x c = lt n, n while c store %y, x next last, x",
            "i = carry x c = lt n, n while c last = add i, i next i, last",
        ];
        valid.iter().for_each(|it| assert!(read(it).is_ok(), "{it}"));
        invalid.iter().for_each(|it| assert!(read(it).is_err(), "{it}"));
        let rows = "kernel par=0 lanes=reduced seq=0 in %x: f32 unit out %y: f32 zero
             loop: x = load %x s = reduce sum x
             repeat: a = carry s c = lt a, a while c next a, a
             point: store %y, a";
        assert!(Kernel::parse(rows).and_then(|it| it.check()).is_err());
    }

    /// Loops load what earlier loops stored, and nothing else loads outputs.
    #[test]
    fn reloads_follow_stores() {
        let first = "loop: x = load %x store %y, x s = reduce sum x";
        let cases = [
            ("reloaded", "unit", first, "loop: a = load %y t = reduce sum a point: store %z, t", true),
            ("scratch", "unit", first, "loop: a = load %y t = reduce sum a point: store %z, t", true),
            ("scratch", "unit", first, "loop: a = load %y store %y, a point: store %z, s", true),
            ("scratch", "unit", first, "point: store %z, s", true),
            ("reloaded", "unit", first, "loop: x1 = load %x store %y, x1 a = load %y point: store %z, s", false),
            ("reloaded", "unit", "loop: a = load %y s = reduce sum a", "point: store %z, s", false),
            ("reloaded", "unit", "loop: x = load %x s = reduce sum x a = load %y store %y, x", "", false),
            ("reloaded", "unit", first, "point: a = load %y store %z, a", false),
            ("reloaded", "unit", first, "point: store %y, s loop: a = load %y point: store %z, s", false),
            ("reloaded", "zero", first, "loop: a = load %y t = reduce sum a point: store %z, t", false),
            ("out", "unit", first, "loop: a = load %y t = reduce sum a point: store %z, t", false),
        ];
        for (role, step, first, second, valid) in cases {
            let text = format!(
                "kernel par=0 lanes=reduced seq=0 in %x: f32 unit {role} %y: f32 {step} out %z: f32 zero {first} {second}"
            );
            let kernel = Kernel::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(kernel.check().is_ok(), valid, "{text}");
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

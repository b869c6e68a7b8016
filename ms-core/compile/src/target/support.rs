//! The tables of ops that a target runs itself.

use ms_ir::data::{DType, Op};
use ms_ir::{Precision, Type};

/// A row of a table of ops: the operands on which a target runs an op itself. A composite in the table of
/// [composites](super::Target::composites) is legal: it runs natively instead of the ops of its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpSupport {
    /// The op.
    pub op: Op,
    /// The dtype of its float operands, of which there is at least one; `None` for operands of all dtypes.
    pub dtype: Option<DType>,
    /// Whether its results are bit-identical to the body's, so that it is also legal in strict precision.
    pub strict: bool,
    /// The bounds of sizes of operands.
    pub bounds: &'static [SizeBound],
}

/// A bound of a size of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SizeBound {
    /// The operand.
    pub operand: usize,
    /// The axis, counted from the last one.
    pub axis: usize,
    /// The largest size.
    pub most: usize,
    /// The number of which the size is a multiple.
    pub multiple_of: usize,
}

impl SizeBound {
    /// Returns whether operands of these types have the axis, with a constant size within the bound.
    fn admits(&self, types: &[&Type]) -> bool {
        let dims = types.get(self.operand).map_or(&[][..], |it| &it.dims);
        let size = dims.iter().rev().nth(self.axis).and_then(|it| it.as_const());
        size.is_some_and(|it| it <= self.most && it.is_multiple_of(self.multiple_of))
    }
}

impl OpSupport {
    /// Returns the support of an op on operands of a dtype and of all sizes.
    pub const fn new(op: Op, dtype: DType, strict: bool) -> Self {
        Self { op, dtype: Some(dtype), strict, bounds: &[] }
    }

    /// Returns the support of an op on operands of all dtypes and sizes.
    pub const fn all(op: Op, strict: bool) -> Self {
        Self { op, dtype: None, strict, bounds: &[] }
    }

    /// Returns whether the target runs the op on operands of these types in this precision.
    pub fn admits(&self, op: Op, types: &[&Type], precision: Precision) -> bool {
        let exact = self.strict || precision.is_relaxed();
        let mut floats = types.iter().map(|it| it.dtype).filter(|it| it.is_float()).peekable();
        exact
            && self.op == op
            && self.dtype.is_none_or(|dtype| floats.peek().is_some() && floats.all(|it| it == dtype))
            && self.bounds.iter().all(|it| it.admits(types))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::data::Dim;
    use ms_ops::ops::COMPOSITES;

    #[test]
    fn what_is_admitted() {
        let op = COMPOSITES[0].op();
        let fast = OpSupport::new(op, DType::F32, false);
        let (f32, f64) = (Type::of(DType::F32, &[2, 96]), Type::of(DType::F64, &[2, 96]));
        let (bool, other) = (Type::of(DType::Bool, &[2]), Type::of(DType::F32, &[2, 100]));
        let large = Type::of(DType::F32, &[2, 256]);
        let symbolic = Type::new(DType::F32, [2.into(), Dim::symbol("n")].into_iter().collect());
        static BOUNDS: [SizeBound; 1] = [SizeBound { operand: 1, axis: 0, most: 128, multiple_of: 32 }];
        let bounded = OpSupport { bounds: &BOUNDS, ..fast };
        let exact = OpSupport { strict: true, ..fast };
        let any = OpSupport::all(op, false);
        let cases: [(OpSupport, Op, &[&Type], Precision, bool); 16] = [
            (any, op, &[&f32, &f64], Precision::Highest, true),
            (any, op, &[&bool], Precision::Highest, true),
            (any, op, &[&bool], Precision::Strict, false),
            (fast, op, &[&f32, &bool, &f32], Precision::Highest, true),
            (fast, op, &[&bool, &f32], Precision::Highest, true),
            (fast, op, &[&bool], Precision::Highest, false),
            (fast, op, &[&f32, &f64], Precision::Highest, false),
            (fast, op, &[&f64], Precision::Highest, false),
            (fast, op, &[&f32], Precision::Strict, false),
            (fast, COMPOSITES[1].op(), &[&f32], Precision::Highest, false),
            (exact, op, &[&f32], Precision::Strict, true),
            (bounded, op, &[&f32, &f32], Precision::Highest, true),
            (bounded, op, &[&f32, &other], Precision::Highest, false),
            (bounded, op, &[&f32, &large], Precision::Highest, false),
            (bounded, op, &[&f32, &symbolic], Precision::Highest, false),
            (bounded, op, &[&f32], Precision::Highest, false),
        ];
        for (at, (support, op, types, precision, want)) in cases.into_iter().enumerate() {
            assert_eq!(support.admits(op, types, precision), want, "case {at}");
        }
    }
}

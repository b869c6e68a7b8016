//! The composites that a target runs itself.

use ms_ir::data::{DType, Op};
use ms_ir::{Precision, Type};

/// A legal composite: the target runs it natively instead of the ops of its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LegalComposite {
    /// The composite.
    pub op: Op,
    /// The dtype of its first operand and of all other float operands.
    pub dtype: DType,
    /// Whether its results are bit-identical to the body's, so that it is also legal in strict precision.
    pub strict: bool,
}

impl LegalComposite {
    /// Returns whether the composite is legal on operands of these types in this precision.
    pub fn admits(&self, op: Op, types: &[&Type], precision: Precision) -> bool {
        let exact = self.strict || precision.is_relaxed();
        let fits = |it: &&Type| !it.dtype.is_float() || it.dtype == self.dtype;
        exact && self.op == op && types.first().is_some_and(|it| it.dtype == self.dtype) && types.iter().all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ops::ops::COMPOSITES;

    #[test]
    fn what_is_kept() {
        let op = COMPOSITES[0].op();
        let fast = LegalComposite { op, dtype: DType::F32, strict: false };
        let (f32, f64) = (Type::of(DType::F32, &[2]), Type::of(DType::F64, &[2]));
        let bool = Type::of(DType::Bool, &[2]);
        assert!(fast.admits(op, &[&f32, &bool, &f32], Precision::Highest));
        assert!(!fast.admits(op, &[&f32, &f64], Precision::Highest));
        assert!(!fast.admits(op, &[&f64], Precision::Highest));
        assert!(!fast.admits(op, &[&f32], Precision::Strict));
        assert!(!fast.admits(COMPOSITES[1].op(), &[&f32], Precision::Highest));
        assert!(LegalComposite { strict: true, ..fast }.admits(op, &[&f32], Precision::Strict));
    }
}

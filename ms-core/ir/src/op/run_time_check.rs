//! The run-time checks of operands that ops make.

use super::{Lowering, OpDef, Refused};
use crate::data::{Attr, AttrKind, Attrs, DType, Type};
use crate::error::Error;
use crate::positions::outside;
use crate::{BinaryOp, Compare, KernelBuilder, Val};
use smallvec::SmallVec;

/// The record of a check that refuses no element. It is larger than the position of any element.
pub const NONE_REFUSED: i64 = i64::MAX;

impl OpDef {
    /// Returns the number of the operand whose elements a run checks: of an op of [`Lowering::Check`], or the indices
    /// of a gather.
    pub fn checked_operand(&self) -> Option<usize> {
        match &self.lowering {
            Lowering::Check(rule) => Some(rule.operand),
            Lowering::Gather(_) => Some(1),
            _ => None,
        }
    }

    /// Returns the numbers that a check of operands of these types depends on: the attributes that are sizes or
    /// extents, or the size of the axis that a gather indexes and twice that. A kernel takes them as i64 values, so
    /// that its code serves all sizes.
    ///
    /// # Panics
    /// If a number is symbolic.
    pub fn check_sizes<'t>(&self, attrs: &Attrs, operand: impl Fn(usize) -> &'t [usize]) -> SmallVec<[i64; 2]> {
        if let Lowering::Gather(axis) = self.lowering {
            let size = operand(0)[axis(attrs)] as i64;
            return SmallVec::from_slice(&[size, 2 * size]);
        }
        let own = self.info.attrs.iter().zip(attrs.as_slice());
        let sizes = own.filter(|it| matches!(it.0.kind, AttrKind::Size | AttrKind::Extent));
        sizes
            .map(|(_, attr)| match attr {
                Attr::Int(it) => *it,
                other => unreachable!("a run has constant sizes, not {other:?}"),
            })
            .collect()
    }

    /// Builds the term of a check for one element, an i64: its position, or [`NONE_REFUSED`] if it is accepted. The
    /// record of the check is the minimum of the terms. The values are the position, the element and the
    /// [sizes](OpDef::check_sizes).
    ///
    /// # Panics
    /// If the op makes no check.
    pub fn build_check(&self, attrs: &Attrs, body: &mut KernelBuilder, values: &[Val]) -> Val {
        let (position, element, sizes) = (values[0], values[1], &values[2..]);
        let accepted = match &self.lowering {
            Lowering::Check(rule) => (rule.accepts)(attrs, body, element, sizes),
            Lowering::Gather(_) => {
                // As unsigned numbers, negative ones are the largest.
                let element = body.cast(element, DType::I64);
                let shifted = body.binary(BinaryOp::Add, element, sizes[0]);
                let [shifted, twice] = [shifted, sizes[1]].map(|it| body.cast(it, DType::U64));
                body.compare(Compare::Lt, shifted, twice)
            }
            _ => unreachable!("`{}` makes no check", self.name()),
        };
        let none = body.constant(NONE_REFUSED, DType::I64);
        body.select(accepted, none, position)
    }

    /// Returns the error of the first element that a check does not accept. `operands` has the types of all operands.
    ///
    /// # Panics
    /// If the op makes no check.
    #[cold]
    pub fn refuse(&self, attrs: &Attrs, operands: &[Type], refused: &Refused<'_>) -> Error {
        match &self.lowering {
            Lowering::Check(rule) => (rule.refuse)(attrs, refused),
            Lowering::Gather(axis) => {
                let shape = operands[0].shape().expect("operands of a run have constant shapes");
                outside(refused.element.as_i64(), axis(attrs), &shape)
            }
            _ => unreachable!("`{}` makes no check", self.name()),
        }
    }
}

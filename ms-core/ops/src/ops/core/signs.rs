//! Comparisons of operands that no dtype represents.

use crate::ops::{EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL, OpDef};
use crate::tensor::{Attrs, DType, Tensor, apply1};
use std::cmp::Ordering;

/// Compares signed integers with u64 numbers; returns `None` for other operands or ops. No dtype represents all values
/// of both. So the signs of the signed numbers are compared first, then the numbers as u64.
#[track_caller]
pub(super) fn with_signs(def: &'static OpDef, a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let signed_first = match [a, b].map(Tensor::dtype) {
        [a, DType::U64] if a.is_signed_int() => true,
        [DType::U64, b] if b.is_signed_int() => false,
        _ => return None,
    };
    let order = if signed_first { Ordering::Less } else { Ordering::Greater };
    let comparisons: [(&OpDef, bool); 6] = [
        (&EQUAL, order.is_eq()),
        (&NOT_EQUAL, order.is_ne()),
        (&LESS, order.is_lt()),
        (&LESS_EQUAL, order.is_le()),
        (&GREATER, order.is_gt()),
        (&GREATER_EQUAL, order.is_ge()),
    ];
    let of_negative = comparisons.into_iter().find(|(it, _)| it.op() == def.op())?.1;
    let negative = if signed_first { a } else { b }.lt(0);
    let [a, b] = [a, b].map(|it| it.cast(DType::U64));
    let others = apply1(def.op(), &Attrs::none(), &[&a, &b]);
    Some(if of_negative { others.logical_or(negative) } else { others.logical_and(negative.logical_not()) })
}

//! Rust's operators that tensors do not have, `x == y`, `x < y` and `x[i]`, for the sake of messages that say what to
//! write instead.
//!
//! Each is implemented under a bound that nothing satisfies, which is what rustc reports. Comparisons in annotated code
//! do not come here: macros rewrite them.

use super::tensor::Tensor;
use std::cmp::Ordering;
use std::ops::Index;

/// No tensor has operators of comparison. rustc shows no more than the name, so the name is the message.
pub trait ComparedByMethodsSuchAsLt<'a> {}

impl<'a> PartialEq for Tensor
where
    Tensor: ComparedByMethodsSuchAsLt<'a>,
{
    fn eq(&self, _: &Self) -> bool {
        unreachable!("no tensor is compared by an operator")
    }
}

impl<'a> PartialOrd for Tensor
where
    Tensor: ComparedByMethodsSuchAsLt<'a>,
{
    fn partial_cmp(&self, _: &Self) -> Option<Ordering> {
        unreachable!("no tensor is compared by an operator")
    }
}

/// No type is an index in brackets.
#[diagnostic::on_unimplemented(
    message = "tensors are not indexed by `[..]`",
    label = "a part of a tensor is a tensor, and no place in memory",
    note = "write `x.at(i)` or `x.i((.., 0..3))`, and `x.assign_at(i, value)` to replace a part; for more information, run \
            `ms explain MS018`"
)]
pub trait InBrackets {
    /// What it selects.
    type Part;
}

impl<I: InBrackets> Index<I> for Tensor {
    type Output = I::Part;

    fn index(&self, _: I) -> &I::Part {
        unreachable!("no type is an index in brackets")
    }
}

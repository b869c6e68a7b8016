//! Gives hints for Rust operators that tensors lack: `x == y`, `x < y` and `x[i]`.
//!
//! Each operator is implemented under an unsatisfiable bound, so that rustc reports the bound and its message.
//! Comparisons in annotated code never reach these impls: macros rewrite them.

use super::tensor::Tensor;
use std::cmp::Ordering;
use std::ops::Index;

/// A bound that no type satisfies. rustc shows only its name, so the name is the message.
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

/// A bound that no type satisfies.
#[diagnostic::on_unimplemented(
    message = "tensors are not indexed by `[..]`",
    label = "a part of a tensor is a tensor, and no place in memory",
    note = "write `x.at(i)` or `x.i((.., 0..3))`, and `x.assign_at(i, value)` to replace a part; for more information, run \
            `ms explain MS018`"
)]
pub trait InBrackets {
    /// The result of indexing.
    type Part;
}

impl<I: InBrackets> Index<I> for Tensor {
    type Output = I::Part;

    fn index(&self, _: I) -> &I::Part {
        unreachable!("no type is an index in brackets")
    }
}

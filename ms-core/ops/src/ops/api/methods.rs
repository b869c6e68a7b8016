//! Ops as methods of [`Tensor`], where NumPy or MindSpore has a method of that name.

use crate::ops::IntoAxes;
use crate::ops::IntoOperand;
use crate::tensor::{AsTensor, Tensor};

macro_rules! methods {
    ($($function:ident($($x:ident: $operand:ty),*) -> $result:ty;)*) => {
        impl Tensor {$(
            #[doc = concat!("The function [`", stringify!($function), "`](crate::ops::", stringify!($function), ") of this tensor.")]
            #[track_caller]
            pub fn $function(&self, $($x: $operand),*) -> $result {
                crate::ops::$function(self, $($x),*)
            }
        )*}
    };
}

methods! {
    argsort(axis: isize, descending: bool) -> Self;
    cumprod(axis: isize) -> Self;
    cumsum(axis: isize) -> Self;
    diag(k: isize) -> Self;
    gather(index: impl AsTensor, axis: isize) -> Self;
    gather_nd(index: impl AsTensor) -> Self;
    index_add(index: impl AsTensor, source: impl AsTensor, axis: isize) -> Self;
    index_select(index: impl AsTensor, axis: isize) -> Self;
    masked_fill(mask: impl AsTensor, value: impl IntoOperand) -> Self;
    masked_select(mask: impl AsTensor) -> Self;
    nonzero() -> Self;
    repeat(repeats: usize, axis: isize) -> Self;
    roll(shifts: &[isize], axes: impl IntoAxes) -> Self;
    scatter(index: impl AsTensor, source: impl AsTensor, axis: isize) -> Self;
    scatter_add(index: impl AsTensor, source: impl AsTensor, axis: isize) -> Self;
    sort(axis: isize, descending: bool) -> (Self, Self);
    split(sections: usize, axis: isize) -> Vec<Self>;
    take_along_axis(index: impl AsTensor, axis: isize) -> Self;
    tile(reps: &[usize]) -> Self;
    topk(k: usize, axis: isize, largest: bool) -> (Self, Self);
    tril(k: isize) -> Self;
    triu(k: isize) -> Self;
}

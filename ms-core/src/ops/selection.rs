//! Results whose size depends on data: eager only.

use super::axis::refusal;
use super::{broadcast_to, gather, reshape};
use crate::error::{Code, OrRaise, raise};
use crate::tensor::{AsTensor, Element, IntoShape, Tensor, broadcast_shapes};
use crate::with_element;

/// The positions of the elements that are not zero, in row-major order: i64 `[count, rank]`.
///
/// # Panics
/// Raises [`Code::TracedValue`] while tracing, as the number of rows depends on data.
#[track_caller]
pub fn nonzero(x: impl AsTensor) -> Tensor {
    let x = x.as_tensor();
    refuse_traced("nonzero", &x);
    let array = x.try_array().or_raise();
    let hits: Vec<usize> = with_element!(array.dtype(), T => {
        let hit = |(at, it): (usize, T)| it.to_scalar().as_bool().then_some(at);
        array.iter::<T>().enumerate().filter_map(hit).collect()
    });
    let rank = array.layout().rank();
    let mut out = vec![0i64; hits.len() * rank];
    for (row, &hit) in out.chunks_mut(rank.max(1)).zip(&hits) {
        let mut rest = hit;
        for (to, &size) in row.iter_mut().zip(array.shape()).rev() {
            *to = (rest % size) as i64;
            rest /= size;
        }
    }
    Tensor::from_slice([hits.len(), rank].into_shape(), &out)
}

/// The elements of `x` where `mask` is true, in row-major order; both broadcast.
///
/// # Panics
/// Raises [`Code::TracedValue`] while tracing, as their number depends on data;
/// [`Code::DType`] unless `mask` holds bools, [`Code::Shape`] when the shapes do not broadcast.
#[track_caller]
pub fn masked_select(x: impl AsTensor, mask: impl AsTensor) -> Tensor {
    let (x, mask) = (x.as_tensor(), mask.as_tensor());
    refuse_traced("masked_select", &mask);
    if mask.dtype() != crate::DType::Bool {
        let message = format!("a mask holds bools, not {}", mask.dtype());
        raise(refusal("masked_select", &[&x, &mask], Code::DType, message));
    }
    let shape = broadcast_shapes(x.shape(), mask.shape())
        .map_err(|it| super::axis::named("masked_select", &[&x, &mask], it))
        .or_raise();
    let places = nonzero(reshape(broadcast_to(&*mask, &shape), [-1]));
    gather(reshape(broadcast_to(&*x, &shape), [-1]), reshape(places, [-1]), 0)
}

#[track_caller]
fn refuse_traced(op: &str, x: &Tensor) {
    if x.is_traced() {
        let error = refusal(op, &[x], Code::TracedValue, "the size of the result depends on data");
        raise(error.help("call it outside the compiled function, or keep the shape and use a mask with `select`"));
    }
}

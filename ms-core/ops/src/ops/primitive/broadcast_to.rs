//! `broadcast_to`: broadcasting along new axes and axes of size 1.

use crate::ops::core::rules::{broadcasts_to, sum_to};
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{AsTensor, Attr, Dim, Dims, IntoDims, OpInfo, Tensor, Type, apply1};
use ms_ir::error::{Code, Error};
use smallvec::smallvec;
use std::borrow::Cow;

attributes! {
    /// The attributes of [`BROADCAST_TO`].
    #[doc(hidden)]
    pub struct BroadcastToAttrs { shape: Dims }
}

/// Broadcasts the operand to `shape`, by NumPy's rules.
pub static BROADCAST_TO: OpDef = OpDef {
    info: OpInfo { number: 351, name: "broadcast_to", attrs: BroadcastToAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (from, to) = (&inputs[0].dims, BroadcastToAttrs::of(attrs).shape().dims());
        let fits = |(&from, &to): (&Dim, &Dim)| broadcasts_to(from, to);
        if from.len() > to.len() || !from.iter().rev().zip(to.iter().rev()).all(fits) {
            let message = format!("shape {from:?} does not broadcast to {to:?}");
            return Err(Error::new(Code::Shape, message).help("sizes must be equal or one, counted from the last axis"));
        }
        Ok(smallvec![Type::new(inputs[0].dtype, to)])
    },
    eval: |attrs, inputs| {
        let layout = inputs[0].layout().broadcast_to(&BroadcastToAttrs::of(attrs).shape().sizes())?;
        Ok(smallvec![inputs[0].with_layout(layout).on_host()?.to_contiguous()])
    },
    effects: Effects::NONE,
    lowering: Lowering::View(|attrs, layout| layout.broadcast_to(&BroadcastToAttrs::of(attrs).shape().sizes()).ok()),
    samples: || {
        let shape: Attr = (&[2usize, 3, 4][..]).into();
        vec![Sample::new([SampleInput::f32(&[3, 1], -2.0, 2.0)]).attrs(BroadcastToAttrs::attrs(shape))]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| smallvec![Some(sum_to(it.cotangent(), &it.inputs[0]))]),
        finite_derivatives: true,
        batching: Batching::Rule(|it| {
            let missing = BroadcastToAttrs::of(it.attrs).shape().count() - it.rank(0);
            let x = crate::ops::expand_dims(&it.inputs[0], (1..=missing).collect::<Vec<_>>());
            it.apply(&it.fronted(&[("shape", it.size)]), &[x])
        }),
        body: None,
    },
};

/// Broadcasts `x` to a shape, without a copy.
///
/// # Panics
/// Raises [`Code::Shape`] if `x` does not broadcast to `shape`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::broadcast_to(tensor![[1], [2]], [2, 3]).to_vec::<i64>(), [1, 1, 1, 2, 2, 2]);
/// ```
#[track_caller]
pub fn broadcast_to(x: impl AsTensor, shape: impl IntoDims) -> Tensor {
    broadcast_dims_to(x.as_tensor(), shape.into_dims())
}

#[track_caller]
fn broadcast_dims_to(x: Cow<'_, Tensor>, shape: Dims) -> Tensor {
    if x.dims() == shape {
        return x.into_owned();
    }
    apply1(BROADCAST_TO.op(), &BroadcastToAttrs::attrs(&*shape), &[&*x])
}

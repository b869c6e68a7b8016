//! `reshape`: a change of shape that preserves the row-major order of elements.

use crate::ops::composite::shape::fill;
use crate::ops::core::axis::named;
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{AsTensor, Dims, NewShape, OpInfo, Tensor, Type, apply1};
use ms_ir::error::{Code, Error};
use smallvec::smallvec;
use std::borrow::Cow;

attributes! {
    /// The attributes of [`RESHAPE`].
    #[doc(hidden)]
    pub struct ReshapeAttrs { shape: Dims }
}

/// Reshapes the operand to `shape`.
pub static RESHAPE: OpDef = OpDef {
    info: OpInfo { number: 350, name: "reshape", attrs: ReshapeAttrs::DECLARED },
    infer: |attrs, inputs| {
        let wanted = Type::new(inputs[0].dtype, ReshapeAttrs::of(attrs).shape().dims());
        let fits = match (inputs[0].is_symbolic() || wanted.is_symbolic(), inputs[0].numel(), wanted.numel()) {
            (true, ..) => inputs[0].elements().may_equal(wanted.elements()),
            (false, from, to) => from.is_some() && from == to,
        };
        if !fits {
            return Err(Error::new(Code::Shape, format!("{} cannot take the shape {:?}", inputs[0], wanted.dims)));
        }
        Ok(smallvec![wanted])
    },
    eval: |attrs, inputs| {
        let dense = inputs[0].on_host()?.to_contiguous();
        let layout = dense
            .layout()
            .reshape(&ReshapeAttrs::of(attrs).shape().sizes())
            .expect("a row-major array takes any shape");
        Ok(smallvec![dense.with_layout(layout)])
    },
    effects: Effects::NONE,
    lowering: Lowering::View(|attrs, layout| layout.reshape(&ReshapeAttrs::of(attrs).shape().sizes())),
    samples: || vec![Sample::new([SampleInput::f32(&[3, 4], -2.0, 2.0)]).attrs(ReshapeAttrs::attrs(&[6usize, 2][..]))],
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| smallvec![Some(reshape(it.cotangent(), &it.inputs[0].ty().dims))]),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(&it.fronted(&[("shape", it.size)]), it.inputs)),
        body: None,
    },
};

/// Returns the elements of `x` in row-major order with another shape, in which one size may be -1.
///
/// # Panics
/// Raises [`Code::Shape`] if the numbers of elements differ.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::reshape(tensor![1, 2, 3, 4], [2, -1]).shape(), [2, 2]);
/// ```
#[track_caller]
pub fn reshape(x: impl AsTensor, shape: impl NewShape) -> Tensor {
    reshape_to(x.as_tensor(), shape.new_dims())
}

#[track_caller]
fn reshape_to(x: Cow<'_, Tensor>, shape: Dims) -> Tensor {
    propagate_poison!(x);
    let dims = x.dims();
    let shape = or_poison!(fill(shape, dims.iter().copied().product()).map_err(|it| named("reshape", &[&x], it)));
    if shape == dims {
        return x.into_owned();
    }
    apply1(RESHAPE.op(), &ReshapeAttrs::attrs(&*shape), &[&*x])
}

/// Returns the same value as the result of an op, with a distinct identity, and a separate node where ops are recorded.
#[track_caller]
#[doc(hidden)]
pub fn distinct(x: &Tensor) -> Tensor {
    apply1(RESHAPE.op(), &ReshapeAttrs::attrs(&*x.dims()), &[x])
}

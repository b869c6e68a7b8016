//! `reshape`: the same elements in row-major order under another shape.

use super::axis::named;
use super::{Batching, Derivative, Lowering, NewShape, OpDef, Sample, SampleInput};
use crate::error::{Code, Error, OrRaise};
use crate::tensor::{AsTensor, Attr, Attrs, Dim, OpInfo, Tensor, Type, apply1, count};
use smallvec::smallvec;

/// The operand under the shape of attribute 0.
pub static RESHAPE: OpDef = OpDef {
    info: OpInfo { number: 350, name: "reshape", attrs: &["shape"] },
    infer: |attrs, inputs| {
        let shape = attrs.sizes(0);
        if inputs[0].numel().is_none() || inputs[0].numel() != count(&shape) {
            return Err(Error::new(Code::Shape, format!("{} cannot take the shape {shape:?}", inputs[0])));
        }
        Ok(smallvec![Type::of(inputs[0].dtype, &shape)])
    },
    eval: |attrs, inputs| {
        let dense = inputs[0].to_contiguous();
        let layout = dense.layout().reshape(&attrs.sizes(0)).expect("a row-major array takes any shape");
        Ok(smallvec![dense.with_layout(layout)])
    },
    derivative: Derivative::Rule(|it| smallvec![Some(reshape_dims(it.cotangent(), &it.inputs[0].ty().dims))]),
    batching: Batching::Derived,
    lowering: Lowering::View(|attrs, layout| layout.reshape(&attrs.sizes(0))),
    samples: || {
        let shape: Attr = (&[6usize, 2][..]).into();
        vec![Sample::new([SampleInput::f32(&[3, 4], -2.0, 2.0)]).attrs(Attrs::new([shape]))]
    },
};

/// The elements of `x` in row-major order under another shape, in which one size may be -1.
///
/// # Panics
/// Raises [`Code::Shape`] when the numbers of elements differ.
#[track_caller]
pub fn reshape(x: impl AsTensor, shape: impl NewShape) -> Tensor {
    let x = x.as_tensor();
    let shape = shape.new_shape(x.numel()).map_err(|it| named("reshape", &[&x], it)).or_raise();
    if *shape == *x.shape() {
        return x.into_owned();
    }
    apply1(RESHAPE.op(), &Attrs::new([(&*shape).into()]), &[&*x])
}

/// [`reshape`] to dimensions that may be symbolic.
#[track_caller]
pub fn reshape_dims(x: &Tensor, dims: &[Dim]) -> Tensor {
    let sizes: Vec<usize> = dims.iter().map(|it| it.as_const().expect("symbolic dimensions do not occur yet")).collect();
    apply1(RESHAPE.op(), &Attrs::new([(&*sizes).into()]), &[x])
}

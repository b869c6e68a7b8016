//! `broadcast_to`: repetition along new axes and axes of size one.

use super::rules::sum_to;
use super::{Batching, Derivative, Lowering, OpDef, Sample, SampleInput};
use crate::error::{Code, Error};
use crate::tensor::{AsTensor, Attr, Attrs, Dim, IntoShape, Layout, OpInfo, Tensor, Type, apply1};
use smallvec::smallvec;

/// The operand repeated to the shape of attribute 0, by NumPy's rules.
pub static BROADCAST_TO: OpDef = OpDef {
    info: OpInfo { number: 351, name: "broadcast_to", attrs: &["shape"] },
    infer: |attrs, inputs| {
        let shape = attrs.sizes(0);
        match inputs[0].shape() {
            Some(from) => Layout::contiguous(&from).broadcast_to(&shape).map(|_| ())?,
            None => return Err(Error::new(Code::Shape, format!("{} has symbolic dimensions", inputs[0]))),
        }
        Ok(smallvec![Type::of(inputs[0].dtype, &shape)])
    },
    eval: |attrs, inputs| {
        let layout = inputs[0].layout().broadcast_to(&attrs.sizes(0))?;
        Ok(smallvec![inputs[0].with_layout(layout).to_contiguous()])
    },
    derivative: Derivative::Rule(|it| smallvec![Some(sum_to(it.cotangent(), &it.inputs[0]))]),
    batching: Batching::Derived,
    lowering: Lowering::View(|attrs, layout| layout.broadcast_to(&attrs.sizes(0)).ok()),
    samples: || {
        let shape: Attr = (&[2usize, 3, 4][..]).into();
        vec![Sample::new([SampleInput::f32(&[3, 1], -2.0, 2.0)]).attrs(Attrs::new([shape]))]
    },
};

/// `x` repeated to a shape, without a copy.
///
/// # Panics
/// Raises [`Code::Shape`] when `shape` is no broadcast of the operand's.
#[track_caller]
pub fn broadcast_to(x: impl AsTensor, shape: impl IntoShape) -> Tensor {
    let (x, shape) = (x.as_tensor(), shape.into_shape());
    if *x.shape() == *shape {
        return x.into_owned();
    }
    apply1(BROADCAST_TO.op(), &Attrs::new([(&*shape).into()]), &[&*x])
}

/// [`broadcast_to`] to dimensions that may be symbolic.
#[track_caller]
pub fn expand_dims_to(x: &Tensor, dims: &[Dim]) -> Tensor {
    let sizes: Vec<usize> = dims.iter().map(|it| it.as_const().expect("symbolic dimensions do not occur yet")).collect();
    broadcast_to(x, sizes)
}

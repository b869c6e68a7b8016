//! `cast`: conversion to another dtype.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{Array, AsTensor, DType, OpInfo, Tensor, Type, apply1};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`CAST`].
    #[doc(hidden)]
    pub struct CastAttrs { to: DType }
}

/// Converts the operand to the dtype `to`, as [`Element::from_scalar`](crate::tensor::Element::from_scalar) does.
/// Floats are rounded once, or truncated and saturated to integers (NaN to zero). Integers wrap, and nonzero values are
/// true.
pub static CAST: OpDef = OpDef {
    info: OpInfo { number: 2, name: "cast", attrs: CastAttrs::DECLARED },
    infer: |attrs, inputs| Ok(smallvec![Type::new(CastAttrs::of(attrs).to(), inputs[0].dims.clone())]),
    eval: |attrs, inputs| {
        let (x, to) = (inputs[0], CastAttrs::of(attrs).to());
        let scalars = x.on_host()?.scalars();
        Ok(smallvec![Array::from_scalars(x.shape(), to, &mut |at| scalars[at])])
    },
    effects: Effects::NONE,
    lowering: Lowering::Map(|attrs, body, v| body.cast(v[0], CastAttrs::of(attrs).to())),
    samples: || vec![Sample::new([SampleInput::f32(&[3, 5], -9.0, 9.0)]).attrs(CastAttrs::attrs(DType::F64))],
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| smallvec![Some(cast(it.cotangent(), it.inputs[0].dtype()))]),
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

/// Converts `x` to another dtype.
///
/// ```
/// use ms_core::{DType, ops, tensor};
/// assert_eq!(ops::cast(tensor![1.7, -1.7], DType::I32).to_vec::<i32>(), [1, -1]);
/// ```
#[track_caller]
pub fn cast(x: impl AsTensor, to: DType) -> Tensor {
    let x = x.as_tensor();
    if x.dtype() == to {
        return x.into_owned();
    }
    apply1(CAST.op(), &CastAttrs::attrs(to), &[&*x])
}

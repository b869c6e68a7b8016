//! `sum`: the sum over axes.

use super::rules::sum_dtype;
use super::{Derivative, Lowering, OpDef, ReduceRule, Sample, SampleInput};
use crate::ir::Reducer;
use crate::tensor::{Array, Attr, Attrs, Dim, OpInfo, Scalar, Tensor, Type, apply1};
use smallvec::{SmallVec, smallvec};

/// The sum over the axes of attribute 0, which stay with size one if attribute 1 says so.
pub static SUM: OpDef = OpDef {
    info: OpInfo { number: 300, name: "sum", attrs: &["axes", "keepdims"] },
    infer: |attrs, inputs| {
        let (axes, keep) = (attrs.sizes(0), attrs.bool(1));
        let dims = inputs[0].dims.iter().enumerate();
        let dims = dims.filter(|(axis, _)| keep || !axes.contains(axis));
        let dims = dims.map(|(axis, &dim)| if axes.contains(&axis) { Dim::new(1) } else { dim }).collect();
        Ok(smallvec![Type::new(inputs[0].dtype, dims)])
    },
    eval: |attrs, inputs| {
        let (x, axes) = (inputs[0], attrs.sizes(0));
        let ty = &(SUM.infer)(attrs, &[&x.ty()])?[0];
        let kept: SmallVec<[usize; 4]> = (0..x.layout().rank()).filter(|it| !axes.contains(it)).collect();
        let order: SmallVec<[usize; 4]> = kept.iter().chain(&axes).copied().collect();
        let x = x.with_layout(x.layout().permute(&order));
        let rows: usize = kept.len();
        let out_len: usize = x.shape()[..rows].iter().product();
        let row: usize = x.shape()[rows..].iter().product();
        let scalars = x.scalars();
        let fold = |i: usize| {
            let row = &scalars[i * row..(i + 1) * row];
            if x.dtype().is_float() {
                Scalar::Float(row.iter().map(|it| it.as_f64()).sum())
            } else {
                Scalar::Int(row.iter().fold(0i64, |sum, it| sum.wrapping_add(it.as_i64())))
            }
        };
        let mut out = Array::uninit(&ty.shape().expect("arrays have constant shapes"), x.dtype());
        crate::with_element!(x.dtype(), T => {
            for (i, to) in out.as_mut_slice::<T>().iter_mut().enumerate().take(out_len) {
                *to = <T as crate::tensor::Element>::from_scalar(fold(i));
            }
        });
        Ok(smallvec![out])
    },
    derivative: Derivative::Rule(|it| {
        let x = it.inputs[0].ty();
        let axes = it.attrs.sizes(0);
        let kept: SmallVec<[Dim; 4]> =
            x.dims.iter().enumerate().map(|(axis, &dim)| if axes.contains(&axis) { Dim::new(1) } else { dim }).collect();
        let g = super::reshape_dims(it.cotangent(), &kept);
        smallvec![Some(super::expand_dims_to(&g, &x.dims))]
    }),
    lowering: Lowering::Reduce(ReduceRule { reducer: Reducer::Sum, accumulate: sum_dtype }),
    samples: || {
        let axes: Attr = (&[1usize][..]).into();
        vec![Sample::new([SampleInput::f32(&[3, 4, 2], -2.0, 2.0)]).attrs(Attrs::new([axes, false.into()]))]
    },
};

/// The sum over `axes`, which are not negative and in ascending order.
#[track_caller]
pub fn sum_axes(x: &Tensor, axes: &[usize], keepdims: bool) -> Tensor {
    apply1(SUM.op(), &Attrs::new([axes.into(), keepdims.into()]), &[x])
}

//! `slice_update`: replacement of strided positions.

use super::slice::{SLICE, check_ranges};
use crate::ops::{
    Batching, Derivative, Effects, Extent, Lowering, OpDef, Sample, SampleInput, SliceAttrs, TransformRules,
};
use crate::tensor::{Attr, Attrs, Dim, Layout, OpInfo, Tensor, apply1};
use ms_ir::error::{Code, Error};
use smallvec::smallvec;

attributes! {
    /// The positions of the slices that an op changes in its first operand. The other operands determine the sizes of
    /// the slices.
    #[doc(hidden)]
    pub struct StridedSliceAttrs { starts: [Extent], steps: [i64] }
}

/// Replaces the positions of the first operand from `starts`, `steps` apart, by the second.
pub static SLICE_UPDATE: OpDef = OpDef {
    info: OpInfo { number: 358, name: "slice_update", attrs: StridedSliceAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (x, value) = (inputs[0], inputs[1]);
        if x.dtype != value.dtype {
            return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", x.dtype, value.dtype)));
        }
        let at = StridedSliceAttrs::of(attrs);
        check_ranges(&x.dims, &at.starts().dims(), &value.dims, at.steps().as_slice())?;
        Ok(smallvec![x.clone()])
    },
    eval: |attrs, inputs| {
        let mut out = inputs[0].on_host()?.duplicate();
        let slice = slice(attrs, inputs[1].shape(), out.layout());
        out.assign(&slice, &inputs[1].on_host()?);
        Ok(smallvec![out])
    },
    effects: Effects::NONE,
    lowering: Lowering::Slices(|attrs, shapes, out| smallvec![out.clone(), slice(attrs, shapes[1], out)]),
    samples: || {
        let of = |sizes: &[usize], starts: &[i64], steps: &[i64]| {
            Sample::new([SampleInput::f32(&[5, 7], -2.0, 2.0), SampleInput::f32(sizes, -2.0, 2.0)])
                .attrs(StridedSliceAttrs::attrs(starts, steps))
        };
        vec![of(&[2, 3], &[1, 0], &[2, 3]), of(&[5, 3], &[4, 6], &[-1, -2])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (g, value) = (it.cotangent(), &it.inputs[1]);
            let at = StridedSliceAttrs::of(it.attrs);
            let (starts, steps) = (&*at.starts().dims(), at.steps().as_slice());
            let kept = it.needs[0].then(|| update(g, &crate::ops::zeros_like(value), starts, steps));
            let taken = it.needs[1].then(|| {
                let attrs = SliceAttrs::attrs(starts, &*value.dims(), steps);
                apply1(SLICE.op(), &attrs, &[g])
            });
            smallvec![kept, taken]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| {
            it.apply(&it.fronted(&[("starts", Dim::new(0)), ("steps", Dim::new(1))]), &it.spread_all())
        }),
        body: None,
    },
};

/// Returns the layout of the second operand in the result.
fn slice(attrs: &Attrs, shape: &[usize], out: &Layout) -> Layout {
    let at = StridedSliceAttrs::of(attrs);
    out.slice_all(&at.starts().sizes(), shape, &at.steps().steps())
}

/// Replaces the positions of `x` from `starts`, `steps` apart, by `value`.
#[track_caller]
pub(crate) fn update(x: &Tensor, value: &Tensor, starts: impl Into<Attr>, steps: &[i64]) -> Tensor {
    apply1(SLICE_UPDATE.op(), &StridedSliceAttrs::attrs(starts, steps), &[x, value])
}

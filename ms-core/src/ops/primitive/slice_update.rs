//! `slice_update`: replaces evenly spaced positions.

use super::slice::{SLICE, check_ranges};
use crate::error::{Code, Error};
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput};
use crate::tensor::{Attrs, Dim, Layout, OpInfo, Strides, Tensor, apply1};
use smallvec::smallvec;

/// The first operand with the positions from `starts`, `steps` apart, replaced by the second.
pub static SLICE_UPDATE: OpDef = OpDef {
    info: OpInfo { number: 358, name: "slice_update", attrs: &["starts", "steps"] },
    infer: |attrs, inputs| {
        let (x, value) = (inputs[0], inputs[1]);
        if x.dtype != value.dtype {
            return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", x.dtype, value.dtype)));
        }
        check_ranges(&x.dims, &attrs.dims(0), &value.dims, attrs.ints(1))?;
        Ok(smallvec![x.clone()])
    },
    eval: |attrs, inputs| {
        let mut out = inputs[0].on_host()?.duplicate();
        let slice = slice(attrs, inputs[1].shape(), out.layout());
        out.assign(&slice, &inputs[1].on_host()?);
        Ok(smallvec![out])
    },
    derivative: Derivative::Rule(|it| {
        let (g, value) = (it.cotangent(), &it.inputs[1]);
        let kept = it.needs[0].then(|| update(g, &crate::ops::zeros_like(value), it.attrs.ints(0), it.attrs.ints(1)));
        let taken = it.needs[1].then(|| {
            let attrs = Attrs::new([it.attrs.ints(0).into(), (&*value.dims()).into(), it.attrs.ints(1).into()]);
            apply1(SLICE.op(), &attrs, &[g])
        });
        smallvec![kept, taken]
    }),
    finite_derivatives: true,
    effects: Effects::NONE,
    batching: Batching::Rule(|it| it.apply(&it.fronted(&[(0, Dim::new(0)), (1, Dim::new(1))]), &it.spread_all())),
    lowering: Lowering::Slices(|attrs, shapes, out| smallvec![out.clone(), slice(attrs, shapes[1], out)]),
    samples: || {
        let of = |sizes: &[usize], starts: &[i64], steps: &[i64]| {
            Sample::new([SampleInput::f32(&[5, 7], -2.0, 2.0), SampleInput::f32(sizes, -2.0, 2.0)])
                .attrs(Attrs::new([starts.into(), steps.into()]))
        };
        vec![of(&[2, 3], &[1, 0], &[2, 3]), of(&[5, 3], &[4, 6], &[-1, -2])]
    },
};

/// The layout of the second operand in the result.
fn slice(attrs: &Attrs, shape: &[usize], out: &Layout) -> Layout {
    let steps: Strides = attrs.ints(1).iter().map(|&it| it as isize).collect();
    out.slice_all(&attrs.sizes(0), shape, &steps)
}

/// `x` with the positions from `starts`, `steps` apart, replaced by `value`.
#[track_caller]
pub(crate) fn update(x: &Tensor, value: &Tensor, starts: &[i64], steps: &[i64]) -> Tensor {
    apply1(SLICE_UPDATE.op(), &Attrs::new([starts.into(), steps.into()]), &[x, value])
}

//! `add_slices`: addition of values at strided positions.

use super::slice::{SLICE, check_ranges};
use crate::ops::core::host::{self, ScatterReduction};
use crate::ops::{
    Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, SliceAttrs, StridedSliceAttrs, TransformRules,
};
use crate::tensor::{Attr, Dim, Dims, OpInfo, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

/// Adds each further operand to the first one, in order, at positions from `starts` on in `steps`. For each further
/// operand, both attributes have an entry for each axis of the first one.
pub static ADD_SLICES: OpDef = OpDef {
    info: OpInfo { number: 359, name: "add_slices", attrs: StridedSliceAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (x, values) = (inputs[0], &inputs[1..]);
        let at = StridedSliceAttrs::of(attrs);
        let (starts, steps, rank) = (at.starts().dims(), at.steps().as_slice(), x.rank());
        if [starts.len(), steps.len()] != [rank * values.len(); 2] {
            return Err(Error::new(Code::Shape, "each axis of each slice has a start and a step"));
        }
        for (at, value) in values.iter().enumerate() {
            if x.dtype != value.dtype {
                return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", x.dtype, value.dtype)));
            }
            let own = at * rank..(at + 1) * rank;
            check_ranges(&x.dims, &starts[own.clone()], &value.dims, &steps[own])?;
        }
        Ok(smallvec![x.clone()])
    },
    eval: |attrs, inputs| {
        let mut out = inputs[0].on_host()?.duplicate();
        let values: Vec<_> = inputs[1..].iter().map(|it| host::dense(it)).collect::<Result<_>>()?;
        let places = host::slices(attrs, out.shape(), values.iter().map(|it| it.shape()));
        let mut to = out.elements_mut();
        for (place, value) in places.iter().zip(&values) {
            for (at, offset) in place.offsets().enumerate() {
                ScatterReduction::Add.apply(&mut to, offset, value.elements(), at);
            }
        }
        Ok(smallvec![out])
    },
    effects: Effects::NONE,
    lowering: Lowering::Update,
    samples: || {
        let of = |sizes: &[&[usize]], starts: &[i64], steps: &[i64]| {
            let values = sizes.iter().map(|it| SampleInput::f32(it, -2.0, 2.0));
            Sample::new(std::iter::once(SampleInput::f32(&[5, 7], -2.0, 2.0)).chain(values))
                .attrs(StridedSliceAttrs::attrs(starts, steps))
        };
        vec![
            of(&[&[2, 3], &[5, 3]], &[1, 0, 4, 6], &[2, 3, -1, -2]),
            of(&[&[1, 7], &[2, 7], &[1, 7]], &[3, 0, 2, 0, 3, 0], &[1; 6]),
            of(&[&[0, 7]], &[0, 0], &[1, 1]),
            of(&[], &[], &[]),
        ]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let g = it.cotangent();
            let rank = g.rank();
            let slice = |(at, (value, &needed)): (usize, (&crate::tensor::Tensor, &bool))| {
                let places = StridedSliceAttrs::of(it.attrs);
                let own = at * rank..(at + 1) * rank;
                let starts = &places.starts().dims()[own.clone()];
                let attrs = SliceAttrs::attrs(starts, &*value.dims(), &places.steps().as_slice()[own]);
                needed.then(|| apply1(SLICE.op(), &attrs, &[g]))
            };
            let values = it.inputs[1..].iter().zip(&it.needs[1..]).enumerate().map(slice);
            std::iter::once(it.needs[0].then(|| g.clone())).chain(values).collect()
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| {
            let rank = it.rank(0);
            let places = StridedSliceAttrs::of(it.attrs);
            let (starts, steps) = (places.starts().dims(), places.steps().as_slice());
            let slices = || (1..it.inputs.len()).map(|at| (at - 1) * rank..at * rank);
            let starts: Dims =
                slices().flat_map(|own| std::iter::once(Dim::new(0)).chain(starts[own].iter().copied())).collect();
            let steps = slices().flat_map(|own| std::iter::once(1).chain(steps[own].iter().copied())).collect();
            it.apply(&StridedSliceAttrs::attrs(&*starts, Attr::Ints(steps)), &it.spread_all())
        }),
        body: None,
    },
};

//! `scatter_max`, `scatter_min` and `scatter_mul`: reductions into positions along an axis.

use super::from_zero::from_zero;
use super::scatter::{SCATTER_ADD, TAKE_ALONG_AXIS, evaluate_scatter, infer_scatter};
use crate::ops::core::axis::named;
use crate::ops::core::factors::Factors;
use crate::ops::core::host::ScatterReduction;
use crate::ops::core::wide::{Inner, run_rule};
use crate::ops::{
    AxisAttrs, Batching, Cotangents, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules, Vjp,
    cast, clamp_min, normalize_axis, select,
};
use crate::tensor::{AsTensor, DType, OpInfo, Tensor, apply1};
use ms_ir::error::OrRaise;
use smallvec::smallvec;

macro_rules! scatter_op {
    ($(#[$doc:meta])* $name:ident = $number:literal: $text:literal, $combine:expr, $rule:expr, finite: $finite:literal) => {
        $(#[$doc])*
        pub static $name: OpDef = OpDef {
            info: OpInfo { number: $number, name: $text, attrs: AxisAttrs::DECLARED },
            infer: infer_scatter,
            eval: |attrs, inputs| evaluate_scatter(attrs, inputs, $combine),
            effects: Effects::MAY_FAIL,
            lowering: Lowering::Update,
            samples,
            transforms: &TransformRules {
                derivative: Derivative::Rule($rule),
                finite_derivatives: $finite,
                batching: Batching::Rule(|it| it.apply(&it.shifted("axis"), &it.spread_all())),
                body: None,
            },
        };
    };
}

scatter_op! {
    /// Combines elements of the third operand with the first one by `max`, at the positions along `axis` in the second
    /// one. A NaN wins. Equal elements share the gradient.
    SCATTER_MAX = 392: "scatter_max", ScatterReduction::Max, extrema_gradients, finite: true
}

scatter_op! {
    /// Combines like [`SCATTER_MAX`], by `min`.
    SCATTER_MIN = 393: "scatter_min", ScatterReduction::Min, extrema_gradients, finite: true
}

scatter_op! {
    /// Multiplies elements of the first operand by elements of the third one, in row-major order, at the positions
    /// along `axis` in the second one.
    SCATTER_MUL = 394: "scatter_mul", ScatterReduction::Mul, |it| run_rule(product_gradients, Inner::DEFAULT, it), finite: false
}

fn samples() -> Vec<Sample> {
    let of = |axis: usize, x: &[usize], index: &[usize]| {
        let named = SampleInput::of(DType::I64, index, 0.0, x[axis] as f64 - 1.0);
        Sample::new([SampleInput::f32(x, 0.5, 2.0), named, SampleInput::f32(index, 0.5, 2.0)])
            .attrs(AxisAttrs::attrs(axis))
    };
    vec![of(0, &[4, 3], &[6, 3]), of(1, &[2, 3, 2], &[2, 4, 2]), of(2, &[3, 2, 4], &[2, 2, 3])]
}

/// Distributes the gradient of an extreme value equally to the elements that equal it.
fn extrema_gradients(it: &Vjp<'_>) -> Cotangents {
    let [x, index, source] = it.inputs else { unreachable!("a scatter has three operands") };
    let (out, g) = (&it.outputs[0], it.cotangent());
    let taken = |of: &Tensor| apply1(TAKE_ALONG_AXIS.op(), it.attrs, &[of, index]);
    let (own, hits) = (x.eq(out), source.eq(taken(out)));
    let count = apply1(SCATTER_ADD.op(), it.attrs, &[&cast(&own, g.dtype()), index, &cast(&hits, g.dtype())]);
    // At a NaN, no element is equal, and no element receives the share.
    let share = g / clamp_min(count, 1.0);
    let source = it.needs[2].then(|| select(hits, taken(&share), 0.0));
    smallvec![it.needs[0].then(|| select(own, &share, 0.0)), None, source]
}

/// Returns the gradient of each factor: the product of the others.
fn product_gradients(it: &Vjp<'_>) -> Cotangents {
    let [x, index, source] = it.inputs else { unreachable!("a scatter has three operands") };
    let g = it.cotangent();
    let taken = |of: &Tensor| apply1(TAKE_ALONG_AXIS.op(), it.attrs, &[of, index]);
    let (own, scattered) = (Factors::of(x), Factors::of(source));
    let product = apply1(SCATTER_MUL.op(), it.attrs, &[own.nonzero(), index, scattered.nonzero()]);
    let added = |at: usize| apply1(SCATTER_ADD.op(), it.attrs, &[own.zeros()[at], index, scattered.zeros()[at]]);
    let [zeros, sum, squares] = [added(0), added(1), added(2)];
    let others = || scattered.others(&taken(&product), &taken(&zeros), &taken(&sum), &taken(&squares));
    let source = it.needs[2].then(|| taken(g) * others());
    smallvec![it.needs[0].then(|| g * own.others(&product, &zeros, &sum, &squares)), None, source]
}

macro_rules! scatter_function {
    ($(#[$doc:meta])* $name:ident, $def:ident) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// Panics in the cases of [`scatter_add`](crate::ops::scatter_add).
        #[track_caller]
        pub fn $name(x: impl AsTensor, index: impl AsTensor, source: impl AsTensor, axis: isize) -> Tensor {
            let (x, source) = (x.as_tensor(), source.as_tensor());
            let index = from_zero(&index.as_tensor(), stringify!($name));
            propagate_poison!(&index);
            let axis = normalize_axis(axis, x.rank());
            let axis = axis.map_err(|it| named(stringify!($name), &[&x, &index, &source], it)).or_raise();
            apply1($def.op(), &AxisAttrs::attrs(axis), &[&x, &index, &source])
        }
    };
}

scatter_function! {
    /// Combines elements of `source` with `x` by `max`, at the positions along `axis` in `index`. A NaN wins. Equal
    /// elements share the gradient.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// let x = ops::scatter_max(tensor![1., 5.], tensor![0, 0, 1], tensor![3., 2., 4.], 0);
    /// assert_eq!(x.to_vec::<f32>(), [3., 5.]);
    /// ```
    scatter_max, SCATTER_MAX
}

scatter_function! {
    /// Combines elements of `source` with `x` by `min`, at the positions along `axis` in `index`. A NaN wins. Equal
    /// elements share the gradient.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// let x = ops::scatter_min(tensor![1., 5.], tensor![0, 0, 1], tensor![3., 2., 4.], 0);
    /// assert_eq!(x.to_vec::<f32>(), [1., 4.]);
    /// ```
    scatter_min, SCATTER_MIN
}

scatter_function! {
    /// Multiplies `x` by elements of `source`, at the positions along `axis` in `index`. Derivatives up to the third
    /// order are exact for any number of zeros.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// let x = ops::scatter_mul(tensor![1., 5.], tensor![0, 0, 1], tensor![3., 2., 4.], 0);
    /// assert_eq!(x.to_vec::<f32>(), [6., 20.]);
    /// ```
    scatter_mul, SCATTER_MUL
}

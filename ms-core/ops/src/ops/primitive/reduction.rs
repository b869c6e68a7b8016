//! Reductions over axes.

use crate::ops::core::axis::stored_axes;
use crate::ops::core::elementwise::{Domain, wide};
use crate::ops::core::factors::Factors;
use crate::ops::core::rules::sum_dtype;
use crate::ops::core::wide::{Inner, run_rule};
use crate::ops::{
    Batching, Cotangents, Derivative, Effects, Lowering, OpDef, ReduceAxes, ReduceRule, Sample, SampleInput,
    TransformRules, Types, Vjp,
};
use crate::tensor::{Array, AsTensor, AttrRange, Attrs, DType, Dim, Dims, Kind, OpInfo, Scalar, Tensor, Type, apply1};
use ms_ir::Reducer;
use ms_ir::error::{Code, Error, Result};
use smallvec::{SmallVec, smallvec};

attributes! {
    /// The attributes of reductions: the reduced axes, which remain with size 1 if `keepdims` is set.
    #[doc(hidden)]
    pub struct ReduceAttrs { axes: [i64] where 0..=AttrRange::FACTOR, keepdims: bool }
}

/// Declares the definition of a reduction. `finite` is [`TransformRules::finite_derivatives`].
macro_rules! reduction {
    (
        $(#[$doc:meta])*
        $def:ident = $number:literal: $name:literal, $domain:ident, $reducer:ident;
        combine($start:expr) |$v:ident| $combine:expr;
        derivative $derivative:expr, finite: $finite:expr;
    ) => {
        $(#[$doc])*
        pub static $def: OpDef = OpDef {
            info: OpInfo { number: $number, name: $name, attrs: ReduceAttrs::DECLARED },
            infer: |attrs, inputs| infer(Domain::$domain, Reducer::$reducer, attrs, inputs[0]),
            eval: |attrs, inputs| {
                let ty = infer(Domain::$domain, Reducer::$reducer, attrs, &inputs[0].ty())?;
                let out = evaluate(&ReduceAttrs::of(attrs).axes().sizes(), &ty[0], inputs[0], $start, &|a, b| {
                    let $v = &[a, b];
                    $combine
                })?;
                Ok(smallvec![out])
            },
            effects: Effects::NONE,
            lowering: Lowering::Reduce(ReduceRule { axes: |attrs| ReduceAttrs::of(attrs).axes().sizes(), reducer: Reducer::$reducer, accumulate: sum_dtype }),
            samples: || samples(Domain::$domain),
            transforms: &TransformRules {
                derivative: $derivative,
                finite_derivatives: $finite,
                batching: Batching::Derived,
                body: None,
            },
        };
    };
}

reduction! {
    /// Returns the sum; zero for no elements.
    SUM = 300: "sum", Numeric, Sum;
    combine(Scalar::Int(0)) |v| number(v, |a, b| a + b, |a, b| a + b);
    derivative Derivative::Rule(|it| smallvec![Some(crate::ops::broadcast_to(&spread(it, it.cotangent()), it.inputs[0].dims()))]), finite: true;
}

reduction! {
    /// Returns the product; one for no elements.
    PROD = 301: "prod", Numeric, Prod;
    combine(Scalar::Int(1)) |v| number(v, |a, b| a * b, i128::wrapping_mul);
    derivative Derivative::Rule(|it| run_rule(product_gradient, Inner::DEFAULT, it)), finite: false;
}

reduction! {
    /// Returns the largest element, NaN if any is NaN. Equal elements share the gradient.
    MAX = 302: "max", Any, Max;
    combine(Scalar::Float(f64::NEG_INFINITY)) |v| {
        number(v, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }, Ord::max)
    };
    derivative Derivative::Rule(|it| smallvec![Some(to_extrema(it))]), finite: true;
}

reduction! {
    /// Returns the smallest element, NaN if any is NaN. Equal elements share the gradient.
    MIN = 303: "min", Any, Min;
    combine(Scalar::Float(f64::INFINITY)) |v| {
        number(v, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }, Ord::min)
    };
    derivative Derivative::Rule(|it| smallvec![Some(to_extrema(it))]), finite: true;
}

reduction! {
    /// Whether all elements are true; true for no elements.
    ALL = 304: "all", Logical, All;
    combine(Scalar::Bool(true)) |v| Scalar::Bool(v[0].as_bool() && v[1].as_bool());
    derivative Derivative::None("truth values have no gradient"), finite: true;
}

reduction! {
    /// Whether any element is true; false for no elements.
    ANY = 305: "any", Logical, Any;
    combine(Scalar::Bool(false)) |v| Scalar::Bool(v[0].as_bool() || v[1].as_bool());
    derivative Derivative::None("truth values have no gradient"), finite: true;
}

/// Infers the type of a reduction's result.
fn infer(domain: Domain, reducer: Reducer, attrs: &Attrs, input: &Type) -> Result<Types> {
    if domain.convert(input.dtype)? != input.dtype {
        return Err(Error::new(Code::DType, format!("takes {}, not {}", domain.convert(input.dtype)?, input.dtype)));
    }
    let it = ReduceAttrs::of(attrs);
    let (axes, keepdims) = (stored_axes(it.axes().as_slice(), input.rank())?, it.keepdims());
    let extreme = matches!(reducer, Reducer::Max | Reducer::Min);
    if extreme && axes.iter().any(|&axis| input.dims[axis] == 0) {
        return Err(Error::new(Code::Argument, format!("no element of {input} along axes {axes:?}")));
    }
    Ok(smallvec![Type::new(input.dtype, reduced_dims(&input.dims, &axes, keepdims))])
}

/// Returns the dimensions of the result.
pub fn reduced_dims(dims: &[Dim], axes: &[usize], keepdims: bool) -> Dims {
    let kept = dims.iter().enumerate().filter(|(axis, _)| keepdims || !axes.contains(axis));
    kept.map(|(axis, &dim)| if axes.contains(&axis) { Dim::new(1) } else { dim }).collect()
}

/// Reduces the elements along `axes` in row-major order, as the reference evaluation.
fn evaluate(
    axes: &[usize],
    ty: &Type,
    x: &Array,
    start: Scalar,
    combine: &dyn Fn(Scalar, Scalar) -> Scalar,
) -> Result<Array> {
    let order: SmallVec<[usize; 4]> =
        (0..x.layout().rank()).filter(|it| !axes.contains(it)).chain(axes.iter().copied()).collect();
    let row: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let scalars = x.with_layout(x.layout().permute(&order)).on_host()?.scalars();
    let shape = ty.shape().expect("arrays have constant shapes");
    Ok(Array::from_scalars(&shape, x.dtype(), &mut |i| {
        scalars[i * row..(i + 1) * row].iter().copied().reduce(combine).unwrap_or(start)
    }))
}

fn number(v: &[Scalar; 2], float: impl Fn(f64, f64) -> f64, int: impl Fn(i128, i128) -> i128) -> Scalar {
    match *v {
        [Scalar::Float(a), Scalar::Float(b)] => Scalar::Float(float(a, b)),
        // Signed and unsigned results keep their kind, so that the next step reads them correctly.
        [Scalar::UInt(a), Scalar::UInt(b)] => Scalar::UInt(int(a as i128, b as i128) as u64),
        [a, b] => Scalar::Int(int(wide(a), wide(b)) as i64),
    }
}

/// Inserts the reduced axes with size 1 into a tensor of the result's shape.
fn spread(it: &Vjp<'_>, result: &Tensor) -> Tensor {
    crate::ops::reshape(result, reduced_dims(&it.inputs[0].ty().dims, &ReduceAttrs::of(it.attrs).axes().sizes(), true))
}

/// Returns the gradient of each factor: the product of the others.
fn product_gradient(it: &Vjp<'_>) -> Cotangents {
    let axes = ReduceAttrs::of(it.attrs).axes().sizes();
    let factors = Factors::of(&it.inputs[0]);
    let [count, sum, squares] = factors.zeros().map(|it| sum_axes(it, &axes, true));
    let product = reduce(&PROD, factors.nonzero(), &axes, true);
    smallvec![Some(spread(it, it.cotangent()) * factors.others(&product, &count, &sum, &squares))]
}

/// Distributes the gradient of an extreme value equally to the elements that equal it.
fn to_extrema(it: &Vjp<'_>) -> Tensor {
    let x = &it.inputs[0];
    let hits = crate::ops::cast(x.eq(spread(it, &it.outputs[0])), x.dtype());
    let count = sum_axes(&hits, &ReduceAttrs::of(it.attrs).axes().sizes(), true);
    hits * (spread(it, it.cotangent()) / count)
}

fn samples(domain: Domain) -> Vec<Sample> {
    use DType::*;
    let sample = |dtype, shape: &[usize], axes: &[usize], keepdims: bool| {
        Sample::new([SampleInput::of(dtype, shape, -2.0, 2.0)]).attrs(ReduceAttrs::attrs(axes, keepdims))
    };
    let (first, dtypes): (DType, &[DType]) = match domain {
        Domain::Logical => (Bool, &[]),
        _ => (F32, &[F64, F16, BF16, I32, I64, U8, U64]),
    };
    let shapes: [(&[usize], &[usize], bool); 6] = [
        (&[3, 4, 2], &[1], false),
        (&[3, 4, 2], &[0, 2], true),
        (&[5, 40], &[1], false),
        (&[2, 3], &[], false),
        (&[], &[], true),
        (&[0, 3], &[1], false),
    ];
    let shapes = shapes.into_iter().map(|(shape, axes, keepdims)| sample(first, shape, axes, keepdims));
    shapes.chain(dtypes.iter().map(|&dtype| sample(dtype, &[3, 4, 2], &[0, 2], false))).collect()
}

/// Reduces over `axes`, which are not negative and in ascending order.
#[track_caller]
fn reduce(def: &'static OpDef, x: &Tensor, axes: &[usize], keepdims: bool) -> Tensor {
    apply1(def.op(), &ReduceAttrs::attrs(axes, keepdims), &[x])
}

/// Sums over `axes`, which are not negative and in ascending order, in the dtype of `x`.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::sum_axes(&tensor![[1, 2], [3, 4]], &[1], false).to_vec::<i64>(), [3, 7]);
/// ```
#[track_caller]
pub fn sum_axes(x: &Tensor, axes: &[usize], keepdims: bool) -> Tensor {
    reduce(&SUM, x, axes, keepdims)
}

/// Resolves `axes` for `x`.
#[track_caller]
pub(crate) fn axes_of(op: &str, x: &Tensor, axes: impl ReduceAxes) -> Result<SmallVec<[usize; 4]>> {
    axes.resolve(x.rank()).map_err(|it| describe(op, x, it))
}

#[cold]
fn describe(op: &str, x: &Tensor, error: Error) -> Error {
    error.with_op(op).with_operands([x.ty().to_string()])
}

/// Converts `x` and reduces it over axes, unless they are invalid.
#[track_caller]
fn converted(
    def: &'static OpDef,
    convert: fn(DType) -> DType,
    x: &Tensor,
    axes: Result<SmallVec<[usize; 4]>>,
    keepdims: bool,
) -> Tensor {
    let axes = or_poison!(axes);
    reduce(def, &crate::ops::cast(x, convert(x.dtype())), &axes, keepdims)
}

/// Returns the dtype of sums: bools and narrow integers become i64 or u64, as in NumPy.
pub(in crate::ops) fn widened(dtype: DType) -> DType {
    match dtype.kind() {
        Kind::Float => dtype,
        Kind::Int if !dtype.is_signed_int() => DType::U64,
        _ => DType::I64,
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $def:ident, $convert:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// `axes` is `()` for all, one axis, or several; negative ones count from the end. In
            /// [`keepdims`](crate::ops::keepdims) they remain with size 1.
            ///
            /// # Panics
            /// Raises [`Code::OutOfRange`] for an axis that does not exist, and [`Code::Argument`] for a repeated one.
            #[track_caller]
            pub fn $name(x: impl AsTensor, axes: impl ReduceAxes) -> Tensor {
                let x = x.as_tensor();
                propagate_poison!(x);
                let keepdims = axes.keepdims();
                converted(&$def, $convert, &x, axes_of(stringify!($name), &x, axes), keepdims)
            }
        )*

        impl Tensor {$(
            #[doc = concat!("The function [`", stringify!($name), "`](crate::ops::", stringify!($name), ") of this tensor.")]
            #[track_caller]
            pub fn $name(&self, axes: impl ReduceAxes) -> Self {
                $name(self, axes)
            }
        )*}
    };
}

functions! {
    /// Returns the sum over axes; bools and narrow integers are summed in 64 bits.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::sum(tensor![[1., 2.], [3., 4.]], 0).to_vec::<f32>(), [4., 6.]);
    /// ```
    sum: SUM, widened;
    /// Returns the product over axes; bools and narrow integers are multiplied in 64 bits.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::prod(tensor![[1., 2.], [3., 4.]], 1).to_vec::<f32>(), [2., 12.]);
    /// ```
    prod: PROD, widened;
    /// Returns the largest element over axes, NaN if any is NaN; an error for no elements.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::max(tensor![[1., 2.], [3., 4.]], 1).to_vec::<f32>(), [2., 4.]);
    /// ```
    max: MAX, |dtype| dtype;
    /// Returns the smallest element over axes, NaN if any is NaN; an error for no elements.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::min(tensor![[1., 2.], [3., 4.]], 1).to_vec::<f32>(), [1., 3.]);
    /// ```
    min: MIN, |dtype| dtype;
    /// Whether all elements over axes are true or nonzero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::all(tensor![[true, false], [true, true]], 1).to_vec::<bool>(), [false, true]);
    /// ```
    all: ALL, |_| DType::Bool;
    /// Whether any element over axes is true or nonzero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::any(tensor![[true, false], [false, false]], 1).to_vec::<bool>(), [true, false]);
    /// ```
    any: ANY, |_| DType::Bool;
}

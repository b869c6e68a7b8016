//! Rules that many ops share: shapes, reference evaluation, gradients of broadcasting.

use crate::error::{Code, Error, Result};
use crate::ops::Types;
use crate::tensor::{Array, Attrs, DType, Dim, Dims, Element, Literal, Scalar, Tensor, Type, broadcast_shapes};
use crate::with_element;
use smallvec::{SmallVec, smallvec};

/// The dimensions of an elementwise op on two types, by NumPy's rules.
///
/// # Errors
/// [`Code::Shape`] when sizes differ and neither is one.
pub fn broadcast_dims(a: &[Dim], b: &[Dim]) -> Result<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let extra = long.len() - short.len();
    let mut out: Dims = long.into();
    for (axis, &dim) in short.iter().enumerate() {
        let other = &mut out[extra + axis];
        if *other == 1 {
            *other = dim;
        } else if dim != 1 && dim != *other {
            return Err(Error::new(Code::Shape, format!("shapes {a:?} and {b:?} do not broadcast"))
                .help("sizes must be equal or one, counted from the last axis"));
        }
    }
    Ok(out)
}

/// The type of an elementwise op whose operands have one dtype: that dtype, broadcast.
///
/// # Errors
/// [`Code::DType`] when dtypes differ, [`Code::Shape`] when shapes do not broadcast.
pub fn same_dtype(_: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let mut dims = inputs[0].dims.clone();
    for other in &inputs[1..] {
        if other.dtype != inputs[0].dtype {
            return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", inputs[0].dtype, other.dtype)));
        }
        dims = broadcast_dims(&dims, &other.dims)?;
    }
    Ok(smallvec![Type::new(inputs[0].dtype, dims)])
}

/// Reference evaluation of an elementwise op on two arrays of one dtype through f64 (floats)
/// or i128 (integers, which wrap).
pub fn eval_binary(
    inputs: &[&Array],
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i128, i128) -> i128,
) -> Result<SmallVec<[Array; 1]>> {
    let (a, b) = (inputs[0], inputs[1]);
    let shape = broadcast_shapes(a.shape(), b.shape())?;
    let a = a.with_layout(a.layout().broadcast_to(&shape)?);
    let b = b.with_layout(b.layout().broadcast_to(&shape)?);
    let mut out = Array::uninit(&shape, a.dtype());
    with_element!(a.dtype(), T => {
        for ((to, a), b) in out.as_mut_slice::<T>().iter_mut().zip(a.iter::<T>()).zip(b.iter::<T>()) {
            *to = combine(a, b, &float, &int);
        }
    });
    Ok(smallvec![out])
}

fn combine<T: Element>(a: T, b: T, float: &impl Fn(f64, f64) -> f64, int: &impl Fn(i128, i128) -> i128) -> T {
    let (a, b) = (a.to_scalar(), b.to_scalar());
    T::from_scalar(if T::DTYPE.is_float() {
        Scalar::Float(float(a.as_f64(), b.as_f64()))
    } else {
        Scalar::Int(int(wide(a), wide(b)) as i64)
    })
}

/// An integer scalar without loss.
pub fn wide(scalar: Scalar) -> i128 {
    match scalar {
        Scalar::UInt(it) => it as i128,
        other => other.as_i64() as i128,
    }
}

/// The gradient of a broadcast operand: summed over the axes that were repeated.
pub fn sum_to(gradient: &Tensor, like: &Tensor) -> Tensor {
    let (from, to) = (gradient.ty(), like.ty());
    if from.dims == to.dims {
        return gradient.clone();
    }
    let extra = from.rank() - to.rank();
    let axes: SmallVec<[usize; 4]> =
        (0..from.rank()).filter(|&axis| axis < extra || (to.dims[axis - extra] == 1 && from.dims[axis] != 1)).collect();
    let summed = super::sum_axes(gradient, &axes, true);
    if extra == 0 { summed } else { super::reshape_dims(&summed, &to.dims) }
}

/// The compute dtype of a sum: floats in f32 at least, integers in 64 bits.
pub const fn sum_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// A tensor of one value, of the dtype and shape of another.
#[track_caller]
pub fn splat_like(value: f64, like: &Tensor) -> Tensor {
    let ty = like.ty();
    let one = super::constant(&Literal::scalar(Scalar::Float(value), ty.dtype));
    super::expand_dims_to(&one, &ty.dims)
}

//! What a parameter holds, as the floats that backward functions hand on to each other.
//!
//! It goes the way of a gradient, and only floats have gradients: integers are told by floats that
//! hold them exactly.

use crate::ops::{bitwise_and, bitwise_or, cast, left_shift, right_shift, stack};
use crate::tensor::{DType, Dim, Tensor, Type};

/// How many bits of a 64-bit integer stand in one float.
const HALF: i64 = 32;

fn is_halved(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::U64)
}

/// The type of what [`hand_on`] makes of a value of this type.
pub(crate) fn handed_type(ty: &Type) -> Type {
    match ty.dtype {
        dtype if dtype.is_float() => ty.clone(),
        dtype if is_halved(dtype) => {
            Type::new(DType::F64, std::iter::once(Dim::new(2)).chain(ty.dims.iter().copied()).collect())
        }
        _ => Type::new(DType::F64, ty.dims.clone()),
    }
}

/// A value as floats, from which [`take_over`] makes it again.
#[track_caller]
pub(crate) fn hand_on(value: &Tensor) -> Tensor {
    match value.dtype() {
        dtype if dtype.is_float() => value.clone(),
        dtype if is_halved(dtype) => {
            let halves = [right_shift(value, HALF), bitwise_and(value, (1i64 << HALF) - 1)];
            stack(&halves.map(|it| cast(it, DType::F64)), 0)
        }
        _ => cast(value, DType::F64),
    }
}

/// The value of this dtype of which [`hand_on`] made `handed`.
#[track_caller]
pub(crate) fn take_over(handed: &Tensor, dtype: DType) -> Tensor {
    if !is_halved(dtype) {
        return cast(handed, dtype);
    }
    let [high, low] = [0, 1].map(|at| cast(handed.at(at), dtype));
    bitwise_or(left_shift(high, HALF), low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_dtypes_arrive_as_they_left() {
        let check = |value: Tensor| {
            let handed = hand_on(&value);
            assert_eq!(handed.ty(), handed_type(&value.ty()));
            let taken = take_over(&handed, value.dtype());
            assert_eq!((taken.ty(), taken.to_string()), (value.ty(), value.to_string()));
        };
        check(Tensor::from_slice([2], &[true, false]));
        check(Tensor::from_slice([2], &[i8::MIN, i8::MAX]));
        check(Tensor::from_slice([2], &[u8::MIN, u8::MAX]));
        check(Tensor::from_slice([2], &[i32::MIN, i32::MAX]));
        check(Tensor::from_slice([2], &[u32::MIN, u32::MAX]));
        check(Tensor::from_slice([2, 2], &[i64::MIN, i64::MAX, -1, (1 << 53) + 1]));
        check(Tensor::from_slice([2], &[u64::MAX, (1 << 63) + 1]));
        check(Tensor::from_slice([1], &[0.1f32]));
        check(Tensor::from_slice([1], &[0.1f64]));
    }
}

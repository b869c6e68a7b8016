//! Encoding of a parameter's value as floats, to thread it through backward functions.
//!
//! The value is propagated as a gradient, and only floats have gradients. Integers are encoded in floats that represent
//! them exactly.

use crate::ops::{bitwise_and, bitwise_or, cast, left_shift, right_shift, stack};
use crate::tensor::{DType, Dim, Tensor, Type};

/// The number of bits of a 64-bit integer that one float encodes.
const HALF: i64 = 32;

fn is_halved(dtype: DType) -> bool {
    matches!(dtype, DType::I64 | DType::U64)
}

/// Returns the type of [`encode_as_floats`] for a value of this type.
#[doc(hidden)]
pub fn encoded_type(ty: &Type) -> Type {
    match ty.dtype {
        dtype if dtype.is_float() => ty.clone(),
        dtype if is_halved(dtype) => {
            Type::new(DType::F64, std::iter::once(Dim::new(2)).chain(ty.dims.iter().copied()).collect())
        }
        _ => Type::new(DType::F64, ty.dims.clone()),
    }
}

/// Encodes a value as floats, for [`decode_floats`].
#[track_caller]
#[doc(hidden)]
pub fn encode_as_floats(value: &Tensor) -> Tensor {
    match value.dtype() {
        dtype if dtype.is_float() => value.clone(),
        dtype if is_halved(dtype) => {
            let halves = [right_shift(value, HALF), bitwise_and(value, (1i64 << HALF) - 1)];
            stack(&halves.map(|it| cast(it, DType::F64)), 0)
        }
        _ => cast(value, DType::F64),
    }
}

/// Decodes a value of this dtype from the result of [`encode_as_floats`].
#[track_caller]
#[doc(hidden)]
pub fn decode_floats(encoded: &Tensor, dtype: DType) -> Tensor {
    if !is_halved(dtype) {
        return cast(encoded, dtype);
    }
    let [high, low] = [0, 1].map(|at| cast(encoded.at(at), dtype));
    bitwise_or(left_shift(high, HALF), low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_dtypes_round_trip() {
        let check = |value: Tensor| {
            let encoded = encode_as_floats(&value);
            assert_eq!(encoded.ty(), encoded_type(&value.ty()));
            let decoded = decode_floats(&encoded, value.dtype());
            assert_eq!((decoded.ty(), decoded.to_string()), (value.ty(), value.to_string()));
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

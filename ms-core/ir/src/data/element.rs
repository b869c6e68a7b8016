//! Defines the Rust types that are elements, and host scalars.

use super::dtype::{DType, Kind};
use crate::error::{Code, Error, Result};
use half::{bf16, f16};
use std::cmp::Ordering;
use std::fmt;

/// Prevents other implementations: memory of a dtype is read as its Rust type.
mod sealed {
    pub trait Sealed {}
}

/// A Rust type that a tensor can hold: one for each [`DType`], and no other.
///
/// ```
/// use ms_core::{Tensor, tensor, tensor::Element};
/// fn largest<T: Element + PartialOrd>(x: &Tensor) -> Option<T> {
///     x.to_vec::<T>().into_iter().reduce(|a, b| if b > a { b } else { a })
/// }
/// assert_eq!((largest::<i64>(&tensor![1, 3, 2]), f32::DTYPE.name()), (Some(3), "f32"));
/// ```
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;

    /// Converts the element to a scalar of its kind.
    fn to_scalar(self) -> Scalar;

    /// Converts the scalar to this type. Floats are rounded once, to nearest with ties to even. Integers wrap to
    /// narrower ones. Floats are truncated to integers, saturating, and NaN becomes zero. Every value except zero is
    /// true.
    fn from_scalar(scalar: Scalar) -> Self;
}

/// A number on the host. A scalar is weakly typed: it takes the dtype of the tensor that it is combined with.
///
/// ```
/// use ms_core::{DType, tensor, tensor::Scalar};
/// assert_eq!(Scalar::from(2.5), Scalar::Float(2.5));
/// assert!(Scalar::Int(200).is_within(DType::U8) && !Scalar::Int(300).is_within(DType::U8));
/// // A number takes the dtype of the tensor.
/// assert_eq!((tensor![1u8] + 1).dtype(), DType::U8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
}

impl Scalar {
    /// The kind.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) | Self::UInt(_) => Kind::Int,
            Self::Float(_) => Kind::Float,
        }
    }

    /// Returns the value as f64.
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Bool(it) => it as u8 as f64,
            Self::Int(it) => it as f64,
            Self::UInt(it) => it as f64,
            Self::Float(it) => it,
        }
    }

    /// Returns the value as i64: floats truncate and saturate, u64 wraps.
    pub const fn as_i64(self) -> i64 {
        match self {
            Self::Bool(it) => it as i64,
            Self::Int(it) => it,
            Self::UInt(it) => it as i64,
            Self::Float(it) => it as i64,
        }
    }

    /// Returns the value as u64: floats truncate and saturate, i64 wraps.
    pub const fn as_u64(self) -> u64 {
        match self {
            Self::Bool(it) => it as u64,
            Self::Int(it) => it as u64,
            Self::UInt(it) => it,
            Self::Float(it) => it as u64,
        }
    }

    /// Returns whether the value differs from zero.
    pub const fn as_bool(self) -> bool {
        match self {
            Self::Bool(it) => it,
            Self::Int(it) => it != 0,
            Self::UInt(it) => it != 0,
            Self::Float(it) => it != 0.0,
        }
    }

    /// Returns the bit pattern of the value in `dtype`, in the low bytes.
    pub fn to_bits(self, dtype: DType) -> u64 {
        let mut bytes = [0; 8];
        with_element!(dtype, T => {
            let value = T::from_scalar(self);
            bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        });
        u64::from_le_bytes(bytes)
    }

    /// Returns the value with the bit pattern `bits` in `dtype`.
    pub fn from_bits(bits: u64, dtype: DType) -> Self {
        match dtype {
            DType::Bool => Self::Bool(bits as u8 != 0),
            DType::I8 => Self::Int(bits as i8 as i64),
            DType::I16 => Self::Int(bits as i16 as i64),
            DType::I32 => Self::Int(bits as i32 as i64),
            DType::I64 => Self::Int(bits as i64),
            DType::U8 => Self::UInt(bits as u8 as u64),
            DType::U16 => Self::UInt(bits as u16 as u64),
            DType::U32 => Self::UInt(bits as u32 as u64),
            DType::U64 => Self::UInt(bits),
            DType::F16 => Self::Float(f16::from_bits(bits as u16).to_f64()),
            DType::BF16 => Self::Float(bf16::from_bits(bits as u16).to_f64()),
            DType::F32 => Self::Float(f32::from_bits(bits as u32) as f64),
            DType::F64 => Self::Float(f64::from_bits(bits)),
        }
    }

    /// Returns the value of an element of `dtype` that is made from this scalar: rounded, wrapped or truncated.
    pub fn convert(self, dtype: DType) -> Self {
        Self::from_bits(self.to_bits(dtype), dtype)
    }

    /// Returns the default dtype of a tensor of this scalar alone: `bool`, `i64` or `f32`.
    pub const fn default_dtype(self) -> DType {
        match self.kind() {
            Kind::Bool => DType::Bool,
            Kind::Int => DType::I64,
            Kind::Float => DType::F32,
        }
    }
}

impl Scalar {
    /// Returns whether `dtype` represents this integer exactly. Floats accept every number, rounded.
    pub fn is_within(self, dtype: DType) -> bool {
        let value = match self {
            Self::Int(it) => i128::from(it),
            Self::UInt(it) => i128::from(it),
            Self::Bool(_) | Self::Float(_) => return true,
        };
        if dtype.kind() != Kind::Int {
            return true;
        }
        let bits = 8 * dtype.size();
        if dtype.is_signed_int() {
            (-1i128 << (bits - 1)..1i128 << (bits - 1)).contains(&value)
        } else {
            (0..1i128 << bits).contains(&value)
        }
    }
}

/// A number with a default dtype.
///
/// The default dtype is the Rust type, except for the two types of numbers without a suffix. Of these, f64 becomes f32,
/// and i32 becomes i64. The types that are not dtypes, `usize` and [`Scalar`], follow the same rule. `Tensor::from`
/// preserves f64 and i32.
///
/// ```
/// use ms_core::{DType, Tensor, tensor::Number};
/// assert_eq!([0.5.own_dtype(), 7.own_dtype(), 7u8.own_dtype()], [DType::F32, DType::I64, DType::U8]);
/// assert_eq!(Tensor::full([2], 0.5).dtype(), DType::F32);
/// ```
pub trait Number: Into<Scalar> {
    /// The dtype of the tensor.
    fn own_dtype(&self) -> DType;
}

/// Returns the default dtype of tensors of a Rust type; see [`Number`].
#[doc(hidden)]
pub const fn own_dtype(of: DType) -> DType {
    match of {
        DType::F64 => DType::F32,
        DType::I32 => DType::I64,
        other => other,
    }
}

impl<T: Element + Into<Scalar>> Number for T {
    fn own_dtype(&self) -> DType {
        own_dtype(T::DTYPE)
    }
}

impl Number for usize {
    fn own_dtype(&self) -> DType {
        DType::I64
    }
}

impl Number for Scalar {
    fn own_dtype(&self) -> DType {
        self.default_dtype()
    }
}

/// Converts a number to an element of its default dtype.
///
/// # Errors
/// [`Code::DType`] for a finite number that would be infinite in that dtype, or an integer outside its range.
#[doc(hidden)]
pub fn own_scalar(number: impl Number) -> Result<(Scalar, DType)> {
    let dtype = number.own_dtype();
    let scalar = number.into();
    held_by_itself(scalar, dtype).map(|()| (scalar, dtype))
}

/// Checks the range of a scalar like [`own_scalar`], for a known dtype.
#[doc(hidden)]
pub fn held_by_itself(scalar: Scalar, dtype: DType) -> Result<()> {
    let overflows =
        || scalar.as_f64().is_finite() && !Scalar::from_bits(scalar.to_bits(dtype), dtype).as_f64().is_finite();
    if scalar.is_within(dtype) && !(scalar.kind() == Kind::Float && overflows()) {
        return Ok(());
    }
    let message = format!("the number {scalar} is outside the range of {dtype}");
    Err(Error::new(Code::DType, message).help("`Tensor::from` keeps the Rust type, as does `tensor![..; f64]`"))
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(it) => it.fmt(f),
            Self::Int(it) => it.fmt(f),
            Self::UInt(it) => it.fmt(f),
            Self::Float(it) => fmt::Debug::fmt(it, f),
        }
    }
}

macro_rules! elements {
    ($($ty:ty, $dtype:ident, $variant:ident, $wide:ty;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn to_scalar(self) -> Scalar {
                Scalar::$variant(self as $wide)
            }
            #[inline]
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::Bool(it) => it as u8 as $ty,
                    Scalar::Int(it) => it as $ty,
                    Scalar::UInt(it) => it as $ty,
                    Scalar::Float(it) => it as $ty,
                }
            }
        }
        impl From<$ty> for Scalar {
            fn from(value: $ty) -> Self {
                value.to_scalar()
            }
        }
    )*};
}

elements! {
    i8, I8, Int, i64;
    i16, I16, Int, i64;
    i32, I32, Int, i64;
    i64, I64, Int, i64;
    u8, U8, UInt, u64;
    u16, U16, UInt, u64;
    u32, U32, UInt, u64;
    u64, U64, UInt, u64;
    f32, F32, Float, f64;
    f64, F64, Float, f64;
}

impl From<usize> for Scalar {
    fn from(value: usize) -> Self {
        Self::UInt(value as u64)
    }
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    #[inline]
    fn to_scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
    #[inline]
    fn from_scalar(scalar: Scalar) -> Self {
        scalar.as_bool()
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// Converts the scalar to f32, rounding an inexact value to the neighbour with an odd last bit. Rounding that again to
/// sixteen bits is equivalent to rounding once (Boldo and Melquiond 2008, "Emulation of a FMA and Correctly Rounded
/// Sums: Proved Algorithms Using Rounding to Odd").
fn rounded_to_odd(scalar: Scalar) -> f32 {
    let (near, excess) = match scalar {
        Scalar::Bool(it) => (it as u8 as f32, Ordering::Equal),
        // All integers, and all floats that they round to, fit in i128.
        Scalar::Int(it) => (it as f32, (it as f32 as i128).abs().cmp(&i128::from(it).abs())),
        Scalar::UInt(it) => (it as f32, (it as f32 as i128).cmp(&i128::from(it))),
        Scalar::Float(it) if it.is_nan() => (it as f32, Ordering::Equal),
        Scalar::Float(it) => (it as f32, f64::from(it as f32).abs().total_cmp(&it.abs())),
    };
    match excess {
        Ordering::Equal => near,
        Ordering::Less => f32::from_bits(near.to_bits() | 1),
        Ordering::Greater => f32::from_bits((near.to_bits() - 1) | 1),
    }
}

macro_rules! half_elements {
    ($($ty:ty, $dtype:ident;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn to_scalar(self) -> Scalar {
                Scalar::Float(self.to_f64())
            }
            #[inline]
            fn from_scalar(scalar: Scalar) -> Self {
                // The conversion from f32 rounds to nearest; the conversion in `half` from f64 does not.
                <$ty>::from_f32(rounded_to_odd(scalar))
            }
        }
        impl From<$ty> for Scalar {
            fn from(value: $ty) -> Self {
                value.to_scalar()
            }
        }
    )*};
}

half_elements! { f16, F16; bf16, BF16; }

/// Runs an expression with `$t` standing for the unsigned integer of this size. Code that moves elements is compiled
/// for four sizes, instead of for each dtype.
macro_rules! with_word {
    ($size:expr, $t:ident => $body:expr) => {
        match $size {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            8 => {
                type $t = u64;
                $body
            }
            size => unreachable!("no element has {size} bytes"),
        }
    };
}
pub(super) use with_word;

/// Runs an expression with `$t` standing for the Rust type of a dtype.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::data::DType::Bool => {
                type $t = bool;
                $body
            }
            $crate::data::DType::I8 => {
                type $t = i8;
                $body
            }
            $crate::data::DType::I16 => {
                type $t = i16;
                $body
            }
            $crate::data::DType::I32 => {
                type $t = i32;
                $body
            }
            $crate::data::DType::I64 => {
                type $t = i64;
                $body
            }
            $crate::data::DType::U8 => {
                type $t = u8;
                $body
            }
            $crate::data::DType::U16 => {
                type $t = u16;
                $body
            }
            $crate::data::DType::U32 => {
                type $t = u32;
                $body
            }
            $crate::data::DType::U64 => {
                type $t = u64;
                $body
            }
            $crate::data::DType::F16 => {
                type $t = $crate::data::f16;
                $body
            }
            $crate::data::DType::BF16 => {
                type $t = $crate::data::bf16;
                $body
            }
            $crate::data::DType::F32 => {
                type $t = f32;
                $body
            }
            $crate::data::DType::F64 => {
                type $t = f64;
                $body
            }
        }
    };
}
use with_element;

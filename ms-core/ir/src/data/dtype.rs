//! Defines element types and their promotion.

use std::fmt;

/// The type of a tensor's elements.
///
/// ```
/// use ms_core::{DType, tensor};
/// assert_eq!((DType::BF16.size(), DType::BF16.name(), DType::I64.is_int()), (2, "bf16", true));
/// assert_eq!(tensor![1, 2].cast(DType::F64).to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DType {
    /// `true` or `false`, one byte.
    Bool = 0,
    /// 8-bit signed integer.
    I8 = 1,
    /// 16-bit signed integer.
    I16 = 2,
    /// 32-bit signed integer.
    I32 = 3,
    /// 64-bit signed integer.
    I64 = 4,
    /// 8-bit unsigned integer.
    U8 = 5,
    /// 16-bit unsigned integer.
    U16 = 6,
    /// 32-bit unsigned integer.
    U32 = 7,
    /// 64-bit unsigned integer.
    U64 = 8,
    /// IEEE 754 binary16.
    F16 = 9,
    /// The upper half of a binary32.
    BF16 = 10,
    /// IEEE 754 binary32.
    F32 = 11,
    /// IEEE 754 binary64.
    F64 = 12,
}

/// The kind of numbers of a dtype. Kinds are ordered by promotion.
///
/// ```
/// use ms_core::{DType, tensor::Kind};
/// assert_eq!((DType::U8.kind(), DType::BF16.kind()), (Kind::Int, Kind::Float));
/// assert!(Kind::Bool < Kind::Int && Kind::Int < Kind::Float);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Truth values.
    Bool,
    /// Integers of either sign.
    Int,
    /// Floating-point numbers.
    Float,
}

impl DType {
    /// Every dtype, in order of its number.
    pub const ALL: [Self; 13] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
    ];

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The kind.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Bool => Kind::Bool,
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 => Kind::Float,
            _ => Kind::Int,
        }
    }

    /// Returns whether elements are floating-point numbers, which have gradients.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Returns whether elements are floats that are narrower than the type of arithmetic on them.
    pub const fn is_narrow_float(self) -> bool {
        self.is_float() && self.size() < self.compute().size()
    }

    /// Whether elements are integers of either sign.
    pub const fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Int)
    }

    /// Whether elements are signed integers.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// The short name: `f32`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Returns the dtype with this short name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns the dtype in which arithmetic on this one is carried out. Results are rounded or wrapped back after
    /// every op.
    pub const fn compute(self) -> Self {
        match self {
            Self::F16 | Self::BF16 => Self::F32,
            Self::I8 | Self::I16 | Self::U8 | Self::U16 => Self::I32,
            other => other,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the dtype of an op on operands of two dtypes.
///
/// The rules are NumPy's for arrays, with two differences that keep accelerators' types narrow. An integer with a float
/// gives that float's dtype, and f16 with bf16 gives f32. As in NumPy, u64 with a signed integer gives f64.
///
/// ```
/// use ms_core::tensor::{DType, promote};
/// assert_eq!(promote(DType::I64, DType::F32), DType::F32);
/// assert_eq!(promote(DType::U8, DType::I8), DType::I16);
/// ```
pub const fn promote(a: DType, b: DType) -> DType {
    use DType::*;
    if a as u8 == b as u8 {
        return a;
    }
    match (a.kind(), b.kind()) {
        (Kind::Bool, _) => b,
        (_, Kind::Bool) => a,
        (Kind::Float, Kind::Int) => a,
        (Kind::Int, Kind::Float) => b,
        (Kind::Float, Kind::Float) => match (a, b) {
            (F16, BF16) | (BF16, F16) => F32,
            _ if a as u8 > b as u8 => a,
            _ => b,
        },
        (Kind::Int, Kind::Int) => {
            if a.is_signed_int() == b.is_signed_int() {
                return if a.size() > b.size() { a } else { b };
            }
            let (signed, unsigned) = if a.is_signed_int() { (a, b) } else { (b, a) };
            if signed.size() > unsigned.size() {
                return signed;
            }
            match unsigned {
                U8 => I16,
                U16 => I32,
                U32 => I64,
                _ => F64,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_table() {
        use DType::*;
        let cases = [
            (Bool, I8, I8),
            (Bool, F16, F16),
            (I8, U8, I16),
            (I16, U16, I32),
            (I32, U32, I64),
            (I64, U64, F64),
            (I8, U64, F64),
            (I32, U8, I32),
            (U8, U32, U32),
            (I64, F32, F32),
            (I64, F16, F16),
            (F16, BF16, F32),
            (BF16, F32, F32),
            (F32, F64, F64),
        ];
        for (a, b, want) in cases {
            assert_eq!(promote(a, b), want, "{a} with {b}");
            assert_eq!(promote(b, a), want, "{b} with {a}");
        }
    }
}

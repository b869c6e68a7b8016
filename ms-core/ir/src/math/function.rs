//! Defines the transcendental functions of kernels.

/// A function of one or two floats (f32 or f64). Lowering expands functions without a native instruction or routine to
/// basic instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Math {
    /// `1 / sqrt(x)`.
    Rsqrt,
    /// `e^x`.
    Exp,
    /// `e^x - 1`.
    Expm1,
    /// The natural logarithm.
    Log,
    /// `ln(1 + x)`.
    Log1p,
    /// The sine of radians.
    Sin,
    /// The cosine of radians.
    Cos,
    /// The tangent of radians.
    Tan,
    /// The arc sine.
    Asin,
    /// The arc cosine.
    Acos,
    /// The arc tangent.
    Atan,
    /// The hyperbolic sine.
    Sinh,
    /// The hyperbolic cosine.
    Cosh,
    /// The hyperbolic tangent.
    Tanh,
    /// The inverse hyperbolic sine.
    Asinh,
    /// The inverse hyperbolic cosine.
    Acosh,
    /// The inverse hyperbolic tangent.
    Atanh,
    /// The error function.
    Erf,
    /// `1 - erf(x)`.
    Erfc,
    /// `x^y`.
    Pow,
    /// The angle of the point `(x, y)`; `y` is the first operand.
    Atan2,
}

impl Math {
    /// The number of operands: one or two.
    pub const fn arity(self) -> usize {
        match self {
            Self::Pow | Self::Atan2 => 2,
            _ => 1,
        }
    }
}

//! Transcendental functions as formulas of basic instructions, in f32 and f64.
//!
//! Functions that a target does not have are expanded to these formulas ([`expand`]). Eager execution, compiled
//! kernels, the interpreter and every instruction set therefore agree bit for bit. Tests of `ms-ops` check the error
//! bounds.
//!
//! The methods come from classic libraries: Cody and Waite 1980, and the FreeBSD msun library, whose argument
//! reductions of `log`, `log1p` and `expm1` are used. `minimax.py` generates the coefficients.

// Several fitted coefficients are close to famous constants.
#[allow(clippy::approx_constant)]
mod coefficients;
mod erf;
mod expand;
mod exponential;
mod function;
mod logarithm;
mod power;
mod trigonometric;

pub use erf::{erf, erfc};
pub use expand::{Expansion, expand, expand_all, formula};
pub use exponential::{cosh, exp, exp_nonpositive, expm1, sigmoid, sinh, tanh};
pub use function::Math;
pub use logarithm::{acosh, asinh, atanh, log, log1p};
pub use power::{pow, pow_int, rsqrt};
pub use trigonometric::{acos, asin, atan, atan2, cos, sin, tan};

use crate::body::Expr;
use crate::data::DType;
use std::f64::consts;

/// Polynomial coefficients in both formats, lowest power first.
struct Series {
    f32: &'static [f32],
    f64: &'static [f64],
}

impl Series {
    /// Evaluates the polynomial at `x`, by Horner's rule.
    fn at<'s>(&self, x: Expr<'s>) -> Expr<'s> {
        match Format::of(x) {
            Format::F32 => horner(x, self.f32.iter().map(|&it| it as f64)),
            Format::F64 => horner(x, self.f64.iter().copied()),
        }
    }
}

/// A constant as an unevaluated sum of numbers of the format, the largest first.
struct Parts {
    f32: &'static [f64],
    f64: &'static [f64],
}

/// `ln 2`.
const LN_2: Parts = Parts { f32: &[consts::LN_2, -1.9046542e-9], f64: &[consts::LN_2, 2.3190468138462996e-17] };

impl Parts {
    fn of(&self, format: Format) -> &'static [f64] {
        format.pick(self.f32, self.f64)
    }

    /// Subtracts `n` times the constant from `x`, rounding each step once.
    fn subtract<'s>(&self, x: Expr<'s>, n: Expr<'s>) -> Expr<'s> {
        self.of(Format::of(x)).iter().fold(x, |rest, &part| n.mul_add(-part, rest))
    }
}

fn horner<'s>(x: Expr<'s>, coefficients: impl DoubleEndedIterator<Item = f64>) -> Expr<'s> {
    let mut rest = coefficients.rev();
    let last = x.constant(rest.next().expect("a polynomial has a coefficient"));
    rest.fold(last, |sum, coefficient| sum.mul_add(x, coefficient))
}

/// The two formats in which functions are evaluated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    F32,
    F64,
}

impl Format {
    fn of(x: Expr<'_>) -> Self {
        match x.dtype() {
            DType::F32 => Self::F32,
            DType::F64 => Self::F64,
            other => unreachable!("functions are evaluated in f32 and f64, not {other}"),
        }
    }

    /// Selects one of two values by the format.
    fn pick<T>(self, f32: T, f64: T) -> T {
        match self {
            Self::F32 => f32,
            Self::F64 => f64,
        }
    }

    /// Returns the number of explicit bits of the significand.
    fn fraction_bits(self) -> i64 {
        self.pick(23, 52)
    }

    /// Returns the exponent field of one.
    fn bias(self) -> i64 {
        self.pick(127, 1023)
    }

    /// Returns `1.5 * 2^fraction_bits`: adding it rounds a small number to an integer in the low bits.
    fn shifter(self) -> f64 {
        1.5 * (1i64 << self.fraction_bits()) as f64
    }

    /// Returns the sign bit, as an integer of the format's width.
    fn sign_bit(self) -> i64 {
        self.pick(i32::MIN as i64, i64::MIN)
    }

    /// Returns the bits of [`Format::shifter`].
    fn shifter_bits(self) -> i64 {
        self.pick((self.shifter() as f32).to_bits() as i64, self.shifter().to_bits() as i64)
    }
}

/// Rounds a small number `x * scale` to the nearest integer. Returns it as a float, and in the low bits of an integer
/// whose other bits are those of [`Format::shifter`].
fn nearest(x: Expr<'_>, scale: f64) -> (Expr<'_>, Expr<'_>) {
    nearest_plus(x, scale, 0)
}

/// Applies [`nearest`] and adds `offset` to the low bits of the integer. An odd offset breaks ties of `x * scale` to
/// the odd integer. With the scale `log2 e`, whose last bits are set, there are no ties.
fn nearest_plus(x: Expr<'_>, scale: f64, offset: i64) -> (Expr<'_>, Expr<'_>) {
    let shifter = Format::of(x).shifter() + offset as f64;
    let shifted = x.mul_add(scale, shifter);
    (shifted - shifter, shifted.bitcast())
}

/// Converts a small integer to a float.
fn to_float(n: Expr<'_>) -> Expr<'_> {
    let format = if n.dtype() == DType::I32 { Format::F32 } else { Format::F64 };
    (n + format.shifter_bits()).bitcast() - format.shifter()
}

/// Returns `magnitude`, which is not negative, with the sign of `sign`.
fn with_sign<'s>(magnitude: Expr<'s>, sign: Expr<'s>) -> Expr<'s> {
    (magnitude.bitcast() | (sign.bitcast() & Format::of(sign).sign_bit())).bitcast()
}

/// Returns `-|x|`; sets the sign bit of a NaN.
fn negative(x: Expr<'_>) -> Expr<'_> {
    (x.bitcast() | Format::of(x).sign_bit()).bitcast()
}

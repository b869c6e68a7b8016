//! Numbers and truth values of kernels, which record what is computed from them.

use crate::ir::Math;
use crate::ops::core::formulas::{Binary, Builder, Formula, Kind, Unary, ValueId};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, BitAnd, BitOr, Div, DivAssign, Mul, MulAssign, Neg, Not, Sub, SubAssign};

thread_local! {
    static BUILDERS: RefCell<Vec<Builder>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with the builder of the kernel that is traced.
fn build<R>(f: impl FnOnce(&mut Builder) -> R) -> R {
    BUILDERS.with_borrow_mut(|all| f(all.last_mut().expect("numbers of kernels exist in kernels only")))
}

/// A number of a kernel: an element of an operand, or what is computed from it. It has the dtype of the operands.
///
/// Numbers of the program beside it are constants of the kernel. Methods have the names of those of `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Float(ValueId, PhantomData<*const ()>);

/// A truth value of a kernel: an element of an operand, or the result of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Bool(ValueId, PhantomData<*const ()>);

/// Types of arguments of kernels that are operands.
pub trait Argument: Copy {
    /// What elements of the operand are.
    const KIND: Kind;

    /// An operand of the kernel that is traced.
    fn operand(at: usize) -> Self;
}

/// Results of kernels.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a kernel",
    label = "neither `Float` nor `Bool`"
)]
pub trait Returned {
    /// Its value in the kernel that is traced.
    fn value(self) -> ValueId;
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl $ty {
            fn new(value: ValueId) -> Self {
                Self(value, PhantomData)
            }
        }

        impl Argument for $ty {
            const KIND: Kind = Kind::$ty;

            fn operand(at: usize) -> Self {
                Self::new(build(|it| it.operand(at)))
            }
        }

        impl Returned for $ty {
            fn value(self) -> ValueId {
                self.0
            }
        }
    )*};
}

numbers! { Float Bool }

/// A number of the program is a constant of the kernel.
impl Returned for f64 {
    fn value(self) -> ValueId {
        Float::from(self).0
    }
}

impl From<f64> for Float {
    fn from(value: f64) -> Self {
        Self::new(build(|it| it.constant(value)))
    }
}

impl From<i32> for Float {
    fn from(value: i32) -> Self {
        Self::from(f64::from(value))
    }
}

/// A truth value of the program is a constant of the kernel.
impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        let number = Float::from(f64::from(u8::from(value)));
        number.ne(0.0)
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident: $op:expr;)*) => {
        impl Float {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self) -> Self {
                Self::new(build(|it| it.unary($op, self.0)))
            }
        )*}
    };
}

unary_methods! {
    /// The magnitude.
    abs: Unary::Abs;
    /// The square root.
    sqrt: Unary::Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt: Unary::Math(Math::Rsqrt);
    /// Rounded down.
    floor: Unary::Floor;
    /// Rounded up.
    ceil: Unary::Ceil;
    /// Rounded towards zero.
    trunc: Unary::Trunc;
    /// Rounded to the nearest integer, halves to even.
    #[doc(alias = "round")]
    round_ties_even: Unary::Round;
    /// `e^x`.
    exp: Unary::Math(Math::Exp);
    /// `e^x - 1` without cancellation.
    #[doc(alias = "expm1")]
    exp_m1: Unary::Math(Math::Expm1);
    /// The natural logarithm.
    #[doc(alias = "log")]
    ln: Unary::Math(Math::Log);
    /// `ln(1 + x)` without cancellation.
    #[doc(alias = "log1p")]
    ln_1p: Unary::Math(Math::Log1p);
    /// The sine of radians.
    sin: Unary::Math(Math::Sin);
    /// The cosine of radians.
    cos: Unary::Math(Math::Cos);
    /// The tangent of radians.
    tan: Unary::Math(Math::Tan);
    /// The arc sine.
    asin: Unary::Math(Math::Asin);
    /// The arc cosine.
    acos: Unary::Math(Math::Acos);
    /// The arc tangent.
    atan: Unary::Math(Math::Atan);
    /// The hyperbolic sine.
    sinh: Unary::Math(Math::Sinh);
    /// The hyperbolic cosine.
    cosh: Unary::Math(Math::Cosh);
    /// The hyperbolic tangent.
    tanh: Unary::Math(Math::Tanh);
    /// The inverse hyperbolic sine.
    asinh: Unary::Math(Math::Asinh);
    /// The inverse hyperbolic cosine.
    acosh: Unary::Math(Math::Acosh);
    /// The inverse hyperbolic tangent.
    atanh: Unary::Math(Math::Atanh);
    /// The error function.
    erf: Unary::Math(Math::Erf);
    /// `1 - erf(x)`.
    erfc: Unary::Math(Math::Erfc);
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident: $op:expr => $result:ident;)*) => {
        impl Float {$(
            $(#[$doc])*
            #[must_use]
            pub fn $name(self, other: impl Into<Self>) -> $result {
                let other = other.into();
                $result::new(build(|it| it.binary($op, self.0, other.0)))
            }
        )*}
    };
}

binary_methods! {
    /// The smaller, nan if either is nan. Equal ones share the gradient.
    min: Binary::Min => Float;
    /// The larger, nan if either is nan. Equal ones share the gradient.
    max: Binary::Max => Float;
    /// `x^y`; nan for negative `x` unless `y` is an integer.
    #[doc(alias = "pow")]
    powf: Binary::Math(Math::Pow) => Float;
    /// The angle of the point `(other, self)`.
    atan2: Binary::Math(Math::Atan2) => Float;
    /// Whether the two are equal.
    eq: Binary::Eq => Bool;
    /// Whether the two differ, or one is nan.
    ne: Binary::Ne => Bool;
    /// Whether this is less.
    lt: Binary::Lt => Bool;
    /// Whether this is less or equal.
    le: Binary::Le => Bool;
}

impl Float {
    /// Whether this is greater.
    #[must_use]
    pub fn gt(self, other: impl Into<Self>) -> Bool {
        other.into().lt(self)
    }

    /// Whether this is greater or equal.
    #[must_use]
    pub fn ge(self, other: impl Into<Self>) -> Bool {
        other.into().le(self)
    }

    /// `1 / x`.
    #[must_use]
    pub fn recip(self) -> Self {
        Self::from(1.0) / self
    }

    /// `1 / (1 + e^-x)`.
    #[must_use]
    pub fn sigmoid(self) -> Self {
        ((self * 0.5).tanh() + 1.0) * 0.5
    }

    /// -1, 0 or 1 by the sign; of nan 0.
    #[doc(alias = "sign")]
    #[must_use]
    pub fn signum(self) -> Self {
        self.gt(0.0).to_float() - self.lt(0.0).to_float()
    }

    /// Limited to `low..=high`; nan stays nan.
    #[must_use]
    pub fn clamp(self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
        self.max(low).min(high)
    }

    /// `x^n`, by multiplication.
    #[must_use]
    pub fn powi(self, n: i32) -> Self {
        let (mut power, mut square, mut rest) = (None, self, n.unsigned_abs());
        while rest > 0 {
            if rest % 2 == 1 {
                power = Some(power.map_or(square, |it: Self| it * square));
            }
            rest /= 2;
            if rest > 0 {
                square *= square;
            }
        }
        match (power, n < 0) {
            (None, _) => Self::from(1.0),
            (Some(power), true) => power.recip(),
            (Some(power), false) => power,
        }
    }
}

impl Bool {
    /// `then` where this is true, else `other`.
    #[must_use]
    pub fn select(self, then: impl Into<Float>, other: impl Into<Float>) -> Float {
        let (then, other) = (then.into(), other.into());
        Float::new(build(|it| it.select(self.0, then.0, other.0)))
    }

    /// One where this is true, else zero.
    #[must_use]
    pub fn to_float(self) -> Float {
        Float::new(build(|it| it.unary(Unary::ToFloat, self.0)))
    }

    /// `then` where this is true, else `other`.
    pub(super) fn select_bool(self, then: Self, other: Self) -> Self {
        Self::new(build(|it| it.select(self.0, then.0, other.0)))
    }

    fn binary(self, op: Binary, other: Self) -> Self {
        Self::new(build(|it| it.binary(op, self.0, other.0)))
    }
}

macro_rules! operators {
    ($($op:ident $method:ident $assign:ident $assign_method:ident $inst:ident)*) => {$(
        impl $op for Float {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                Self::new(build(|it| it.binary(Binary::$inst, self.0, other.0)))
            }
        }

        impl<T: Into<Float>> $assign<T> for Float {
            fn $assign_method(&mut self, other: T) {
                *self = (*self).$method(other.into());
            }
        }

        operators! { @with $op $method f64 }
        operators! { @with $op $method i32 }
    )*};
    (@with $op:ident $method:ident $number:ident) => {
        impl $op<$number> for Float {
            type Output = Self;

            fn $method(self, other: $number) -> Self {
                self.$method(Self::from(other))
            }
        }

        impl $op<Float> for $number {
            type Output = Float;

            fn $method(self, other: Float) -> Float {
                Float::from(self).$method(other)
            }
        }
    };
}

operators! {
    Add add AddAssign add_assign Add
    Sub sub SubAssign sub_assign Sub
    Mul mul MulAssign mul_assign Mul
    Div div DivAssign div_assign Div
}

impl Neg for Float {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(build(|it| it.neg(self.0)))
    }
}

impl Not for Bool {
    type Output = Self;

    fn not(self) -> Self {
        Self::new(build(|it| it.unary(Unary::Not, self.0)))
    }
}

impl BitAnd for Bool {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.binary(Binary::And, other)
    }
}

impl BitOr for Bool {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.binary(Binary::Or, other)
    }
}

/// The formula of a kernel with operands of these kinds.
pub(super) fn trace(kinds: &[Kind], body: impl FnOnce() -> ValueId) -> Formula {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            BUILDERS.with_borrow_mut(Vec::pop);
        }
    }
    BUILDERS.with_borrow_mut(|all| all.push(Builder::new(kinds.iter().copied())));
    let _leave = Leave;
    let value = body();
    build(|it| it.finish(value))
}

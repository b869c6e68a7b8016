//! Comparisons, logic and `if` of kernels, which `kernel!` rewrites those of Rust to.

use super::{Bool, Float};

/// Comparisons in kernels: of numbers of the kernel, and of host values, which are decided while it is traced.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{Other}` cannot be compared in a kernel",
    label = "numbers of kernels compare with each other, and with `f64` and `i32`"
)]
pub trait Compares<Other> {
    /// [`Bool`] or `bool`.
    type Output;

    /// `self < other`.
    fn less(self, other: Other) -> Self::Output;

    /// `self <= other`.
    fn at_most(self, other: Other) -> Self::Output;

    /// `self == other`.
    fn equal(self, other: Other) -> Self::Output;

    /// `self != other`.
    fn unequal(self, other: Other) -> Self::Output;
}

macro_rules! comparisons {
    ($($a:ident $b:ident)*) => {$(
        impl Compares<$b> for $a {
            type Output = Bool;

            fn less(self, other: $b) -> Bool {
                Float::from(self).lt(other)
            }

            fn at_most(self, other: $b) -> Bool {
                Float::from(self).le(other)
            }

            fn equal(self, other: $b) -> Bool {
                Float::from(self).eq(other)
            }

            fn unequal(self, other: $b) -> Bool {
                Float::from(self).ne(other)
            }
        }
    )*};
    (host $($ty:ident)*) => {$(
        // Equality is the host's, which lints compare with a tolerance.
        #[allow(clippy::float_cmp)]
        impl Compares<$ty> for $ty {
            type Output = bool;

            fn less(self, other: $ty) -> bool {
                self < other
            }

            fn at_most(self, other: $ty) -> bool {
                self <= other
            }

            fn equal(self, other: $ty) -> bool {
                self == other
            }

            fn unequal(self, other: $ty) -> bool {
                self != other
            }
        }
    )*};
}

comparisons! { Float Float  Float f64  Float i32  f64 Float  i32 Float }
comparisons! { host f32 f64 i32 i64 u32 u64 usize bool }

/// `&&` and `||` in kernels, of truth values of the kernel and of the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{Other}` are not two truth values",
    label = "neither `Bool` nor `bool`"
)]
pub trait Logic<Other> {
    /// [`Bool`], or `bool` if both are.
    type Output;

    /// `self && other()`.
    fn and(self, other: impl FnOnce() -> Other) -> Self::Output;

    /// `self || other()`.
    fn or(self, other: impl FnOnce() -> Other) -> Self::Output;
}

impl<T: Into<Self>> Logic<T> for Bool {
    type Output = Self;

    fn and(self, other: impl FnOnce() -> T) -> Self {
        self & other().into()
    }

    fn or(self, other: impl FnOnce() -> T) -> Self {
        self | other().into()
    }
}

impl Logic<Bool> for bool {
    type Output = Bool;

    fn and(self, other: impl FnOnce() -> Bool) -> Bool {
        if self { other() } else { Bool::from(false) }
    }

    fn or(self, other: impl FnOnce() -> Bool) -> Bool {
        if self { Bool::from(true) } else { other() }
    }
}

impl Logic<bool> for bool {
    type Output = bool;

    fn and(self, other: impl FnOnce() -> bool) -> bool {
        self && other()
    }

    fn or(self, other: impl FnOnce() -> bool) -> bool {
        self || other()
    }
}

/// `if` in kernels: of a truth value of the kernel both arms are computed, and one is selected for each element; one
/// of the host decides while the kernel is traced.
#[diagnostic::on_unimplemented(
    message = "an `if` on `{Self}` cannot have the arms `{Then}` and `{Other}` in a kernel",
    label = "a condition is a `Bool` or a `bool`, and both arms are numbers, or both are truth values"
)]
pub trait Decides<Then, Other> {
    /// The value.
    type Output;

    /// The value of an `if`.
    fn decide(self, then: impl FnOnce() -> Then, other: impl FnOnce() -> Other) -> Self::Output;
}

macro_rules! decisions {
    ($($a:ident $b:ident)*) => {$(
        impl Decides<$a, $b> for Bool {
            type Output = Float;

            fn decide(self, then: impl FnOnce() -> $a, other: impl FnOnce() -> $b) -> Float {
                let (then, other) = (then(), other());
                self.select(then, other)
            }
        }
    )*};
}

decisions! { Float Float  Float f64  Float i32  f64 Float  i32 Float  f64 f64  i32 i32 }

impl Decides<Self, Self> for Bool {
    type Output = Self;

    fn decide(self, then: impl FnOnce() -> Self, other: impl FnOnce() -> Self) -> Self {
        let (then, other) = (then(), other());
        self.select_bool(then, other)
    }
}

impl<T> Decides<T, T> for bool {
    type Output = T;

    fn decide(self, then: impl FnOnce() -> T, other: impl FnOnce() -> T) -> T {
        if self { then() } else { other() }
    }
}

impl Decides<Float, f64> for bool {
    type Output = Float;

    fn decide(self, then: impl FnOnce() -> Float, other: impl FnOnce() -> f64) -> Float {
        if self { then() } else { other().into() }
    }
}

impl Decides<f64, Float> for bool {
    type Output = Float;

    fn decide(self, then: impl FnOnce() -> f64, other: impl FnOnce() -> Float) -> Float {
        if self { then().into() } else { other() }
    }
}

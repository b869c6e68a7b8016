//! Comparisons, logic and `if` in kernels. `kernel!` rewrites Rust's expressions to these traits.

use super::number::{with_floats, with_integers};
use super::{Bool, F32, F64, Float, I8, I16, I32, I64, Int, U8, U16, U32, U64};

/// Comparisons in kernels: of kernel values, and of host values, which are decided while the kernel is traced.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{Other}` cannot be compared in a kernel",
    label = "numbers of one kind compare, floats with `f64` and integers with `i32` too; `x as I32` converts"
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

macro_rules! compared {
    ($ty:ident $($a:ident $b:ident)*) => {$(
        impl Compares<$b> for $a {
            type Output = Bool;

            fn less(self, other: $b) -> Bool {
                $ty::from(self).lt(other)
            }

            fn at_most(self, other: $b) -> Bool {
                $ty::from(self).le(other)
            }

            fn equal(self, other: $b) -> Bool {
                $ty::from(self).eq(other)
            }

            fn unequal(self, other: $b) -> Bool {
                $ty::from(self).ne(other)
            }
        }
    )*};
}

macro_rules! comparisons {
    ($($ty:ident[$($number:ident)*])*) => {$(
        compared! { $ty $ty $ty $($ty $number $number $ty)* }
    )*};
}

with_floats! { comparisons }
with_integers! { comparisons }

impl Compares<Self> for Bool {
    type Output = Self;

    fn less(self, other: Self) -> Self {
        !self & other
    }

    fn at_most(self, other: Self) -> Self {
        !self | other
    }

    fn equal(self, other: Self) -> Self {
        self.eq(other)
    }

    fn unequal(self, other: Self) -> Self {
        self.ne(other)
    }
}

macro_rules! of_the_host {
    ($($ty:ident)*) => {$(
        // `float_cmp` prefers a tolerance, but equality in a kernel is exact.
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

of_the_host! { f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 usize bool }

/// `&&` and `||` in kernels, of boolean values of the kernel and of the host.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{Other}` are not two truth values",
    label = "neither `Bool` nor `bool`"
)]
pub trait Logic<Other> {
    /// [`Bool`], or `bool` if both operands are.
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

/// `if` in kernels. A condition of the kernel computes both arms and selects one for each element. A condition of the
/// host is decided while the kernel is traced.
#[diagnostic::on_unimplemented(
    message = "an `if` on `{Self}` cannot have the arms `{Then}` and `{Other}` in a kernel",
    label = "a condition is a `Bool` or a `bool`, and both arms are numbers of one kind, or both are truth values"
)]
pub trait Decides<Then, Other> {
    /// The type of the value.
    type Output;

    /// Returns the value of an `if`.
    fn decide(self, then: impl FnOnce() -> Then, other: impl FnOnce() -> Other) -> Self::Output;
}

macro_rules! decided {
    ($ty:ident $($a:ident $b:ident)*) => {$(
        impl Decides<$a, $b> for Bool {
            type Output = $ty;

            fn decide(self, then: impl FnOnce() -> $a, other: impl FnOnce() -> $b) -> $ty {
                let (then, other) = (then(), other());
                self.choose($ty::from(then), $ty::from(other))
            }
        }
    )*};
}

macro_rules! decisions {
    ($($ty:ident[$($number:ident)*])*) => {$(
        decided! { $ty $ty $ty $($ty $number $number $ty)* }

        $(
            impl Decides<$ty, $number> for bool {
                type Output = $ty;

                fn decide(self, then: impl FnOnce() -> $ty, other: impl FnOnce() -> $number) -> $ty {
                    if self { then() } else { other().into() }
                }
            }

            impl Decides<$number, $ty> for bool {
                type Output = $ty;

                fn decide(self, then: impl FnOnce() -> $number, other: impl FnOnce() -> $ty) -> $ty {
                    if self { then().into() } else { other() }
                }
            }
        )*
    )*};
}

with_floats! { decisions }
with_integers! { decisions }
decided! { Float f64 f64 i32 i32 }
decided! { Bool Bool Bool }

impl<T> Decides<T, T> for bool {
    type Output = T;

    fn decide(self, then: impl FnOnce() -> T, other: impl FnOnce() -> T) -> T {
        if self { then() } else { other() }
    }
}

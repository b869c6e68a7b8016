//! Comparisons in annotated code: `x < y` returns a bool for host values and a tensor
//! of bools for tensors.
//!
//! `x < y` becomes `Subject(&x).lt(&y)`. If `x` is a tensor, this resolves to an inherent method of
//! `Subject<Tensor>`, which takes all operands. So the result is known to be a tensor even while
//! the type of a literal operand is not inferred yet. `x == 2.0` becomes `Subject(&x).is(&2.0)`, so
//! that this holds for parameters too. In all other cases it resolves to the method of [`Compare`],
//! which depends on both types.

use crate::ops::{IntoOperand, equal, greater, greater_equal, less, less_equal, not_equal};
use crate::tensor::{Parameter, Tensor};
use half::{bf16, f16};

/// The left operand of a comparison.
pub struct Subject<'a, L: ?Sized>(pub &'a L);

/// Comparisons of a [`Subject`] that is not a tensor.
pub trait Compare<L: ?Sized> {
    /// `==`
    fn eq<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Equals<R>;
    /// `!=`
    fn ne<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Equals<R>;
    /// `==` with a literal.
    fn is<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Equals<R>;
    /// `!=` with a literal.
    fn is_not<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Equals<R>;
    /// `<`
    fn lt<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Ordered<R>;
    /// `<=`
    fn le<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Ordered<R>;
    /// `>`
    fn gt<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Ordered<R>;
    /// `>=`
    fn ge<R: ?Sized>(&self, rhs: &R) -> L::Output
    where
        L: Ordered<R>;
}

/// `==` and `!=` of two types: a bool, or a tensor of bools.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared with `{Rhs}`",
    label = "no `{Self} == {Rhs}`",
    note = "host values compare by `PartialEq`, tensors with tensors, parameters and numbers"
)]
pub trait Equals<Rhs: ?Sized> {
    /// `bool`, or a tensor of bools.
    type Output;

    /// `self == rhs`.
    fn eq(&self, rhs: &Rhs) -> Self::Output;
    /// `self != rhs`.
    fn ne(&self, rhs: &Rhs) -> Self::Output;
}

/// `<`, `<=`, `>` and `>=` of two types: a bool, or a tensor of bools.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared with `{Rhs}`",
    label = "no `{Self} < {Rhs}`",
    note = "host values compare by `PartialOrd`, tensors with tensors, parameters and numbers"
)]
pub trait Ordered<Rhs: ?Sized> {
    /// `bool`, or a tensor of bools.
    type Output;

    /// `self < rhs`.
    fn lt(&self, rhs: &Rhs) -> Self::Output;
    /// `self <= rhs`.
    fn le(&self, rhs: &Rhs) -> Self::Output;
    /// `self > rhs`.
    fn gt(&self, rhs: &Rhs) -> Self::Output;
    /// `self >= rhs`.
    fn ge(&self, rhs: &Rhs) -> Self::Output;
}

macro_rules! compare {
    ($($method:ident $pair:ident $operator:ident;)*) => {
        impl<L: ?Sized> Compare<L> for Subject<'_, L> {
            $(
                #[track_caller]
                #[inline]
                fn $method<R: ?Sized>(&self, rhs: &R) -> L::Output
                where
                    L: $pair<R>,
                {
                    $pair::$operator(self.0, rhs)
                }
            )*
        }
    };
}

compare! {
    eq Equals eq; ne Equals ne; is Equals eq; is_not Equals ne;
    lt Ordered lt; le Ordered le; gt Ordered gt; ge Ordered ge;
}

macro_rules! host {
    ($($pair:ident $native:ident: $($method:ident)*;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<L: $native<R> + ?Sized, R: ?Sized> $pair<R> for L {
            type Output = bool;
            $(
                #[inline]
                fn $method(&self, rhs: &R) -> bool {
                    $native::$method(self, rhs)
                }
            )*
        }
    )*};
}

host! {
    Equals PartialEq: eq ne;
    Ordered PartialOrd: lt le gt ge;
}

macro_rules! subjects {
    ($($left:ty: $($method:ident $op:ident),*;)*) => {$(
        impl Subject<'_, $left> {
            $(
                /// The comparison of a tensor with anything that can be an operand.
                #[track_caller]
                pub fn $method<R: IntoOperand + ?Sized>(&self, rhs: &R) -> Tensor {
                    $op(self.0.operand(), rhs.operand())
                }
            )*
        }
    )*};
}

// `==` of parameters tests whether they are the same slot, as outside annotated code; a literal
// is not a slot.
subjects! {
    Tensor: eq equal, ne not_equal, is equal, is_not not_equal,
        lt less, le less_equal, gt greater, ge greater_equal;
    &Tensor: eq equal, ne not_equal, is equal, is_not not_equal,
        lt less, le less_equal, gt greater, ge greater_equal;
    Parameter: is equal, is_not not_equal, lt less, le less_equal, gt greater, ge greater_equal;
    &Parameter: is equal, is_not not_equal, lt less, le less_equal, gt greater, ge greater_equal;
}

// Pairs are enumerated: for a type parameter in either position rustc cannot rule out that another
// crate compares the two natively.
macro_rules! equals {
    ($($l:ty, $r:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Equals<$r> for $l {
            type Output = Tensor;

            #[track_caller]
            fn eq(&self, rhs: &$r) -> Tensor {
                equal(self.operand(), rhs.operand())
            }

            #[track_caller]
            fn ne(&self, rhs: &$r) -> Tensor {
                not_equal(self.operand(), rhs.operand())
            }
        }
    )*};
}

macro_rules! ordered {
    ($($l:ty, $r:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Ordered<$r> for $l {
            type Output = Tensor;

            #[track_caller]
            fn lt(&self, rhs: &$r) -> Tensor {
                less(self.operand(), rhs.operand())
            }

            #[track_caller]
            fn le(&self, rhs: &$r) -> Tensor {
                less_equal(self.operand(), rhs.operand())
            }

            #[track_caller]
            fn gt(&self, rhs: &$r) -> Tensor {
                greater(self.operand(), rhs.operand())
            }

            #[track_caller]
            fn ge(&self, rhs: &$r) -> Tensor {
                greater_equal(self.operand(), rhs.operand())
            }
        }
    )*};
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        equals! { Parameter, $number; &Parameter, $number; }
        equals! { $number, Tensor; $number, &Tensor; &$number, Tensor; &$number, &Tensor; }
        equals! { $number, Parameter; $number, &Parameter; }
        ordered! { $number, Tensor; $number, &Tensor; &$number, Tensor; &$number, &Tensor; }
        ordered! { $number, Parameter; $number, &Parameter; }
    )*};
}

numbers! { bool i8 i16 i32 i64 u8 u16 u32 u64 usize f32 f64 f16 bf16 }
equals! { Parameter, Tensor; Parameter, &Tensor; &Parameter, Tensor; &Parameter, &Tensor; }

/// A scrutinee of a `match` on literals in annotated code.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be matched against `{Literal}`",
    label = "neither a number, a bool nor a tensor",
    note = "a `match` on numbers and bools takes numbers, bools, tensors and parameters; for more information, run `ms \
            explain MS010`"
)]
pub trait Case<Literal> {
    /// `bool`, or a tensor of bools.
    type Output;

    /// Whether it equals the literal.
    fn is(&self, literal: Literal) -> Self::Output;
}

#[diagnostic::do_not_recommend]
impl<L, T: Case<L> + ?Sized> Case<L> for &T {
    type Output = T::Output;

    #[track_caller]
    fn is(&self, literal: L) -> T::Output {
        (**self).is(literal)
    }
}

macro_rules! cases {
    ($($number:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Case<$number> for $number {
            type Output = bool;

            #[inline]
            fn is(&self, literal: $number) -> bool {
                *self == literal
            }
        }
    )*};
}

cases! { bool i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 }

macro_rules! tensor_cases {
    ($($ty:ty, $literal:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Case<$literal> for $ty {
            type Output = Tensor;

            #[track_caller]
            fn is(&self, literal: $literal) -> Tensor {
                equal(self, literal)
            }
        }
    )*};
}

tensor_cases! {
    Tensor, i64; Tensor, f64; Tensor, bool;
    Parameter, i64; Parameter, f64; Parameter, bool;
}

/// A copy of the scrutinee, since the arms may mutate it.
#[inline]
pub fn matched<T: Clone>(subject: &T) -> T {
    subject.clone()
}

/// Whether `subject` equals the literal of a pattern.
#[track_caller]
#[inline]
pub fn case<T: Case<L>, L>(subject: &T, literal: L) -> T::Output {
    subject.is(literal)
}

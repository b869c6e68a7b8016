//! Numbers and booleans of kernels, which record the operations on them.

use crate::ops::core::formulas::{Binary, Builder, Formula, Kind, Unary, ValueId};
use crate::tensor::{DType, Scalar};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, raise};
use smallvec::{SmallVec, smallvec};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign};
use std::ops::{Mul, MulAssign, Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign};

thread_local! {
    static BUILDERS: RefCell<Vec<Builder>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with the builder of the kernel that is traced.
fn with_builder<R>(f: impl FnOnce(&mut Builder) -> R) -> R {
    BUILDERS.with_borrow_mut(|all| f(all.last_mut().expect("numbers of kernels exist in kernels only")))
}

/// Appends an instruction to the kernel that is traced, and returns its value.
// Not generic, so that it is compiled once for all types of numbers.
fn build(f: &dyn Fn(&mut Builder) -> ValueId) -> ValueId {
    with_builder(f)
}

/// Numbers and booleans of kernels: the types of elements of operands and results.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number of a kernel",
    label = "neither `Float`, `Int`, `Bool` nor a number of one dtype, such as `I32`"
)]
pub trait Value: Copy {
    /// The kind of the value.
    const KIND: Kind;

    /// Wraps a value of this kind of the kernel that is traced.
    #[doc(hidden)]
    fn of(value: ValueId) -> Self;

    /// Returns the value in the kernel that is traced.
    #[doc(hidden)]
    fn value(self) -> ValueId;

    /// Converts to another kind of number, as [`ops::cast`](crate::ops::cast) does. Floats are truncated and saturated
    /// to integers, integers wrap, and nonzero numbers are true. In `kernel!`, write `x as I32`.
    #[must_use]
    fn to<T: Value>(self) -> T {
        T::of(build(&|it| it.cast(T::KIND, self.value())))
    }

    /// Returns an operand of the kernel that is traced.
    #[doc(hidden)]
    fn operand(at: usize) -> Self {
        Self::of(build(&|it| it.operand(at)))
    }
}

/// Results of kernels: a value, or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a kernel",
    label = "neither a number of a kernel nor a tuple of them"
)]
pub trait Returned {
    /// Returns the values in the kernel that is traced.
    #[doc(hidden)]
    fn values(self) -> SmallVec<[ValueId; 1]>;
}

impl<T: Value> Returned for T {
    fn values(self) -> SmallVec<[ValueId; 1]> {
        smallvec![self.value()]
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Value),+> Returned for ($($name,)+) {
            fn values(self) -> SmallVec<[ValueId; 1]> {
                #[allow(non_snake_case, reason = "values have the names of their types")]
                let ($($name,)+) = self;
                smallvec![$($name.value()),+]
            }
        }
    };
}

tuples! { A B }
tuples! { A B C }
tuples! { A B C D }
tuples! { A B C D E }
tuples! { A B C D E F }
tuples! { A B C D E F G }
tuples! { A B C D E F G H }

macro_rules! values {
    ($($(#[$doc:meta])* $ty:ident: $kind:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $ty(ValueId, PhantomData<*const ()>);

        impl Value for $ty {
            const KIND: Kind = $kind;

            fn of(value: ValueId) -> Self {
                Self(value, PhantomData)
            }

            fn value(self) -> ValueId {
                self.0
            }
        }
    )*};
}

values! {
    /// A float of a kernel: an element of an operand, or a computed value. Its dtype is the common dtype of the `Float`
    /// operands, or f32 if there are none.
    ///
    /// Host numbers beside it are constants of the kernel. The methods are named as in `f32`.
    Float: Kind::Float;
    /// An integer of a kernel: an element of an operand, or a computed value. Its dtype is the common dtype of the
    /// `Int` operands, or i64 if there are none.
    ///
    /// Arithmetic wraps. `/` and `%` truncate as in Rust, and are zero for a zero divisor.
    Int: Kind::Int;
    /// A boolean of a kernel: an element of an operand, or the result of a comparison.
    Bool: Kind::Bool;
    /// A number of a kernel that is f32 for operands of every dtype.
    F32: Kind::Of(DType::F32);
    /// A number of a kernel that is f64 for operands of every dtype.
    F64: Kind::Of(DType::F64);
    /// An i8 of a kernel.
    I8: Kind::Of(DType::I8);
    /// An i16 of a kernel.
    I16: Kind::Of(DType::I16);
    /// An i32 of a kernel.
    I32: Kind::Of(DType::I32);
    /// An i64 of a kernel.
    I64: Kind::Of(DType::I64);
    /// A u8 of a kernel.
    U8: Kind::Of(DType::U8);
    /// A u16 of a kernel.
    U16: Kind::Of(DType::U16);
    /// A u32 of a kernel.
    U32: Kind::Of(DType::U32);
    /// A u64 of a kernel.
    U64: Kind::Of(DType::U64);
}

/// Runs a macro on the floats of kernels, each with the types of unsuffixed literals that may be beside it.
macro_rules! with_floats {
    ($run:ident) => {
        $run! { Float[f64 i32] F32[f64 i32] F64[f64 i32] }
    };
}
pub(super) use with_floats;

/// Runs a macro on the integers of kernels, as [`with_floats`] does. With two literal types, `x + 1` would be
/// ambiguous.
macro_rules! with_integers {
    ($run:ident) => {
        $run! { Int[i32] I8[i32] I16[i32] I32[i32] I64[i32] U8[i32] U16[i32] U32[i32] U64[i32] }
    };
}
pub(super) use with_integers;

/// Records a host number as a constant.
#[track_caller]
fn constant<T: Value>(value: Scalar) -> T {
    if let Kind::Of(dtype) = T::KIND
        && !value.is_within(dtype)
    {
        raise(Error::new(Code::DType, format!("the constant {value} of a kernel is outside the range of {dtype}")));
    }
    T::of(build(&|it| it.constant(T::KIND, value)))
}

macro_rules! constants {
    ($($ty:ident[$($number:ident)*])*) => {$($(
        impl From<$number> for $ty {
            #[track_caller]
            fn from(value: $number) -> Self {
                constant(value.into())
            }
        }
    )*)*};
}

with_floats! { constants }
with_integers! { constants }
constants! { Int[i64] I8[i8] I16[i16] I64[i64] U8[u8] U16[u16] U32[u32] U64[u64] }

/// Converts a host bool to a constant of the kernel.
impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        let number = Float::from(f64::from(u8::from(value)));
        number.ne(0.0)
    }
}

/// Records a unary function whose result has the kind of its operand.
pub(super) fn unary<T: Value>(op: Unary, a: T) -> T {
    T::of(build(&|it| it.unary(op, a.value())))
}

/// Records a binary function of two values of one kind.
pub(super) fn binary<T: Value, R: Value>(op: Binary, a: T, b: T) -> R {
    R::of(build(&|it| it.binary(op, a.value(), b.value())))
}

/// Records the selection of one of two values of one kind.
pub(super) fn select<T: Value>(condition: Bool, then: T, other: T) -> T {
    T::of(build(&|it| it.select(condition.value(), then.value(), other.value())))
}

macro_rules! operators {
    ($ty:ident [$($number:ident)*] $op:ident $method:ident $assign:ident $assign_method:ident $inst:ident) => {
        impl $op for $ty {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                binary(Binary::$inst, self, other)
            }
        }

        impl<T: Into<$ty>> $assign<T> for $ty {
            fn $assign_method(&mut self, other: T) {
                *self = (*self).$method(other.into());
            }
        }

        $(
            impl $op<$number> for $ty {
                type Output = Self;

                fn $method(self, other: $number) -> Self {
                    self.$method(Self::from(other))
                }
            }

            impl $op<$ty> for $number {
                type Output = $ty;

                fn $method(self, other: $ty) -> $ty {
                    $ty::from(self).$method(other)
                }
            }
        )*
    };
}

macro_rules! arithmetic {
    ($($ty:ident[$($number:ident)*])*) => {$(
        operators! { $ty [$($number)*] Add add AddAssign add_assign Add }
        operators! { $ty [$($number)*] Sub sub SubAssign sub_assign Sub }
        operators! { $ty [$($number)*] Mul mul MulAssign mul_assign Mul }
        operators! { $ty [$($number)*] Div div DivAssign div_assign Div }

        impl Neg for $ty {
            type Output = Self;

            fn neg(self) -> Self {
                unary(Unary::Neg, self)
            }
        }
    )*};
}

macro_rules! bits {
    ($($ty:ident[$($number:ident)*])*) => {$(
        operators! { $ty [$($number)*] BitAnd bitand BitAndAssign bitand_assign And }
        operators! { $ty [$($number)*] BitOr bitor BitOrAssign bitor_assign Or }
        operators! { $ty [$($number)*] BitXor bitxor BitXorAssign bitxor_assign Xor }

        impl Not for $ty {
            type Output = Self;

            fn not(self) -> Self {
                unary(Unary::Not, self)
            }
        }
    )*};
}

macro_rules! shifts {
    ($($ty:ident[$($number:ident)*])*) => {$(
        operators! { $ty [$($number)*] Rem rem RemAssign rem_assign Rem }
        operators! { $ty [$($number)*] Shl shl ShlAssign shl_assign Shl }
        operators! { $ty [$($number)*] Shr shr ShrAssign shr_assign Shr }
    )*};
}

with_floats! { arithmetic }
with_integers! { arithmetic }
with_integers! { bits }
with_integers! { shifts }
bits! { Bool[] }

/// Traces the formulas of a kernel with operands of these kinds, one for each result.
pub(super) fn trace(kinds: &[Kind], body: impl FnOnce() -> SmallVec<[ValueId; 1]>) -> Vec<Formula> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            BUILDERS.with_borrow_mut(Vec::pop);
        }
    }
    BUILDERS.with_borrow_mut(|all| all.push(Builder::new(kinds.iter().copied())));
    let _leave = Leave;
    let values = body();
    with_builder(|it| values.map_vec(|&value| it.finish(value)))
}

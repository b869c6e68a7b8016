//! Rust's operators on tensors, parameters and numbers.

use super::{IntoOperand, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, left_shift, right_shift};
use super::{add, div, mul, neg, remainder, sub};
use crate::tensor::{Parameter, Tensor};
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign, Mul, MulAssign,
    Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};

/// One implementation over everything that is an operand: with one for each type of number,
/// `(&x * 2.0).relu()` would not infer.
macro_rules! right {
    ($op:ident $method:ident $function:ident: $($left:ty),+) => {$(
        impl<T: IntoOperand> $op<T> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: T) -> Tensor {
                $function(self, other)
            }
        }
    )+};
}

/// Numbers on the left: f64 and i64 only, the types of Rust's unsuffixed ones.
macro_rules! left {
    ($op:ident $method:ident $function:ident: $($number:ty),+) => {$(
        left!(@ $op $method $function: $number, Tensor);
        left!(@ $op $method $function: $number, &Tensor);
        left!(@ $op $method $function: $number, &Parameter);
    )+};
    (@ $op:ident $method:ident $function:ident: $number:ty, $right:ty) => {
        impl $op<$right> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $right) -> Tensor {
                $function(self, other)
            }
        }
    };
}

macro_rules! assign {
    ($op:ident $method:ident $function:ident) => {
        impl<T: IntoOperand> $op<T> for Tensor {
            #[track_caller]
            fn $method(&mut self, other: T) {
                *self = $function(&*self, other);
            }
        }
    };
}

macro_rules! operators {
    ($($op:ident $method:ident $assign:ident $assign_method:ident $function:ident;)*) => {$(
        right!($op $method $function: Tensor, &Tensor, &Parameter);
        left!($op $method $function: f64, i64);
        assign!($assign $assign_method $function);
    )*};
}

operators! {
    Add add AddAssign add_assign add;
    Sub sub SubAssign sub_assign sub;
    Mul mul MulAssign mul_assign mul;
    Div div DivAssign div_assign div;
    Rem rem RemAssign rem_assign remainder;
}

macro_rules! bit_operators {
    ($($op:ident $method:ident $assign:ident $assign_method:ident $function:ident;)*) => {$(
        right!($op $method $function: Tensor, &Tensor, &Parameter);
        left!($op $method $function: i64);
        assign!($assign $assign_method $function);
    )*};
}

bit_operators! {
    BitAnd bitand BitAndAssign bitand_assign bitwise_and;
    BitOr bitor BitOrAssign bitor_assign bitwise_or;
    BitXor bitxor BitXorAssign bitxor_assign bitwise_xor;
    Shl shl ShlAssign shl_assign left_shift;
    Shr shr ShrAssign shr_assign right_shift;
}

macro_rules! unary_operators {
    ($($op:ident $method:ident $function:ident: $($operand:ty),+;)*) => {$($(
        impl $op for $operand {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor {
                $function(self)
            }
        }
    )+)*};
}

unary_operators! {
    Neg neg neg: Tensor, &Tensor, &Parameter;
    Not not bitwise_not: Tensor, &Tensor, &Parameter;
}

//! Kernel bodies as expressions with operators.

use crate::data::{DType, Scalar};
use crate::{BinaryOp, Compare, KernelBuilder, Math, UnaryOp, Val};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

/// A value of a body under construction. Each operator appends an instruction.
///
/// A number as the other operand becomes a constant of the value's dtype.
#[derive(Clone, Copy)]
pub struct Expr<'s> {
    builder: &'s RefCell<&'s mut KernelBuilder>,
    val: Val,
}

/// Types that can be the other operand of an [`Expr`]: an expression or a number.
pub trait IntoExpr<'s> {
    /// Returns the value in the dtype of `like`.
    fn into_expr(self, like: Expr<'s>) -> Expr<'s>;
}

impl<'s> IntoExpr<'s> for Expr<'s> {
    fn into_expr(self, _: Expr<'s>) -> Expr<'s> {
        self
    }
}

impl<'s> IntoExpr<'s> for Scalar {
    fn into_expr(self, like: Expr<'s>) -> Expr<'s> {
        like.build(|it, val| it.constant_like(self, val))
    }
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl<'s> IntoExpr<'s> for $ty {
            fn into_expr(self, like: Expr<'s>) -> Expr<'s> {
                Scalar::from(self).into_expr(like)
            }
        }
    )*};
}

numbers! { bool i64 f64 }

/// Builds a body from operands, each in its dtype.
pub fn body<const N: usize>(
    builder: &mut KernelBuilder,
    operands: &[Val],
    formula: impl for<'s> FnOnce([Expr<'s>; N]) -> Expr<'s>,
) -> Val {
    body_of(builder, operands, |all| formula(array(all)))
}

/// Builds a [`body`] of any number of operands.
pub fn body_of(
    builder: &mut KernelBuilder,
    operands: &[Val],
    formula: impl for<'s> FnOnce(&[Expr<'s>]) -> Expr<'s>,
) -> Val {
    let builder = RefCell::new(builder);
    formula(&expressions(&builder, operands)).val
}

fn expressions<'s>(builder: &'s RefCell<&'s mut KernelBuilder>, operands: &[Val]) -> Vec<Expr<'s>> {
    operands.iter().map(|&val| Expr { builder, val }).collect()
}

/// Builds a body that computes narrow floats in f32. Operands are widened and the result is rounded, once for the whole
/// formula.
pub fn wide_body<const N: usize>(
    builder: &mut KernelBuilder,
    operands: &[Val],
    formula: impl for<'s> FnOnce([Expr<'s>; N]) -> Expr<'s>,
) -> Val {
    let narrow = operands.iter().map(|&it| builder.ty(it)).find(|it| it.is_narrow_float());
    let builder = RefCell::new(builder);
    let mut wide = expressions(&builder, operands);
    for it in &mut wide {
        if it.dtype().is_narrow_float() {
            *it = it.cast(DType::F32);
        }
    }
    rounded(formula(array(&wide)), narrow)
}

/// Rounds the result of a formula in f32 to the narrow dtype of the operands.
fn rounded(out: Expr<'_>, narrow: Option<DType>) -> Val {
    match narrow {
        Some(dtype) if out.dtype() == DType::F32 => out.cast(dtype).val,
        _ => out.val,
    }
}

fn array<'s, const N: usize>(operands: &[Expr<'s>]) -> [Expr<'s>; N] {
    *<&[_; N]>::try_from(operands).expect("the op has as many operands as its formula")
}

impl<'s> Expr<'s> {
    fn build(self, f: impl FnOnce(&mut KernelBuilder, Val) -> Val) -> Self {
        let val = f(&mut self.builder.borrow_mut(), self.val);
        Self { val, ..self }
    }

    fn unary(self, op: UnaryOp) -> Self {
        self.build(|it, val| it.unary(op, val))
    }

    fn binary(self, op: BinaryOp, other: impl IntoExpr<'s>) -> Self {
        let other = other.into_expr(self);
        self.build(|it, val| it.binary(op, val, other.val))
    }

    fn compare(self, op: Compare, other: impl IntoExpr<'s>) -> Self {
        let other = other.into_expr(self);
        self.build(|it, val| it.compare(op, val, other.val))
    }

    /// Returns the dtype.
    pub fn dtype(self) -> DType {
        self.builder.borrow().ty(self.val)
    }

    /// Returns a constant of this value's dtype.
    pub fn constant(self, value: impl IntoExpr<'s>) -> Self {
        value.into_expr(self)
    }

    /// Returns a constant of another dtype.
    pub fn constant_of(self, value: Scalar, dtype: DType) -> Self {
        self.build(|it, _| it.constant(value, dtype))
    }

    /// `self * b + c`, rounded once.
    pub fn mul_add(self, b: impl IntoExpr<'s>, c: impl IntoExpr<'s>) -> Self {
        let (b, c) = (b.into_expr(self), c.into_expr(self));
        self.build(|it, val| it.fma(val, b.val, c.val))
    }

    /// Returns the magnitude.
    pub fn abs(self) -> Self {
        self.unary(UnaryOp::Abs)
    }

    /// Returns the square root.
    pub fn sqrt(self) -> Self {
        self.unary(UnaryOp::Sqrt)
    }

    /// Applies a function of an f32 or f64.
    pub fn math(self, math: Math) -> Self {
        self.build(|it, val| it.math(math, val, None))
    }

    /// Applies a function of two f32 or f64 values.
    pub fn math2(self, math: Math, other: Self) -> Self {
        self.build(|it, val| it.math(math, val, Some(other.val)))
    }

    /// Rounds down.
    pub fn floor(self) -> Self {
        self.unary(UnaryOp::Floor)
    }

    /// Rounds up.
    pub fn ceil(self) -> Self {
        self.unary(UnaryOp::Ceil)
    }

    /// Rounds towards zero.
    pub fn trunc(self) -> Self {
        self.unary(UnaryOp::Trunc)
    }

    /// Rounds to the nearest integer, ties to even.
    pub fn round_even(self) -> Self {
        self.unary(UnaryOp::RoundEven)
    }

    /// Reinterprets a float as an integer of its width, or back.
    pub fn bitcast(self) -> Self {
        self.build(|it, val| it.bitcast(val))
    }

    /// Converts to another dtype.
    pub fn cast(self, to: DType) -> Self {
        self.build(|it, val| it.cast(val, to))
    }

    /// Returns the smaller value; NaN if either is NaN.
    pub fn min(self, other: impl IntoExpr<'s>) -> Self {
        self.binary(BinaryOp::Min, other)
    }

    /// Returns the larger value; NaN if either is NaN.
    pub fn max(self, other: impl IntoExpr<'s>) -> Self {
        self.binary(BinaryOp::Max, other)
    }

    /// Returns the full product of the low 32 bits of two u64.
    pub fn mul_wide(self, other: impl IntoExpr<'s>) -> Self {
        self.binary(BinaryOp::MulWide, other)
    }

    /// Whether the two are equal.
    pub fn eq(self, other: impl IntoExpr<'s>) -> Self {
        self.compare(Compare::Eq, other)
    }

    /// Whether the two differ, or one is NaN.
    pub fn ne(self, other: impl IntoExpr<'s>) -> Self {
        self.compare(Compare::Ne, other)
    }

    /// Whether this is less.
    pub fn lt(self, other: impl IntoExpr<'s>) -> Self {
        self.compare(Compare::Lt, other)
    }

    /// Whether this is less or equal.
    pub fn le(self, other: impl IntoExpr<'s>) -> Self {
        self.compare(Compare::Le, other)
    }

    /// Whether this is greater.
    pub fn gt(self, other: impl IntoExpr<'s>) -> Self {
        other.into_expr(self).lt(self)
    }

    /// Whether this is greater or equal.
    pub fn ge(self, other: impl IntoExpr<'s>) -> Self {
        other.into_expr(self).le(self)
    }

    /// Returns `then` if this bool is true, else `other`; one of the two may be a number.
    pub fn select(self, then: Self, other: impl IntoExpr<'s>) -> Self {
        let other = other.into_expr(then);
        self.build(|it, val| it.select(val, then.val, other.val))
    }

    /// Returns this value if `condition` is false, else `then`.
    pub fn replace(self, condition: Self, then: impl IntoExpr<'s>) -> Self {
        condition.select(then.into_expr(self), self)
    }
}

macro_rules! operators {
    ($($op:ident $method:ident $inst:ident)*) => {$(
        impl<'s, T: IntoExpr<'s>> $op<T> for Expr<'s> {
            type Output = Self;
            fn $method(self, other: T) -> Self {
                self.binary(BinaryOp::$inst, other)
            }
        }
    )*};
}

operators! {
    Add add Add  Sub sub Sub  Mul mul Mul  Div div Div  Rem rem Rem
    Shl shl Shl  Shr shr Shr  BitAnd bitand And  BitOr bitor Or  BitXor bitxor Xor
}

impl Neg for Expr<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(UnaryOp::Neg)
    }
}

impl Not for Expr<'_> {
    type Output = Self;
    fn not(self) -> Self {
        self.unary(UnaryOp::Not)
    }
}

//! Rust's operators on tensors, parameters and numbers.

use crate::ops::{IntoOperand, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, left_shift, right_shift};
use crate::ops::{add, div, mul, neg, remainder, sub};
use crate::tensor::{Parameter, Tensor};
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign, Mul, MulAssign,
    Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};

/// Implements an operator for every operand on the right. Separate implementations for each number type would leave the
/// types in `(&x * 2.0).relu()` uninferred.
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

/// Implements an operator for numbers on the left: f64 and i64 only, the types of unsuffixed literals.
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

#[cfg(test)]
mod tests {
    use crate::ops::core::testing::{refused, run};
    use crate::tensor::{DType, Parameter, Tensor};
    use crate::{Code, ops, tensor};

    #[track_caller]
    fn check(got: Tensor, dtype: DType, want: &[f64]) {
        assert_eq!(got.dtype(), dtype);
        let got: Vec<f64> = got
            .try_array()
            .and_then(crate::tensor::Array::into_host)
            .expect("an array")
            .scalars()
            .into_iter()
            .map(|it| it.as_f64())
            .collect();
        assert_eq!(got, want);
    }

    #[test]
    fn tensors_parameters_and_numbers_mix() {
        use DType::*;
        run(|| {
            let (x, n) = (tensor![1., 2.], tensor![7, -7]);
            let p = Parameter::new(tensor![3., 4.], "p");
            check(&x + &x, F32, &[2.0, 4.0]);
            check(&x + 1, F32, &[2.0, 3.0]);
            check(&x * 0.5 - &p, F32, &[-2.5, -3.0]);
            check((2.0 * &x).relu() + 1.0, F32, &[3.0, 5.0]);
            check(1 - &p * x.clone(), F32, &[-2.0, -7.0]);
            check(&n * &x, F32, &[7.0, -14.0]);
            check(&n / 2, F32, &[3.5, -3.5]);
            check(&n % 4, I64, &[3.0, 1.0]);
            check(-&n, I64, &[-7.0, 7.0]);
            check((&n & 3) | 8, I64, &[11.0, 9.0]);
            check(1 << tensor![0, 3, 64], I64, &[1.0, 8.0, 0.0]);
            check(!&tensor![true, false], Bool, &[0.0, 1.0]);
            check(tensor![true, false] + tensor![true, false], Bool, &[1.0, 0.0]);
            let mut sum = x.clone();
            sum += &p;
            sum *= 2.0f32;
            check(sum, F32, &[8.0, 12.0]);
            check(x, F32, &[1.0, 2.0]);
        });
    }

    #[test]
    fn numbers_never_change_kind_or_width() {
        use DType::*;
        run(|| {
            for dtype in [F16, BF16, F32, F64] {
                assert_eq!((tensor![1.].cast(dtype) * 2.0f64).dtype(), dtype);
            }
            for dtype in [I8, U8, I32, U64] {
                assert_eq!((tensor![1].cast(dtype) + 1i64).dtype(), dtype);
                assert_eq!((tensor![1].cast(dtype) / 2).dtype(), F32);
            }
            assert_eq!(ops::add(tensor![1i8], tensor![1u8]).dtype(), I16);
            assert_eq!(ops::maximum(tensor![true], true).dtype(), Bool);
        });
        assert_eq!(refused(|| tensor![1] + 0.5), Code::DType);
        assert_eq!(refused(|| tensor![true] + 1), Code::DType);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let cases: [(fn() -> Tensor, Code); 7] = [
            (|| tensor![1., 2.] + tensor![1., 2., 3.], Code::Shape),
            (|| tensor![true] - tensor![true], Code::DType),
            (|| tensor![1.] & tensor![2.], Code::DType),
            (|| tensor![true] << 1, Code::DType),
            (|| tensor![1., 2.].sum(1), Code::OutOfRange),
            (|| tensor![1., 2.].max([0, -1]), Code::Argument),
            (|| Tensor::zeros([0, 2]).max(0), Code::Argument),
        ];
        for (i, (case, code)) in cases.into_iter().enumerate() {
            assert_eq!(refused(case), code, "case {i}");
        }
        let error = crate::catch(|| run(|| tensor![1., 2.] + tensor![1, 2, 3])).expect_err("shapes differ");
        let text = error.to_string();
        for part in ["MS100", "`add`", "f32[2]", "f32[3]", "operators.rs"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

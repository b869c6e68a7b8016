//! Bitwise logic and shifts.

use crate::ops::core::elementwise::{elementwise, wide};
use crate::tensor::Scalar;

elementwise! {
    /// Returns the bits set in both operands; bools are combined by "and".
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::bitwise_and(tensor![6, 5], 3).to_vec::<i64>(), [2, 1]);
    /// ```
    BITWISE_AND = 150: bitwise_and(a, b), Integral -> same;
    eval |v| Scalar::Int((wide(v[0]) & wide(v[1])) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a & b;
    samples [(-9.0, 9.0), (-9.0, 9.0)];
}

elementwise! {
    /// Returns the bits set in at least one operand; bools are combined by "or".
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::bitwise_or(tensor![6, 5], 3).to_vec::<i64>(), [7, 7]);
    /// ```
    BITWISE_OR = 151: bitwise_or(a, b), Integral -> same;
    eval |v| Scalar::Int((wide(v[0]) | wide(v[1])) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a | b;
    samples [(-9.0, 9.0), (-9.0, 9.0)];
}

elementwise! {
    /// Returns the bits set in exactly one operand; bools are combined by "exclusive or".
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::bitwise_xor(tensor![6, 5], 3).to_vec::<i64>(), [5, 6]);
    /// ```
    BITWISE_XOR = 152: bitwise_xor(a, b), Integral -> same;
    eval |v| Scalar::Int((wide(v[0]) ^ wide(v[1])) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a ^ b;
    samples [(-9.0, 9.0), (-9.0, 9.0)];
}

elementwise! {
    /// Inverts all bits; bools are negated.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::bitwise_not(tensor![0, 5]).to_vec::<i64>(), [-1, -6]);
    /// ```
    BITWISE_NOT = 153: bitwise_not(x), Integral -> same;
    eval |v| match v[0] {
        Scalar::Bool(it) => Scalar::Bool(!it),
        it => Scalar::Int(!wide(it) as i64),
    };
    vjp none "integers have no gradient";
    lower body |[x]| !x;
    samples [(-9.0, 9.0)];
}

elementwise! {
    /// Shifts `a` left by `b` bits; zero when `b` is negative or not below the width.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::left_shift(tensor![1, 3], 2).to_vec::<i64>(), [4, 12]);
    /// ```
    LEFT_SHIFT = 154: left_shift(a, b), Integer -> same;
    eval |v| Scalar::Int(if (0..64).contains(&wide(v[1])) { (wide(v[0]) << wide(v[1])) as i64 } else { 0 });
    vjp none "integers have no gradient";
    lower body |[a, b]| a << b;
    samples [(-9.0, 9.0), (0.0, 7.0)];
}

elementwise! {
    /// Shifts `a` right by `b` bits; signed integers keep their sign. If `b` is negative or not below the width, all
    /// bits become copies of the sign.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::right_shift(tensor![8, -8], 2).to_vec::<i64>(), [2, -2]);
    /// ```
    RIGHT_SHIFT = 155: right_shift(a, b), Integer -> same;
    eval |v| Scalar::Int((wide(v[0]) >> if (0..64).contains(&wide(v[1])) { wide(v[1]) } else { 64 }) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a >> b;
    samples [(-99.0, 99.0), (0.0, 7.0)];
}

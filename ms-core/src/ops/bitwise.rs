//! Logic of bits, and shifts.

use super::elementwise::{elementwise, wide};
use crate::tensor::Scalar;

elementwise! {
    /// The bits set in both; of bools, "and".
    BITWISE_AND = 150: bitwise_and(a, b), Integral -> same;
    eval |v| Scalar::Int((wide(v[0]) & wide(v[1])) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a & b;
    samples [(-9.0, 9.0), (-9.0, 9.0)];
}

elementwise! {
    /// The bits set in at least one; of bools, "or".
    BITWISE_OR = 151: bitwise_or(a, b), Integral -> same;
    eval |v| Scalar::Int((wide(v[0]) | wide(v[1])) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a | b;
    samples [(-9.0, 9.0), (-9.0, 9.0)];
}

elementwise! {
    /// The bits set in exactly one; of bools, "exclusive or".
    BITWISE_XOR = 152: bitwise_xor(a, b), Integral -> same;
    eval |v| Scalar::Int((wide(v[0]) ^ wide(v[1])) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a ^ b;
    samples [(-9.0, 9.0), (-9.0, 9.0)];
}

elementwise! {
    /// The bits turned over; of bools, "not".
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
    /// `a` shifted left by `b` bits; zero when `b` is negative or not below the width.
    LEFT_SHIFT = 154: left_shift(a, b), Integer -> same;
    eval |v| Scalar::Int(if (0..64).contains(&wide(v[1])) { (wide(v[0]) << wide(v[1])) as i64 } else { 0 });
    vjp none "integers have no gradient";
    lower body |[a, b]| a << b;
    samples [(-9.0, 9.0), (0.0, 7.0)];
}

elementwise! {
    /// `a` shifted right by `b` bits; signed integers keep their sign. A `b` that is negative
    /// or not below the width leaves nothing but copies of the sign.
    RIGHT_SHIFT = 155: right_shift(a, b), Integer -> same;
    eval |v| Scalar::Int((wide(v[0]) >> if (0..64).contains(&wide(v[1])) { wide(v[1]) } else { 64 }) as i64);
    vjp none "integers have no gradient";
    lower body |[a, b]| a >> b;
    samples [(-99.0, 99.0), (0.0, 7.0)];
}

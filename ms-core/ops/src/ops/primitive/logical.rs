//! Logical functions of bools.

use crate::ops::core::elementwise::elementwise;
use crate::tensor::Scalar;

elementwise! {
    /// Whether both are true; numbers are true unless zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::logical_and(tensor![true, true], tensor![true, false]).to_vec::<bool>(), [true, false]);
    /// ```
    LOGICAL_AND = 140: logical_and(a, b), Logical -> bool;
    eval |v| Scalar::Bool(v[0].as_bool() & v[1].as_bool());
    vjp none "truth values have no gradient";
    lower body |[a, b]| a & b;
    samples [(0.0, 1.0), (0.0, 1.0)];
}

elementwise! {
    /// Whether at least one is true; numbers are true unless zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::logical_or(tensor![false, true], tensor![false, false]).to_vec::<bool>(), [false, true]);
    /// ```
    LOGICAL_OR = 141: logical_or(a, b), Logical -> bool;
    eval |v| Scalar::Bool(v[0].as_bool() | v[1].as_bool());
    vjp none "truth values have no gradient";
    lower body |[a, b]| a | b;
    samples [(0.0, 1.0), (0.0, 1.0)];
}

elementwise! {
    /// Whether exactly one is true; numbers are true unless zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::logical_xor(tensor![true, true], tensor![true, false]).to_vec::<bool>(), [false, true]);
    /// ```
    LOGICAL_XOR = 142: logical_xor(a, b), Logical -> bool;
    eval |v| Scalar::Bool(v[0].as_bool() ^ v[1].as_bool());
    vjp none "truth values have no gradient";
    lower body |[a, b]| a ^ b;
    samples [(0.0, 1.0), (0.0, 1.0)];
}

elementwise! {
    /// Whether `x` is false, or zero.
    ///
    /// ```
    /// use ms_core::{ops, tensor};
    /// assert_eq!(ops::logical_not(tensor![0., 2.]).to_vec::<bool>(), [true, false]);
    /// ```
    LOGICAL_NOT = 143: logical_not(x), Logical -> bool;
    eval |v| Scalar::Bool(!v[0].as_bool());
    vjp none "truth values have no gradient";
    lower body |[x]| !x;
    samples [(0.0, 1.0)];
}

//! Ops as objects, in MindSpore's manner.
//!
//! ```
//! use ms_core::{ops, tensor};
//! let x = tensor![1., 2., 4.];
//! assert_eq!(ops::Pow::new().call(&x, 3.).to_vec::<f32>(), [1., 8., 64.]);
//! assert_eq!(ops::pow(&x, 3.).to_vec::<f32>(), [1., 8., 64.]);
//! ```

use super::IntoOperand;
use crate::tensor::{AsTensor, Tensor};

macro_rules! primitive_objects {
    ($($object:ident $function:ident($($x:ident: $operand:ident),+);)*) => {$(
        #[doc = concat!("The function [`", stringify!($function), "`](super::", stringify!($function), ") as an object.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $object;

        impl $object {
            /// The object.
            pub const fn new() -> Self {
                Self
            }

            #[doc = concat!("Applies [`", stringify!($function), "`](super::", stringify!($function), ").")]
            #[track_caller]
            pub fn call(&self, $($x: impl $operand),+) -> Tensor {
                super::$function($($x),+)
            }
        }
    )*};
}

primitive_objects! {
    Abs abs(x: AsTensor);
    Add add(a: IntoOperand, b: IntoOperand);
    Atan2 atan2(a: IntoOperand, b: IntoOperand);
    Cos cos(x: AsTensor);
    Div div(a: IntoOperand, b: IntoOperand);
    Equal equal(a: IntoOperand, b: IntoOperand);
    Erf erf(x: AsTensor);
    Exp exp(x: AsTensor);
    FloorDiv floor_div(a: IntoOperand, b: IntoOperand);
    Greater greater(a: IntoOperand, b: IntoOperand);
    GreaterEqual greater_equal(a: IntoOperand, b: IntoOperand);
    Less less(a: IntoOperand, b: IntoOperand);
    LessEqual less_equal(a: IntoOperand, b: IntoOperand);
    Log log(x: AsTensor);
    LogicalAnd logical_and(a: IntoOperand, b: IntoOperand);
    LogicalNot logical_not(x: AsTensor);
    LogicalOr logical_or(a: IntoOperand, b: IntoOperand);
    Maximum maximum(a: IntoOperand, b: IntoOperand);
    Minimum minimum(a: IntoOperand, b: IntoOperand);
    Mul mul(a: IntoOperand, b: IntoOperand);
    Neg neg(x: AsTensor);
    NotEqual not_equal(a: IntoOperand, b: IntoOperand);
    Pow pow(a: IntoOperand, b: IntoOperand);
    ReLU relu(x: AsTensor);
    Rsqrt rsqrt(x: AsTensor);
    Select select(condition: AsTensor, then: IntoOperand, other: IntoOperand);
    Sigmoid sigmoid(x: AsTensor);
    Sign sign(x: AsTensor);
    Sin sin(x: AsTensor);
    Sqrt sqrt(x: AsTensor);
    Square square(x: AsTensor);
    Sub sub(a: IntoOperand, b: IntoOperand);
    Tanh tanh(x: AsTensor);
}

//! The primitives. Each has one file with its shape rule, reference evaluation, derivative, batching rule, lowering
//! rule and samples.

#[cfg(test)]
mod declared_tests;
#[cfg(test)]
mod region_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod view_tests;
pub(crate) mod window;

use super::core::OpDef;
use crate::tensor::Op;

macro_rules! primitives {
    ($($module:ident :: { $($def:ident),* $(,)? };)*) => {
        $(pub(crate) mod $module; pub use $module::*;)*

        /// Every primitive of this crate.
        pub static PRIMITIVES: &[&OpDef] = &[$($(&$module::$def),*),*];
    };
}

/// Whether the result of an op adds or collects elements of several float operands. Such a result does not vanish where
/// only one of them does.
#[doc(hidden)]
pub fn sums_operands(op: Op) -> bool {
    let sums = [
        &ADD,
        &ADD_SLICES,
        &CONCAT,
        &INDEX_ADD,
        &SCATTER,
        &SCATTER_ADD,
        &SCATTER_MAX,
        &SCATTER_MIN,
        &SCATTER_MUL,
        &SCATTER_ND_ADD,
        &SELECT,
        &SLICE_UPDATE,
        &SUB,
    ];
    sums.iter().any(|it| it.op() == op)
}

/// Whether an op has discontinuities although its derivative is not zero.
#[doc(hidden)]
pub fn is_discontinuous(op: Op) -> bool {
    [&FMOD, &REMAINDER].iter().any(|it| it.op() == op)
}

/// Whether an op with a zero derivative intentionally returns constants for gradients, or returns no values.
#[doc(hidden)]
pub fn blocks_gradients(op: Op) -> bool {
    let stops =
        [&ASSERT, &ASSIGN, &CLEAR_FLOAT_STATUS, &GET_FLOAT_STATUS, &crate::ops::LARGEST_FINITE, &PRINT, &STOP_GRADIENT];
    stops.iter().any(|it| it.op() == op)
}

primitives! {
    add_slices::{ ADD_SLICES };
    arg_extrema::{ ARGMAX, ARGMIN };
    arithmetic::{ ABS, ADD, MUL, NEG, SIGN, SQUARE, SUB };
    assertion::{ ASSERT };
    assign::{ ASSIGN };
    avg_pool::{ ADAPTIVE_AVG_POOL, ADAPTIVE_AVG_POOL_GRAD, AVG_POOL, AVG_POOL_GRAD };
    bitwise::{ BITWISE_AND, BITWISE_NOT, BITWISE_OR, BITWISE_XOR, LEFT_SHIFT, RIGHT_SHIFT };
    bounded::{ BOUNDED };
    branch::{ IF };
    broadcast_to::{ BROADCAST_TO };
    call::{ CALL, CALL_NO_INLINE };
    cast::{ CAST };
    class_index::{ CLASS_INDEX };
    class_weights::{ CLASS_WEIGHTS, POSSIBLE_CLASSES };
    comparison::{ EQUAL, GREATER, GREATER_EQUAL, ISFINITE, ISINF, ISNAN, LESS, LESS_EQUAL, NOT_EQUAL };
    concat::{ CONCAT };
    constant::{ CONSTANT };
    contract::{ CONTRACT };
    conv::{ CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD };
    cumulative::{ CUMPROD, CUMSUM };
    custom_vjp::{ CUSTOM_VJP };
    depend::{ DEPEND };
    distribution::{ RANDOM_BERNOULLI, RANDOM_BITS, RANDOM_INTEGERS, RANDOM_NORMAL, RANDOM_UNIFORM };
    division::{ DIV, FLOOR_DIV, FMOD, RECIPROCAL, REMAINDER };
    dynamic_slice::{ DYNAMIC_UPDATE_SLICE };
    erf::{ ERF, ERFC };
    exponential::{ EXP, EXPM1, LOG, LOG1P, RSQRT, SIGMOID, SQRT };
    extrema::{ MAXIMUM, MINIMUM, RELU };
    eye::{ EYE };
    float_status::{ CLEAR_FLOAT_STATUS, GET_FLOAT_STATUS };
    formula::{ FORMULA };
    from_zero::{ FROM_ZERO };
    full::{ FULL };
    gather::{ GATHER, INDEX_ADD };
    gather_nd::{ GATHER_ND, SCATTER_ND_ADD };
    hook_backward::{ HOOK_BACKWARD };
    hyperbolic::{ ACOSH, ASINH, ATANH, COSH, SINH, TANH };
    iota::{ IOTA };
    jvp::{ JVP };
    linspace::{ LINSPACE };
    logical::{ LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, LOGICAL_XOR };
    matmul::{ MATMUL };
    max_pool::{ MAX_POOL, MAX_POOL_GRAD, MAX_POOL_TAKE };
    permute::{ PERMUTE };
    power::{ POW };
    print::{ PRINT };
    recompute::{ RECOMPUTE };
    reduction::{ ALL, ANY, MAX, MIN, PROD, SUM };
    reshape::{ RESHAPE };
    rounding::{ CEIL, FLOOR, ROUND, TRUNC };
    scan::{ SCAN };
    scatter::{ SCATTER, SCATTER_ADD, TAKE_ALONG_AXIS };
    scatter_reduce::{ SCATTER_MAX, SCATTER_MIN, SCATTER_MUL };
    select::{ SELECT };
    size::{ SIZE };
    slice::{ SLICE };
    slice_update::{ SLICE_UPDATE };
    sort::{ SORT, TOPK };
    stop_gradient::{ STOP_GRADIENT };
    tensor_move::{ TENSOR_MOVE };
    trigonometric::{ ACOS, ASIN, ATAN, ATAN2, COS, HYPOT, SIN, TAN };
    value_and_grad::{ VALUE_AND_GRAD };
    vmap::{ VMAP };
    while_loop::{ WHILE };
    windows::{ WINDOWS };
}

//! The primitives: one file each, and compositions of them.
//!
//! Adding an op means adding its file and its name to the list below; everything else
//! (text form, verifier, eager execution, tracing, lowering, generated tests) reads the
//! definition.

#[macro_use]
mod granted;

mod axis;
mod batching;
pub mod body;
mod check;
mod compositions;
mod conv_geometry;
mod conv_lanes;
mod convolution;
mod creation;
mod def;
mod einsum;
pub mod elementwise;
mod evaluate;
#[cfg(test)]
mod generated_tests;
mod handed;
pub mod host;
mod index;
mod interpolate;
pub mod math;
mod message;
mod methods;
mod nn;
mod operand;
mod operators;
mod order;
mod part;
mod philox;
mod pooling;
mod primitive;
pub mod random;
pub mod reference;
#[cfg(test)]
mod region_tests;
mod regions;
mod repeat;
mod rows;
pub mod rules;
mod sample;
mod selection;
mod shape;
mod statistics;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod text;
mod triangle;
#[cfg(test)]
mod view_tests;
mod window;
mod window_runs;

macro_rules! primitives {
    ($($module:ident :: { $($def:ident),* $(,)? };)*) => {
        $(mod $module; pub use $module::*;)*

        /// Every primitive of this crate.
        pub static PRIMITIVES: &[&OpDef] = &[$($(&$module::$def),*),*];
    };
}

primitives! {
    add_slices::{ ADD_SLICES };
    arg_extrema::{ ARGMAX, ARGMIN };
    arithmetic::{ ABS, ADD, MUL, NEG, SIGN, SQUARE, SUB };
    assertion::{ ASSERT };
    assign::{ ASSIGN };
    avg_pool::{ ADAPTIVE_AVG_POOL, ADAPTIVE_AVG_POOL_GRAD, AVG_POOL, AVG_POOL_GRAD };
    bitwise::{ BITWISE_AND, BITWISE_NOT, BITWISE_OR, BITWISE_XOR, LEFT_SHIFT, RIGHT_SHIFT };
    branch::{ IF };
    broadcast_to::{ BROADCAST_TO };
    call::{ CALL, CALL_NO_INLINE };
    cast::{ CAST };
    class_index::{ CLASS_INDEX };
    comparison::{ EQUAL, GREATER, GREATER_EQUAL, ISFINITE, ISINF, ISNAN, LESS, LESS_EQUAL, NOT_EQUAL };
    concat::{ CONCAT };
    constant::{ CONSTANT };
    conv::{ CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD };
    cumulative::{ CUMPROD, CUMSUM };
    custom_vjp::{ CUSTOM_VJP };
    depend::{ DEPEND };
    distribution::{ RANDOM_BERNOULLI, RANDOM_BITS, RANDOM_INTEGERS, RANDOM_NORMAL, RANDOM_UNIFORM };
    division::{ DIV, FLOOR_DIV, FMOD, RECIPROCAL, REMAINDER };
    erf::{ ERF, ERFC };
    exponential::{ EXP, EXPM1, LOG, LOG1P, RSQRT, SIGMOID, SQRT };
    extrema::{ MAXIMUM, MINIMUM, RELU };
    eye::{ EYE };
    float_status::{ CLEAR_FLOAT_STATUS, GET_FLOAT_STATUS };
    full::{ FULL };
    gather::{ GATHER, INDEX_ADD };
    gather_nd::{ GATHER_ND, SCATTER_ND_ADD };
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
    select::{ SELECT };
    size::{ SIZE };
    slice::{ SLICE };
    slice_update::{ SLICE_UPDATE };
    sort::{ SORT };
    stop_gradient::{ STOP_GRADIENT };
    tensor_move::{ TENSOR_MOVE };
    trigonometric::{ ACOS, ASIN, ATAN, ATAN2, COS, HYPOT, SIN, TAN };
    value_and_grad::{ VALUE_AND_GRAD };
    vmap::{ VMAP };
    while_loop::{ WHILE };
}

pub use axis::{IntoAxes, ReduceAxes, normalize_axes, normalize_axis};
pub use batching::{Batching, Lanes, batch};
pub use check::{fits, infer, verify, verify_one};
pub use compositions::*;
pub use convolution::*;
pub use creation::*;
pub use def::{Arrays, Cotangents, Derivative, Lowering, OpDef, ReduceRule, RegionRule, Regions, Types, Vjp};
pub use einsum::einsum;
pub use elementwise::Domain;
pub use evaluate::{evaluate_graph, evaluate_node};
pub(crate) use handed::{hand_on, handed_type, take_over};
pub use interpolate::{Interpolation, interpolate};
pub use message::{Show, Shown};
pub use nn::*;
pub use operand::{IntoOperand, Operand, common_dtype, operands};
pub use order::order;
pub use part::Part;
pub use pooling::PoolOptions;
pub use primitive::*;
pub use repeat::*;
pub use rows::Rows;
pub use sample::{Sample, SampleInput};
pub use selection::*;
pub use shape::*;
pub use statistics::*;
pub use text::parse_graph;
pub use triangle::{diag, masked_fill, tril, triu};
pub use window::{PerAxis, Window};
pub use window_runs::{Run, Windows};

use crate::tensor::Op;
use std::sync::OnceLock;

/// The definition behind an op.
#[inline]
pub fn definition(op: Op) -> &'static OpDef {
    by_number(op.number()).expect("every op that is applied is listed in `PRIMITIVES`")
}

/// The definition of a stable number.
#[inline]
pub fn by_number(number: u16) -> Option<&'static OpDef> {
    static TABLE: OnceLock<Vec<Option<&'static OpDef>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let last = PRIMITIVES.iter().map(|it| it.info.number).max().unwrap_or(0);
        let mut table = vec![None; last as usize + 1];
        for def in PRIMITIVES {
            let slot = &mut table[def.info.number as usize];
            assert!(slot.is_none(), "op number {} is used twice", def.info.number);
            *slot = Some(*def);
        }
        table
    });
    table.get(number as usize).copied().flatten()
}

/// The definition of a name.
pub fn by_name(name: &str) -> Option<&'static OpDef> {
    PRIMITIVES.iter().find(|it| it.info.name == name).copied()
}

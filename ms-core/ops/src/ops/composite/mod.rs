//! Ops composed of primitives. Composites are also nodes of graphs. Composed functions appear in graphs as the ops that
//! they apply.

use super::core::OpDef;

macro_rules! composites {
    ($($module:ident :: { $($def:ident),* $(,)? };)*) => {
        /// Every composite of this crate.
        pub static COMPOSITES: &[&OpDef] = &[$($(&$module::$def),*),*];
    };
}

mod adaptive_pool;
mod arithmetic;
pub(crate) mod convolution;
mod creation;
mod einsum;
mod interpolate;
mod largest;
pub(crate) mod nn;
mod quantize;
mod repeat;
mod segment;
mod selection;
pub(in crate::ops) mod shape;
mod statistics;
pub(crate) mod triangle;
mod update;

pub use crate::tensor::NewShape;
pub use adaptive_pool::adaptive_max_pool;
pub use arithmetic::*;
pub use convolution::*;
pub use creation::*;
pub use einsum::einsum;
pub use interpolate::{Interpolation, interpolate};
pub use largest::LARGEST_FINITE;
pub use nn::*;
pub use quantize::{DEQUANTIZE, QUANTIZE, dequantize, fake_quantize, quantize};
pub use repeat::*;
pub use segment::*;
pub use selection::*;
pub use shape::*;
pub use statistics::*;
pub use triangle::{diag, masked_fill, tril, triu};
pub use update::{ADAM_UPDATE, AdamUpdate, Decay, MOMENTUM_UPDATE, momentum_update};

composites! {
    convolution::{ CONV_BIAS };
    largest::{ LARGEST_FINITE };
    nn::{
        BATCH_NORM, BLOCKED_ATTENTION, BLOCKED_ATTENTION_GRAD, CROSS_ENTROPY, DENSE, EMBEDDING, GELU, GELU_TANH,
        GROUP_NORM, GRU_CELL, INSTANCE_NORM, LAYER_NORM, LOG_SOFTMAX, LSTM_CELL, NLL_LOSS, RMS_NORM,
        SCALED_DOT_PRODUCT_ATTENTION, SOFTMAX,
    };
    quantize::{ DEQUANTIZE, QUANTIZE };
    update::{ ADAM_UPDATE, MOMENTUM_UPDATE };
}

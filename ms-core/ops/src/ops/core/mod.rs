//! The definition of ops, and their shared code.

#[macro_use]
mod attributes;
#[macro_use]
pub(crate) mod composite;
#[macro_use]
mod poison;
#[macro_use]
pub(crate) mod wide;

pub(crate) mod axis;
mod batching;
mod check;
pub(in crate::ops) mod checked;
mod control;
mod def;
mod effects;
pub mod elementwise;
pub(crate) mod evaluate;
pub(crate) mod factors;
mod float_encoding;
mod flops;
pub mod formulas;
#[cfg(test)]
mod generated_tests;
pub mod host;
mod images;
#[cfg(test)]
mod math_tests;
pub(crate) mod message;
pub(crate) mod operand;
pub(crate) mod order;
mod part;
pub(crate) mod philox;
pub mod reference;
pub(crate) mod regions;
pub mod rules;
mod sample;
#[doc(hidden)]
pub mod testing;
mod text;

pub use attributes::{Attribute, Extent, Extents, Ints};
pub use axis::{AxisAttrs, IntoAxes, Keepdims, ReduceAxes, keepdims, normalize_axes, normalize_axis};
pub use batching::{BatchedCall, Batching, batch};
pub use check::{fits, infer, operand_counts, verify, verify_one};
pub(crate) use composite::evaluate_body_of;
pub use composite::{Body, apply_body};
pub use control::{Control, Loop, TransformNode, Trips};
pub use def::{
    Arrays, Cotangents, Derivative, Lowering, OpDef, ReduceRule, RegionRule, Regions, SliceRule, Slices, Types, Vjp,
};
pub use effects::{Effects, has_effect};
pub use elementwise::Domain;
pub use evaluate::{evaluate_graph, evaluate_node};
#[doc(hidden)]
pub use float_encoding::{decode_floats, encode_as_floats, encoded_type};
pub use flops::flops;
#[doc(hidden)]
pub use flops::has_product;
pub use images::{AxisOrder, ConvGeometry, ConvResult, ImageForm, ImageRule};
pub use message::{Show, Shown};
pub use operand::{IntoOperand, Operand, common_dtype, operands};
pub use order::order;
pub use part::Part;
pub use sample::{Sample, SampleInput};
pub use text::parse_graph;

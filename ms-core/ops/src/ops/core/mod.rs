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
#[cfg(test)]
mod check_tests;
pub(in crate::ops) mod checked;
pub mod elementwise;
pub(crate) mod factors;
mod float_encoding;
pub mod formulas;
#[cfg(test)]
mod generated_tests;
pub mod host;
pub(in crate::ops) mod indices;
#[cfg(test)]
mod math_tests;
pub(crate) mod message;
pub(crate) mod operand;
pub(crate) mod order;
mod partial_gradient;
pub(crate) mod philox;
pub mod reference;
pub(crate) mod regions;
pub mod rules;
mod signs;
#[doc(hidden)]
pub mod testing;
mod text;
mod transforms;

pub use attributes::{Attribute, Extent, Extents, Ints};
pub use axis::{AxisAttrs, IntoAxes, Keepdims, ReduceAxes, keepdims, normalize_axes, normalize_axis};
pub use batching::{BatchedCall, Batching, batch};
pub(crate) use composite::evaluate_body_of;
pub use composite::{Body, apply_body};
pub use elementwise::Domain;
#[doc(hidden)]
pub use float_encoding::{decode_floats, encode_as_floats, encoded_type};
pub use message::{Show, Shown};
pub use operand::{IntoOperand, Operand, common_dtype, operands};
pub use order::order;
pub use partial_gradient::PartialGradient;
pub use text::parse_graph;
pub use transforms::{Cotangents, Derivative, ImageBody, OpBody, TransformRules, Vjp, transform_rules};

#[doc(hidden)]
pub use ms_ir::op::has_product;
pub use ms_ir::op::{
    Arrays, AxisOrder, CheckRule, CompositeRule, Control, ConvGeometry, ConvResult, CustomVjp, Effects, Lane, Loop,
    Lowering, OpDef, ReduceRule, Refused, RegionRule, Regions, Sample, SampleInput, SliceRule, Slices, SpatialForm,
    SpatialRule, TransformNode, TripCount, Types, by_name, by_number, definition, definitions, evaluate_graph,
    evaluate_node, fits, flops, has_effect, infer, operand_counts, verify, verify_one,
};
pub use ms_ir::{body, math};

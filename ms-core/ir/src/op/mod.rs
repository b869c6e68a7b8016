//! The half of an op's definition that the compiler reads: types, reference evaluation, effects, lowering and samples.
//!
//! **Invariant:** nothing here names `Tensor`. The crate that defines the ops registers them as a [`Dialect`], and adds
//! the rules of transforms to their definitions.

mod check;
mod control;
mod def;
mod dialect;
mod effects;
mod evaluate;
mod flops;
mod images;
mod nodes;
mod run_time_check;
mod sample;
mod window;

pub use check::{fits, infer, operand_counts, results, verify, verify_one};
pub use control::{Control, CustomVjp, Lane, Loop, TransformNode, TripCount};
pub use def::{
    Arrays, CheckRule, CompositeRule, Lowering, OpDef, ReduceRule, Refused, RegionRule, Regions, SliceRule, Slices,
    Types,
};
pub use dialect::{Dialect, RegisteredDialect, by_name, by_number, definition, definitions, dialect};
pub use effects::Effects;
pub use evaluate::{evaluate_graph, evaluate_node};
pub use flops::flops;
#[doc(hidden)]
pub use flops::has_product;
pub use images::{AxisOrder, ConvGeometry, ConvResult, SpatialForm, SpatialRule};
pub use nodes::has_effect;
pub use run_time_check::NONE_REFUSED;
pub use sample::{Sample, SampleInput};
pub use window::Window;

//! Data of the `ms` compiler: errors, environment variables, arrays on devices, graphs of tensor ops, and kernels of
//! scalar instructions.
//!
//! **Invariant:** this crate names no op, no `Tensor` and no device.

#![cfg_attr(ms_sanitize, feature(sanitize))]

pub mod data;
pub mod environment;
pub mod error;
pub mod stored;
#[doc(hidden)]
pub mod testing;
pub mod text;

mod canonical;
mod contraction;
mod dot;
mod graph;
mod html;
mod kernel;
mod map_vec;
mod math;
mod memo;
mod precision;
#[cfg(test)]
mod random;
mod rewrite;
mod sizes;
mod verify;
mod walk;

pub use canonical::{canonical_bytes, shallow_bytes};
pub use contraction::{Contraction, ContractionAxes, ContractionAxis, ContractionRanks, ContractionTypes};
pub use data::{DType, Dim, Dims, Type};
pub use dot::to_dot;
pub use error::{Code, Error, Result, catch};
pub use graph::{Def, Graph, Node, NodeId, ValueData, ValueId};
pub use html::to_html;
pub use kernel::{
    BinaryOp, Compare, Inst, Kernel, KernelBuilder, LaneAxis, LoopWords, NamedKernel, Param, ParamId, Reducer,
    ReductionOrder, Role, Scope, Sign, Stage, StrideClass, UnaryOp, Val, run_multiple,
};
pub use map_vec::MapVec;
pub use math::Math;
#[doc(hidden)]
pub use memo::Memo;
pub use precision::Precision;
pub use rewrite::{Rewriter, Values, rewrite};
pub use text::parse;
pub use verify::{defects, verify_structure, verify_structure_of_one};
pub use walk::{GraphSize, count_nodes, rewrite_inside_out, subgraphs};

/// The hash of the sources of this crate, which is a part of the keys of the compile cache.
pub const SOURCES: &str = env!("MS_IR_SOURCES");

inventory::submit! { error::LibrarySource::Compiler(file!()) }

//! Data of the `ms` compiler: errors, environment variables, arrays on devices, graphs of tensor ops, kernels of scalar
//! instructions, and what the compiler reads of an op.
//!
//! Modules in order: [`error`], [`environment`], [`data`]. The others are one room: graphs, kernels, their text and
//! their stored form, and the compiler's half of an op's definition ([`op`]).
//!
//! **Invariant:** Nothing here names an op or `Tensor`. Tests: `ops_are_named_in_ops_and_in_the_listed_files` and
//! `the_compiler_names_no_tensor` in `tests/architecture/main.rs`.
//!
//! **Invariant:** Nothing here names a backend. Test: `the_core_names_no_backend` in `tests/architecture/main.rs`.
//!
//! **Invariant:** Files form no circle of imports. Test: `files_form_no_new_circle` in `tests/architecture/circles.rs`.
//!
//! **Invariant:** The verifier collects all defects of a graph, not only the first. Test: `all_defects_are_listed` in
//! `verify.rs`.
//!
//! **Invariant:** Canonical bytes survive the text form. Test: `random_graphs_keep_their_bytes_through_text` in
//! `canonical.rs`.
//!
//! **Invariant:** Truncated and invalid bytes read as `None`. Tests: `what_is_written_is_read` and
//! `other_bytes_are_no_value` in `stored/mod.rs`.
//!
//! **Invariant:** The host never dereferences a device address. Test: `the_host_cannot_access_the_memory` in
//! `ms-backends/sim/tests/device.rs`.

#![cfg_attr(ms_sanitize, feature(sanitize))]

pub mod body;
pub mod data;
pub mod environment;
pub mod error;
pub mod math;
pub mod op;
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
mod launch;
mod map_vec;
mod memo;
mod pairwise;
mod positions;
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
    BinaryOp, Compare, Inst, Kernel, KernelBuilder, LaneAxis, LoopArguments, NamedKernel, Param, ParamId, Reducer,
    ReductionOrder, Role, Scope, Sign, Stage, StrideClass, UnaryOp, Val, run_multiple,
};
pub use launch::{KernelLaunch, KernelView, StepCode, StepOperand, TileArguments};
pub use map_vec::MapVec;
pub use math::Math;
#[doc(hidden)]
pub use memo::Memo;
pub use pairwise::{CHUNK, PairwiseTree};
pub use positions::positions;
pub use precision::Precision;
pub use rewrite::{Rewriter, Values, rewrite};
pub use text::parse;
pub use verify::{defects, verify_structure, verify_structure_of_one};
pub use walk::{GraphSize, count_nodes, rewrite_inside_out, subgraphs};

/// The hash of the sources of this crate, which is a part of the keys of the compile cache.
pub const SOURCES: &str = env!("MS_IR_SOURCES");

inventory::submit! { error::LibrarySource::Compiler(file!()) }

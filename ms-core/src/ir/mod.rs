//! Defines the two representations of the compiler: graphs of tensor ops, and kernels of scalar ones.

mod canonical;
mod contraction;
mod dot;
mod graph;
mod html;
mod kernel;
mod math;
mod memo;
mod precision;
#[cfg(test)]
mod random;
mod rewrite;
mod sizes;
#[doc(hidden)]
pub mod testing;
pub mod text;
mod verify;
mod walk;

pub use crate::tensor::{Dim, Dims, Type};
pub use canonical::{canonical_bytes, shallow_bytes};
pub use contraction::{Contraction, ContractionAxes, ContractionAxis, ContractionRanks, ContractionTypes};
pub use dot::to_dot;
pub use graph::{Def, Graph, Node, NodeId, ValueData, ValueId};
pub use html::to_html;
pub use kernel::{
    BinaryOp, Compare, Inst, Kernel, KernelBuilder, LaneAxis, LoopWords, NamedKernel, Param, ParamId, Reducer,
    ReductionOrder, Role, Scope, Sign, Stage, StrideClass, UnaryOp, Val, run_multiple,
};
pub use math::Math;
pub(crate) use memo::Memo;
pub use precision::Precision;
pub use rewrite::{Rewriter, Values, rewrite};
pub use text::parse;
pub use verify::{defects, verify_structure, verify_structure_of_one};
pub use walk::{GraphSize, count_nodes, rewrite_inside_out, subgraphs};

//! The two representations of the compiler: graphs of tensor ops, and kernels of scalar ones.

mod graph;
mod kernel;
#[cfg(test)]
mod random;
pub mod text;
mod walk;

pub use crate::tensor::{Dim, Dims, Type};
pub use graph::{Def, Graph, Node, NodeId, ValueData, ValueId};
pub use kernel::{
    BinaryOp, Compare, Inst, Kernel, KernelBuilder, Lanes, Param, ParamId, Reducer, Role, Scope, Stage, Step, UnaryOp,
    Val, virtual_lanes,
};
pub use text::parse;
pub use walk::subgraphs;

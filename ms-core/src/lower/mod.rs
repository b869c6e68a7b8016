//! From a graph to a [`Plan`]: fusion groups, kernels, layouts, memory.

pub mod nest;
mod plan;
pub mod single;

pub use plan::{Argument, Buffer, BufferId, KernelId, Place, Plan, PlanStep, View};

//! From a graph to a [`Plan`]: fusion groups, kernels, layouts, memory.

mod plan;

pub use plan::{Argument, Buffer, BufferId, KernelId, Place, Plan, PlanStep, View};

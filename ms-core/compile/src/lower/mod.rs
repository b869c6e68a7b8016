//! Lowers a graph to a [`Plan`]: fusion groups, kernels, layouts, memory.
//!
//! [`lower`] (`pipeline`) runs these passes in order:
//!
//! - `flatten` makes a `flat` graph of ops without views.
//! - `distribute` and `sink` move elementwise ops through slices and views.
//! - `group` forms fusion groups over the axes of a `domain`, by the costs of a `body`.
//! - `slices` makes kernels write the slices of the values that consist of them.
//! - `epilogue` attaches groups to contractions.
//! - `stage`, `emit` and `simplify` build the kernels, one for groups of equal `structure`.
//! - `draft` and `schedule` order the steps.
//! - `horizontal` fuses independent kernels into one step.
//! - `reuse`, `memory` and `assemble` lay out memory.
//!
//! Regions of nodes become routines of the same plan (`iteration`, `routines`), before the graphs whose nodes run them.
//! A small `while` is a kernel (`repeat`). Everything that depends on the processor is in its
//! [`Target`](crate::target::Target). Eager execution builds kernels of single ops ([`eager`])
//! over the same loops ([`nest`]).

mod fusion;
mod pipeline;
mod plan;
mod rewrites;

pub mod eager;

pub use fusion::nest;
pub use pipeline::{LowerOptions, lower, lower_traced};
pub use plan::locations::{
    Exhausted, composite_of_node, fail_at_same_locations, function_of_node, have_same_locations, line_of_node,
    location_of_failure, node_of_memory,
};
pub use plan::routines::PlanNames;
pub use plan::{
    Argument, Buffer, BufferId, BufferLocation, Carry, ContractionResult, ContractionStep, Epilogue, EpilogueLoops,
    IndexedAxis, KernelCall, KernelId, Loop, NextCarry, Plan, PlanOp, PlanStep, Repeat, Reuse, Routine, RoutineId,
    STACK_BYTES, Span, View, image_axes, is_stack, value_bytes,
};

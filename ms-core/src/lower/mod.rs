//! From a graph to a [`Plan`]: fusion groups, kernels, layouts, memory.
//!
//! [`lower`] goes from the graph to ops without views (`flatten`), moves elementwise ops
//! through views (`sink`), forms fusion groups (`group`, over the axes of a `domain`), makes the
//! kernel of each (`stage`, `emit`, `simplify`), and lays out memory (`memory`, `assemble`,
//! `reuse`).
//! Graphs of nodes become routines of the same plan (`region`, `routines`).
//! Eager execution makes kernels of one op each ([`single`]) over the same loops ([`nest`]).

mod assemble;
mod display;
mod domain;
mod emit;
mod flatten;
mod group;
mod lines;
mod memory;
pub mod nest;
mod plan;
mod region;
mod reuse;
mod routines;
mod simplify;
pub mod single;
mod sink;
mod stage;
mod stored;

pub use assemble::{LowerOptions, lower, lower_traced};
pub use lines::{line_of_node, refuse_at_the_same_lines};
pub use plan::{
    Argument, Buffer, BufferId, Carry, KernelId, Loop, NextCarry, Place, Plan, PlanStep, Repeat, Routine, RoutineId,
    STACK_BYTES, Span, View, is_stack, value_bytes,
};
pub use reuse::Reuse;

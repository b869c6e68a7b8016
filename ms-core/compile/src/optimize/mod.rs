//! Optimises graphs: passes that make a graph smaller or faster.
//!
//! Nodes depend on their operands only: ordered effects (writes, prints, random numbers) take and return a state. So
//! equal nodes may be merged and unused ones removed regardless of effects. A node without results stays, because it
//! exists for its effect. All ranks run the same passes, so the same holds for collectives. Starts are not
//! merged, because exactly one node completes each ([`Effects::PENDING`](ms_ir::op::Effects::PENDING)).
//!
//! Transforms must be expanded first. In a graph that is still to be differentiated, gradients are added in a certain
//! order, and some ops are meaningful to derivatives only.
//!
//! In strict precision the results are bit-identical, except for the payloads of NaNs, which also depend on the
//! machine. In relaxed precisions they are too, except for sums that `LoopProducts` moves out of loops.

mod branches;
mod constant_folding;
mod cse;
mod dce;
mod dead_arguments;
mod inline;
mod inline_custom;
mod licm;
mod manager;
mod pass;
mod uniform;

pub use branches::Branches;
pub use constant_folding::ConstantFolding;
pub use cse::Cse;
pub use dce::Dce;
pub use dead_arguments::DeadArguments;
pub use inline::Inline;
pub use inline_custom::InlineCustom;
pub use licm::Licm;
pub use manager::{Watch, inline_all, optimize_with, run_passes};
pub use pass::{Pass, PassContext, PassStatistics, Report};
#[doc(hidden)]
pub use uniform::Uniform;

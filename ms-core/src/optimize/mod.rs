//! Graph to graph: passes that make a graph smaller and never change a bit of its results.
//!
//! Nodes compute from their operands and nothing else: what has an order — writes, prints,
//! random numbers — takes and gives a state. So equal nodes may be merged and unused ones
//! dropped without asking what they do; a node without results stays, for it is there for
//! what it does.
//!
//! Transforms are expanded before: what is still to be differentiated has an order in which
//! gradients are added, and holds ops that only mean something to them.
//!
//! In every precision mode the results keep their bits; only which nan a nan is stays open,
//! as it does on the machines that compute them.

mod algebra;
mod branches;
mod constant_folding;
mod cse;
mod dce;
mod dead_arguments;
mod inline;
mod inline_custom;
mod licm;
mod pass;
mod pipeline;
mod uniform;
mod views;

pub use algebra::Algebra;
pub use branches::Branches;
pub use constant_folding::ConstantFolding;
pub use cse::Cse;
pub use dce::Dce;
pub use dead_arguments::DeadArguments;
pub use inline::Inline;
pub use inline_custom::InlineCustom;
pub use licm::Licm;
pub use pass::{Pass, PassContext, PassStatistics, Report};
pub use pipeline::{PASSES, Watch, inline_all, optimize, optimize_watched, optimize_with, pass_by_name};
pub use views::Views;

//! Graph to graph: derivatives.

mod expand;
mod reverse;
mod sizes;
mod vmap;

pub use expand::expand;
pub use reverse::{Differentiated, Gradients, Pullback, RuleEntry, Slot, differentiate, pull_all, value_and_grad};
pub use sizes::with_sizes;
pub use vmap::vmap;

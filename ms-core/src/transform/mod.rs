//! Graph to graph: derivatives.

mod expand;
mod reverse;
mod vmap;

pub use expand::expand;
pub use reverse::{Differentiated, Gradients, Pullback, RuleEntry, Slot, differentiate, pull_all, value_and_grad};
pub use vmap::vmap;

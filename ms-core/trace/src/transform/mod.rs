//! Transforms graphs to graphs: derivatives and `vmap`.

mod activity;
mod composite;
mod custom;
mod emit;
mod expand;
mod forward;
mod linear;
mod loops;
mod reads;
mod regions;
mod reverse;
mod sizes;
mod split;
mod stacks;
mod steps;
mod tape;
#[cfg(test)]
mod tests;
mod vanishing;
mod vmap;

pub use composite::{expand_composites, expand_own_composites};
pub use expand::expand;
pub use forward::jvp;
pub use linear::{is_linear, push_rule};
pub use reverse::{Differentiated, differentiate, reached, value_and_grad};
pub use sizes::{has_small_axis, is_decided, specialized, with_sizes};
pub use split::Residual;
pub use steps::{StepFunction, hiding};
pub use tape::{Gradients, RuleEntry, Slot, TapeEntry, pull_all};
pub use vmap::vmap;

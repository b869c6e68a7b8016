//! Ops that programs define: `custom_op!` of the facade declares one, which is a function of the host, with a type
//! rule, and optionally a derivative and a batching rule.
//!
//! A declaration is registered when the program is linked. Its number is valid in one process; what is stored names
//! it by its path and a hash of its source, so that code that changed is never mistaken for what was stored, and an
//! op that another program declares is not found.

mod call;
mod derivative;
pub mod kernel;
mod registry;
mod view;

pub use call::{AttributeValue, FromResults, IntoTypes, Outcome, apply, attribute, evaluate, infer, operand, result};
pub use derivative::{Gradients, gradients};
pub use registry::{Declaration, Registered, Rules, by_name, by_number, by_source, has_unversioned};
pub use view::{AnyView, AnyViewMut, OperandView, ResultView, View, ViewMut};

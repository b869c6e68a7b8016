//! Ops that programs define. `custom_op!` of the facade declares an op by a host function and a type rule, and
//! optionally a derivative and a batching rule.
//!
//! A declaration is registered when the program is linked. Its number is valid in one process only. Stored data names
//! the op by its path and a hash of its source. Data stored by changed code, or with an op of another program, is
//! therefore not matched.

mod call;
mod derivative;
pub mod kernel;
mod registry;
mod view;

pub use call::{AttributeValue, FromResults, IntoTypes, Outcome, apply, attribute, evaluate, infer, operand, result};
pub use derivative::{Gradients, gradients};
pub use registry::{Declaration, Registered, Rules, by_name, by_number, by_source, has_unversioned};
pub use view::{AnyView, AnyViewMut, OperandView, ResultView, View, ViewMut};

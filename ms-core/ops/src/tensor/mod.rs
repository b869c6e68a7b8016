//! Tensors that are arrays or traced values, parameters, and the [`Dispatcher`] through which every op is applied.

mod as_tensor;
mod dispatch;
mod elements;
mod escape;
mod hints;
mod index;
#[cfg(feature = "ndarray")]
mod ndarray;
mod nested;
mod parameter;
mod place;
mod print;
mod scope;
#[allow(clippy::module_inception)]
mod tensor;
mod traced;

pub use as_tensor::AsTensor;
pub use dispatch::{
    DispatchMode, Dispatcher, EagerDispatcher, Eagerly, OpCall, Outputs, Scan, apply, apply1, current_dispatcher,
    dispatch_mode, dispatcher, eager, first_poisoned, refused, with_dispatcher,
};
pub use escape::{escaped, leaked_from_region};
pub use hints::{ComparedByMethodsSuchAsLt, InBrackets};
pub use index::{Ellipsis, Index, IntoIndex, IntoIndices, NewAxis, Selection, Stepped, WithStep};
pub use ms_ir::data::*;
pub use nested::Suffixes;
pub use parameter::{
    Created, Dependent, Gathered, Parameter, Role, SlotId, TakenSlot, WeakParameter, is_outside_functions,
    outside_functions, with_created,
};
pub use scope::{LiveTrace, close_scope, open_scope, outside_scopes};
#[doc(hidden)]
pub use tensor::HeldIdentity;
pub use tensor::{Tensor, Value};
pub use traced::Traced;

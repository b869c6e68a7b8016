//! Call sites, eager execution, the tape, gradients, settings: the only module that sees all the
//! others.

mod call;
mod compiled;
mod context;
mod eager;
mod functions;
mod grad;
mod grad_operation;
mod jit;
mod quick;
mod signature;
mod sized;
mod specialise;
mod tape;
mod variation;

pub use call::{Call, Entered, JitFn, JitReturn};
pub use compiled::{Compiled, Derivative};
pub use context::{Context, Mode, Precision, context, set_context, with_context};
pub use functions::retrace;
pub use grad::{Differentiable, Function, Gradients, Transformed, Wrt, differentiate, grad, value_and_grad};
pub use grad_operation::{FunctionOfAll, GradOfAll, GradOperation};
pub use jit::{Jittable, jit};
pub use signature::{Signature, TypeKey, type_key};
pub use tape::Tape;

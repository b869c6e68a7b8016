//! Call sites, eager execution, the tape, gradients, settings: the only module that sees all the
//! others.

mod anew;
mod build_id;
mod call;
mod compiled;
mod context;
mod custom;
mod derived;
mod differentiable;
mod disk;
mod dump;
mod eager;
mod functions;
#[doc(hidden)]
pub mod fuzzing;
mod grad;
mod grad_operation;
mod jacobian;
mod jit;
mod linearize;
mod place;
mod pure;
mod quick;
mod recent;
mod record;
mod report;
mod select;

mod sized;
mod source;
mod specialise;
mod tape;
mod variation;
mod vmap;
mod weight;

pub use crate::trace::{TypeKey, type_key};
pub use call::{Call, Entered, JitFn, JitReturn};
pub use compiled::{Compiled, Derivative};
pub use context::{Context, Mode, Precision, context, set_context, with_context};
pub use custom::{Recompute, WithVjp, custom_vjp, recompute};
pub use derived::{Derived, Mode as DerivativeMode};
pub use differentiable::{Differentiable, Gradients, Wrt};
pub use disk::{CacheUse, cache_options, cache_path, cache_use, flush_cache};
pub use functions::retrace;
pub use grad::{Grad, Gradient, OnlyGradient, Outcome, WithAux, WithValue, grad, value_and_grad};
pub use grad_operation::{GradOperation, GradWithSens, Weighted};
pub use jacobian::{ByColumns, ByRows, Hessian, Jacobian, hessian, jacfwd, jacrev};
pub use jit::{Jit, jit};
pub use linearize::{Jvp, Linear, Linearize, Pullback, Pushforward, Vjp, jvp, linearize, vjp};
pub use place::Site;
pub use report::{CompileReport, GraphReport, PlanReport, StageReport, compile_report};
pub use select::{All, Select};
pub use tape::Tape;
pub use vmap::{Axes, IntoLanes, Member, Vmap, vmap, vmap_cells};

//! Implements call sites, eager execution, the tape, gradients and settings. It is the only module that uses all the
//! others.

mod autodiff;
mod cache;
mod call;
mod context;
mod devices;
mod dump;
mod eager;
mod function;
mod profile;
mod report;
mod vmap;

pub use autodiff::*;
#[doc(hidden)]
pub use cache::fuzzing;
pub use cache::{CacheUse, Site, cache_options, cache_path, cache_use, flush_cache};
pub use call::{
    Call, CallObserver, Compiled, Derivative, Entered, Exported, InputSpec, Jit, JitFn, JitReturn, ReplaceTensors,
    captures_nothing, export, jit, observe_calls, retrace,
};
pub use context::{Context, Mode, context, set_context, with_context};
pub use function::{Arguments, At, Followed, Function, Nth, TracedArguments, Transform, Transformed};
pub use ms_compile::exec::{KernelCopy, PlanReport, Record, Roof, Work};
pub use ms_ir::Precision;
pub use ms_trace::trace::{Differentiable, Gradients, TypeKey, Wrt, type_key};
pub use profile::{Profile, profile, roof};
pub use report::{CompileReport, GraphReport, SlotReport, StageReport, compile_report};
pub use vmap::{Axes, IntoLanes, Member, Vmap, vmap, vmap_cells};

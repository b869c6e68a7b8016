//! `ms`: one Rust source, run eagerly or compiled.

extern crate self as ms;

#[doc(hidden)]
#[path = "rt.rs"]
pub mod __rt;
pub mod amp;
pub mod custom;
pub mod data;
#[cfg(feature = "fft")]
pub mod fft;
pub mod internals;
pub mod io;
pub mod kernel;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod prelude;
mod print;
#[cfg(any(feature = "fft", feature = "linalg"))]
mod reals;
mod statics;
pub mod train;

pub use io::{LoadOptions, LoadReport, StateDict, Stateful, export, load_checkpoint, save_checkpoint};
pub use ms_core::effects::Level;
pub use ms_core::exec::Waits;
pub use ms_core::random;
pub use ms_core::session::{
    All, CacheUse, CompileReport, Context, GradOperation, Gradients, GraphReport, KernelCopy, Mode, PlanReport,
    Precision, Profile, Record, Roof, SlotReport, StageReport, Work, cache_options, cache_path, cache_use,
    compile_report, context, custom_jvp, custom_vjp, custom_vjp_with_residuals, flush_cache, grad, hessian, jacfwd,
    jacrev, jit, jvp, linearize, profile, recompute, retrace, roof, set_context, value_and_grad, vjp, vmap, vmap_cells,
    with_context,
};
pub use ms_core::trace::{
    Apply, Arg, At, Cell, Frozen, HookHandle, Hooks, Layer, Marked, Name, Sink, Training, Tree, Value,
};
pub use ms_core::trace::{HyperMap, Map, MultitypeFuncGraph, Range, range};
pub use ms_core::{Code, DType, Error, Parameter, Result, Tensor, catch, error, synchronize, tensor};
pub use ms_macros::{Static, Tree, cell, custom_op, jit, jit_class, kernel, lazy_inline, no_inline};
/// `jit!(|x: &Tensor| ..)`: [`jit`](fn@jit) for a closure whose body is annotated code.
///
/// ```
/// use ms::{closure::jit, prelude::*};
/// let clip = jit!(|x: &Tensor| if x > 1.0 { Tensor::scalar(1.0) } else { x.clone() });
/// # let _ = clip;
/// ```
pub mod closure {
    pub use ms_macros::jit_closure as jit;
}

inventory::submit! { ms_core::error::LibrarySource(file!()) }

// Linked for the backend that it registers.
use ms_cpu as _;

/// The pages whose programs compile and run unchanged.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/by_task.md")]
    mod by_task {}
    #[doc = include_str!("../docs/custom_ops.md")]
    mod custom_ops {}
    #[doc = include_str!("../docs/data.md")]
    mod data {}
    #[doc = include_str!("../docs/debugging.md")]
    mod debugging {}
    #[doc = include_str!("../docs/deployment.md")]
    mod deployment {}
    #[doc = include_str!("../docs/effects.md")]
    mod effects {}
    #[doc = include_str!("../docs/from_mindspore.md")]
    mod from_mindspore {}
    #[doc = include_str!("../docs/from_pytorch.md")]
    mod from_pytorch {}
    #[doc = include_str!("../docs/getting_started.md")]
    mod getting_started {}
    #[doc = include_str!("../docs/how_it_works.md")]
    mod how_it_works {}
    #[doc = include_str!("../docs/importing_weights.md")]
    mod importing_weights {}
    #[doc = include_str!("../docs/layers.md")]
    mod layers {}
    #[doc = include_str!("../docs/mixed_precision.md")]
    mod mixed_precision {}
    #[doc = include_str!("../docs/performance.md")]
    mod performance {}
    #[doc = include_str!("../docs/platforms.md")]
    mod platforms {}
    #[doc = include_str!("../docs/recurrences.md")]
    mod recurrences {}
    #[doc = include_str!("../docs/tensors.md")]
    mod tensors {}
    #[doc = include_str!("../docs/training.md")]
    mod training {}
}

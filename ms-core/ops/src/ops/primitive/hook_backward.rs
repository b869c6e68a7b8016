//! `hook_backward`: a host function that receives a gradient during the backward pass.

use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{AsTensor, DispatchMode, OpInfo, Tensor, apply1, dispatch_mode};
use ms_ir::error::{Code, Error, raise};
use rustc_hash::FxHashMap;
use smallvec::smallvec;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};

attributes! {
    /// The attributes of [`HOOK_BACKWARD`].
    struct HookAttrs {
        /// The number of the hook; zero for none.
        hook: i64,
    }
}

/// Returns the operand. The operand's gradient is the result of a [`GradientHook`] on the gradient of the result. The
/// op is applied eagerly only.
pub static HOOK_BACKWARD: OpDef = OpDef {
    info: OpInfo { number: 901, name: "hook_backward", attrs: HookAttrs::DECLARED },
    infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
    eval: |_, inputs| Ok(smallvec![inputs[0].on_host()?.to_contiguous()]),
    effects: Effects::NONE,
    lowering: Lowering::View(|_, layout| Some(layout.clone())),
    samples: || vec![Sample::new([SampleInput::f32(&[3, 2], -2.0, 2.0)]).attrs(HookAttrs::attrs(0i64))],
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let gradient = it.cotangent();
            smallvec![Some(match found(HookAttrs::of(it.attrs).hook()) {
                Some(hook) => hooked(&hook, gradient),
                None => gradient.clone(),
            })]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
        body: None,
    },
};

/// A function that may replace a gradient; `None` leaves it unchanged.
type Function = dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync;

/// The live hooks, by number.
static HOOKS: LazyLock<RwLock<FxHashMap<i64, Weak<Function>>>> = LazyLock::new(RwLock::default);

fn found(number: i64) -> Option<Arc<Function>> {
    HOOKS.read().unwrap_or_else(PoisonError::into_inner).get(&number)?.upgrade()
}

/// Applies a hook to a gradient, and checks that it preserves the type.
#[track_caller]
fn hooked(hook: &Arc<Function>, gradient: &Tensor) -> Tensor {
    if dispatch_mode() == DispatchMode::Trace {
        raise(refused());
    }
    let Some(replaced) = hook(gradient) else { return gradient.clone() };
    if replaced.ty() != gradient.ty() {
        let message = format!("a hook gives {} for a gradient of {}", replaced.ty(), gradient.ty());
        raise(Error::new(Code::Shape, message).with_op("hook_backward"));
    }
    replaced
}

/// Creates the error of a hook in compiled code.
fn refused() -> Error {
    Error::new(Code::Hook, "a hook runs eagerly only, and not in compiled functions")
        .with_op("hook_backward")
        .help("remove the hook, or run this with `jit: false` in the context, or with `MS_JIT=0`")
}

/// A function that receives gradients during the backward pass, and may replace them: see [`hook_backward`]. The
/// function is called as long as the hook lives.
///
/// See the example of [`hook_backward`].
pub struct GradientHook {
    number: i64,
    function: Arc<Function>,
}

impl GradientHook {
    /// Creates a hook.
    pub fn new(function: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> Self {
        static NEXT: AtomicI64 = AtomicI64::new(1);
        let (number, function): (_, Arc<Function>) = (NEXT.fetch_add(1, Ordering::Relaxed), Arc::new(function));
        HOOKS.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::downgrade(&function));
        Self { number, function }
    }
}

impl Drop for GradientHook {
    fn drop(&mut self) {
        HOOKS.write().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl fmt::Debug for GradientHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = Arc::strong_count(&self.function);
        f.debug_struct("GradientHook").field("number", &self.number).field("users", &users).finish_non_exhaustive()
    }
}

/// Returns `x`; during the backward pass, `hook` receives the gradient at this point, and may replace it. The hook runs
/// eagerly, once for each backward pass that reaches `x`.
///
/// # Panics
/// Raises [`Code::Hook`] in functions that are compiled. The backward pass raises [`Code::Shape`] if the hook returns
/// another type.
///
/// ```
/// use ms_core::{Tensor, ops, session::grad};
/// let halved = ops::GradientHook::new(|gradient| Some(gradient * 0.5));
/// let f = |x: &Tensor| ops::mul(ops::hook_backward(x, &halved), 3.0);
/// assert_eq!(grad(f)(&Tensor::scalar(2.0)).item::<f32>(), 1.5);
/// ```
#[track_caller]
pub fn hook_backward(x: impl AsTensor, hook: &GradientHook) -> Tensor {
    let x = x.as_tensor();
    propagate_poison!(x);
    if dispatch_mode() == DispatchMode::Trace {
        return crate::tensor::refused(refused());
    }
    apply1(HOOK_BACKWARD.op(), &HookAttrs::attrs(hook.number), &[&*x])
}

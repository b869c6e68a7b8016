//! Layers with hooks.

use crate::prelude::*;
use ms_core::error::raise;
use ms_core::ops::{GradientHook, hook_backward};
use ms_core::tensor::{DispatchMode, dispatch_mode};
use ms_core::trace::{Arg, Sink};
use ms_core::{Code, Error};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A layer with hooks: functions that see its input, its result, and their gradients, and may replace them.
///
/// They run eagerly, in the order in which they were registered: without `#[jit]`, in eager mode, and with
/// `jit: false` in the context, also under `grad`. A function that is compiled with hooks raises
/// [`Code::Hook`]: nothing is skipped silently.
///
/// ```
/// use ms::prelude::*;
/// use std::sync::{Arc, Mutex};
/// let layer = nn::Hooked::new(nn::Dense::new(2, 3));
/// let shapes = Arc::new(Mutex::new(Vec::new()));
/// let seen = shapes.clone();
/// let handle = layer.register_forward_hook(move |_, x, y| {
///     seen.lock().expect("nobody panics").push((x.shape().to_vec(), y.shape().to_vec()));
///     None
/// });
/// layer.call(&Tensor::ones([4, 2]));
/// handle.remove();
/// layer.call(&Tensor::ones([5, 2]));
/// assert_eq!(*shapes.lock().expect("nobody panics"), [(vec![4, 2], vec![4, 3])]);
/// ```
#[cell]
pub struct Hooked<L> {
    /// The layer.
    pub layer: L,
    hooks: Hooks<L>,
}

#[cell]
impl<L: Cell + Layer> Hooked<L> {
    /// A layer without hooks yet.
    pub fn new(layer: L) -> Self {
        Self { layer, hooks: Hooks(Arc::new(Mutex::new(Vec::new()))) }
    }

    /// Calls the layer, with its hooks.
    pub fn construct(&self, x: &Tensor) -> Tensor {
        self.hooks.run(&self.layer, x)
    }

    /// A function of the layer and its input, before each call; what it returns takes the place of the input.
    pub fn register_forward_pre_hook(
        &self,
        hook: impl Fn(&L, &Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> HookHandle<L> {
        self.hooks.register(Hook::ForwardPre(Box::new(hook)))
    }

    /// A function of the layer, its input and its result, after each call; what it returns takes the place of the
    /// result.
    pub fn register_forward_hook(
        &self,
        hook: impl Fn(&L, &Tensor, &Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> HookHandle<L> {
        self.hooks.register(Hook::Forward(Box::new(hook)))
    }

    /// A function of the gradient of the result, before gradients are pulled back through the layer; what it returns
    /// takes the place of that gradient.
    pub fn register_backward_pre_hook(
        &self,
        hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> HookHandle<L> {
        self.hooks.register(Hook::BackwardPre(GradientHook::new(hook)))
    }

    /// A function of the gradient of the input, after gradients were pulled back through the layer; what it returns
    /// takes the place of that gradient. It is called where the input has a gradient, and not where the layer is the
    /// first one and gradients are those of its parameters.
    pub fn register_backward_hook(
        &self,
        hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> HookHandle<L> {
        self.hooks.register(Hook::Backward(GradientHook::new(hook)))
    }
}

type ForwardPre<L> = dyn Fn(&L, &Tensor) -> Option<Tensor> + Send + Sync;
type Forward<L> = dyn Fn(&L, &Tensor, &Tensor) -> Option<Tensor> + Send + Sync;

enum Hook<L> {
    ForwardPre(Box<ForwardPre<L>>),
    Forward(Box<Forward<L>>),
    BackwardPre(GradientHook),
    Backward(GradientHook),
}

/// Hooks in order, with the numbers of their handles.
type List<L> = Arc<Mutex<Vec<(u64, Arc<Hook<L>>)>>>;

/// The hooks of a layer.
struct Hooks<L>(List<L>);

impl<L> Hooks<L> {
    fn all(&self) -> Vec<(u64, Arc<Hook<L>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn register(&self, hook: Hook<L>) -> HookHandle<L> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((number, Arc::new(hook)));
        HookHandle { number, of: self.0.clone() }
    }
}

impl<L: Layer> Hooks<L> {
    #[track_caller]
    fn run(&self, layer: &L, x: &Tensor) -> Tensor {
        let hooks = self.all();
        if hooks.is_empty() {
            return layer.forward(x);
        }
        if dispatch_mode() == DispatchMode::Trace {
            raise(
                Error::new(Code::Hook, "a layer with hooks cannot be compiled: hooks run eagerly only")
                    .with_op("Hooked")
                    .help("remove the hooks, or run this with `jit: false` in the context, or with `MS_JIT=0`"),
            );
        }
        let mut x = x.clone();
        for (_, hook) in &hooks {
            match &**hook {
                Hook::ForwardPre(hook) => x = hook(layer, &x).unwrap_or(x),
                Hook::Backward(hook) => x = hook_backward(&x, hook),
                Hook::Forward(_) | Hook::BackwardPre(_) => {}
            }
        }
        let mut y = layer.forward(&x);
        for (_, hook) in &hooks {
            match &**hook {
                Hook::Forward(hook) => y = hook(layer, &x, &y).unwrap_or(y),
                Hook::BackwardPre(hook) => y = hook_backward(&y, hook),
                Hook::ForwardPre(_) | Hook::Backward(_) => {}
            }
        }
        y
    }
}

/// What was compiled without a hook is not used with one.
impl<L> Arg for Hooks<L> {
    fn visit(&self, sink: &mut Sink<'_>) {
        let hooks = self.all();
        sink.fixed(hooks.len() as u64);
        hooks.iter().for_each(|it| sink.fixed(it.0));
    }
}

impl<L> fmt::Debug for Hooks<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hooks", self.all().len())
    }
}

/// A registered hook of a [`Hooked`] layer, which stays until it is removed.
pub struct HookHandle<L> {
    number: u64,
    of: List<L>,
}

impl<L> HookHandle<L> {
    /// Removes the hook: later calls do not run it, nor do gradients of earlier ones.
    pub fn remove(self) {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).retain(|it| it.0 != self.number);
    }
}

impl<L> fmt::Debug for HookHandle<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook {}", self.number)
    }
}

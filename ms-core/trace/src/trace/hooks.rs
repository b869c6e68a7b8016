//! Implements hooks of cells: user functions that receive the tensors of calls that run op by op.

use super::arg::{Arg, CellId, Name, Sink, Visitor};
use super::cell::Cell;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, raise};
use ms_ops::ops::GradientHook;
use ms_ops::tensor::{Parameter, SlotId, Tensor};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

type ForwardPre = dyn Fn(&[Tensor]) -> Option<Vec<Tensor>> + Send + Sync;
type Forward = dyn Fn(&[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync;

/// A hook of a cell.
pub enum Hook {
    /// Receives the tensors of the arguments.
    ForwardPre(Box<ForwardPre>),
    /// Receives the tensors of the arguments and of the result.
    Forward(Box<Forward>),
    /// Receives the gradient of each tensor of the result.
    BackwardPre(GradientHook),
    /// Receives the gradient of each tensor of the arguments.
    Backward(GradientHook),
}

/// A registered hook.
struct Registered {
    /// The number of its handle.
    number: u64,
    /// The parameters of the cell at registration. Addresses are reused, but parameter numbers are not. So a cell at
    /// the same address with other parameters is a different cell.
    parameters: Vec<SlotId>,
    hook: Arc<Hook>,
}

/// Hooks in order.
type List = Vec<Registered>;

static HOOKS: RwLock<FxHashMap<CellId, List>> = RwLock::new(FxHashMap::with_hasher(FxBuildHasher));

/// See [`generation`].
static GENERATION: AtomicU64 = AtomicU64::new(0);

fn all() -> RwLockReadGuard<'static, FxHashMap<CellId, List>> {
    HOOKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Returns zero if no cell has a hook, and otherwise a number that changes at each registration.
#[inline]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Returns the hooks of a cell with certain parameters. Removes hooks of another cell that was at the same address and
/// whose handles were forgotten.
pub fn hooks_of(cell: CellId, parameters: impl FnOnce() -> Vec<SlotId>) -> Vec<Arc<Hook>> {
    let all = all();
    let Some(list) = all.get(&cell) else { return Vec::new() };
    let present = parameters();
    let is_its = |it: &Registered| it.parameters.iter().all(|it| present.contains(it));
    let (its, others): (Vec<&Registered>, Vec<&Registered>) = list.iter().partition(|it| is_its(it));
    let hooks = its.map_vec(|it| it.hook.clone());
    let ended: Vec<u64> = others.map_vec(|it| it.number);
    drop(all);
    ended.into_iter().for_each(|number| remove(cell, number));
    hooks
}

/// Removes a hook.
fn remove(cell: CellId, number: u64) {
    let mut all = HOOKS.write().unwrap_or_else(PoisonError::into_inner);
    let ended = all.get_mut(&cell).and_then(|list| {
        let at = list.iter().position(|it| it.number == number)?;
        Some(list.remove(at))
    });
    if all.get(&cell).is_some_and(Vec::is_empty) {
        all.remove(&cell);
    }
    if all.is_empty() {
        GENERATION.store(0, Ordering::Relaxed);
    }
    // Captures of a hook may have hooks and handles themselves, so the lock is released first.
    drop(all);
    drop(ended);
}

/// Returns the error of hooks in compiled code.
pub fn hooks_refused(name: &str) -> Error {
    Error::new(Code::Hook, "a cell with hooks cannot be compiled: hooks run eagerly only")
        .with_op(name)
        .help("remove the hooks, or run this with `jit: false` in the context, or with `MS_JIT=0`")
}

/// Registers user functions that receive, and may replace, the tensors of a cell's calls and their gradients. It works
/// for every cell, also inside of others.
///
/// Hooks run eagerly, in the order of registration: without `#[jit]`, in eager mode, and with `jit: false` in the
/// context, also under `grad`. Compiling a function with a hooked cell raises [`Code::Hook`]: no hook is silently
/// skipped.
///
/// A cell is identified by its address and its parameters. So a handle borrows the cell, and a hook ends with its
/// handle. The hook of a forgotten handle (`std::mem::forget`) ends when another cell with parameters is called at that
/// address. Calls of cells without hooks have no overhead.
pub trait Hooks: Arg {
    /// Registers a function of the tensors of the arguments, which runs before each call. The tensors that it returns
    /// replace them.
    ///
    /// # Panics
    /// Raises [`Code::Hook`] for a cell without fields, which has no unique address, and for containers, which are not
    /// called. Calls raise [`Code::Argument`] if the hook returns another number of tensors.
    #[track_caller]
    fn register_forward_pre_hook(
        &self,
        hook: impl Fn(&[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle<'_> {
        register(self, Hook::ForwardPre(Box::new(hook)))
    }

    /// Registers a function of the tensors of the arguments and of the result, which runs after each call. The tensors
    /// that it returns replace those of the result.
    ///
    /// # Panics
    /// See [`Hooks::register_forward_pre_hook`].
    #[track_caller]
    fn register_forward_hook(
        &self,
        hook: impl Fn(&[Tensor], &[Tensor]) -> Option<Vec<Tensor>> + Send + Sync + 'static,
    ) -> HookHandle<'_> {
        register(self, Hook::Forward(Box::new(hook)))
    }

    /// Registers a function of the gradient of the result, which runs before gradients are pulled back through the
    /// cell. The gradient that it returns replaces the result's. It is called for each tensor of the result.
    ///
    /// # Panics
    /// See [`Hooks::register_forward_pre_hook`]. Gradients raise [`Code::Shape`] if the hook returns another type.
    #[track_caller]
    fn register_backward_pre_hook(
        &self,
        hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> HookHandle<'_> {
        register(self, Hook::BackwardPre(GradientHook::new(hook)))
    }

    /// Registers a function of the gradient of the argument, which runs after gradients were pulled back through the
    /// cell. The gradient that it returns replaces the argument's. It is called for each tensor of the arguments
    /// that has a gradient. The first cell has none if gradients are only those of its parameters.
    ///
    /// # Panics
    /// See [`Hooks::register_backward_pre_hook`].
    #[track_caller]
    fn register_backward_hook(
        &self,
        hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> HookHandle<'_> {
        register(self, Hook::Backward(GradientHook::new(hook)))
    }
}

#[diagnostic::do_not_recommend]
impl<C: Cell + ?Sized> Hooks for C {}

#[track_caller]
fn register<C: Arg + ?Sized>(cell: &C, hook: Hook) -> HookHandle<'_> {
    let mut outermost = Outermost { found: None, begun: false, parameters: Vec::new() };
    cell.visit(&mut Sink::new(&mut outermost));
    let refuse = |message: &str, help: &str| -> ! {
        raise(Error::new(Code::Hook, message.to_owned()).with_op("register").help(help.to_owned()))
    };
    let Some(cell) = outermost.found else {
        refuse("what is not called has no hooks", "register them for the cells inside");
    };
    if cell.is_empty() {
        let message = format!("`{}` has no fields, and so no place of its own that tells it from others", cell.name());
        refuse(
            &message,
            "give the type a field, or register the hook for the cell that calls it, or that takes its result",
        );
    }
    let mut all = HOOKS.write().unwrap_or_else(PoisonError::into_inner);
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let parameters = outermost.parameters;
    all.entry(cell).or_default().push(Registered { number, parameters, hook: Arc::new(hook) });
    GENERATION.store(number, Ordering::Relaxed);
    HookHandle { number, cell, borrowed: PhantomData }
}

/// Finds the cell that a value is, and its parameters.
struct Outermost {
    found: Option<CellId>,
    begun: bool,
    parameters: Vec<SlotId>,
}

impl Visitor for Outermost {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, parameter: &Parameter) {
        self.parameters.push(parameter.id());
    }

    fn fixed(&mut self, _: u64) {}

    fn cell(&mut self, cell: CellId) {
        if !self.begun {
            self.found.get_or_insert(cell);
        }
    }

    fn begin(&mut self, _: Name<'_>) {
        self.begun = true;
    }
}

/// A registered hook of a cell. The hook ends when this is removed or dropped.
///
/// See the example of [`Hooks`].
#[must_use = "the hook ends when its handle is dropped"]
pub struct HookHandle<'a> {
    number: u64,
    cell: CellId,
    borrowed: PhantomData<&'a ()>,
}

impl HookHandle<'_> {
    /// Removes the hook. Later calls do not run it, nor do gradients of earlier ones.
    pub fn remove(self) {}
}

impl Drop for HookHandle<'_> {
    fn drop(&mut self) {
        remove(self.cell, self.number);
    }
}

impl fmt::Debug for HookHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook {} of {}", self.number, self.cell.name())
    }
}

//! Where an op goes: to the eager executor, or into the trace that is being built.

use super::escape::escaped;
use super::op::{Attrs, Op};
use super::parameter::Parameter;
use super::tensor::{Tensor, Traced};
use crate::error::{Error, Result, raise};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::OnceLock;

/// The results of an op.
pub type Outputs = SmallVec<[Tensor; 1]>;

/// One application of an op.
#[derive(Clone, Copy)]
pub struct OpCall<'a> {
    /// Which op.
    pub op: Op,
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// Its operands.
    pub inputs: &'a [&'a Tensor],
    /// The user's line.
    pub location: &'static Location<'static>,
}

/// A loop over the elements along the first axis of a tensor.
#[derive(Clone, Copy)]
pub struct Scan<'a> {
    /// What an iteration makes of the carries and an element: the next carries, of the same types.
    pub step: &'a dyn Fn(&[Tensor], &Tensor) -> Vec<Tensor>,
    /// The carries before the first iteration.
    pub carries: &'a [Tensor],
    /// The tensor.
    pub sequence: &'a Tensor,
    /// The size of its first axis, not zero.
    pub length: usize,
    /// The user's line.
    pub location: &'static Location<'static>,
}

/// What a dispatcher does with ops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DispatchMode {
    /// Runs them.
    Eager,
    /// Runs them and records them.
    Tape,
    /// Records them only.
    Trace,
}

/// Applies ops and reads values: implemented by eager execution, the tape, and tracing.
pub trait Dispatcher {
    /// Applies an op.
    ///
    /// # Errors
    /// What the op's own rules refuse. While tracing nothing is refused here: the error is
    /// recorded and the results are poisoned.
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs>;

    /// The last carries of a loop, and the first carry after every iteration along a new first axis;
    /// nothing where iterations are to run one after the other.
    fn scan(&self, _scan: &Scan<'_>) -> Option<(Vec<Tensor>, Tensor)> {
        None
    }

    /// The value of a parameter at this point of the program.
    ///
    /// # Errors
    /// When the parameter cannot be read here.
    #[track_caller]
    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor>;

    /// Writes a parameter at this point of the program.
    ///
    /// # Errors
    /// When the value is of another type than the slot.
    #[track_caller]
    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()>;

    /// The result of an op that refuses its operands before it is applied at this line.
    ///
    /// # Errors
    /// `error`, unless errors are recorded: then a poisoned result.
    fn refused(&self, error: Error, location: &'static Location<'static>) -> Result<Tensor> {
        Err(error.at(location))
    }

    /// Why the value of a traced tensor cannot be had; may unwind to the trace's boundary.
    #[track_caller]
    fn refuse_read(&self, traced: &Traced) -> Error {
        escaped(traced).at(Location::caller())
    }

    /// Ends the call because a shape was asked for that is not known.
    #[track_caller]
    fn refuse_shape(&self, traced: &Traced) -> ! {
        raise(escaped(traced))
    }

    /// Why this tensor cannot be used here, where a region of control flow that is over left it in a
    /// place that the trace does not see.
    fn escape(&self, _tensor: &Tensor) -> Option<Error> {
        None
    }

    /// Says that the user reads the elements of a tensor as numbers of the host.
    fn note_read(&self, _tensor: &Tensor, _location: &'static Location<'static>) {}

    /// Says that `alias` has the elements of `tensor` under an identity of its own, and is the
    /// same value to whoever records identities.
    fn alias(&self, _tensor: &Tensor, _alias: &Tensor) {}

    /// What it does with ops.
    fn mode(&self) -> DispatchMode {
        DispatchMode::Eager
    }

    /// This dispatcher as its own type, for the modules that define one.
    fn as_any(self: Rc<Self>) -> Option<Rc<dyn Any>> {
        None
    }
}

/// The executor that is used outside every trace; one is submitted per process.
pub struct EagerDispatcher(pub &'static (dyn Dispatcher + Sync));

inventory::collect!(EagerDispatcher);

thread_local! {
    static STACK: RefCell<Vec<Rc<dyn Dispatcher>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` with the current dispatcher.
#[inline]
#[track_caller]
pub fn dispatcher<R>(f: impl FnOnce(&dyn Dispatcher) -> R) -> R {
    // Cloned out of the stack, because `f` may push and pop.
    match STACK.with(|stack| stack.borrow().last().cloned()) {
        Some(top) => f(&*top),
        None => f(eager()),
    }
}

/// What the dispatcher of this thread does with ops.
#[inline]
pub fn dispatch_mode() -> DispatchMode {
    STACK.with(|stack| stack.borrow().last().map_or(DispatchMode::Eager, |it| it.mode()))
}

/// The dispatcher on top of this thread's stack; nothing where ops run eagerly.
pub fn current_dispatcher() -> Option<Rc<dyn Dispatcher>> {
    STACK.with(|stack| stack.borrow().last().cloned())
}

/// The executor that is used outside every trace.
pub fn eager() -> &'static dyn Dispatcher {
    static EAGER: OnceLock<&'static (dyn Dispatcher + Sync)> = OnceLock::new();
    *EAGER.get_or_init(|| {
        inventory::iter::<EagerDispatcher>.into_iter().next().expect("`session` submits the eager executor").0
    })
}

/// Runs `f` with `top` as the current dispatcher of this thread.
pub fn with_dispatcher<R>(top: Rc<dyn Dispatcher>, f: impl FnOnce() -> R) -> R {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            STACK.with(|stack| stack.borrow_mut().pop());
        }
    }
    STACK.with(|stack| stack.borrow_mut().push(top));
    let _pop = Pop;
    f()
}

/// Applies an op through the current dispatcher.
///
/// # Errors
/// What the op's rules refuse.
#[track_caller]
#[inline]
pub fn apply(op: Op, attrs: &Attrs, inputs: &[&Tensor]) -> Result<Outputs> {
    let location = Location::caller();
    dispatcher(|it| it.apply(OpCall { op, attrs, inputs, location }))
}

/// Applies an op of one result; raises what its rules refuse at the caller's line.
#[track_caller]
#[inline]
pub fn apply1(op: Op, attrs: &Attrs, inputs: &[&Tensor]) -> Tensor {
    match apply(op, attrs, inputs) {
        Ok(mut outputs) => outputs.pop().expect("the op has one result"),
        Err(error) => raise(error),
    }
}

/// The result of an op that refuses its operands before it is applied: raises `error`, or, while
/// tracing, records it to be told with the others, and gives a result that is poisoned.
#[track_caller]
#[cold]
pub fn refused(error: Error) -> Tensor {
    let location = Location::caller();
    match dispatcher(|it| it.refused(error, location)) {
        Ok(poisoned) => poisoned,
        Err(error) => raise(error),
    }
}

/// The first of these tensors that is the result of an op that was refused.
#[inline]
pub fn lost(tensors: &[&Tensor]) -> Option<Tensor> {
    tensors.iter().find(|it| it.is_poisoned()).map(|&it| it.clone())
}

/// The eager executor as a dispatcher that can be pushed over others.
pub struct Eagerly;

impl Dispatcher for Eagerly {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        eager().apply(call)
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        eager().read_parameter(parameter)
    }

    #[track_caller]
    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        eager().write_parameter(parameter, value)
    }
}

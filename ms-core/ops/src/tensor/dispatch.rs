//! Dispatches ops to the eager executor, the tape or the tracer.

use super::escape::escaped;
use super::parameter::Parameter;
use super::tensor::Tensor;
use super::traced::Traced;
use ms_ir::data::{Array, Attrs, DType, Device, Op, Scalar};
use ms_ir::error::{Error, Result, raise};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::OnceLock;

/// The results of an op.
///
/// ```
/// use ms_core::{tensor, tensor::Outputs};
/// let outputs: Outputs = [tensor![1.0], tensor![2.0]].into_iter().collect();
/// assert_eq!((outputs.len(), outputs[1].item::<f32>()), (2, 2.0));
/// ```
pub type Outputs = SmallVec<[Tensor; 1]>;

/// An application of an op.
#[derive(Clone, Copy)]
pub struct OpCall<'a> {
    /// The op.
    pub op: Op,
    /// The attributes.
    pub attrs: &'a Attrs,
    /// The operands.
    pub inputs: &'a [&'a Tensor],
    /// The user's source location.
    pub location: &'static Location<'static>,
}

/// A loop over the elements along the first axis of a tensor.
#[derive(Clone, Copy)]
pub struct Scan<'a> {
    /// Runs one iteration: maps the carries and an element to the next carries of the same types.
    pub step: &'a dyn Fn(&[Tensor], &Tensor) -> Vec<Tensor>,
    /// The carries before the first iteration.
    pub carries: &'a [Tensor],
    /// The tensor to iterate over.
    pub sequence: &'a Tensor,
    /// The size of the tensor's first axis, not zero.
    pub length: usize,
    /// The user's source location.
    pub location: &'static Location<'static>,
}

/// The way in which a dispatcher handles ops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DispatchMode {
    /// Executes them.
    Eager,
    /// Executes them and records them.
    Tape,
    /// Records them only.
    Trace,
}

/// Applies ops and reads values. Eager execution, the tape and tracing implement it.
pub trait Dispatcher {
    /// Applies an op.
    ///
    /// # Errors
    /// The errors of the op's rules. While tracing there are none: the error is recorded and the results are poisoned.
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs>;

    /// Returns the final carries of a loop, and the first carry after every iteration along a new first axis. Returns
    /// `None` if iterations should be executed one by one.
    fn scan(&self, _scan: &Scan<'_>) -> Option<(Vec<Tensor>, Tensor)> {
        None
    }

    /// Returns a host scalar, converted to `dtype`, as an operand.
    ///
    /// # Errors
    /// While tracing, see [`Dispatcher::apply`].
    fn number(&self, value: Scalar, dtype: DType, _location: &'static Location<'static>) -> Result<Tensor> {
        Ok(Tensor::from_number(value, dtype))
    }

    /// Returns the value of a parameter at this point of the program.
    ///
    /// # Errors
    /// Fails when the parameter cannot be read here.
    #[track_caller]
    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor>;

    /// Writes a parameter at this point of the program.
    ///
    /// # Errors
    /// Fails when the type of the value differs from the slot's.
    #[track_caller]
    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()>;

    /// Writes a parameter like [`Dispatcher::write_parameter`], with a value without other references: the next state
    /// of a generator. The slot keeps its old value if the work that computes the new one fails on a device.
    ///
    /// # Errors
    /// See [`Dispatcher::write_parameter`].
    #[track_caller]
    fn advance_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        self.write_parameter(parameter, value)
    }

    /// Returns the result of an op that fails before it is applied at this location.
    ///
    /// # Errors
    /// `error`, unless errors are recorded; then returns a poisoned result.
    fn refused(&self, error: Error, location: &'static Location<'static>) -> Result<Tensor> {
        Err(error.at(location))
    }

    /// Returns the error of reading the value of a traced tensor. May unwind to the trace's boundary.
    #[track_caller]
    fn refuse_read(&self, traced: &Traced) -> Error {
        escaped(traced).at(Location::caller())
    }

    /// Ends the call because an unknown shape was read.
    #[track_caller]
    fn refuse_shape(&self, traced: &Traced) -> ! {
        raise(escaped(traced))
    }

    /// Returns the error of using this tensor if it leaked out of a completed region of control flow without the
    /// trace's knowledge.
    fn escape(&self, _tensor: &Tensor) -> Option<Error> {
        None
    }

    /// Records that the user reads the elements of a tensor as host scalars.
    fn note_read(&self, _tensor: &Tensor, _location: &'static Location<'static>) {}

    /// Records that `alias` is the value of `tensor` under a new identity.
    fn alias(&self, _tensor: &Tensor, _alias: &Tensor) {}

    /// Records that `copy` is a copy of `tensor` on another device.
    fn copied(&self, _tensor: &Tensor, _copy: &Tensor) {}

    /// Copies the array to this device, or to the device of the settings.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`](crate::Code::DeviceUnavailable); the errors of the device.
    fn place(&self, array: Array, device: Option<Device>) -> Result<Array> {
        eager().place(array, device)
    }

    /// Returns how the dispatcher handles ops.
    fn mode(&self) -> DispatchMode {
        DispatchMode::Eager
    }

    /// Returns this dispatcher as `Any`, for the modules that define one.
    fn as_any(self: Rc<Self>) -> Option<Rc<dyn Any>> {
        None
    }
}

/// The executor outside of traces; one is registered per process.
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

/// Returns how the dispatcher of this thread handles ops.
#[inline]
pub fn dispatch_mode() -> DispatchMode {
    STACK.with(|stack| stack.borrow().last().map_or(DispatchMode::Eager, |it| it.mode()))
}

/// Returns the dispatcher on top of this thread's stack; `None` if ops are executed eagerly.
pub fn current_dispatcher() -> Option<Rc<dyn Dispatcher>> {
    STACK.with(|stack| stack.borrow().last().cloned())
}

/// Returns the executor outside of traces.
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
/// The errors of the op's rules.
#[track_caller]
#[inline]
pub fn apply(op: Op, attrs: &Attrs, inputs: &[&Tensor]) -> Result<Outputs> {
    let location = Location::caller();
    dispatcher(|it| it.apply(OpCall { op, attrs, inputs, location }))
}

/// Applies an op with one result. Raises errors of its rules at the caller's location.
#[track_caller]
#[inline]
pub fn apply1(op: Op, attrs: &Attrs, inputs: &[&Tensor]) -> Tensor {
    match apply(op, attrs, inputs) {
        Ok(mut outputs) => outputs.pop().expect("the op has one result"),
        Err(error) => raise(error),
    }
}

/// Returns the result of an op that fails before it is applied. Raises `error`, or, while tracing, records it and
/// returns a poisoned result.
#[track_caller]
#[cold]
pub fn refused(error: Error) -> Tensor {
    let location = Location::caller();
    match dispatcher(|it| it.refused(error, location)) {
        Ok(poisoned) => poisoned,
        Err(error) => raise(error),
    }
}

/// Returns the first poisoned tensor.
#[inline]
pub fn first_poisoned(tensors: &[&Tensor]) -> Option<Tensor> {
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

    #[track_caller]
    fn advance_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        eager().advance_parameter(parameter, value)
    }
}

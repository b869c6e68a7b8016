//! Defines errors as values: a code, the facts, and one place that prints them.

mod called;
mod calls;
mod exhausted;
mod warning;

#[doc(hidden)]
pub use called::active_function;
pub use called::{Called, called};
#[doc(hidden)]
pub use calls::stack_address;
pub use calls::{ActiveCalls, LibrarySource, in_call};
pub use exhausted::{OrExhausted, in_op};
#[doc(hidden)]
pub use warning::warn_once;
pub use warning::{collect_warnings, warn};

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;

/// The result of every fallible operation.
///
/// ```
/// use ms_core::{Result, Tensor, catch, tensor};
/// fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
///     catch(|| ms_core::ops::matmul(a, b))
/// }
/// assert_eq!(product(&tensor![[2.0]], &tensor![[3.0]])?.item::<f32>(), 6.0);
/// assert!(product(&tensor![[2.0]], &tensor![[3.0], [4.0]]).is_err());
/// # Ok::<(), ms_core::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The stable number of an error. `docs/errors/MSxxx.md` explains each.
///
/// ```
/// use ms_core::{Code, Tensor};
/// let error = Tensor::try_from_slice([3], &[1.0f32]).err().expect("one number does not fill the shape");
/// assert_eq!((error.code(), Code::Shape.to_string()), (Code::Shape, "MS100".to_owned()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Code {
    /// A variable changes its type in a branch or an iteration on a tensor.
    TypeChange = 30,
    /// A host loop that only a tensor terminates.
    HostLoop = 31,
    /// A branch or loop on a tensor is left by a hidden jump.
    LeftOpen = 33,
    /// A reference is passed on in a branch or loop on a tensor, and its target is not evident.
    HandedOn = 34,
    /// Interior mutability in a branch or loop on a tensor.
    SharedChange = 35,
    /// A traced value was used outside its trace.
    Escaped = 40,
    /// A host value changes in a branch or loop on a tensor.
    HostChange = 41,
    /// A function is recompiled repeatedly for one argument.
    Specialisations = 60,
    /// A gradient that does not exist.
    NoGradient = 70,
    /// A backward function writes a parameter, and no order of backward functions determines its value.
    BackwardWrites = 71,
    /// Numbers that were read from a value under a gradient may flow back as constants.
    ReadNumbers = 72,
    /// The tangent rule of a function is not linear in the tangents.
    CustomTangent = 73,
    /// A hook in compiled code.
    Hook = 74,
    /// A gradient is zero because every path to the result contains an op that is constant almost everywhere.
    HiddenByStep = 75,
    /// Shapes that do not fit the op.
    Shape = 100,
    /// A dtype that the op does not accept, or operands whose dtypes differ.
    DType = 101,
    /// An index or axis outside its range.
    OutOfRange = 102,
    /// An argument outside its domain.
    Argument = 103,
    /// A read of the value of a traced tensor.
    TracedValue = 104,
    /// Two parameters of one cell have the same name.
    DuplicateName = 106,
    /// Text that does not parse.
    Parse = 108,
    /// A graph that breaks an invariant: a bug in this project.
    Verify = 109,
    /// Reading or writing a file failed.
    Io = 110,
    /// The backend cannot run this.
    Backend = 111,
    /// Several errors of one trace, reported together.
    Trace = 112,
    /// A condition on a traced tensor where no region is possible.
    Condition = 113,
    /// A tensor that memory cannot hold.
    Memory = 114,
    /// A result whose shape depends on data, in a graph.
    DataDependentShape = 115,
    /// A size that is not known while tracing.
    SymbolicShape = 116,
    /// Infinite recursion of compiled functions.
    Recursion = 117,
    /// A traced value on another thread.
    Thread = 118,
    /// A parameter that cannot be created here.
    Created = 119,
    /// An assertion on a tensor that fails.
    Assertion = 120,
    /// Arguments whose sizes do not match their declaration.
    Sizes = 130,
    /// A function is recompiled repeatedly for varying sizes.
    VaryingSizes = 131,
    /// Axes that `vmap` maps over have different sizes, or none is given.
    LaneCount = 140,
    /// `in_axes` or `out_axes` that do not fit the arguments or results.
    Axes = 141,
    /// A value that differs between the lanes of `vmap` where one value for all of them is needed.
    Mapped = 142,
    /// Cells of a list that `vmap` maps and that differ in structure.
    Ensemble = 143,
    /// Structures that are mapped together and have different forms.
    Structure = 144,
    /// No overload of a function takes arguments of these kinds.
    NoOverload = 145,
    /// A function of a custom op failed, or violates its declaration.
    CustomOp = 146,
    /// A matrix that is singular, not positive definite, or not finite.
    NoDecomposition = 147,
    /// The compile cache cannot be used; a warning, and an error of the command line only.
    Cache = 150,
    /// An invalid value of an environment variable.
    Environment = 151,
    /// A function that no other program can run.
    Export = 152,
    /// A value whose parts are nested too deeply.
    Nesting = 156,
    /// A device that this machine or this program does not have.
    DeviceUnavailable = 160,
    /// Operands on different devices.
    Devices = 161,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MS{:03}", *self as u16)
    }
}

/// An error as data.
///
/// An error is one pointer wide, so that `Result<Tensor>` stays small.
///
/// ```
/// use ms_core::{Code, Error};
/// let error = Error::new(Code::Argument, "`rate` is negative").with_op("my_op").help("rates are at least zero");
/// assert_eq!(error.to_string(), "error[MS103]: `my_op`: `rate` is negative\n   = help: rates are at least zero");
/// assert_eq!(error.report().op.as_deref(), Some("my_op"));
/// ```
#[derive(Clone)]
pub struct Error(Box<Report>);

/// The fields of an [`Error`].
///
/// See the example of [`Error`].
#[derive(Clone, Debug)]
pub struct Report {
    /// The stable number.
    pub code: Code,
    /// A sentence without a full stop.
    pub message: String,
    /// The op that failed.
    pub op: Option<String>,
    /// The operands as `f32[2, 3]`.
    pub operands: Vec<String>,
    /// The user's source location.
    pub location: Option<&'static Location<'static>>,
    /// The user's source location as text, if only that is known: compiled code does not store locations.
    pub line: Option<String>,
    /// The failing node of the traced graph, until its source location is known.
    pub node: Option<u32>,
    /// The values for which a compiled run has no memory, until their op is known.
    pub missing: Option<Missing>,
    /// The location in the library, if the user called library code that failed.
    pub library: Option<&'static Location<'static>>,
    /// The active cells and compiled functions, innermost first, each with the location of its caller, or the node of a
    /// graph.
    pub within: Vec<String>,
    /// The dimensions of arguments to which the symbolic sizes in the message refer.
    pub sizes: Option<String>,
    /// Whether `&mut` arguments of the call may be partly overwritten.
    pub overwrites: bool,
    /// A suggestion.
    pub help: Option<String>,
    /// The individual errors that this one summarises.
    pub related: Vec<Error>,
}

/// The values of a compiled run for which there is no memory.
///
/// ```
/// use ms_core::{Code, Error, error::Missing};
/// let error = Error::new(Code::Memory, "none is left").of_memory(Missing::Result(1));
/// assert_eq!(error.report().missing, Some(Missing::Result(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// The result at this position.
    Result(usize),
    /// Values between operands and results.
    Inside,
    /// Scratch memory of a product.
    Product,
}

impl Error {
    /// Creates an error with a code and one sentence.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Report {
            code,
            message: message.into(),
            op: None,
            operands: Vec::new(),
            location: None,
            line: None,
            node: None,
            missing: None,
            library: None,
            within: Vec::new(),
            sizes: None,
            overwrites: false,
            help: None,
            related: Vec::new(),
        }))
    }

    /// Returns the fields.
    pub fn report(&self) -> &Report {
        &self.0
    }

    /// Returns the stable number.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Names the op, unless an inner one has been named.
    pub fn with_op(mut self, op: impl Into<String>) -> Self {
        self.0.op.get_or_insert_with(|| op.into());
        self
    }

    /// Attributes the error to a composite op after an op of its body failed. Removes the inner op's location and
    /// operands, since those of the composite are unknown here.
    pub fn of_composite(mut self, op: &str) -> Self {
        let report = &mut *self.0;
        if let Some(inner) = report.op.replace(op.to_owned()).filter(|it| it != op) {
            report.message = format!("`{inner}`: {}", report.message);
            report.operands.clear();
        }
        report.within.clear();
        (report.location, report.library) = (None, None);
        self
    }

    /// Lists the operands, unless they are already listed.
    pub fn with_operands(mut self, operands: impl IntoIterator<Item = String>) -> Self {
        if self.0.operands.is_empty() {
            self.0.operands = operands.into_iter().collect();
        }
        self
    }

    /// Adds the user's source location, unless a nearer one is known.
    pub fn at(mut self, location: &'static Location<'static>) -> Self {
        self.0.location.get_or_insert(location);
        self
    }

    /// Sets the user's source location as text, which takes precedence over any other.
    pub fn at_line(mut self, line: &str) -> Self {
        self.0.line = Some(line.to_owned());
        self
    }

    /// Sets the failing node of the traced graph, in compiled code.
    pub fn of_node(mut self, node: u32) -> Self {
        self.0.node.get_or_insert(node);
        self
    }

    /// Sets the values for which a compiled run has no memory. Has no effect on other errors.
    pub fn of_memory(mut self, missing: Missing) -> Self {
        if self.0.code == Code::Memory {
            self.0.missing.get_or_insert(missing);
        }
        self
    }

    /// Takes the values for which a compiled run has no memory.
    #[doc(hidden)]
    pub fn take_missing(&mut self) -> Option<Missing> {
        self.0.missing.take()
    }

    /// Adds the source location of the failing node, which `line` looks up.
    pub fn located(mut self, line: impl FnOnce(u32) -> Option<&'static Location<'static>>) -> Self {
        match self.0.node.take().and_then(line) {
            Some(line) => self.at(line),
            None => self,
        }
    }

    /// Names the location, a node of a graph, unless a nearer one is known.
    pub fn within(mut self, place: impl Into<String>) -> Self {
        if self.0.within.is_empty() {
            self.0.within.push(place.into());
        }
        self
    }

    /// Names the active calls on this thread, unless calls are already named. The user's location that called the
    /// library precedes the location in the library.
    pub fn in_calls(self) -> Self {
        if self.0.within.is_empty() { self.in_those_calls(&ActiveCalls::current()) } else { self }
    }

    /// Names calls like [`Error::in_calls`], as they were active when the failing work was submitted to a device.
    pub fn in_those_calls(mut self, calls: &ActiveCalls) -> Self {
        if self.0.within.is_empty() {
            self.0.within = calls.texts();
            if let Some(inner) = self.0.location.filter(|it| calls::is_library(it))
                && let Some(user) = calls.user_line()
            {
                self.0.location = Some(user);
                self.0.library = Some(inner);
            }
        }
        self
    }

    /// Adds the dimensions of arguments to which the symbols in the message refer.
    pub fn with_sizes(mut self, symbols: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let spoken_of = symbols.into_iter().filter(|it| self.0.speaks_of(it.0));
        let sizes: Vec<String> = spoken_of.map(|(symbol, place)| format!("`{symbol}` is {place}")).collect();
        if !sizes.is_empty() {
            self.0.sizes = Some(sizes.join(", "));
        }
        self
    }

    /// Notes that `&mut` arguments of the call may be partly overwritten.
    pub fn overwriting(mut self) -> Self {
        self.0.overwrites = true;
        self
    }

    /// Adds a help line.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds the individual errors that this one summarises.
    pub fn with_related(mut self, errors: Vec<Error>) -> Self {
        self.0.related = errors;
        self
    }

    /// Combines all errors of a trace into one. `errors` is not empty.
    pub fn collected(mut errors: Vec<Error>) -> Self {
        if errors.len() == 1 {
            return errors.remove(0);
        }
        Self::new(Code::Trace, format!("{} errors while tracing", errors.len())).with_related(errors)
    }
}

impl Report {
    /// Returns whether the message mentions the symbol.
    fn speaks_of(&self, symbol: &str) -> bool {
        let is_in = |text: &String| text.split(|it: char| !it.is_alphanumeric() && it != '_').any(|it| it == symbol);
        [&self.message].into_iter().chain(&self.operands).chain(&self.within).any(is_in)
            || self.related.iter().any(|it| it.report().speaks_of(symbol))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "error")
    }
}

impl Error {
    /// Formats the error as a warning.
    pub fn as_warning(&self) -> impl fmt::Display {
        fmt::from_fn(|f| self.write(f, "warning"))
    }

    /// Returns the code whose page explains the error: for several errors, the first one's.
    fn explained(&self) -> Code {
        self.0.related.first().map_or(self.0.code, Error::explained)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, kind: &str) -> fmt::Result {
        let report = &*self.0;
        write!(f, "{kind}[{}]: ", report.code)?;
        if let Some(op) = &report.op {
            write!(f, "`{op}`: ")?;
        }
        f.write_str(&report.message)?;
        match (&report.line, report.location) {
            (Some(line), _) => write!(f, "\n  --> {line}")?,
            (None, Some(location)) => write!(f, "\n  --> {location}")?,
            (None, None) => {}
        }
        if !report.operands.is_empty() {
            write!(f, "\n   = operands: {}", report.operands.join(", "))?;
        }
        if let Some(location) = report.library {
            write!(f, "\n   = library: {location}")?;
        }
        for place in &report.within {
            write!(f, "\n   = in: {place}")?;
        }
        if let Some(sizes) = &report.sizes {
            write!(f, "\n   = sizes: {sizes}")?;
        }
        if report.overwrites {
            f.write_str(
                "\n   = note: `&mut` arguments were written in place, and may hold a part of their new values",
            )?;
        }
        if let Some(help) = &report.help {
            write!(f, "\n   = help: {help}")?;
        }
        for error in &report.related {
            write!(f, "\n{error}")?;
        }
        Ok(())
    }
}

/// Formats the output of `unwrap`, of a `main` that returns the error, and of a panic: the text, and where to read
/// more.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}\n   = for more information, run `ms explain {}`", self.explained())
    }
}

impl std::error::Error for Error {}

thread_local! {
    /// The error of the panic that is unwinding, for [`catch`].
    static RAISED: RefCell<Option<Error>> = const { RefCell::new(None) };
    /// The number of active calls of [`catch`].
    static CATCHING: Cell<usize> = const { Cell::new(0) };
}

thread_local! {
    /// The collectors of raised errors while functions are traced, innermost last.
    static COLLECTORS: RefCell<Vec<Vec<Error>>> = const { RefCell::new(Vec::new()) };
}

/// The payload that leaves [`collecting`] early. The reason is already recorded.
struct Abandoned;

/// Ends the call with `error`: panics with its text at the caller's location. Inside [`collecting`], records it and
/// leaves instead.
///
/// [`catch`] turns the panic back into the error.
///
/// ```
/// use ms_core::{Code, Error, catch, error::raise};
/// let error = catch(|| raise(Error::new(Code::Argument, "`rate` is negative"))).map(|it: ()| it);
/// assert_eq!(error.map_err(|it| it.code()), Err(Code::Argument));
/// ```
#[track_caller]
#[cold]
pub fn raise(error: Error) -> ! {
    let error = error.at(Location::caller()).in_called().in_calls();
    let recorded = COLLECTORS.with(|it| match it.borrow_mut().last_mut() {
        Some(collected) => {
            collected.push(error.clone());
            true
        }
        None => false,
    });
    if recorded {
        abandon();
    }
    let text = format!("{error:?}");
    RAISED.with(|slot| *slot.borrow_mut() = Some(error));
    if CATCHING.get() > 0 {
        // The error becomes a value, so the panic hook should not report it.
        std::panic::resume_unwind(Box::new(text));
    }
    panic!("{text}")
}

/// Leaves the innermost [`collecting`] without a panic message. The reason is already recorded.
pub fn abandon() -> ! {
    std::panic::resume_unwind(Box::new(Abandoned))
}

/// Runs `f` and returns its result with the errors that were raised inside. The result is `None` if `f` was left early.
pub fn collecting<R>(f: impl FnOnce() -> R) -> (Option<R>, Vec<Error>) {
    let (mut f, mut result) = (Some(f), None);
    let errors = collected(&mut || result = f.take().map(|f| f()));
    (result, errors)
}

// Not generic, so that it is compiled once.
fn collected(f: &mut dyn FnMut()) -> Vec<Error> {
    COLLECTORS.with(|it| it.borrow_mut().push(Vec::new()));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    let errors = COLLECTORS.with(|it| it.borrow_mut().pop()).unwrap_or_default();
    match result {
        Err(payload) if !payload.is::<Abandoned>() => std::panic::resume_unwind(payload),
        _ => errors,
    }
}

/// Runs `f` and returns the error that one of its ops raised, without printing a panic message.
///
/// A panic that is not an error of this library continues unwinding. With `panic = "abort"` nothing can be caught.
///
/// ```
/// use ms_core::{Code, catch, ops, tensor};
/// let sum = catch(|| ops::add(tensor![1.0, 2.0], tensor![1.0, 2.0, 3.0]));
/// assert_eq!(sum.err().map(|it| it.code()), Some(Code::Shape));
/// ```
///
/// # Errors
/// The error that was raised inside.
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R> {
    let (mut f, mut result) = (Some(f), None);
    caught(&mut || result = f.take().map(|f| f()))?;
    Ok(result.expect("it has run to its end"))
}

// Not generic, so that it is compiled once.
fn caught(f: &mut dyn FnMut()) -> Result<()> {
    CATCHING.set(CATCHING.get() + 1);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    CATCHING.set(CATCHING.get() - 1);
    result.map_err(|payload| match RAISED.with(|slot| slot.borrow_mut().take()) {
        Some(error) => error,
        None => std::panic::resume_unwind(payload),
    })
}

/// Unwraps a `Result`, and raises the error at the caller's location.
///
/// ```
/// use ms_core::{Code, Tensor, catch, error::OrRaise};
/// let wrong = catch(|| Tensor::try_from_slice([3], &[1.0f32]).or_raise());
/// assert_eq!(wrong.err().map(|it| it.code()), Some(Code::Shape));
/// ```
pub trait OrRaise<T> {
    /// Returns the value, or panics with the error's text.
    fn or_raise(self) -> T;
}

impl<T> OrRaise<T> for Result<T> {
    #[track_caller]
    #[inline]
    fn or_raise(self) -> T {
        match self {
            Ok(value) => value,
            Err(error) => raise(error),
        }
    }
}

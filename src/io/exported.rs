//! Exports functions as graphs, stores them in files, and calls them.

use super::bytes::{guarded, read, refuse};
use super::replace::replace;
use super::safetensors::{self, File};
use super::state_dict::row_major;
use ms_core::error::in_op;
use ms_core::session::{Exported, InputSpec};
use ms_core::session::{Function, TracedArguments};
use ms_core::tensor::Type;
use ms_core::trace::Tree;
use ms_core::{Code, Error, Result, Tensor};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::path::Path;

/// The version of the file format. A program reads only its own version.
const VERSION: &str = "1";

/// Names and symbolic sizes for the inputs of [`export`].
///
/// ```
/// use ms::{io::ExportOptions, prelude::*};
/// let options = ExportOptions::new().input("x", ["rows", "_"]);
/// let exported = ms::export(|x: &Tensor| x.sum(-1), (&Tensor::ones([2, 3]),), &options)?;
/// assert_eq!(exported.to_string(), "(x: f32[rows, 3]) -> (f32[rows])");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    inputs: Vec<InputSpec>,
}

impl ExportOptions {
    /// Creates the default options: inputs are named by position, and have the sizes of the examples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Describes the next tensor among the arguments: its name, and an entry for each axis. The entry `"_"` fixes the
    /// size of the example. Any other entry names a symbolic size. Sizes of one name are equal in every call.
    pub fn input<'a>(mut self, name: impl Into<String>, axes: impl IntoIterator<Item = &'a str>) -> Self {
        let axis = |it: &str| (it != "_").then(|| it.to_owned());
        self.inputs.push(InputSpec { name: name.into(), axes: axes.into_iter().map(axis).collect() });
        self
    }
}

/// An exported function: the traced graph, and the values of the parameters and other tensors that it reads.
///
/// A program that loads it needs neither its source nor its macros. The graph is optimised and compiled after loading,
/// for the device and precision of the context, and stored in the compile cache.
///
/// ```
/// use ms::prelude::*;
/// use ms::io::{ExportOptions, ExportedFunction};
/// # let path = std::env::temp_dir().join(format!("ms doc exported {}", std::process::id()));
/// let net = nn::Dense::new(4, 2);
/// let options = ExportOptions::new().input("x", ["batch", "_"]);
/// ms::export(|x: &Tensor| ops::softmax(net.call(x), -1), (&Tensor::ones([1, 4]),), &options)?.save(&path)?;
///
/// let predict = ExportedFunction::load(&path)?;
/// assert_eq!(predict.to_string(), "(x: f32[batch, 4]) -> (f32[batch, 2])");
/// let y = predict.call(&[&Tensor::ones([8, 4])])?;
/// assert_eq!(y[0].shape(), [8, 2]);
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone)]
pub struct ExportedFunction(pub(super) Exported);

/// Traces a function, a closure or a cell on example arguments, a tuple of references, and returns its graph. Tensors
/// among the arguments become inputs. Parameters of cells among them, and captured tensors of a closure, are stored as
/// constants.
///
/// See the example of [`ExportedFunction`].
///
/// # Errors
/// [`Code::Export`] if the function writes a parameter, draws random numbers, or calls a custom op. A network in
/// training mode does the first two: call `set_train(false)`. [`Code::Argument`] and [`Code::Sizes`] for options that
/// do not match the arguments; errors of tracing.
#[track_caller]
pub fn export<Args: TracedArguments, F>(
    f: F,
    arguments: Args::Refs<'_>,
    options: &ExportOptions,
) -> Result<ExportedFunction>
where
    F: Function<Args, Output: Tree>,
{
    ms_core::session::export(&f, arguments, &options.inputs).map(ExportedFunction)
}

impl ExportedFunction {
    /// Returns the name and type of each input, in order. Sizes may be symbolic.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = (&str, &Type)> {
        self.0.inputs()
    }

    /// Returns the type of each result, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Type> {
        self.0.outputs()
    }

    /// Returns the name and value of each tensor that is stored with the graph.
    pub fn constants(&self) -> impl ExactSizeIterator<Item = (&str, &Tensor)> {
        self.0.constants()
    }

    /// Calls the function. A structured result is flattened in field order. Gradients flow to the inputs.
    ///
    /// # Errors
    /// [`Code::Argument`] for a wrong number of inputs, [`Code::DType`] and [`Code::Shape`] for inputs of wrong types;
    /// errors of compiling and running the graph.
    #[track_caller]
    pub fn call(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let location = Location::caller();
        in_op(|| self.0.call(inputs)).map_err(|error| error.with_op("exported function").at(location))
    }

    /// Writes a safetensors file with the tensors of [`ExportedFunction::constants`] and the graph as text in its
    /// metadata. An existing file is replaced atomically, as by [`StateDict::write`](crate::StateDict::write).
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut arrays = BTreeMap::new();
        for (name, value) in self.constants() {
            arrays.insert(name.to_owned(), row_major(value)?);
        }
        let text = [
            ("ms.exported", VERSION.to_owned()),
            ("ms.graph", self.0.text()),
            ("ms.inputs", self.inputs().len().to_string()),
        ];
        let metadata = text.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        replace(path, |out| safetensors::write_with(&arrays, &metadata, out)).map_err(|why| refuse(path, "write", why))
    }

    /// Reads a file that [`ExportedFunction::save`] wrote. Tensors are placed on the device of the context.
    ///
    /// The file may be untrusted. A malformed graph is rejected, and a valid graph can access only its inputs and its
    /// tensors. It may still need much memory and time.
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be read or is not an exported function of this version of `ms`. [`Code::Memory`]
    /// if the system has no memory for it.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let loaded = guarded(path, || decode(&read(path)?).map_err(|why| refuse(path, "read", why)));
        loaded.map(Self).map_err(|error| error.with_op("load"))
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Exported, String> {
    let File { mut arrays, metadata } = safetensors::file(bytes)?;
    let text = |key: &str| metadata.get(key).ok_or("it is a file of tensors without a function");
    let version = text("ms.exported")?;
    if version != VERSION {
        return Err(format!("it has the form {version}, and this program reads the form {VERSION}"));
    }
    let inputs = text("ms.inputs")?.parse().map_err(|_| "it does not say how many inputs it has")?;
    let constant = |name: &str| arrays.remove(name).map(Tensor::placed);
    let exported = Exported::parse(text("ms.graph")?, inputs, constant).map_err(|error| message(&error))?;
    match arrays.keys().next() {
        Some(name) => Err(format!("no input of its graph is the tensor `{name}`")),
        None => Ok(exported),
    }
}

/// Returns the message of an error, or of the first error that it summarises, without its location.
pub(super) fn message(error: &Error) -> String {
    let report = error.report().related.first().map_or(error.report(), Error::report);
    match &report.op {
        Some(op) if report.code != Code::Io => format!("`{op}`: {}", report.message),
        _ => report.message.clone(),
    }
}

/// Formats the inputs and outputs: `(x: f32[batch, 4]) -> (f32[batch, 2])`.
impl fmt::Display for ExportedFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<String> = self.inputs().map(|(name, ty)| format!("{name}: {ty}")).collect();
        let outputs: Vec<String> = self.outputs().map(Type::to_string).collect();
        write!(f, "({}) -> ({})", inputs.join(", "), outputs.join(", "))
    }
}

impl fmt::Debug for ExportedFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExportedFunction{self}")
    }
}

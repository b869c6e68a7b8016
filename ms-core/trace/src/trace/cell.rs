//! Defines cells: networks as values, with parameters found by the types of their fields.

use super::arg::{Arg, CellId, Name, Sink, Training, Visitor};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result, raise};
use ms_ops::tensor::{DType, DispatchMode, Eagerly, IntoDevice, Parameter, Tensor, dispatch_mode, with_dispatcher};
use rustc_hash::FxHashSet;
use std::any::Any;
use std::fmt;
use std::rc::Rc;

/// A network or a layer: a value whose parameters, sub-cells, tensors and host fields are found by the types of its
/// fields. `#[cell]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a cell",
    note = "write `#[cell]` on the struct; for more information, run `ms explain MS015`"
)]
pub trait Cell: Arg {
    /// Returns every parameter, buffer and generator state with its path (`fc1.weight`, `blocks[0].attn.weight`). Each
    /// slot occurs once, under its first path.
    ///
    /// # Errors
    /// [`Code::DuplicateName`] when two slots have the same path, which a handwritten [`Arg`] may cause.
    fn named_parameters(&self) -> Result<Vec<(String, Parameter)>> {
        let mut found = Names { path: Vec::new(), found: Vec::new() };
        self.visit(&mut Sink::new(&mut found));
        let mut slots: FxHashSet<u64> = FxHashSet::default();
        let mut names: FxHashSet<String> = FxHashSet::default();
        let mut out = Vec::new();
        for (name, parameter) in found.found {
            if !slots.insert(parameter.id()) {
                continue;
            }
            if !names.insert(name.clone()) {
                return Err(Error::new(Code::DuplicateName, format!("two parameters have the path `{name}`"))
                    .help("let `Arg::visit` begin a field or an element around each of them"));
            }
            out.push((name, parameter));
        }
        Ok(out)
    }

    /// Returns every parameter, each slot once, in the order of the fields.
    fn parameters(&self) -> Vec<Parameter> {
        parameters(|sink| self.visit(sink))
    }

    /// Returns the trainable parameters.
    fn trainable_parameters(&self) -> Vec<Parameter> {
        self.parameters().into_iter().filter(Parameter::requires_grad).collect()
    }

    /// Moves the parameters to a device and returns the cell. Tensors in its fields stay where they are.
    ///
    /// # Panics
    /// See [`Tensor::to`]. Nothing is moved if one parameter cannot be.
    #[track_caller]
    fn to(&self, device: impl IntoDevice) -> &Self
    where
        Self: Sized,
    {
        let device = device.into_device().or_raise();
        let parameters = self.parameters();
        let moved: Vec<Tensor> = parameters.map_vec(|it| it.value().to(device));
        parameters.iter().zip(&moved).for_each(|(parameter, value)| parameter.set(value));
        self
    }

    /// Converts the float parameters and buffers to a float dtype and returns the cell. Compiled versions of functions
    /// with these parameters are dropped. Call it before an optimiser creates its state, whose dtype depends on that of
    /// the parameters.
    ///
    /// # Panics
    /// Raises [`Code::DType`] for a dtype that is not a float, and [`Code::Argument`] in a function that is being
    /// compiled.
    #[track_caller]
    fn to_dtype(&self, dtype: DType) -> &Self
    where
        Self: Sized,
    {
        convert(&self.parameters(), dtype);
        self
    }

    /// Sets train or eval mode in every layer inside.
    fn set_train(&self, yes: bool) {
        self.visit(&mut Sink::new(&mut SetTraining(yes)));
    }
}

/// Converts the values of float slots to a float dtype; see [`Cell::to_dtype`].
///
/// # Panics
/// See [`Cell::to_dtype`].
#[track_caller]
pub fn convert(parameters: &[Parameter], dtype: DType) {
    let refuse = |code, message: String| raise(Error::new(code, message).with_op("to_dtype"));
    if !dtype.is_float() {
        refuse(Code::DType, format!("parameters of floats cannot be of {dtype}"));
    }
    if dispatch_mode() == DispatchMode::Trace {
        refuse(Code::Argument, "parameters cannot change their dtype in a function that is being compiled".into());
    }
    with_dispatcher(Rc::new(Eagerly), || {
        for parameter in parameters {
            let value = parameter.load();
            if value.dtype().is_float() && value.dtype() != dtype {
                parameter.retype(ms_ops::ops::cast(&value, dtype));
            }
        }
    });
}

/// Formats the type of the cell, with the shapes of its parameters by their paths.
impl fmt::Debug for dyn Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Names { path: Vec::new(), found: Vec::new() };
        self.visit_layer(&mut Sink::new(&mut names));
        let mut first = FirstCell(None);
        self.visit_layer(&mut Sink::new(&mut first));
        let mut out = f.debug_struct(first.0.unwrap_or("Layer"));
        for (path, parameter) in &names.found {
            out.field(path, &format_args!("{}", parameter.load().ty()));
        }
        out.finish()
    }
}

/// The type of the outermost cell.
struct FirstCell(Option<&'static str>);

impl Visitor for FirstCell {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, _: &Parameter) {}

    fn fixed(&mut self, _: u64) {}

    fn cell(&mut self, cell: CellId) {
        self.0.get_or_insert(cell.name());
    }
}

/// Makes a generator part of checkpoints, alone or as the field of a cell.
#[diagnostic::do_not_recommend]
impl Cell for ms_ops::ops::random::Generator {}

struct Names {
    path: Vec<String>,
    found: Vec<(String, Parameter)>,
}

impl Visitor for Names {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, parameter: &Parameter) {
        self.found.push((join(&self.path), parameter.clone()));
    }

    fn fixed(&mut self, _: u64) {}

    fn begin(&mut self, name: Name<'_>) {
        self.path.push(name.to_string());
    }

    fn end(&mut self) {
        self.path.pop();
    }
}

/// Returns the parameters that `sign` visits, each slot once.
pub fn parameters(sign: impl Fn(&mut Sink<'_>)) -> Vec<Parameter> {
    let mut slots = Slots::default();
    sign(&mut Sink::new(&mut slots));
    slots.found
}

/// The parameters, each slot once.
#[derive(Default)]
struct Slots {
    met: FxHashSet<u64>,
    found: Vec<Parameter>,
}

impl Visitor for Slots {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, parameter: &Parameter) {
        if self.met.insert(parameter.id()) {
            self.found.push(parameter.clone());
        }
    }

    fn fixed(&mut self, _: u64) {}
}

/// Joins `a`, `b`, `[0]`, `c` to `a.b[0].c`.
pub(super) fn join(path: &[String]) -> String {
    let mut out = String::new();
    for part in path {
        if !out.is_empty() && !part.starts_with('[') {
            out.push('.');
        }
        out.push_str(part);
    }
    out
}

struct SetTraining(bool);

impl Visitor for SetTraining {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, _: &Parameter) {}

    fn fixed(&mut self, _: u64) {}

    fn training(&mut self, flag: &Training) {
        flag.set(self.0);
    }
}

/// A cell from one tensor to one tensor: the element of sequences of layers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    note = "a layer is a cell whose `construct` takes one `&Tensor` and gives a `Tensor`; for more information, run `ms explain \
            MS016`"
)]
pub trait Layer: Any + Send + Sync {
    /// Calls the cell.
    fn forward(&self, x: &Tensor) -> Tensor;

    /// Visits the type of the cell, since two layers with the same structure may have different
    /// code; then calls [`Arg::visit`].
    fn visit_layer(&self, sink: &mut Sink<'_>);
}

#[diagnostic::do_not_recommend]
impl Arg for dyn Layer {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.visit_layer(sink);
    }
}

//! Defines the visitor interface of arguments.

use super::flags::{ComputeDType, Training};
use super::sizes::Sizes;
use crate::trace::signature::Signature;
use crate::trace::type_key::TypeKey;
use ms_ir::error::{Code, Error, raise, stack_address};
use ms_ops::tensor::{Parameter, Tensor};
use std::fmt;

/// Receives the parts of an [`Arg`](super::Arg): a [`Visitor`], or the signature of a call.
///
/// A signature is computed at every call. It needs no dynamic call per part, and ignores the names of parts.
///
/// See the example of [`Arg`](super::Arg).
pub struct Sink<'a> {
    to: To<'a>,
    /// The stack address below which parts are nested too deeply.
    floor: usize,
}

/// The stack size for nested parts of a value: an eighth of a thread's default. This leaves enough for every other
/// traversal of the value.
const STACK_BYTES: usize = 256 << 10;

#[cold]
fn refuse_nesting() -> ! {
    raise(
        Error::new(Code::Nesting, "the parts of a value are nested too deeply")
            .help("hold parts that are alike in a `Vec`, a `CellList` or a `Sequential`, not in each other"),
    )
}

enum To<'a> {
    Signature(&'a mut Signature),
    Visitor(&'a mut dyn Visitor),
}

impl<'a> Sink<'a> {
    /// Creates a sink for `visitor`.
    pub fn new(visitor: &'a mut dyn Visitor) -> Self {
        Self::made(To::Visitor(visitor))
    }

    /// Creates a sink for `signature`.
    pub fn signing(signature: &'a mut Signature) -> Self {
        Self::made(To::Signature(signature))
    }

    #[inline]
    fn made(to: To<'a>) -> Self {
        Self { to, floor: stack_address().saturating_sub(STACK_BYTES) }
    }
}

impl Sink<'_> {
    /// Visits a tensor.
    #[inline]
    pub fn tensor(&mut self, tensor: &Tensor) {
        match &mut self.to {
            To::Signature(it) => it.tensor(tensor),
            To::Visitor(it) => it.tensor(tensor),
        }
    }

    /// Visits a parameter.
    #[inline]
    pub fn parameter(&mut self, parameter: &Parameter) {
        match &mut self.to {
            To::Signature(it) => it.parameter(parameter),
            To::Visitor(it) => it.parameter(parameter),
        }
    }

    /// Visits a host value, or a part of one: number of elements, discriminant, bits.
    #[inline]
    pub fn fixed(&mut self, bits: u64) {
        match &mut self.to {
            To::Signature(it) => it.fixed(bits),
            To::Visitor(it) => it.fixed(bits),
        }
    }

    /// Visits a type that determines the code of the value.
    #[inline]
    pub fn ty(&mut self, ty: TypeKey) {
        match &mut self.to {
            To::Signature(it) => it.ty(ty),
            To::Visitor(it) => it.ty(ty),
        }
    }

    /// Visits a float, by its bits.
    #[inline]
    pub fn float(&mut self, bits: u64) {
        match &mut self.to {
            To::Signature(it) => it.fixed(bits),
            To::Visitor(it) => it.float(bits),
        }
    }

    /// Visits the mode of a cell: training or evaluation.
    #[inline]
    pub fn training(&mut self, flag: &Training) {
        match &mut self.to {
            To::Signature(it) => it.fixed(flag.get() as u64),
            To::Visitor(it) => it.training(flag),
        }
    }

    /// Visits the dtype in which a layer computes.
    #[inline]
    pub fn compute_dtype(&mut self, flag: &ComputeDType) {
        match &mut self.to {
            To::Signature(it) => it.fixed(flag.get().map_or(0, |it| it as u64 + 1)),
            To::Visitor(it) => it.compute_dtype(flag),
        }
    }

    /// Visits state for parameters, and returns whether its slots are visited next.
    #[inline]
    pub fn per_parameter(&mut self, state: &dyn PerParameter) -> bool {
        match &mut self.to {
            To::Signature(_) => true,
            To::Visitor(it) => it.per_parameter(state),
        }
    }

    /// Declares the sizes of the following tensors; `None` for tensors without.
    #[inline]
    pub fn sizes(&mut self, sizes: Option<&'static Sizes>) {
        match &mut self.to {
            To::Signature(it) => it.sizes(sizes),
            To::Visitor(it) => it.sizes(sizes),
        }
    }

    /// Returns whether the visitor uses the names of parts.
    #[inline]
    pub fn takes_names(&self) -> bool {
        matches!(self.to, To::Visitor(_))
    }

    /// Begins an argument of a call.
    #[inline]
    pub fn argument(&mut self, name: &'static str) {
        if let To::Visitor(it) = &mut self.to {
            it.argument(name);
        }
    }

    /// Begins a cell: the following parts, up to the end of the current part, belong to it.
    #[inline]
    pub fn cell<T: ?Sized>(&mut self, name: &'static str, cell: &T) {
        if let To::Visitor(it) = &mut self.to {
            let address = std::ptr::from_ref(cell).cast::<()>().addr();
            it.cell(CellId { name, address, ty: TypeKey::of::<T>(), is_empty: size_of_val(cell) == 0 });
        }
    }

    /// Begins a field or an element.
    ///
    /// Raises [`Code::Nesting`] if parts are nested so deeply that the stack would overflow.
    #[inline]
    pub fn begin(&mut self, name: Name<'_>) {
        if stack_address() < self.floor {
            refuse_nesting();
        }
        if let To::Visitor(it) = &mut self.to {
            it.begin(name);
        }
    }

    /// Ends a field or an element.
    #[inline]
    pub fn end(&mut self) {
        if let To::Visitor(it) = &mut self.to {
            it.end();
        }
    }
}

/// The identity of a cell: its type and its address, as long as it is not moved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CellId {
    name: &'static str,
    address: usize,
    ty: TypeKey,
    is_empty: bool,
}

impl CellId {
    /// Returns the name of its type, without arguments.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns whether it has no fields, so that other cells may have the same address.
    pub fn is_empty(self) -> bool {
        self.is_empty
    }
}

/// Visits the parts of an [`Arg`](super::Arg). It has the methods of [`Sink`].
pub trait Visitor {
    /// Visits a tensor.
    fn tensor(&mut self, tensor: &Tensor);

    /// Visits a parameter.
    fn parameter(&mut self, parameter: &Parameter);

    /// Visits a host value, or a part of one.
    fn fixed(&mut self, bits: u64);

    /// Visits a type that determines the code of the value.
    fn ty(&mut self, ty: TypeKey) {
        self.fixed(ty.number());
    }

    /// Visits a float.
    fn float(&mut self, bits: u64) {
        self.fixed(bits);
    }

    /// Visits the mode of a cell: training or evaluation.
    fn training(&mut self, flag: &Training) {
        self.fixed(flag.get() as u64);
    }

    /// Visits the dtype in which a layer computes.
    fn compute_dtype(&mut self, flag: &ComputeDType) {
        self.fixed(flag.get().map_or(0, |it| it as u64 + 1));
    }

    /// Visits state for parameters, and returns whether its slots are visited next.
    fn per_parameter(&mut self, state: &dyn PerParameter) -> bool {
        let _ = state;
        true
    }

    /// Declares the sizes of the following tensors.
    fn sizes(&mut self, sizes: Option<&'static Sizes>) {
        let _ = sizes;
    }

    /// Begins an argument of a call.
    fn argument(&mut self, name: &'static str) {
        let _ = name;
    }

    /// Begins a cell, to which the following parts belong.
    fn cell(&mut self, cell: CellId) {
        let _ = cell;
    }

    /// Begins a field or an element.
    fn begin(&mut self, name: Name<'_>) {
        let _ = name;
    }

    /// Ends a field or an element.
    fn end(&mut self) {}
}

/// State with a slot for each parameter of a set, such as the moments of an optimiser. Its slots are named [`Name::Of`]
/// their parameters.
pub trait PerParameter {
    /// Creates the slots of those parameters that have none.
    fn prepare(&self, parameters: &[Parameter]);
}

/// The name of a part: `fc1`, `[3]`, or `["w"]`.
///
/// See the example of [`Arg`](super::Arg).
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// A field.
    Field(&'a str),
    /// An element.
    Index(usize),
    /// The value of a key.
    Key(&'a dyn fmt::Debug),
    /// The state of a parameter, with its number among the states of other parameters.
    Of(&'a Parameter, usize),
}

impl Name<'_> {
    /// Formats the name as a step of a path: `.fc1`, `[3]`, or `["w"]`.
    pub fn step(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Index(i) | Self::Of(_, i) => write!(f, "[{i}]"),
            Self::Key(key) => write!(f, "[{key:?}]"),
        }
    }
}

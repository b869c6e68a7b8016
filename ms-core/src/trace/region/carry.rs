//! State that changes inside regions.

use super::kind::{Device, Host, Kind};
use crate::error::{Code, Error};
use crate::tensor::{Parameter, Tensor};
use crate::trace::arg::{Name, Sink, Tree, Visitor};

/// What a kind of region does with a variable of type `S` that changes inside: nothing on host
/// values, where any Rust type is fine; on tensors it becomes an operand and a result.
///
/// It is a trait of the kind, so that rustc does not guess the kind from the variable.
#[diagnostic::on_unimplemented(
    message = "MS020: `{S}` changes inside control flow on a tensor, but it is no structure of tensors",
    label = "changes inside a decision on a tensor",
    note = "make it a tensor, derive `Tree` for its type, or decide on a host value"
)]
pub trait Carry<S>: Kind {
    /// The value as it is now, where the region has to bring it back.
    fn copy(value: &S) -> Option<S>;

    /// Shows the tensors and host values inside.
    fn show(value: &S, leaves: &mut Leaves);

    /// Replaces the tensors inside.
    fn put(value: &mut S, next: &mut dyn FnMut(&Tensor) -> Tensor);

    /// Whether there is no structure of tensors in it, because it is the error of a `Result`.
    fn is_refusal(_: &S) -> bool {
        false
    }
}

#[diagnostic::do_not_recommend]
impl<S> Carry<S> for Host {
    #[inline]
    fn copy(_: &S) -> Option<S> {
        None
    }

    #[inline]
    fn show(_: &S, _: &mut Leaves) {}

    #[inline]
    fn put(_: &mut S, _: &mut dyn FnMut(&Tensor) -> Tensor) {}
}

#[diagnostic::do_not_recommend]
impl<S: Tree> Carry<S> for Device {
    fn copy(value: &S) -> Option<S> {
        Some(value.clone())
    }

    fn show(value: &S, leaves: &mut Leaves) {
        value.visit(&mut Sink::new(leaves));
    }

    fn put(value: &mut S, next: &mut dyn FnMut(&Tensor) -> Tensor) {
        *value = value.rebuild(next);
    }
}

#[diagnostic::do_not_recommend]
impl<S: Tree, E: Clone> Carry<Result<S, E>> for Device {
    fn copy(value: &Result<S, E>) -> Option<Result<S, E>> {
        Some(value.clone())
    }

    fn show(value: &Result<S, E>, leaves: &mut Leaves) {
        if let Ok(it) = value {
            it.visit(&mut Sink::new(leaves));
        }
    }

    fn put(value: &mut Result<S, E>, next: &mut dyn FnMut(&Tensor) -> Tensor) {
        if let Ok(it) = value {
            *it = it.rebuild(next);
        }
    }

    fn is_refusal(value: &Result<S, E>) -> bool {
        value.is_err()
    }
}

/// What is inside a value.
#[derive(Default)]
pub struct Leaves {
    /// The tensors.
    pub tensors: Vec<Tensor>,
    /// The path of each inside the value: `.layers[2]`.
    pub paths: Vec<String>,
    /// Everything else, and where it stands.
    fixed: Vec<(u64, usize)>,
    path: Vec<String>,
}

impl Leaves {
    /// What is inside `value`.
    pub fn of<K: Carry<S>, S>(value: &S) -> Self {
        let mut leaves = Self::default();
        K::show(value, &mut leaves);
        leaves
    }

    /// Whether the two differ in tensors only.
    pub fn fits(&self, other: &Self) -> bool {
        self.tensors.len() == other.tensors.len()
            && self.fixed.iter().map(|it| it.0).eq(other.fixed.iter().map(|it| it.0))
    }
}

impl Visitor for Leaves {
    fn tensor(&mut self, tensor: &Tensor) {
        self.tensors.push(tensor.clone());
        self.paths.push(self.path.concat());
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.fixed(parameter.id());
    }

    fn fixed(&mut self, bits: u64) {
        self.fixed.push((bits, self.tensors.len()));
    }

    fn begin(&mut self, name: Name<'_>) {
        self.path.push(name.step());
    }

    fn end(&mut self) {
        self.path.pop();
    }
}

/// What a region remembers of a variable.
pub struct Held<S> {
    /// Its name, for messages.
    pub(super) name: &'static str,
    /// Its value where the region begins.
    pub(super) before: Option<S>,
    /// Its value at the end of the first arm.
    pub(super) first: Option<S>,
    /// Its structure at the first border that compares.
    pub(super) leaves: Leaves,
    /// Whether there is a value at that border.
    pub(super) given: bool,
    /// Which variable of the region it is.
    pub(super) at: usize,
    /// It was refused: what it becomes is not to be used.
    pub(super) refused: bool,
    /// Nothing sees it where the region was left.
    pub(super) passes: bool,
}

/// Nothing remembered yet of the variable `name`.
#[inline]
pub fn held<S>(name: &'static str) -> Held<S> {
    Held {
        name,
        before: None,
        first: None,
        leaves: Leaves::default(),
        given: false,
        at: 0,
        refused: false,
        passes: false,
    }
}

/// The same for a variable that nothing sees behind an arm that leaves: its value is that of the
/// other arm.
#[inline]
pub fn passing<S>(name: &'static str) -> Held<S> {
    Held { passes: true, ..held(name) }
}

/// The value of the second arm of an `if`, of the type that the first one gave.
#[inline]
pub fn alike<S>(_: &Held<S>, value: S) -> S {
    value
}

impl<S> Held<S> {
    /// The error of a value that is not the same structure at two borders; `when` says which.
    pub(super) fn mismatch(&self, when: &str) -> Error {
        let ty = std::any::type_name::<S>();
        let name = self.name;
        Error::new(Code::HostChange, format!("{name} (`{ty}`) has other host values or another structure {when}")).help(
            "what changes under a decision on a tensor has to be a tensor, `Tensor::scalar(0.0)` instead of `0.0`; a list \
             keeps its length",
        )
    }

    /// The path of a tensor inside the variable, from its name on; nothing where it is no variable of
    /// the user's.
    pub(super) fn path(&self, leaf: usize) -> Option<String> {
        let name = self.name.strip_prefix('`')?.strip_suffix('`')?;
        Some(format!("{name}{}", self.leaves.paths[leaf]))
    }

    /// The error of a tensor that is of two types at two borders.
    pub(super) fn retyped(&self, leaf: usize, [one, other]: [&Tensor; 2], when: &str) -> Error {
        let place = self.path(leaf).map_or_else(|| self.name.to_owned(), |it| format!("`{it}`"));
        Error::new(Code::TypeChange, format!("{place} is {} {when} {}", one.ty(), other.ty())).help(
            "give it one shape and one dtype: begin with a tensor of the type that it ends with, or `.cast(..)` it",
        )
    }
}

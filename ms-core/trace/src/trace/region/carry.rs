//! Carries state that changes inside regions.

use super::kind::{Host, Kind, OnTensor};
use crate::trace::arg::{Name, Sink, Tree, Visitor};
use ms_ir::error::{Code, Error};
use ms_ops::tensor::{Parameter, Tensor};
use std::marker::PhantomData;

/// The treatment of a variable of type `S` that changes inside a kind of region. Host regions allow any Rust type and
/// need none. In tensor regions the variable becomes an operand and a result.
///
/// The trait is implemented for the kind, so that rustc does not infer the kind from the variable.
#[diagnostic::on_unimplemented(
    message = "`{S}` changes inside control flow on a tensor, but it is no structure of tensors",
    label = "changes inside a decision on a tensor",
    note = "make it a tensor, derive `Tree` for its type, or decide on a host value; for more information, run \
            `ms explain MS020`"
)]
pub trait Carry<S>: Kind + Sized {
    /// Makes rustc report a variable that a region cannot change.
    #[inline]
    fn accept(_: PhantomData<Self>, _: Option<&S>) {}

    /// Copies the value, if the region has to restore it.
    fn copy(value: &S) -> Option<S>;

    /// Collects the tensors and host values inside.
    fn show(value: &S, leaves: &mut Leaves);

    /// Replaces the tensors inside.
    fn put(value: &mut S, next: &mut dyn FnMut(&Tensor) -> Tensor);

    /// Returns whether it is the error of a `Result`, and thus not a structure of tensors.
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
impl<S: Tree> Carry<S> for OnTensor {
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
impl<S: Tree, E: Clone> Carry<Result<S, E>> for OnTensor {
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

/// The leaves of a value.
#[derive(Default)]
pub struct Leaves {
    /// The tensors.
    pub tensors: Vec<Tensor>,
    /// The path of each tensor inside the value: `.layers[2]`.
    pub paths: Vec<String>,
    /// The host values, with their positions.
    fixed: Vec<(u64, usize)>,
    path: Vec<String>,
}

impl Leaves {
    /// Collects the leaves of `value`.
    pub fn of<K: Carry<S>, S>(value: &S) -> Self {
        let mut leaves = Self::default();
        K::show(value, &mut leaves);
        leaves
    }

    /// Returns whether the two differ only in tensors.
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

/// The saved values of a variable of a region.
pub struct Held<S> {
    /// The name, for messages.
    pub(super) name: &'static str,
    /// The value at the beginning of the region.
    pub(super) before: Option<S>,
    /// The value at the end of the first arm.
    pub(super) first: Option<S>,
    /// The structure at the first border that is compared.
    pub(super) leaves: Leaves,
    /// Whether there is a value at that border.
    pub(super) given: bool,
    /// The number among the variables of the region.
    pub(super) at: usize,
    /// Whether it was reported as an error, so that its result must not be used.
    pub(super) refused: bool,
    /// Whether it is dead at the exits of the region.
    pub(super) passes: bool,
}

/// Creates the state of the variable `name`, without saved values.
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

/// Creates the state of a variable that is dead after an arm that jumps. It has the value of the other arm.
#[inline]
pub fn passing<S>(name: &'static str) -> Held<S> {
    Held { passes: true, ..held(name) }
}

/// The value of the second arm of an `if`, with the type of the first one. Code constructs it by its fields, so that
/// rustc only reports that their types differ.
pub struct SecondArm<'a, S> {
    /// The state of the first one.
    pub first: &'a Held<S>,
    /// The second one.
    pub value: S,
}

impl<S> Held<S> {
    /// Returns the error for a value whose structure differs at two borders; `when` names them.
    pub(super) fn mismatch(&self, when: &str) -> Error {
        let ty = std::any::type_name::<S>();
        let name = self.name;
        Error::new(Code::HostChange, format!("{name} (`{ty}`) has other host values or another structure {when}")).help(
            "what changes under a decision on a tensor has to be a tensor, `Tensor::scalar(0.0)` instead of `0.0`; a list \
             keeps its length",
        )
    }

    /// Returns the path of a tensor inside the variable, with its name; `None` if it is not a variable of the user.
    pub(super) fn path(&self, leaf: usize) -> Option<String> {
        let name = self.name.strip_prefix('`')?.strip_suffix('`')?;
        Some(format!("{name}{}", self.leaves.paths[leaf]))
    }

    /// Returns the error for a tensor whose type differs at two borders.
    pub(super) fn retyped(&self, leaf: usize, [one, other]: [&Tensor; 2], when: &str) -> Error {
        let place = self.path(leaf).map_or_else(|| self.name.to_owned(), |it| format!("`{it}`"));
        Error::new(Code::TypeChange, format!("{place} is {} {when} {}", one.ty(), other.ty())).help(
            "give it one shape and one dtype: begin with a tensor of the type that it ends with, or `.cast(..)` it",
        )
    }
}

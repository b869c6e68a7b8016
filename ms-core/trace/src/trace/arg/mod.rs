//! Defines the arguments and results of compiled functions: values with parts that can be visited.

mod containers;
mod flags;
mod leaf;
mod names;
mod sink;
mod sizes;

pub use flags::{ComputeDType, Training};
pub use leaf::Frozen;
pub use names::ArgumentNames;
pub use sink::{CellId, Name, PerParameter, Sink, Visitor};
pub use sizes::{Size, Sizes};

use ms_ops::tensor::{Parameter, Tensor};

/// An argument of a compiled function. Its tensors and parameters become inputs, and its static content becomes part of
/// the key.
///
/// Implemented for tensors, parameters, integers, floats, bools, strings and containers of them, by
/// `#[cell]` for networks and by `#[derive(Tree)]` for structures of tensors.
///
/// ```
/// use ms_core::{Parameter, tensor, trace::{Arg, Cell, Name, Sink}};
/// // What `#[cell]` makes of a struct.
/// struct Scale {
///     weight: Parameter,
/// }
/// impl Arg for Scale {
///     fn visit(&self, sink: &mut Sink<'_>) {
///         sink.begin(Name::Field("weight"));
///         self.weight.visit(sink);
///         sink.end();
///     }
/// }
/// impl Cell for Scale {}
/// let scale = Scale { weight: Parameter::new(tensor![2.0], "") };
/// assert_eq!(scale.named_parameters()?[0].0, "weight");
/// # Ok::<(), ms_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a compiled function or a cell",
    label = "neither tensors nor a host value that can be hashed",
    note = "derive `Tree` or `Static` for it, wrap it in `Frozen`, or mark the field `#[cell(skip)]`; for more information, run \
            `ms explain MS050`"
)]
pub trait Arg {
    /// Visits everything inside with `sink`, always in the same order.
    fn visit(&self, sink: &mut Sink<'_>);

    /// Returns this value with other tensors inside. Returns `None` if the value enters a trace unchanged, because its
    /// tensors are found by identity (cells) or there are none.
    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        let _ = next;
        None
    }
}

/// A pytree: a structure of tensors that can be rebuilt with other tensors in the same positions.
///
/// ```
/// use ms_core::{ops, tensor, trace::Tree};
/// let pair = (tensor![1.0], vec![tensor![2.0]]);
/// let (x, list) = pair.rebuild(&mut |it| ops::mul(it, 10));
/// assert_eq!((x.item::<f32>(), list[0].item::<f32>()), (10.0, 20.0));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a structure of tensors",
    label = "not a tensor, nor a container or structure of tensors",
    note = "derive `Tree` for it; for more information, run `ms explain MS051`"
)]
pub trait Tree: Arg + Clone {
    /// Rebuilds the structure with each tensor replaced by the result of `next`, in the order of [`Arg::visit`].
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;

    /// Returns the template that a compiled function stores between calls, to be rebuilt with the tensors of each call.
    /// It keeps nothing alive. A structure with parameters refers to them weakly.
    fn as_template(&self) -> Self {
        self.clone()
    }

    /// Serialises the structure without its tensors, as words for [`Tree::restore`]. Returns whether that is possible.
    fn store(&self, words: &mut Vec<u64>) -> bool {
        let _ = words;
        false
    }

    /// Rebuilds the structure that these words describe, with the tensors of `next`. Returns `None` if the words are
    /// invalid, or if there are too few tensors.
    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        let _ = (words, next);
        None
    }
}

/// Returns the tensors of a structure, in order.
pub fn leaves(tree: &impl Arg) -> Vec<Tensor> {
    visited(|sink| tree.visit(sink))
}

/// Returns the tensors that `visit` visits, in order.
pub fn visited(visit: impl FnOnce(&mut Sink<'_>)) -> Vec<Tensor> {
    struct Found(Vec<Tensor>);
    impl Visitor for Found {
        fn tensor(&mut self, tensor: &Tensor) {
            self.0.push(tensor.clone());
        }
        fn parameter(&mut self, _: &Parameter) {}
        fn fixed(&mut self, _: u64) {}
    }
    let mut found = Found(Vec::new());
    visit(&mut Sink::new(&mut found));
    found.0
}

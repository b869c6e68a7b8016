//! Callable values: cells as fields, and everything that is called by a local name.

use super::arg::Sink;
use super::cell::{Cell, Layer};
use super::type_key::TypeKey;
use crate::tensor::Tensor;
use std::sync::Arc;

/// A cell of one argument, as a field of another cell: what `self.fc1(&x)` calls.
///
/// `#[cell]` implements it on an impl whose `construct` takes one argument. The lifetime is that
/// of a borrowed argument.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` cannot be called with one argument",
    label = "not a cell of one argument",
    note = "MS014: a field is called when its type is a cell whose `construct` takes one argument; with other numbers of \
            arguments write `self.field.call(..)`"
)]
pub trait Apply<'a> {
    /// The argument.
    type Argument;
    /// The result.
    type Output;

    /// Calls the cell.
    fn apply(&self, argument: Self::Argument) -> Self::Output;
}

/// What a name can refer to in a call `name(x, y)` inside compiled functions: functions,
/// closures, cells, and types with `#[jit_class]` whose impl has a method `call`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `call` method",
    label = "called here",
    note = "MS013: write `#[jit_class]` on an impl with `fn call(&self, ..)` that takes these arguments"
)]
pub trait Callable<Args> {
    /// The result.
    type Output;
    /// Whether it captures values, which its type does not determine.
    const CAPTURES: bool = true;

    /// Visits the host values that it depends on besides its type and its captures, as a part of
    /// keys:
    /// those that were passed to a transform.
    fn sign(&self, sink: &mut Sink<'_>) {
        let _ = sink;
    }

    /// Calls it with a tuple of arguments.
    fn call_with(&self, arguments: Args) -> Self::Output;
}

/// Resolves a call of a local object to its [`Callable`]: `net(x, y)` is `net.invoke((x, y))`,
/// which is found through references.
pub trait Invoke {
    /// Calls it with a tuple of arguments.
    #[track_caller]
    fn invoke<Args>(&self, arguments: Args) -> Self::Output
    where
        Self: Callable<Args>;
}

impl<T: ?Sized> Invoke for T {
    #[inline]
    fn invoke<Args>(&self, arguments: Args) -> T::Output
    where
        T: Callable<Args>,
    {
        self.call_with(arguments)
    }
}

/// The marks of a cell: `#[lazy_inline]` and `#[no_inline]` define an inherent constant of the same
/// name, which takes precedence over the one here.
pub trait Marked {
    /// Not marked `#[lazy_inline]`.
    const LAZY_INLINE: bool = false;
    /// Not marked `#[no_inline]`.
    const NO_INLINE: bool = false;
}

impl<T: Cell + ?Sized> Marked for T {}

/// The marks of the calls of a cell or a function inside compiled code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// All calls with the same pattern share one graph, traced once.
    pub lazy_inline: bool,
    /// The graph is never inlined.
    pub no_inline: bool,
}

#[diagnostic::do_not_recommend]
impl<T> Layer for T
where
    T: Cell + Send + Sync + 'static + for<'a> Apply<'a, Argument = &'a Tensor, Output = Tensor>,
{
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.apply(x)
    }

    fn visit_layer(&self, sink: &mut Sink<'_>) {
        sink.ty(TypeKey::of::<T>());
        self.visit(sink);
    }
}

macro_rules! pointers {
    ($($pointer:ident),*) => {$(
        impl<T: Cell + ?Sized> Cell for $pointer<T> {}

        #[diagnostic::do_not_recommend]
        impl<'a, T: Apply<'a> + ?Sized> Apply<'a> for $pointer<T> {
            type Argument = T::Argument;
            type Output = T::Output;

            #[track_caller]
            fn apply(&self, argument: T::Argument) -> T::Output {
                (**self).apply(argument)
            }
        }
    )*};
}

pointers!(Box, Arc);

impl Cell for dyn Layer {}

#[diagnostic::do_not_recommend]
impl<'a> Apply<'a> for dyn Layer {
    type Argument = &'a Tensor;
    type Output = Tensor;

    #[track_caller]
    fn apply(&self, x: &'a Tensor) -> Tensor {
        self.forward(x)
    }
}

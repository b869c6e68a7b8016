//! What can be called: cells as fields, and everything that is called through a local name.

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

/// What a name can stand for in a call `name(x, y)` inside compiled functions: functions,
/// closures, cells, and types with `#[jit_class]` whose impl has a method `call`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `call` method",
    label = "called here",
    note = "MS013: write `#[jit_class]` on an impl with `fn call(&self, ..)` that takes these arguments"
)]
pub trait Callable<Args> {
    /// The result.
    type Output;
    /// Whether it holds values of its own, which its type does not tell.
    const CAPTURES: bool = true;

    /// Shows the host values that it depends on beside its type and what it captures, as a part
    /// of keys: those that were given to a transform.
    fn sign(&self, sink: &mut Sink<'_>) {
        let _ = sink;
    }

    /// Calls it with a tuple of arguments.
    fn call_with(&self, arguments: Args) -> Self::Output;
}

/// How annotated code asks a local object for its [`Callable`]: `net(x, y)` is
/// `net.invoke((x, y))`, found through references.
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

/// The marks of a cell: `#[lazy_inline]` and `#[no_inline]` give the type a constant of its own of
/// the same name, which stands before the one here.
pub trait Marked {
    /// Not marked `#[lazy_inline]`.
    const LAZY_INLINE: bool = false;
    /// Not marked `#[no_inline]`.
    const NO_INLINE: bool = false;
}

impl<T: Cell + ?Sized> Marked for T {}

/// What was asked for the calls of a cell or a function inside compiled code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// All calls that show the same are one graph, traced once.
    pub lazy_inline: bool,
    /// No pass puts the graph in the place of its calls.
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

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
    message = "a field of type `{Self}` cannot be called",
    label = "not a cell",
    note = "a field is called when it is a cell with `construct`, or of a type parameter with the bound `for<'a> Apply<'a, \
            Argument = &'a Tensor, Output = Tensor>`; for more information, run `ms explain MS014`"
)]
pub trait Apply<'a> {
    /// The argument.
    type Argument;
    /// The result.
    type Output;

    /// Calls the cell.
    fn apply(&self, argument: Self::Argument) -> Self::Output;
}

/// A cell of any number of arguments but one, as a field of another cell: what `self.attn(&q, &k)` calls.
///
/// `#[cell]` implements it. The lifetime is that of borrowed arguments.
pub trait ApplyAll<'a> {
    /// The arguments, as a tuple.
    type Arguments;
    /// The result.
    type Output;

    /// Calls the cell.
    fn apply_all(&self, arguments: Self::Arguments) -> Self::Output;
}

/// What a name can refer to in a call `name(x, y)` inside compiled functions: functions,
/// closures, cells, and types with `#[jit_class]` whose impl has a method `call`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `call` method",
    label = "called here",
    note = "write `#[jit_class]` on an impl with `fn call(&self, ..)` that takes these arguments, or `#[cell]` on one with \
            `construct`; for more information, run `ms explain MS013`"
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

/// The arguments of a call, as a tuple. It is made by its field, where rustc has nothing to say but that types differ.
pub struct Given<Args> {
    /// The tuple.
    pub arguments: Args,
}

/// Resolves a call of a local object to its [`Callable`]: `net(x, y)` is `net.invoke(..)`, which is found through
/// references.
pub trait Invoke {
    /// Calls it.
    #[track_caller]
    fn invoke<Args>(&self, given: Given<Args>) -> Self::Output
    where
        Self: Callable<Args>;
}

impl<T: ?Sized> Invoke for T {
    #[inline]
    fn invoke<Args>(&self, given: Given<Args>) -> T::Output
    where
        T: Callable<Args>,
    {
        self.call_with(given.arguments)
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

// Of every type, so that a type that is no cell has one error and not one for each mark.
#[diagnostic::do_not_recommend]
impl<T: ?Sized> Marked for T {}

/// A type with a method `call`, which takes precedence over the one of [`NoCall`].
///
/// No type implements it: it has the message for types without one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `call`",
    label = "no `#[cell]` impl of `{Self}` has `construct`",
    note = "write `#[cell]` on the impl with `fn construct(&self, ..)`, from which `call` is made; for more information, run \
            `ms explain MS013`"
)]
pub trait HasCall {}

/// Finds no `call`, with a message.
pub trait NoCall {
    /// Not there.
    fn call(&self);
}

#[diagnostic::do_not_recommend]
impl<T: HasCall + ?Sized> NoCall for T {
    fn call(&self) {}
}

/// The receiver of `construct`: a [`Cell`], whatever else is wrong.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a cell",
    label = "this impl needs a cell",
    note = "write `#[cell]` on the struct, and bounds such as `L: Cell` on its type parameters; for more information, run \
            `ms explain MS015`"
)]
pub trait Own<By> {
    /// `Self`. For a type that is no cell there is none, and rustc is silent about uses of it.
    type Own: Cell + ?Sized;

    /// `self`.
    fn own(&self) -> &Self::Own;
}

#[diagnostic::do_not_recommend]
impl<T: Cell + ?Sized> Own<Met> for T {
    type Own = T;

    #[inline]
    fn own(&self) -> &T {
        self
    }
}

// With a single impl, rustc would go on with `Own = T`.
#[diagnostic::do_not_recommend]
impl<T: HasCall + Cell + ?Sized> Own<Unmet> for T {
    type Own = T;

    fn own(&self) -> &T {
        self
    }
}

/// The bound of a hint is met.
pub struct Met;

/// No type meets the bound of a hint. An impl by it keeps rustc from choosing the other one before its bound is checked.
pub struct Unmet;

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
        #[diagnostic::do_not_recommend]
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

        #[diagnostic::do_not_recommend]
        impl<'a, T: ApplyAll<'a> + ?Sized> ApplyAll<'a> for $pointer<T> {
            type Arguments = T::Arguments;
            type Output = T::Output;

            #[track_caller]
            fn apply_all(&self, arguments: T::Arguments) -> T::Output {
                (**self).apply_all(arguments)
            }
        }
    )*};
}

pointers!(Box, Arc);

#[diagnostic::do_not_recommend]
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

macro_rules! functions {
    ($(($($ty:ident $i:tt),*);)*) => {$(
        impl<F, R, $($ty),*> Callable<($($ty,)*)> for F
        where
            F: Fn($($ty),*) -> R,
        {
            type Output = R;
            const CAPTURES: bool = size_of::<F>() != 0;

            #[track_caller]
            #[inline]
            fn call_with(&self, arguments: ($($ty,)*)) -> R {
                let _ = &arguments;
                self($(arguments.$i),*)
            }
        }
    )*};
}

functions! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, G 5);
    (A 0, B 1, C 2, D 3, E 4, G 5, H 6);
}

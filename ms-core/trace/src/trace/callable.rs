//! Defines callable values: cells as fields, and everything that is called by a local name.

use super::arg::Sink;
use super::cell::{Cell, Layer};
use super::type_key::TypeKey;
use ms_ops::tensor::Tensor;
use std::sync::Arc;

/// A cell of one argument, as a field of another cell: the callee of `self.fc1(&x)`.
///
/// `#[cell]` implements it on an impl whose `construct` takes one argument. The lifetime is that of a borrowed
/// argument.
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

/// A cell with zero, two or more arguments, as a field of another cell: the callee of `self.attn(&q, &k)`.
///
/// `#[cell]` implements it. `'a` is the lifetime of borrowed arguments.
pub trait ApplyAll<'a> {
    /// The arguments, as a tuple.
    type Arguments;
    /// The result.
    type Output;

    /// Calls the cell.
    fn apply_all(&self, arguments: Self::Arguments) -> Self::Output;
}

/// A callee of `name(x, y)` inside compiled functions: functions, closures, cells, and types with `#[jit_class]` whose
/// impl has a method `call`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `call` method",
    label = "called here",
    note = "write `#[jit_class]` on an impl with `fn call(&self, ..)` that takes these arguments, or `#[cell]` on one with \
            `construct`; for more information, run `ms explain MS013`"
)]
pub trait Callable<Args> {
    /// The result.
    type Output;
    /// Whether it has captures, whose values its type does not determine.
    const CAPTURES: bool = true;

    /// Visits the host values on which it depends besides its type and its captures, as part of keys: those that were
    /// passed to a transform.
    fn sign(&self, sink: &mut Sink<'_>) {
        let _ = sink;
    }

    /// Calls it with a tuple of arguments.
    fn call_with(&self, arguments: Args) -> Self::Output;
}

/// The arguments of a call, as a tuple. Code constructs it by its field, so that rustc only reports differing types.
pub struct Given<Args> {
    /// The tuple.
    pub arguments: Args,
}

/// Resolves a call of a local object to its [`Callable`]: `net(x, y)` is `net.invoke(..)`, which method lookup finds
/// through references.
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

// Every type implements it, so that a type that is not a cell causes one error instead of one for each mark.
#[diagnostic::do_not_recommend]
impl<T: ?Sized> Marked for T {}

/// A type with a method `call`, which takes precedence over [`NoCall`]'s.
///
/// No type implements this trait. It carries the message for types without one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `call`",
    label = "no `#[cell]` impl of `{Self}` has `construct`",
    note = "write `#[cell]` on the impl with `fn construct(&self, ..)`, from which `call` is made; for more information, run \
            `ms explain MS013`"
)]
pub trait HasCall {}

/// Reports a missing `call`.
pub trait NoCall {
    /// Never called.
    fn call(&self);
}

#[diagnostic::do_not_recommend]
impl<T: HasCall + ?Sized> NoCall for T {
    fn call(&self) {}
}

/// The receiver of `construct`: a [`Cell`], whatever other errors there are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a cell",
    label = "this impl needs a cell",
    note = "write `#[cell]` on the struct, and bounds such as `L: Cell` on its type parameters; for more information, run \
            `ms explain MS015`"
)]
pub trait Own<By> {
    /// `Self`. A type that is not a cell has none, and rustc does not report uses of it.
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

// With a single impl, rustc would infer `Own = T`.
#[diagnostic::do_not_recommend]
impl<T: HasCall + Cell + ?Sized> Own<Unmet> for T {
    type Own = T;

    fn own(&self) -> &T {
        self
    }
}

/// Marks a hint with a satisfied bound.
pub struct Met;

/// Marks a hint with an unsatisfiable bound. An impl for it keeps rustc from choosing the other impl before it checks
/// the bound.
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

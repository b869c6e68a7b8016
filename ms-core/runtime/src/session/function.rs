//! Defines functions of borrowed arguments as values: the inputs and outputs of transforms.
//!
//! Every transform takes a [`Function`] and returns a [`Transformed`], which is a function again.
//! Only this module enumerates numbers of arguments.

use ms_ops::tensor::Tensor;
use ms_trace::trace::{Arg, Callable, Sink};
use std::ops::Deref;
use std::rc::Rc;

/// The argument at position `I` as a target of derivatives.
///
/// ```
/// use ms_core::{Tensor, ops, session::{At, grad}, tensor};
/// let product = |x: &Tensor, y: &Tensor| ops::mul(x, y);
/// assert_eq!(grad(product).wrt(At::<1>)(&tensor![3.0], &tensor![5.0]).item::<f32>(), 3.0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct At<const I: usize>;

/// The argument types of a function that borrows its arguments: `(A, B)` for `fn(&A, &B)`.
pub trait Arguments: Sized + 'static {
    /// The arguments of one call.
    type Refs<'a>: Copy;
    /// The type of a function object with these arguments.
    type Closure<'f, R: 'f>: ?Sized + 'f;
    /// [`At`] of every position.
    type Each: Copy + Default + 'static;
    /// [`Transformed`] for `T`. Transforms return this alias, so that its type is unknown until the arguments are.
    /// rustc then reports only the errors of the function, and none about the result.
    type Transformed<'f, T: Transform<Self, Output: 'f> + 'f>;

    /// Boxes a function of a tuple of arguments as a function object.
    fn closure<'f, R: 'f>(f: impl for<'a> Fn(Self::Refs<'a>) -> R + 'f) -> Box<Self::Closure<'f, R>>;

    /// Returns the function that a transform describes.
    fn transformed<'f, T: Transform<Self, Output: 'f> + 'f>(transform: T) -> Self::Transformed<'f, T>;
}

/// [`Arguments`] with an argument at position `I`.
pub trait Nth<const I: usize>: Arguments {
    /// The type of the argument.
    type Item: 'static;

    /// Returns the argument.
    fn nth(arguments: Self::Refs<'_>) -> &Self::Item;

    /// Returns the arguments with `item` instead of this one.
    fn with_nth<'a, 'b: 'a>(arguments: Self::Refs<'b>, item: &'a Self::Item) -> Self::Refs<'a>;
}

/// [`Arguments`] to which another argument can be appended.
pub trait Followed<S: 'static>: Arguments {
    /// The arguments with one more appended.
    type Longer: Arguments;

    /// Splits off the appended argument.
    fn split_last<'a>(arguments: <Self::Longer as Arguments>::Refs<'a>) -> (Self::Refs<'a>, &'a S);

    /// Returns the arguments with `last` appended.
    fn with_last<'a, 'b: 'a>(arguments: Self::Refs<'b>, last: &'a S) -> <Self::Longer as Arguments>::Refs<'a>;
}

/// [`Arguments`] of compiled functions.
pub trait TracedArguments: Arguments {
    /// Visits everything inside; see [`Arg::visit`].
    fn visit(arguments: Self::Refs<'_>, sink: &mut Sink<'_>);

    /// Calls `f` with the traced arguments; see [`Arg::enter`]. `next` also receives the position of the argument.
    fn enter<R>(
        arguments: Self::Refs<'_>,
        next: &mut dyn FnMut(usize, &Tensor) -> Tensor,
        f: impl FnOnce(Self::Refs<'_>) -> R,
    ) -> R;
}

/// A function of borrowed arguments `Args`: a function, a closure, a cell, a type with
/// `#[jit_class]`, or the result of a transform.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be transformed",
    note = "transforms and `jit` take functions of up to seven references, and the types of a closure's arguments are \
            written: `|x: &Tensor, n: &usize|`; for more information, run `ms explain MS052`"
)]
pub trait Function<Args: Arguments> {
    /// The result.
    type Output;
    /// Whether it has captures; see [`Callable::CAPTURES`].
    const CAPTURES: bool;

    /// Visits the host values on which it depends; see [`Callable::sign`].
    fn sign(&self, sink: &mut Sink<'_>);

    /// Calls the function.
    fn invoke(&self, arguments: Args::Refs<'_>) -> Self::Output;
}

/// A transformed function as data, which [`Transformed`] turns into a function.
pub trait Transform<Args: Arguments> {
    /// The result.
    type Output;
    /// Whether it, or the function in it, has captures.
    const CAPTURES: bool;

    /// Visits the host values on which it, or the function in it, depends.
    fn sign(&self, sink: &mut Sink<'_>);

    /// Calls the transformed function.
    fn call(&self, arguments: Args::Refs<'_>) -> Self::Output;
}

/// The result of a transform. It is called like the original function, and every transform accepts it.
pub struct Transformed<'f, Args: Arguments, T: Transform<Args, Output: 'f> + 'f> {
    transform: Rc<T>,
    closure: Box<Args::Closure<'f, T::Output>>,
}

impl<'f, Args: Arguments, T: Transform<Args, Output: 'f> + 'f> Transformed<'f, Args, T> {
    /// Creates the function that `transform` describes.
    pub fn new(transform: T) -> Self {
        let transform = Rc::new(transform);
        let own = transform.clone();
        Self { transform, closure: Args::closure(move |arguments| own.call(arguments)) }
    }

    /// Returns the transform, to build another function from it.
    pub fn into_transform(self) -> T {
        drop(self.closure);
        Rc::into_inner(self.transform).expect("the closure held the only other reference")
    }
}

impl<'f, Args: Arguments, T: Transform<Args, Output: 'f> + 'f> Deref for Transformed<'f, Args, T> {
    type Target = Args::Closure<'f, T::Output>;

    fn deref(&self) -> &Self::Target {
        &self.closure
    }
}

macro_rules! arities {
    ($(($($ty:ident $arg:ident $i:tt),*);)*) => {$(
        impl<$($ty: 'static),*> Arguments for ($($ty,)*) {
            type Refs<'a> = ($(&'a $ty,)*);
            type Closure<'f, R: 'f> = dyn Fn($(&$ty),*) -> R + 'f;
            type Each = ($(At<$i>,)*);
            type Transformed<'f, T: Transform<Self, Output: 'f> + 'f> = Transformed<'f, Self, T>;

            fn closure<'f, R: 'f>(f: impl for<'a> Fn(Self::Refs<'a>) -> R + 'f) -> Box<Self::Closure<'f, R>> {
                Box::new(move |$($arg: &$ty),*| f(($($arg,)*)))
            }

            fn transformed<'f, T: Transform<Self, Output: 'f> + 'f>(transform: T) -> Transformed<'f, Self, T> {
                Transformed::new(transform)
            }
        }

        impl<$($ty: Arg + 'static),*> TracedArguments for ($($ty,)*) {
            fn visit(arguments: Self::Refs<'_>, sink: &mut Sink<'_>) {
                let ($($arg,)*) = arguments;
                let _ = sink;
                $(
                    sink.argument(concat!("argument ", stringify!($arg)));
                    $arg.visit(sink);
                )*
            }

            fn enter<R>(
                arguments: Self::Refs<'_>,
                next: &mut dyn FnMut(usize, &Tensor) -> Tensor,
                f: impl FnOnce(Self::Refs<'_>) -> R,
            ) -> R {
                let ($($arg,)*) = arguments;
                let _ = next;
                let entered = ($($arg.enter(&mut |it| next($i, it)),)*);
                let _ = &entered;
                f(($(entered.$i.as_deref().unwrap_or($arg),)*))
            }
        }

        impl<F, R, $($ty: 'static),*> Function<($($ty,)*)> for F
        where
            F: for<'a> Callable<($(&'a $ty,)*), Output = R> + ?Sized,
        {
            type Output = R;
            const CAPTURES: bool = <F as Callable<($(&'static $ty,)*)>>::CAPTURES;

            fn sign(&self, sink: &mut Sink<'_>) {
                <F as Callable<($(&'static $ty,)*)>>::sign(self, sink);
            }

            #[track_caller]
            fn invoke(&self, arguments: ($(&$ty,)*)) -> R {
                self.call_with(arguments)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<'f, 'r, T, $($ty: 'static),*> Callable<($(&'r $ty,)*)> for Transformed<'f, ($($ty,)*), T>
        where
            T: Transform<($($ty,)*), Output: 'f> + 'f,
        {
            type Output = T::Output;
            const CAPTURES: bool = T::CAPTURES;

            fn sign(&self, sink: &mut Sink<'_>) {
                self.transform.sign(sink);
            }

            fn call_with(&self, arguments: ($(&'r $ty,)*)) -> T::Output {
                self.transform.call(arguments)
            }
        }

        nth!([] [$($ty $arg $i)*]);
    )*};
}

/// Implements [`Nth`] for every position: the arguments before it, the argument itself, and those after it.
macro_rules! nth {
    ([$($before:ident $b:ident $bi:tt)*] []) => {};
    ([$($before:ident $b:ident $bi:tt)*] [$item:ident $arg:ident $i:tt $($after:ident $a:ident $ai:tt)*]) => {
        impl<$($before: 'static,)* $item: 'static, $($after: 'static),*> Nth<$i> for ($($before,)* $item, $($after,)*) {
            type Item = $item;

            fn nth(arguments: Self::Refs<'_>) -> &$item {
                arguments.$i
            }

            fn with_nth<'a, 'b: 'a>(arguments: Self::Refs<'b>, item: &'a $item) -> Self::Refs<'a> {
                let _ = arguments;
                ($(arguments.$bi,)* item, $(arguments.$ai,)*)
            }
        }
        nth!([$($before $b $bi)* $item $arg $i] [$($after $a $ai)*]);
    };
}

macro_rules! followed {
    ($(($($ty:ident $i:tt),*) $last:tt;)*) => {$(
        impl<S: 'static, $($ty: 'static),*> Followed<S> for ($($ty,)*) {
            type Longer = ($($ty,)* S,);

            fn split_last<'a>(arguments: <Self::Longer as Arguments>::Refs<'a>) -> (Self::Refs<'a>, &'a S) {
                (($(arguments.$i,)*), arguments.$last)
            }

            fn with_last<'a, 'b: 'a>(
                arguments: Self::Refs<'b>,
                last: &'a S,
            ) -> <Self::Longer as Arguments>::Refs<'a> {
                let _ = arguments;
                ($(arguments.$i,)* last,)
            }
        }
    )*};
}

arities! {
    ();
    (A a 0);
    (A a 0, B b 1);
    (A a 0, B b 1, C c 2);
    (A a 0, B b 1, C c 2, D d 3);
    (A a 0, B b 1, C c 2, D d 3, E e 4);
    (A a 0, B b 1, C c 2, D d 3, E e 4, G g 5);
    (A a 0, B b 1, C c 2, D d 3, E e 4, G g 5, H h 6);
}

followed! {
    () 0;
    (A 0) 1;
    (A 0, B 1) 2;
    (A 0, B 1, C 2) 3;
    (A 0, B 1, C 2, D 3) 4;
    (A 0, B 1, C 2, D 3, E 4) 5;
    (A 0, B 1, C 2, D 3, E 4, G 5) 6;
}

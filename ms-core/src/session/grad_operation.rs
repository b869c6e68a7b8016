//! MindSpore's name for gradients: `GradOperation`.

use super::grad::{Differentiable, Function, Transformed, Wrt, differentiate, or_raise_at};
use crate::tensor::Tensor;
use crate::trace::Tree;
use std::panic::Location;

/// Makes gradient functions: of the first argument, or with [`GradOperation::get_all`] of all.
///
/// ```
/// use ms_core::{Tensor, ops, session::GradOperation};
/// let x = Tensor::from_slice([1], &[3.0f32]);
/// let (gx, gy) = GradOperation::new().get_all().of(|x: &Tensor, y: &Tensor| ops::add(x, y))(&x, &x);
/// assert_eq!((gx.item::<f32>(), gy.item::<f32>()), (1.0, 1.0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GradOperation;

/// [`GradOperation`] with respect to all arguments.
#[derive(Clone, Copy, Debug)]
pub struct GradOfAll;

impl GradOperation {
    /// Gradients of the first argument.
    pub fn new() -> Self {
        Self
    }

    /// Gradients of all arguments, as a tuple.
    pub fn get_all(self) -> GradOfAll {
        GradOfAll
    }

    /// The gradient function of `f`.
    #[track_caller]
    pub fn of<'f, Args, F: Function<'f, Args>>(self, f: F) -> Transformed<F::Grad> {
        super::grad::grad(f)
    }
}

impl GradOfAll {
    /// The function that gives the gradients of all arguments of `f`.
    #[track_caller]
    pub fn of<'f, Args, F: FunctionOfAll<'f, Args>>(self, f: F) -> Transformed<F::Gradients> {
        Transformed::new(f.into_gradients(Location::caller()))
    }
}

/// A function all of whose arguments have gradients.
pub trait FunctionOfAll<'f, Args>: Sized {
    /// The function that gives them.
    type Gradients: ?Sized;

    /// See [`GradOfAll::of`].
    fn into_gradients(self, location: &'static Location<'static>) -> Box<Self::Gradients>;
}

macro_rules! functions {
    ($(($($ty:ident $arg:ident),*);)*) => {$(
        impl<'f, F, R, $($ty),*> FunctionOfAll<'f, (R, $($ty,)*)> for F
        where
            F: Fn($(&$ty),*) -> R + 'f,
            R: Tree + 'f,
            $($ty: Differentiable + 'f),*
        {
            type Gradients = dyn Fn($(&$ty),*) -> ($($ty::Gradient,)*) + 'f;

            fn into_gradients(self, location: &'static Location<'static>) -> Box<Self::Gradients> {
                Box::new(move |$($arg: &$ty),*| {
                    // The tensors of all arguments stand before all parameters, so each argument
                    // is differentiated with its own share of both.
                    let mut wrt = Wrt::default();
                    $($arg.collect(&mut wrt);)*
                    let run = |tensors: &[Tensor]| {
                        let mut next = tensors.iter();
                        let mut next = |_: &Tensor| next.next().expect("one for each tensor").clone();
                        $(
                            let given = $arg.substitute(&mut next);
                            let $arg = given.as_deref().unwrap_or($arg);
                        )*
                        self($($arg),*)
                    };
                    let (_, gradients) = or_raise_at(differentiate(&wrt, run, location));
                    let (tensors, parameters) = gradients.split_at(wrt.tensor_count());
                    let (mut tensors, mut parameters) = (tensors.iter(), parameters.iter());
                    ($({
                        let mut own = Wrt::default();
                        $arg.collect(&mut own);
                        let source = if own.tensor_count() > 0 { &mut tensors } else { &mut parameters };
                        $arg.gradient(&mut || source.next().expect("one for each tensor").clone())
                    },)*)
                })
            }
        }
    )*};
}

functions! {
    (A a);
    (A a, B b);
    (A a, B b, C c);
    (A a, B b, C c, D d);
    (A a, B b, C c, D d, E e);
    (A a, B b, C c, D d, E e, G g);
}

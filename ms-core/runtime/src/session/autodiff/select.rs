//! Selects arguments and parameters as targets of a derivative.

use crate::session::{Arguments, At, Nth};
use ms_ir::MapVec;
use ms_ops::tensor::{Parameter, Tensor};
use ms_trace::trace::{Differentiable, Gradients, Wrt};
use ms_trace::trace::{Tree, tuples_of};

/// A choice among the arguments `Args` of a function and the parameters that it reads. Choices are [`At<I>`](At) for
/// the argument of position `I`, [`All`] for all arguments, a [`Parameter`] or a `Vec` of them, and tuples of choices.
#[diagnostic::on_unimplemented(
    message = "no derivative can be taken with respect to `{Self}` of a function of `{Args}`",
    note = "write `At::<1>` for the second argument, `All` for all, parameters, or a tuple of these"
)]
pub trait Select<Args: Arguments> {
    /// The type of the gradient.
    type Gradient: Tree;

    /// Adds the targets.
    fn collect(&self, arguments: Args::Refs<'_>, wrt: &mut Wrt);

    /// Calls `then` with the arguments, with other tensors in the selected positions.
    fn substitute(
        &self,
        arguments: Args::Refs<'_>,
        next: &dyn Fn(&Tensor) -> Tensor,
        then: &mut dyn FnMut(Args::Refs<'_>),
    );

    /// Builds the gradient from its tensors in order.
    fn gradient(&self, arguments: Args::Refs<'_>, next: &mut dyn FnMut() -> Tensor) -> Self::Gradient;
}

/// All arguments of a function.
///
/// ```
/// use ms_core::{Tensor, ops, session::{All, grad}, tensor};
/// let product = |x: &Tensor, y: &Tensor| ops::mul(x, y);
/// let (gx, gy) = grad(product).wrt(All)(&tensor![3.0], &tensor![5.0]);
/// assert_eq!((gx.item::<f32>(), gy.item::<f32>()), (5.0, 3.0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct All;

impl<Args: Nth<I, Item: Differentiable>, const I: usize> Select<Args> for At<I> {
    type Gradient = <Args::Item as Differentiable>::Gradient;

    fn collect(&self, arguments: Args::Refs<'_>, wrt: &mut Wrt) {
        Args::nth(arguments).collect(wrt);
    }

    fn substitute(
        &self,
        arguments: Args::Refs<'_>,
        next: &dyn Fn(&Tensor) -> Tensor,
        then: &mut dyn FnMut(Args::Refs<'_>),
    ) {
        match Args::nth(arguments).substitute(&mut |it| next(it)) {
            Some(item) => then(Args::with_nth(arguments, &item)),
            None => then(arguments),
        }
    }

    fn gradient(&self, arguments: Args::Refs<'_>, next: &mut dyn FnMut() -> Tensor) -> Self::Gradient {
        Args::nth(arguments).gradient(next)
    }
}

impl<Args: Arguments<Each: Select<Args>>> Select<Args> for All {
    type Gradient = <Args::Each as Select<Args>>::Gradient;

    fn collect(&self, arguments: Args::Refs<'_>, wrt: &mut Wrt) {
        Args::Each::default().collect(arguments, wrt);
    }

    fn substitute(
        &self,
        arguments: Args::Refs<'_>,
        next: &dyn Fn(&Tensor) -> Tensor,
        then: &mut dyn FnMut(Args::Refs<'_>),
    ) {
        Args::Each::default().substitute(arguments, next, then);
    }

    fn gradient(&self, arguments: Args::Refs<'_>, next: &mut dyn FnMut() -> Tensor) -> Self::Gradient {
        Args::Each::default().gradient(arguments, next)
    }
}

/// Implements a selection of parameters, which belong to no argument.
macro_rules! parameters {
    ($ty:ty, $gradient:ty) => {
        impl<Args: Arguments> Select<Args> for $ty {
            type Gradient = $gradient;

            fn collect(&self, _: Args::Refs<'_>, wrt: &mut Wrt) {
                wrt.parameters(self.iter().cloned());
            }

            fn substitute(
                &self,
                arguments: Args::Refs<'_>,
                _: &dyn Fn(&Tensor) -> Tensor,
                then: &mut dyn FnMut(Args::Refs<'_>),
            ) {
                then(arguments);
            }

            fn gradient(&self, _: Args::Refs<'_>, next: &mut dyn FnMut() -> Tensor) -> Gradients {
                Gradients::new(self.to_vec(), self.map_vec(|_| next()))
            }
        }
    };
}

parameters!(Vec<Parameter>, Gradients);
parameters!(&[Parameter], Gradients);

impl<Args: Arguments> Select<Args> for Parameter {
    type Gradient = Tensor;

    fn collect(&self, _: Args::Refs<'_>, wrt: &mut Wrt) {
        wrt.parameters([self.clone()]);
    }

    fn substitute(
        &self,
        arguments: Args::Refs<'_>,
        _: &dyn Fn(&Tensor) -> Tensor,
        then: &mut dyn FnMut(Args::Refs<'_>),
    ) {
        then(arguments);
    }

    fn gradient(&self, _: Args::Refs<'_>, next: &mut dyn FnMut() -> Tensor) -> Tensor {
        next()
    }
}

/// Substitutes the selections in order. Each sees the substitutions of those before it.
macro_rules! nested {
    ($arguments:expr, $next:expr, $then:expr,) => { $then($arguments) };
    ($arguments:expr, $next:expr, $then:expr, $first:expr, $($rest:expr,)*) => {
        $first.substitute($arguments, $next, &mut |arguments| nested!(arguments, $next, $then, $($rest,)*))
    };
}

macro_rules! tuples {
    ($(($($choice:ident $i:tt),+);)*) => {$(
        impl<Args: Arguments, $($choice: Select<Args>),+> Select<Args> for ($($choice,)+) {
            type Gradient = ($($choice::Gradient,)+);

            fn collect(&self, arguments: Args::Refs<'_>, wrt: &mut Wrt) {
                $(self.$i.collect(arguments, wrt);)+
            }

            fn substitute(
                &self,
                arguments: Args::Refs<'_>,
                next: &dyn Fn(&Tensor) -> Tensor,
                then: &mut dyn FnMut(Args::Refs<'_>),
            ) {
                nested!(arguments, next, then, $(self.$i,)+);
            }

            fn gradient(&self, arguments: Args::Refs<'_>, next: &mut dyn FnMut() -> Tensor) -> Self::Gradient {
                ($(self.$i.gradient(arguments, next),)+)
            }
        }
    )*};
}

tuples_of!(tuples);

//! Implements gradients as functions: `grad`, `value_and_grad`.

use super::derived::{Derived, Mode, rebuilt};
use super::select::Select;
use crate::session::{Arguments, At, Function, Transform, Transformed};
use ms_trace::trace::{Sink, Tree, leaves};
use std::marker::PhantomData;
use std::panic::Location;

/// The result of a gradient function, from the result `R` and the gradient.
pub trait Outcome<R> {
    /// The type of the outcome.
    type Output<G>;

    /// Returns the number of leading tensors of the result that are differentiated.
    fn differentiated(result: &R) -> usize;

    /// The outcome.
    fn output<G>(result: R, gradient: G) -> Self::Output<G>;
}

/// The gradient alone.
pub struct OnlyGradient;

/// The result and the gradient.
pub struct WithValue;

/// [`OnlyGradient`] or [`WithValue`] for a function that returns a pair, of which the first part is differentiated.
pub struct WithAux<O>(O);

impl<R: Tree> Outcome<R> for OnlyGradient {
    type Output<G> = G;

    fn differentiated(result: &R) -> usize {
        leaves(result).len()
    }

    fn output<G>(_: R, gradient: G) -> G {
        gradient
    }
}

impl<R: Tree> Outcome<R> for WithValue {
    type Output<G> = (R, G);

    fn differentiated(result: &R) -> usize {
        leaves(result).len()
    }

    fn output<G>(result: R, gradient: G) -> (R, G) {
        (result, gradient)
    }
}

impl<R: Tree, A: Tree> Outcome<(R, A)> for WithAux<OnlyGradient> {
    type Output<G> = (G, A);

    fn differentiated(result: &(R, A)) -> usize {
        leaves(&result.0).len()
    }

    fn output<G>(result: (R, A), gradient: G) -> (G, A) {
        (gradient, result.1)
    }
}

impl<R: Tree, A: Tree> Outcome<(R, A)> for WithAux<WithValue> {
    type Output<G> = ((R, A), G);

    fn differentiated(result: &(R, A)) -> usize {
        leaves(&result.0).len()
    }

    fn output<G>(result: (R, A), gradient: G) -> ((R, A), G) {
        (result, gradient)
    }
}

impl<O> Mode for Gradient<O> {}

/// Returns gradients in the form `O`.
pub struct Gradient<O>(PhantomData<O>);

/// The result of [`grad`] and [`value_and_grad`] for `F`.
pub type Grad<F, S, O> = Derived<F, S, Gradient<O>>;

impl<Args, F, S, O> Transform<Args> for Grad<F, S, O>
where
    Args: Arguments,
    F: Function<Args, Output: Tree>,
    S: Select<Args>,
    O: Outcome<F::Output>,
{
    type Output = O::Output<S::Gradient>;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.function().sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> Self::Output {
        let (template, recording) = self.record("grad", arguments);
        let (values, gradients) = self.passed("grad", || recording.gradients(O::differentiated(&template)));
        O::output(rebuilt(&template, values), self.gradient(arguments, gradients))
    }
}

impl<'f, Args, F, S, O> Transformed<'f, Args, Grad<F, S, O>>
where
    Args: Arguments,
    F: Function<Args, Output: Tree> + 'f,
    S: Select<Args, Gradient: 'f> + 'f,
    O: Outcome<F::Output, Output<S::Gradient>: 'f> + 'f,
{
    /// Differentiates only the first part of a result that is a pair. Returns the second part (the auxiliary results)
    /// unchanged, after the gradient or in the value.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, session::grad};
    /// let x = Tensor::scalar(3.0);
    /// let (g, twice) = grad(|x: &Tensor| (ops::mul(x, x), ops::add(x, x))).has_aux()(&x);
    /// assert_eq!((g.item::<f32>(), twice.item::<f32>()), (6.0, 6.0));
    /// ```
    pub fn has_aux(self) -> Transformed<'f, Args, Grad<F, S, WithAux<O>>>
    where
        WithAux<O>: Outcome<F::Output, Output<S::Gradient>: 'f>,
    {
        Transformed::new(self.into_transform().with_mode())
    }
}

/// Returns the gradient function of the sum of a function's results with respect to its first argument; see
/// [`Derived::wrt`](crate::session::Derived) for others.
///
/// ```
/// use ms_core::{Tensor, ops, session::grad};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let cube = |x: &Tensor| ops::mul(ops::mul(x, x), x);
/// assert_eq!(grad(cube)(&x).to_vec::<f32>(), [3.0, 12.0]);
/// assert_eq!(grad(grad(cube))(&x).to_vec::<f32>(), [6.0, 12.0]);
/// ```
///
/// # Errors
/// A call raises [`Code::NoGradient`](crate::Code::NoGradient) for an integer argument, and if an op on the path has no
/// derivative.
#[track_caller]
pub fn grad<'f, Args, F>(f: F) -> Args::Transformed<'f, Grad<F, At<0>, OnlyGradient>>
where
    Args: Arguments,
    At<0>: Select<Args, Gradient: 'f>,
    F: Function<Args, Output: Tree> + 'f,
{
    Args::transformed(Derived::new(f, At, Location::caller()))
}

/// Returns a function that computes both the results of `f` and the gradient of their sum with respect to its first
/// argument; see [`grad`].
///
/// ```
/// use ms_core::{ops, session::value_and_grad, tensor};
/// let (value, gradient) = value_and_grad(|x: &ms_core::Tensor| ops::square(x))(&tensor![3.0]);
/// assert_eq!((value.item::<f32>(), gradient.item::<f32>()), (9.0, 6.0));
/// ```
#[track_caller]
pub fn value_and_grad<'f, Args, F>(f: F) -> Args::Transformed<'f, Grad<F, At<0>, WithValue>>
where
    Args: Arguments,
    At<0>: Select<Args, Gradient: 'f>,
    F: Function<Args, Output: Tree + 'f> + 'f,
{
    Args::transformed(Derived::new(f, At, Location::caller()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{JitFn, JitReturn, type_key};
    use ms_ir::error::Code;
    use ms_ops::ops;
    use ms_ops::tensor::Tensor;
    use ms_trace::trace::Arg;

    fn jitted<R: JitReturn>(function: &'static JitFn, x: &Tensor, body: impl FnOnce(&Tensor) -> R) -> R {
        let mut call = function.begin(type_key(&body), |sink| x.visit(sink));
        if let Some(result) = call.cached() {
            return result;
        }
        let x = call.enter(x);
        call.finish(|| body(&x))
    }

    fn doubled(x: &Tensor) -> Tensor {
        ops::add(x, x)
    }

    #[test]
    fn gradient_is_the_same_on_the_tape_in_a_trace_and_through_a_compiled_call() {
        static TRACED: JitFn = JitFn::new("traced", file!(), line!(), 0);
        static CALLED: JitFn = JitFn::new("called", file!(), line!(), 0);
        let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
        let want = vec![2.0f32, 2.0];
        assert_eq!(grad(doubled)(&x).to_vec::<f32>(), want);
        for _ in 0..2 {
            assert_eq!(jitted(&TRACED, &x, |x| grad(doubled)(x)).to_vec::<f32>(), want);
            let through = |x: &Tensor| jitted(&CALLED, x, doubled);
            let (y, g) = value_and_grad(through)(&x);
            assert_eq!((y.to_vec::<f32>(), g.to_vec::<f32>()), (vec![2.0, 4.0], want.clone()));
        }
        assert_eq!((TRACED.versions(), CALLED.versions()), (1, 1));
    }

    #[test]
    fn integers_have_no_gradient() {
        let x = Tensor::from_slice([1], &[1i64]);
        let error = crate::catch(|| grad(doubled)(&x)).expect_err("refused");
        assert_eq!(error.code(), Code::NoGradient);
    }
}

//! Gradients as functions: `grad`, `value_and_grad`.

use super::differentiable::Wrt;
use super::record::record;
use super::select::{All, Select};
use crate::error::{Result, raise};
use crate::tensor::Tensor;
use crate::trace::{Arguments, At, Function, Sink, Transform, Transformed, Tree, leaves};
use std::cell::Cell;
use std::panic::Location;

/// What a gradient function gives of the result `R` and the gradient.
pub trait Outcome<R> {
    /// It.
    type Output<G>;

    /// How many tensors of the result, from the first one on, are differentiated.
    fn differentiated(result: &R) -> usize;

    /// The outcome.
    fn output<G>(result: R, gradient: G) -> Self::Output<G>;
}

/// The gradient alone.
pub struct OnlyGradient;

/// The result and the gradient.
pub struct WithValue;

/// [`OnlyGradient`] or [`WithValue`] of a function whose result is a pair, of which the first
/// part is differentiated.
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

/// The transform behind [`grad`] and [`value_and_grad`].
pub struct Grad<F, S, O> {
    f: F,
    select: S,
    outcome: std::marker::PhantomData<O>,
    location: &'static Location<'static>,
}

impl<F, S, O> Grad<F, S, O> {
    pub(super) fn new(f: F, select: S, location: &'static Location<'static>) -> Self {
        Self { f, select, outcome: std::marker::PhantomData, location }
    }
}

/// Calls `f` with other tensors in the places that `select` chooses.
pub(super) fn call_on<Args: Arguments, F: Function<Args>>(
    f: &F,
    select: &impl Select<Args>,
    arguments: Args::Refs<'_>,
    tensors: &[Tensor],
) -> F::Output {
    let at = Cell::new(0);
    let mut result = None;
    let next = |_: &Tensor| tensors[at.replace(at.get() + 1)].clone();
    select.substitute(arguments, &next, &mut |arguments| result = Some(f.invoke(arguments)));
    result.expect("a choice calls its continuation")
}

/// The value, or a panic with the error's text; the error names the user's line already.
pub(super) fn or_raise_at<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => raise(error),
    }
}

impl<Args, F, S, O> Transform<Args> for Grad<F, S, O>
where
    Args: Arguments,
    F: Function<Args, Output: Tree>,
    S: Select<Args>,
    O: Outcome<F::Output>,
{
    type Output = O::Output<S::Gradient>;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut dyn Sink) {
        self.f.sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> Self::Output {
        let mut wrt = Wrt::default();
        self.select.collect(arguments, &mut wrt);
        let body = |tensors: &[Tensor]| call_on(&self.f, &self.select, arguments, tensors);
        let (template, recording) = or_raise_at(record("grad", wrt, body, self.location));
        let (values, gradients) = or_raise_at(recording.gradients(O::differentiated(&template), None));
        let mut values = values.into_iter();
        let result = template.rebuild(&mut |_| values.next().expect("one for each tensor of the result"));
        let mut gradients = gradients.into_iter();
        let gradient = self.select.gradient(arguments, &mut || gradients.next().expect("one for each tensor"));
        O::output(result, gradient)
    }
}

impl<'f, Args, F, S, O> Transformed<'f, Args, Grad<F, S, O>>
where
    Args: Arguments,
    F: Function<Args, Output: Tree> + 'f,
    S: Select<Args, Gradient: 'f> + 'f,
    O: Outcome<F::Output, Output<S::Gradient>: 'f> + 'f,
{
    /// Gradients with respect to other arguments, or to parameters.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, session::{All, grad}, trace::At};
    /// let (x, y) = (Tensor::scalar(3.0), Tensor::scalar(5.0));
    /// let product = |x: &Tensor, y: &Tensor| ops::mul(x, y);
    /// assert_eq!(grad(product).wrt(At::<1>)(&x, &y).item::<f32>(), 3.0);
    /// let (gx, gy) = grad(product).wrt(All)(&x, &y);
    /// assert_eq!((gx.item::<f32>(), gy.item::<f32>()), (5.0, 3.0));
    /// ```
    pub fn wrt<T>(self, select: T) -> Transformed<'f, Args, Grad<F, T, O>>
    where
        T: Select<Args, Gradient: 'f> + 'f,
        O: Outcome<F::Output, Output<T::Gradient>: 'f>,
    {
        let Grad { f, location, .. } = self.into_transform();
        Transformed::new(Grad::new(f, select, location))
    }

    /// [`wrt`](Self::wrt) all arguments.
    pub fn wrt_all(self) -> Transformed<'f, Args, Grad<F, All, O>>
    where
        All: Select<Args, Gradient: 'f>,
        O: Outcome<F::Output, Output<<All as Select<Args>>::Gradient>: 'f>,
    {
        self.wrt(All)
    }

    /// Differentiates only the first part of a result that is a pair, and gives the second part
    /// (the auxiliary results) as it is: behind the gradient, or in the value.
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
        let Grad { f, select, location, .. } = self.into_transform();
        Transformed::new(Grad::new(f, select, location))
    }
}

/// The gradient of the sum of a function's results with respect to its first argument; see
/// [`Transformed::wrt`] for others.
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
/// A call raises [`Code::NoGradient`](crate::Code::NoGradient) for an integer argument, and
/// where an op on the way has no derivative.
#[track_caller]
pub fn grad<'f, Args, F>(f: F) -> Transformed<'f, Args, Grad<F, At<0>, OnlyGradient>>
where
    Args: Arguments,
    At<0>: Select<Args, Gradient: 'f>,
    F: Function<Args, Output: Tree> + 'f,
{
    Transformed::new(Grad::new(f, At, Location::caller()))
}

/// The results of a function, and the gradient of their sum with respect to its first argument;
/// see [`grad`].
#[track_caller]
pub fn value_and_grad<'f, Args, F>(f: F) -> Transformed<'f, Args, Grad<F, At<0>, WithValue>>
where
    Args: Arguments,
    At<0>: Select<Args, Gradient: 'f>,
    F: Function<Args, Output: Tree + 'f> + 'f,
{
    Transformed::new(Grad::new(f, At, Location::caller()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::ops;
    use crate::session::{JitFn, JitReturn, type_key};
    use crate::trace::Arg;

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

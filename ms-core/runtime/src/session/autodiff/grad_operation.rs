//! Implements `GradOperation`, MindSpore's name for gradients.

use super::derived::Derived;
use super::grad::{Grad, OnlyGradient};
use super::select::{All, Select};
use crate::session::{Arguments, At, Followed, Function, Transform};
use ms_ir::error::{Code, Error};
use ms_ops::tensor::Tensor;
use ms_trace::trace::{Sink, Tree, leaves};
use std::panic::Location;

/// Creates gradient functions of the sum of results: for the first argument, for all, or for parameters.
///
/// ```
/// use ms_core::{Tensor, ops, session::GradOperation};
/// let x = Tensor::from_slice([1], &[3.0f32]);
/// let (gx, gy) = GradOperation::new().get_all().of(|x: &Tensor, y: &Tensor| ops::add(x, y))(&x, &x);
/// assert_eq!((gx.item::<f32>(), gy.item::<f32>()), (1.0, 1.0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GradOperation<S = At<0>> {
    select: S,
}

/// A [`GradOperation`] whose functions take the gradient of the result as their last argument.
#[derive(Clone, Copy, Debug)]
pub struct GradWithSens<S> {
    select: S,
}

impl GradOperation {
    /// Selects gradients of the first argument.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects gradients of all arguments, as a tuple.
    pub fn get_all(self) -> GradOperation<All> {
        GradOperation { select: All }
    }

    /// Selects gradients of parameters alone.
    pub fn get_by_list<P>(self, parameters: P) -> GradOperation<P> {
        GradOperation { select: parameters }
    }
}

impl GradOperation<All> {
    /// Selects gradients of all arguments and of parameters, as a pair.
    pub fn get_by_list<P>(self, parameters: P) -> GradOperation<(All, P)> {
        GradOperation { select: (All, parameters) }
    }
}

impl<S> GradOperation<S> {
    /// Weights the gradients by a last argument, which has the structure of the result.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, session::GradOperation};
    /// let (x, sens) = (Tensor::scalar(3.0), Tensor::scalar(10.0));
    /// let g = GradOperation::new().sens_param().of(|x: &Tensor| ops::mul(x, x))(&x, &sens);
    /// assert_eq!(g.item::<f32>(), 60.0);
    /// ```
    pub fn sens_param(self) -> GradWithSens<S> {
        GradWithSens { select: self.select }
    }

    /// Returns the gradient function of `f`.
    #[track_caller]
    pub fn of<'f, Args, F>(self, f: F) -> Args::Transformed<'f, Grad<F, S, OnlyGradient>>
    where
        Args: Arguments,
        S: Select<Args, Gradient: 'f> + 'f,
        F: Function<Args, Output: Tree> + 'f,
    {
        Args::transformed(Derived::new(f, self.select, Location::caller()))
    }
}

impl<S> GradWithSens<S> {
    /// Returns the gradient function of `f`.
    ///
    /// # Errors
    /// A call raises [`Code::Shape`] or [`Code::DType`] if the type of the last argument differs from the result's.
    #[track_caller]
    pub fn of<'f, Args, F>(self, f: F) -> <Args::Longer as Arguments>::Transformed<'f, Weighted<Args, F, S>>
    where
        Args: Followed<F::Output>,
        S: Select<Args, Gradient: 'f> + 'f,
        F: Function<Args, Output: Tree + 'static> + 'f,
    {
        let inner = Derived::new(f, self.select, Location::caller());
        Args::Longer::transformed(Weighted { inner, arguments: std::marker::PhantomData })
    }
}

/// The transform behind [`GradWithSens`].
pub struct Weighted<Args, F, S> {
    inner: Grad<F, S, OnlyGradient>,
    arguments: std::marker::PhantomData<Args>,
}

impl<Args, F, S> Transform<Args::Longer> for Weighted<Args, F, S>
where
    Args: Followed<F::Output>,
    F: Function<Args, Output: Tree + 'static>,
    S: Select<Args>,
{
    type Output = S::Gradient;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.inner.function().sign(sink);
    }

    fn call(&self, arguments: <Args::Longer as Arguments>::Refs<'_>) -> S::Gradient {
        let (arguments, sens) = Args::split_last(arguments);
        let (template, recording) = self.inner.record("grad", arguments);
        let seeds = leaves(sens);
        self.inner.raised(check_seeds(&leaves(&template), &seeds).map_err(|it| it.with_op("grad")));
        let gradients = self.inner.passed("grad", || recording.pull(&seeds));
        self.inner.gradient(arguments, gradients)
    }
}

/// Checks that tensors can be the gradients of results.
pub(in crate::session) fn check_seeds(results: &[Tensor], seeds: &[Tensor]) -> Result<(), Error> {
    if results.len() != seeds.len() {
        let message = format!("{} gradients for a result of {} tensors", seeds.len(), results.len());
        return Err(Error::new(Code::Argument, message));
    }
    match results.iter().zip(seeds).find(|(result, seed)| result.ty() != seed.ty()) {
        None => Ok(()),
        Some((result, seed)) => {
            let (result, seed) = (result.ty(), seed.ty());
            let code = if result.dtype == seed.dtype { Code::Shape } else { Code::DType };
            Err(Error::new(code, format!("the gradient of a result of {result} cannot be {seed}"))
                .help("it has the shape and the dtype of the result"))
        }
    }
}

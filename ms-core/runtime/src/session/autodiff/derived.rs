//! Shares code between all derivatives of functions.

use super::record::{Recording, record};
use super::select::{All, Select};
use crate::session::{Arguments, Function, Transform, Transformed};
use ms_ir::error::{Result, in_call, raise};
use ms_ops::tensor::{Tensor, is_host_only};
use ms_trace::trace::Tree;
use ms_trace::trace::Wrt;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;

/// The kind of derivative: gradients, Jacobians, or linear functions.
pub trait Mode {}

/// A derivative of `F` with respect to the selection `S`.
pub struct Derived<F, S, M> {
    f: F,
    select: S,
    mode: PhantomData<M>,
    location: &'static Location<'static>,
}

impl<F, S, M> Derived<F, S, M> {
    pub(in crate::session) fn new(f: F, select: S, location: &'static Location<'static>) -> Self {
        Self { f, select, mode: PhantomData, location }
    }

    pub(in crate::session) fn function(&self) -> &F {
        &self.f
    }

    pub(in crate::session) fn location(&self) -> &'static Location<'static> {
        self.location
    }

    pub(in crate::session) fn with_mode<N>(self) -> Derived<F, S, N> {
        Derived::new(self.f, self.select, self.location)
    }

    pub(in crate::session) fn with_choice<T>(self, select: T) -> Derived<F, T, M> {
        Derived::new(self.f, select, self.location)
    }

    /// Records a call of the function. Returns its result and the recording. In a trace, the result must be rebuilt
    /// with the tensors of the recording.
    pub(in crate::session) fn record<Args: Arguments>(
        &self,
        name: &'static str,
        arguments: Args::Refs<'_>,
    ) -> (F::Output, Recording)
    where
        F: Function<Args, Output: Tree>,
        S: Select<Args>,
    {
        let mut wrt = Wrt::default();
        self.select.collect(arguments, &mut wrt);
        let body = |tensors: &[Tensor]| {
            let at = Cell::new(0);
            let mut result = None;
            let next = |_: &Tensor| tensors[at.replace(at.get() + 1)].clone();
            self.select.substitute(arguments, &next, &mut |arguments| result = Some(self.f.invoke(arguments)));
            result.expect("a choice calls its continuation")
        };
        self.raised(record(name, wrt, body, self.location))
    }

    /// Returns the value, or panics with the error's text at the user's source location.
    pub(in crate::session) fn raised<T>(&self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => raise(error.at(self.location)),
        }
    }

    /// Runs a pass over the recording and raises its error. The ops of derivative rules belong to the library. On a
    /// device their errors, which may occur later, are at the location of this call.
    pub(in crate::session) fn passed<T>(&self, name: &'static str, pass: impl FnOnce() -> Result<T>) -> T {
        self.raised(if is_host_only() { pass() } else { in_call(name, None, self.location, pass) })
    }

    /// Builds a gradient from its tensors.
    pub(in crate::session) fn gradient<Args: Arguments>(
        &self,
        arguments: Args::Refs<'_>,
        tensors: Vec<Tensor>,
    ) -> S::Gradient
    where
        S: Select<Args>,
    {
        let mut tensors = tensors.into_iter();
        self.select.gradient(arguments, &mut || tensors.next().expect("one for each tensor"))
    }
}

/// Rebuilds a structure with other tensors.
pub(in crate::session) fn rebuilt<T: Tree>(template: &T, tensors: Vec<Tensor>) -> T {
    let mut tensors = tensors.into_iter();
    template.rebuild(&mut |_| tensors.next().expect("one for each tensor of the structure"))
}

impl<'f, Args: Arguments, F: 'f, S: 'f, M: Mode + 'f> Transformed<'f, Args, Derived<F, S, M>>
where
    Derived<F, S, M>: Transform<Args, Output: 'f>,
{
    /// Differentiates with respect to other arguments, or to parameters.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, session::{All, At, grad}};
    /// let (x, y) = (Tensor::scalar(3.0), Tensor::scalar(5.0));
    /// let product = |x: &Tensor, y: &Tensor| ops::mul(x, y);
    /// assert_eq!(grad(product).wrt(At::<1>)(&x, &y).item::<f32>(), 3.0);
    /// let (gx, gy) = grad(product).wrt(All)(&x, &y);
    /// assert_eq!((gx.item::<f32>(), gy.item::<f32>()), (5.0, 3.0));
    /// ```
    pub fn wrt<T: 'f>(self, select: T) -> Transformed<'f, Args, Derived<F, T, M>>
    where
        Derived<F, T, M>: Transform<Args, Output: 'f>,
    {
        Transformed::new(self.into_transform().with_choice(select))
    }

    /// Differentiates with respect to all arguments, as a tuple.
    pub fn wrt_all(self) -> Transformed<'f, Args, Derived<F, All, M>>
    where
        Derived<F, All, M>: Transform<Args, Output: 'f>,
    {
        self.wrt(All)
    }
}

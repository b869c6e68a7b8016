//! Implements `custom_vjp_with_residuals`: custom derivatives with values that the forward function saves.

use super::custom::{Backwards, call_untraced, with_derivative};
use super::select::{All, Select};
use crate::session::{Arguments, Function, TracedArguments, Transform};
use ms_ir::error::{OrRaise, Result};
use ms_ops::tensor::Tensor;
use ms_trace::trace::{Sink, Tracer, Tree, leaves};
use std::marker::PhantomData;
use std::panic::Location;

/// The transform behind [`custom_vjp_with_residuals`].
pub struct WithResiduals<Args, F, B, R, S> {
    forward: F,
    backward: B,
    location: &'static Location<'static>,
    types: PhantomData<fn(Args) -> (R, S)>,
}

impl<Args, F, B, R, S> Transform<Args> for WithResiduals<Args, F, B, R, S>
where
    Args: TracedArguments,
    All: Select<Args>,
    R: Tree + Clone + Send + Sync + 'static,
    S: Tree + 'static,
    F: Function<Args, Output = (R, S)>,
    B: Function<(S, R), Output = <All as Select<Args>>::Gradient>,
{
    type Output = R;
    const CAPTURES: bool = F::CAPTURES || B::CAPTURES;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.forward.sign(sink);
        self.backward.sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> R {
        if let Some(tracer) = Tracer::current() {
            // The residuals are computed outside the node, so gradients of the gradient flow through them by the ops
            // that computed them. Gradients of the result do not: the node captures it as a value.
            let (result, residuals) = self.forward.invoke(arguments);
            let passed = with_derivative::<Args, R>(
                &tracer,
                arguments,
                self.location,
                |_| result.clone(),
                &Saved { backward: &self.backward, residuals: &residuals },
            );
            return passed.map_err(|it| it.at(self.location)).or_raise();
        }
        call_untraced(self, "custom_vjp", arguments, |it| self.forward.invoke(it).0)
    }
}

/// A backward function with the residuals of a call.
struct Saved<'s, B, S> {
    backward: &'s B,
    residuals: &'s S,
}

impl<Args, B, R, S> Backwards<Args, R> for Saved<'_, B, S>
where
    Args: Arguments,
    All: Select<Args>,
    R: 'static,
    S: 'static,
    B: Function<(S, R), Output = <All as Select<Args>>::Gradient>,
{
    fn gradients<'a, 'b: 'a>(&self, _: Args::Refs<'b>, _: &'a R, dout: &'a R) -> Result<Vec<Tensor>> {
        Ok(leaves(&self.backward.invoke((self.residuals, dout))))
    }
}

/// Gives a function a custom VJP with residuals, like [`custom_vjp`](super::custom_vjp). `forward` returns the result
/// and the residuals. `backward` takes the residuals and the gradient of the result, and returns the gradients of all
/// arguments as a tuple.
///
/// Derivatives of any order differentiate the result by `backward`. A derivative of the gradient differentiates the
/// residuals by the ops of `forward`. Residuals that no gradient needs are not computed.
///
/// ```
/// use ms_core::{Tensor, ops, session::{custom_vjp_with_residuals, grad}};
/// let exp = custom_vjp_with_residuals(
///     |x: &Tensor| (ops::exp(x), ops::exp(x)),
///     |exp: &Tensor, g: &Tensor| (ops::mul(g, exp),),
/// );
/// assert_eq!(grad(exp)(&Tensor::scalar(0.0)).item::<f32>(), 1.0);
/// ```
///
/// # Errors
/// See [`custom_vjp`](super::custom_vjp).
#[track_caller]
pub fn custom_vjp_with_residuals<'f, Args, F, B, R, S>(
    forward: F,
    backward: B,
) -> Args::Transformed<'f, WithResiduals<Args, F, B, R, S>>
where
    Args: TracedArguments,
    All: Select<Args>,
    R: Tree + Clone + Send + Sync + 'static,
    S: Tree + 'static,
    F: Function<Args, Output = (R, S)> + 'f,
    B: Function<(S, R), Output = <All as Select<Args>>::Gradient> + 'f,
{
    Args::transformed(WithResiduals { forward, backward, location: Location::caller(), types: PhantomData })
}

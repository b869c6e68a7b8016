//! Implements `custom_jvp`: functions with custom tangents.

use super::custom::{Backwards, call_untraced, with_derivative};
use super::grad_operation::check_seeds;
use super::record::{Recording, record};
use super::select::{All, Select};
use crate::session::{Followed, Function, TracedArguments, Transform};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result};
use ms_ops::ops;
use ms_ops::tensor::Tensor;
use ms_trace::trace::{Sink, Tracer, Tree, leaves};
use ms_trace::trace::{Target, Wrt};
use ms_trace::transform::{expand, is_linear};
use std::marker::PhantomData;
use std::panic::Location;

/// The transform behind [`custom_jvp`].
pub struct WithJvp<Args, F, T> {
    f: F,
    tangent: T,
    location: &'static Location<'static>,
    arguments: PhantomData<Args>,
}

/// The tangents of all arguments.
type Tangents<Args> = <All as Select<Args>>::Gradient;

/// The arguments of the tangent rule: the function's arguments and result, and the tangents of the arguments.
type Forward<Args, R> = <<Args as Followed<R>>::Longer as Followed<Tangents<Args>>>::Longer;

impl<Args, F, T> Transform<Args> for WithJvp<Args, F, T>
where
    All: Select<Args>,
    Args: TracedArguments + Followed<F::Output, Longer: Followed<Tangents<Args>>>,
    F: Function<Args, Output: Tree + Send + Sync + 'static>,
    T: Function<Forward<Args, F::Output>, Output = F::Output>,
{
    type Output = F::Output;
    const CAPTURES: bool = F::CAPTURES || T::CAPTURES;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.f.sign(sink);
        self.tangent.sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> F::Output {
        if let Some(tracer) = Tracer::current() {
            let result = with_derivative::<Args, _>(&tracer, arguments, self.location, |it| self.f.invoke(it), self);
            return result.map_err(|it| it.at(self.location)).or_raise();
        }
        call_untraced(self, "custom_jvp", arguments, |it| self.f.invoke(it))
    }
}

/// The VJP is the transpose of the tangent rule, which is linear in the tangents.
impl<Args, F, T> Backwards<Args, F::Output> for WithJvp<Args, F, T>
where
    All: Select<Args>,
    Args: TracedArguments + Followed<F::Output, Longer: Followed<Tangents<Args>>>,
    F: Function<Args, Output: Tree + Send + Sync + 'static>,
    T: Function<Forward<Args, F::Output>, Output = F::Output>,
{
    fn gradients<'a, 'b: 'a>(
        &self,
        arguments: Args::Refs<'b>,
        out: &'a F::Output,
        dout: &'a F::Output,
    ) -> Result<Vec<Tensor>> {
        let mut wrt = Wrt::default();
        All.collect(arguments, &mut wrt);
        let zero = |target: &Target| match target {
            Target::Tensor(tensor) => ops::zeros_like(tensor),
            Target::Parameter(parameter) => ops::zeros_like(&parameter.value()),
        };
        let zeros: Vec<Tensor> = wrt.targets().map_vec(zero);
        let mut tangents = Wrt::default();
        tangents.tree(&zeros);
        let floats = |of: &F::Output| -> Vec<Tensor> {
            leaves(out).iter().zip(leaves(of)).filter(|it| it.0.dtype().is_float()).map(|it| it.1).collect()
        };
        let rule = |tangents: &[Tensor]| {
            let mut tangents = tangents.iter().cloned();
            let tangents = All.gradient(arguments, &mut || tangents.next().expect("one for each target"));
            let longer = Args::with_last(arguments, out);
            let tangent = self.tangent.invoke(<Args::Longer as Followed<Tangents<Args>>>::with_last(longer, &tangents));
            check_seeds(&leaves(out), &leaves(&tangent)).map_err(|it| of_tangent(&it).at(self.location)).or_raise();
            floats(&tangent)
        };
        let (_, recording) = record("tangent", tangents, rule, self.location)?;
        if let Recording::Trace { region, targets, results, .. } = &recording
            && !is_linear(expand(&region.graph, true)?.as_ref(), *targets, *results)?
        {
            let message = "the tangent of the result is not linear in the tangents of the arguments";
            return Err(Error::new(Code::CustomTangent, message)
                .with_op("custom_jvp")
                .help("a product or a function of tangents is none; reverse mode is the transpose of the rule"));
        }
        recording.pull(&floats(dout))
    }
}

/// Converts the error of a gradient check to the error of a tangent with a wrong type.
fn of_tangent(error: &Error) -> Error {
    let message = error.report().message.replace("gradient", "tangent");
    Error::new(error.code(), message).with_op("custom_jvp").help("it has the shapes and the dtypes of the result")
}

/// Gives the function `f` a custom JVP. `tangent` takes the arguments, the result, and the tangents of all arguments as
/// a tuple, in which it is linear. It returns the tangent of the result. Captures of either function have no gradient.
///
/// Derivatives of any order, in both modes, differentiate the result by `tangent`: reverse mode is its transpose. So it
/// consists of ops that have derivatives themselves.
///
/// Under a derivative both functions are traced, so they must not read values of tensors.
///
/// ```
/// use ms_core::{Tensor, ops, session::{custom_jvp, grad, jvp}};
/// // ln(1 + e^x), without an overflow in the derivative.
/// let softplus = custom_jvp(
///     |x: &Tensor| ops::log1p(ops::exp(x)),
///     |x: &Tensor, _: &Tensor, (dx,): &(Tensor,)| ops::mul(dx, ops::sigmoid(x)),
/// );
/// let x = Tensor::scalar(0.0);
/// assert_eq!(jvp(|x: &Tensor| softplus(x))(&x, &Tensor::scalar(2.0)).1.item::<f32>(), 1.0);
/// assert_eq!(grad(|x: &Tensor| softplus(x))(&x).item::<f32>(), 0.5);
/// ```
///
/// # Errors
/// A traced call raises [`Code::CustomTangent`] if `tangent` is not linear in the tangents. It raises [`Code::Shape`]
/// or [`Code::DType`] if `tangent` returns another type than the result's, and [`Code::NoGradient`] if one of its ops
/// has no derivative.
#[track_caller]
pub fn custom_jvp<'f, Args, F, T>(f: F, tangent: T) -> Args::Transformed<'f, WithJvp<Args, F, T>>
where
    All: Select<Args>,
    Args: TracedArguments + Followed<F::Output, Longer: Followed<Tangents<Args>>>,
    F: Function<Args, Output: Tree + Send + Sync + 'static> + 'f,
    T: Function<Forward<Args, F::Output>, Output = F::Output> + 'f,
{
    Args::transformed(WithJvp { f, tangent, location: Location::caller(), arguments: PhantomData })
}

//! Implements derivatives as linear functions: `vjp`, `jvp`, `linearize`.

use super::derived::{Derived, Mode, rebuilt};
use super::grad_operation::check_seeds;
use super::record::Recording;
use super::select::Select;
use crate::session::{Arguments, At, Followed, Function, Transform, Transformed};
use ms_ir::error::{OrRaise, Result};
use ms_ops::tensor::Tensor;
use ms_trace::trace::{Sink, Tree, leaves};
use std::marker::PhantomData;
use std::panic::Location;

/// The split of a result `R` into the differentiated part and the part that is returned unchanged.
pub trait Division<R: Tree> {
    /// The type of the differentiated part.
    type Value: Tree;
    /// The result of a derivative that returns an `L` for the value.
    type Output<L>;

    /// Returns the differentiated part: the first tensors of the result.
    fn value(result: &R) -> &Self::Value;

    /// Builds the result of the derivative.
    fn output<L>(result: R, derivative: L) -> Self::Output<L>;
}

/// Differentiates the whole result.
pub struct Whole;

/// Differentiates the first part of a pair.
pub struct FirstOfPair;

impl<R: Tree> Division<R> for Whole {
    type Value = R;
    type Output<L> = (R, L);

    fn value(result: &R) -> &R {
        result
    }

    fn output<L>(result: R, derivative: L) -> (R, L) {
        (result, derivative)
    }
}

impl<R: Tree, A: Tree> Division<(R, A)> for FirstOfPair {
    type Value = R;
    type Output<L> = (R, L, A);

    fn value(result: &(R, A)) -> &R {
        &result.0
    }

    fn output<L>((value, aux): (R, A), derivative: L) -> (R, L, A) {
        (value, derivative, aux)
    }
}

/// Returns the result, and the function from gradients of the result to gradients of the arguments.
pub struct Vjp<D = Whole>(PhantomData<D>);

/// Returns the result, and the function from tangents of the arguments to tangents of the result.
pub struct Linearize<D = Whole>(PhantomData<D>);

impl<D> Mode for Vjp<D> {}
impl<D> Mode for Linearize<D> {}

/// A call with a derivative that is computed on demand.
pub struct Linear<R, G> {
    recording: Recording,
    result: R,
    gradient: G,
    location: &'static Location<'static>,
}

/// The pullback that [`vjp`] returns.
pub struct Pullback<R, G>(Linear<R, G>);

/// The pushforward that [`linearize`] returns.
pub struct Pushforward<R, G>(Linear<R, G>);

fn checked(results: &[Tensor], given: &[Tensor], location: &'static Location<'static>) -> Result<()> {
    check_seeds(results, given).map_err(|it| it.with_op("vjp").at(location))
}

impl<R: Tree + 'static, G: Tree> Transform<(R,)> for Pullback<R, G> {
    type Output = G;
    const CAPTURES: bool = true;

    fn sign(&self, _: &mut Sink<'_>) {}

    fn call(&self, (cotangents,): (&R,)) -> G {
        let it = &self.0;
        let given = leaves(cotangents);
        checked(&leaves(&it.result), &given, it.location).or_raise();
        rebuilt(&it.gradient, it.recording.pull(&given).or_raise())
    }
}

impl<R: Tree, G: Tree + 'static> Transform<(G,)> for Pushforward<R, G> {
    type Output = R;
    const CAPTURES: bool = true;

    fn sign(&self, _: &mut Sink<'_>) {}

    fn call(&self, (tangents,): (&G,)) -> R {
        let it = &self.0;
        let given = leaves(tangents);
        checked(&leaves(&it.gradient), &given, it.location).or_raise();
        rebuilt(&it.result, it.recording.push(&given, leaves(&it.result).len()).or_raise())
    }
}

impl<F, S, M> Derived<F, S, M> {
    fn linear<Args: Arguments, D>(
        &self,
        name: &'static str,
        arguments: Args::Refs<'_>,
    ) -> (F::Output, Linear<D::Value, S::Gradient>)
    where
        F: Function<Args, Output: Tree>,
        S: Select<Args>,
        D: Division<F::Output>,
    {
        let (template, recording) = self.record(name, arguments);
        let all = rebuilt(&template, self.raised(recording.values()));
        let result = D::value(&all).clone();
        let gradient = self.gradient(arguments, recording.targets());
        (all, Linear { recording, result, gradient, location: self.location() })
    }
}

impl<Args, F, S, D> Transform<Args> for Derived<F, S, Vjp<D>>
where
    Args: Arguments,
    F: Function<Args, Output: Tree + 'static>,
    S: Select<Args, Gradient: 'static>,
    D: Division<F::Output, Value: 'static>,
{
    type Output = D::Output<Transformed<'static, (D::Value,), Pullback<D::Value, S::Gradient>>>;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.function().sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> Self::Output {
        let (result, linear) = self.linear::<Args, D>("vjp", arguments);
        D::output(result, Transformed::new(Pullback(linear)))
    }
}

impl<Args, F, S, D> Transform<Args> for Derived<F, S, Linearize<D>>
where
    Args: Arguments,
    F: Function<Args, Output: Tree + 'static>,
    S: Select<Args, Gradient: 'static>,
    D: Division<F::Output, Value: 'static>,
{
    type Output = D::Output<Transformed<'static, (S::Gradient,), Pushforward<D::Value, S::Gradient>>>;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.function().sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> Self::Output {
        let (result, linear) = self.linear::<Args, D>("linearize", arguments);
        D::output(result, Transformed::new(Pushforward(linear)))
    }
}

impl<'f, Args, F, S> Transformed<'f, Args, Derived<F, S, Vjp>>
where
    Args: Arguments,
    F: Function<Args, Output: Tree + 'static> + 'f,
    S: Select<Args, Gradient: 'static> + 'f,
{
    /// Differentiates only the first part of a result that is a pair. Returns the second part (the auxiliary results)
    /// unchanged, after the pullback.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, session::vjp};
    /// let x = Tensor::scalar(3.0);
    /// let (y, pull, twice) = vjp(|x: &Tensor| (ops::mul(x, x), ops::add(x, x))).has_aux()(&x);
    /// assert_eq!((y.item::<f32>(), pull(&Tensor::scalar(1.0)).item::<f32>()), (9.0, 6.0));
    /// assert_eq!(twice.item::<f32>(), 6.0);
    /// ```
    pub fn has_aux(self) -> Transformed<'f, Args, Derived<F, S, Vjp<FirstOfPair>>>
    where
        FirstOfPair: Division<F::Output, Value: 'static>,
        Derived<F, S, Vjp<FirstOfPair>>: Transform<Args, Output: 'f>,
    {
        Transformed::new(self.into_transform().with_mode())
    }
}

impl<'f, Args, F, S> Transformed<'f, Args, Derived<F, S, Linearize>>
where
    Args: Arguments,
    F: Function<Args, Output: Tree + 'static> + 'f,
    S: Select<Args, Gradient: 'static> + 'f,
{
    /// Differentiates only the first part of a result that is a pair. Returns the second part (the auxiliary results)
    /// unchanged, after the pushforward.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, session::linearize};
    /// let x = Tensor::scalar(3.0);
    /// let (y, push, twice) = linearize(|x: &Tensor| (ops::mul(x, x), ops::add(x, x))).has_aux()(&x);
    /// assert_eq!((y.item::<f32>(), push(&Tensor::scalar(1.0)).item::<f32>()), (9.0, 6.0));
    /// assert_eq!(twice.item::<f32>(), 6.0);
    /// ```
    pub fn has_aux(self) -> Transformed<'f, Args, Derived<F, S, Linearize<FirstOfPair>>>
    where
        FirstOfPair: Division<F::Output, Value: 'static>,
        Derived<F, S, Linearize<FirstOfPair>>: Transform<Args, Output: 'f>,
    {
        Transformed::new(self.into_transform().with_mode())
    }
}

/// Returns the result of a function and its vector-Jacobian product: the function from gradients of the result to
/// gradients of the first argument. See [`Transformed::wrt`] for others.
///
/// ```
/// use ms_core::{Tensor, ops, session::vjp};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let (y, pull) = vjp(|x: &Tensor| ops::mul(x, x))(&x);
/// assert_eq!(y.to_vec::<f32>(), [1.0, 4.0]);
/// assert_eq!(pull(&Tensor::from_slice([2], &[1.0f32, 10.0])).to_vec::<f32>(), [2.0, 40.0]);
/// ```
///
/// # Errors
/// See [`grad`](crate::session::grad). The function raises [`Code::Shape`](crate::Code::Shape) or
/// [`Code::DType`](crate::Code::DType) if types of gradients differ from the result's.
#[track_caller]
pub fn vjp<'f, Args, F>(f: F) -> Args::Transformed<'f, Derived<F, At<0>, Vjp>>
where
    Args: Arguments,
    At<0>: Select<Args, Gradient: 'static>,
    F: Function<Args, Output: Tree + 'static> + 'f,
{
    Args::transformed(Derived::new(f, At, Location::caller()))
}

/// Returns the result of a function and its derivative at that point: the function from tangents of the first argument
/// to tangents of the result. See [`Transformed::wrt`] for others.
///
/// ```
/// use ms_core::{Tensor, ops, session::linearize};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let (y, push) = linearize(|x: &Tensor| ops::mul(x, x))(&x);
/// assert_eq!(y.to_vec::<f32>(), [1.0, 4.0]);
/// assert_eq!(push(&Tensor::from_slice([2], &[1.0f32, 10.0])).to_vec::<f32>(), [2.0, 40.0]);
/// ```
///
/// # Errors
/// See [`vjp`].
#[track_caller]
pub fn linearize<'f, Args, F>(f: F) -> Args::Transformed<'f, Derived<F, At<0>, Linearize>>
where
    Args: Arguments,
    At<0>: Select<Args, Gradient: 'static>,
    F: Function<Args, Output: Tree + 'static> + 'f,
{
    Args::transformed(Derived::new(f, At, Location::caller()))
}

/// A function of the arguments, followed by tangents of the arguments that `S` selects.
type WithTangents<'f, Args, F, S, D> =
    Transformed<'f, <Args as Followed<<S as Select<Args>>::Gradient>>::Longer, Jvp<Args, F, S, D>>;

/// The transform behind [`jvp`].
pub struct Jvp<Args, F, S, D = Whole> {
    inner: Derived<F, S, Linearize<D>>,
    arguments: PhantomData<Args>,
}

impl<Args, F, S, D> Transform<Args::Longer> for Jvp<Args, F, S, D>
where
    Args: Followed<S::Gradient>,
    F: Function<Args, Output: Tree>,
    S: Select<Args, Gradient: 'static>,
    D: Division<F::Output>,
{
    type Output = D::Output<D::Value>;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.inner.function().sign(sink);
    }

    fn call(&self, arguments: <Args::Longer as Arguments>::Refs<'_>) -> Self::Output {
        let (arguments, tangents) = Args::split_last(arguments);
        let (template, recording) = self.inner.record("jvp", arguments);
        let given = leaves(tangents);
        let checked = check_seeds(&recording.targets(), &given);
        self.inner.raised(checked.map_err(|it| it.with_op("jvp")));
        let value = D::value(&template);
        let (values, tangents) = self.inner.passed("jvp", || recording.tangents(&given, leaves(value).len()));
        D::output(rebuilt(&template, values), rebuilt(value, tangents))
    }
}

impl<'f, Args, F, S> Transformed<'f, Args::Longer, Jvp<Args, F, S>>
where
    Args: Followed<S::Gradient>,
    F: Function<Args, Output: Tree + 'f> + 'f,
    S: Select<Args, Gradient: 'static> + 'f,
{
    /// Differentiates only the first part of a result that is a pair. Returns the second part (the auxiliary results)
    /// unchanged, after the tangent.
    ///
    /// ```
    /// use ms_core::{Tensor, ops, session::jvp};
    /// let (x, v) = (Tensor::scalar(3.0), Tensor::scalar(1.0));
    /// let (y, t, twice) = jvp(|x: &Tensor| (ops::mul(x, x), ops::add(x, x))).has_aux()(&x, &v);
    /// assert_eq!((y.item::<f32>(), t.item::<f32>(), twice.item::<f32>()), (9.0, 6.0, 6.0));
    /// ```
    pub fn has_aux(self) -> Transformed<'f, Args::Longer, Jvp<Args, F, S, FirstOfPair>>
    where
        FirstOfPair: Division<F::Output>,
        Jvp<Args, F, S, FirstOfPair>: Transform<Args::Longer, Output: 'f>,
    {
        let inner = self.into_transform().inner.with_mode();
        Transformed::new(Jvp { inner, arguments: PhantomData })
    }
}

impl<'f, Args, F, S, D> Transformed<'f, Args::Longer, Jvp<Args, F, S, D>>
where
    Args: Followed<S::Gradient>,
    F: Function<Args, Output: Tree + 'f> + 'f,
    S: Select<Args, Gradient: 'static> + 'f,
    D: Division<F::Output> + 'f,
    <D as Division<F::Output>>::Output<<D as Division<F::Output>>::Value>: 'f,
{
    /// Takes tangents of other arguments, or of parameters. The last argument has their structure.
    pub fn wrt<T>(self, select: T) -> WithTangents<'f, Args, F, T, D>
    where
        T: Select<Args, Gradient: 'static> + 'f,
        Args: Followed<T::Gradient>,
    {
        let inner = self.into_transform().inner.with_choice(select);
        Transformed::new(Jvp { inner, arguments: PhantomData })
    }
}

/// Returns the result of a function and its tangent (JVP). The direction is a last argument, a tangent of the first
/// one. See [`Transformed::wrt`] for others.
///
/// ```
/// use ms_core::{Tensor, ops, session::jvp};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let v = Tensor::from_slice([2], &[1.0f32, 10.0]);
/// let (y, t) = jvp(|x: &Tensor| ops::mul(x, x))(&x, &v);
/// assert_eq!((y.to_vec::<f32>(), t.to_vec::<f32>()), (vec![1.0, 4.0], vec![2.0, 40.0]));
/// ```
///
/// # Errors
/// See [`vjp`].
#[track_caller]
pub fn jvp<'f, Args, F>(f: F) -> <Args::Longer as Arguments>::Transformed<'f, Jvp<Args, F, At<0>>>
where
    Args: Followed<<At<0> as Select<Args>>::Gradient>,
    At<0>: Select<Args, Gradient: 'static>,
    F: Function<Args, Output: Tree + 'f> + 'f,
{
    let inner = Derived::new(f, At, Location::caller());
    Args::Longer::transformed(Jvp { inner, arguments: PhantomData })
}

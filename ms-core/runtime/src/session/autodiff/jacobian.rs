//! Implements Jacobians and Hessians: `jacrev`, `jacfwd`, `hessian`.

use super::derived::{Derived, Mode, rebuilt};
use super::select::Select;
use crate::session::{Arguments, At, Function, Transform, Transformed};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ops::ops::{self, Control, Lane};
use ms_ops::tensor::{Dims, Tensor, Type};
use ms_trace::trace::{Sink, Tracer, Tree, run_nested};
use smallvec::smallvec;
use std::panic::Location;

/// Row-wise Jacobians, for functions of many inputs and few outputs.
pub struct ByRows;

/// Column-wise Jacobians, for functions of few inputs and many outputs.
pub struct ByColumns;

impl Mode for ByRows {}
impl Mode for ByColumns {}

/// A result with a Jacobian: each of its tensors corresponds to a structure like that of a gradient `G`.
pub trait Jacobian<G>: Tree {
    /// The result's structure, with a `G` instead of each tensor.
    type Output;

    /// Builds the structure from these in order.
    fn assemble(&self, next: &mut dyn FnMut() -> G) -> Self::Output;
}

impl<G> Jacobian<G> for Tensor {
    type Output = G;

    fn assemble(&self, next: &mut dyn FnMut() -> G) -> G {
        next()
    }
}

impl<G, R: Jacobian<G>> Jacobian<G> for Vec<R> {
    type Output = Vec<R::Output>;

    fn assemble(&self, next: &mut dyn FnMut() -> G) -> Self::Output {
        self.map_vec(|it| it.assemble(next))
    }
}

macro_rules! tuples {
    ($(($($ty:ident $i:tt),+);)*) => {$(
        impl<Of, $($ty: Jacobian<Of>),+> Jacobian<Of> for ($($ty,)+) {
            type Output = ($($ty::Output,)+);

            fn assemble(&self, next: &mut dyn FnMut() -> Of) -> Self::Output {
                ($(self.$i.assemble(next),)+)
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
}

/// Returns the results of `f` on every element of the standard basis of a type, along a new first axis. In a trace, `f`
/// is applied once to all of them.
fn over_basis(
    ty: &Type,
    location: &'static Location<'static>,
    f: impl Fn(&Tensor) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let elements = ty.elements();
    let all: Dims = std::iter::once(elements).chain(ty.dims.iter().copied()).collect();
    let basis = ops::reshape(ops::eye_of(elements, elements, 0, ty.dtype), all);
    let Some(tracer) = Tracer::current() else {
        let shape = ty.shape().expect("sizes are constants where nothing is traced");
        let count: usize = shape.iter().product();
        let rows: Result<Vec<Vec<Tensor>>> = (0..count).map(|at| f(&basis.i(at as isize))).collect();
        let rows = rows?;
        let none = if rows.is_empty() { f(&ops::full_of(&*shape, 0, ty.dtype))? } else { Vec::new() };
        let stacked = |at: usize| match rows.is_empty() {
            true => ops::expand_dims(&none[at], 0).i(..0),
            false => ops::stack(&rows.map_vec(|row| &row[at]), 0),
        };
        return Ok((0..rows.first().map_or(none.len(), Vec::len)).map(stacked).collect());
    };
    let ((), region) = run_nested(&tracer, "basis", || {
        let element = tracer.input(ty.clone());
        Ok(((), f(&element)?))
    })?;
    if let Some(written) = region.writes.first() {
        let message = format!("the backward pass of every row writes {written:?}, and all rows are computed at once");
        let help = "outside a compiled function rows are taken one after the other";
        return Err(Error::new(Code::BackwardWrites, message).at(location).help(help));
    }
    let operands = std::iter::once(Lane::Mapped).chain(region.captures.iter().map(|_| Lane::Shared)).collect();
    let results = vec![Lane::Mapped; region.graph.outputs().len()];
    let vmap = Control::TransformNode(ops::TransformNode::Vmap { size: elements, operands, results });
    let inputs: Vec<Tensor> = std::iter::once(basis).chain(region.captures).collect();
    tracer.control(&vmap, smallvec![region.graph], &inputs, location)
}

fn joined(a: &Tensor, b: &Tensor) -> Dims {
    a.ty().dims.iter().chain(&b.ty().dims).copied().collect()
}

/// Returns `values` with `value` at `at`, and zeros elsewhere.
fn alone(values: &[Tensor], at: usize, value: &Tensor) -> Vec<Tensor> {
    let each = |(other, it): (usize, &Tensor)| if other == at { value.clone() } else { ops::zeros_like(it) };
    values.iter().enumerate().map(each).collect()
}

impl<F, S, M> Derived<F, S, M> {
    /// Builds the Jacobian from the Jacobians of each tensor of the result with respect to each target.
    fn assembled<Args: Arguments>(
        &self,
        arguments: Args::Refs<'_>,
        template: &F::Output,
        results: Vec<Tensor>,
        blocks: Vec<Vec<Tensor>>,
    ) -> <F::Output as Jacobian<S::Gradient>>::Output
    where
        F: Function<Args, Output: Jacobian<S::Gradient>>,
        S: Select<Args>,
    {
        let mut blocks = blocks.into_iter();
        let mut next = || self.gradient(arguments, blocks.next().expect("a row for each tensor of the result"));
        rebuilt(template, results).assemble(&mut next)
    }
}

impl<Args, F, S> Transform<Args> for Derived<F, S, ByRows>
where
    Args: Arguments,
    F: Function<Args, Output: Jacobian<S::Gradient>>,
    S: Select<Args>,
{
    type Output = <F::Output as Jacobian<S::Gradient>>::Output;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.function().sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> Self::Output {
        let (template, recording) = self.record("jacrev", arguments);
        let results = self.raised(recording.values());
        let targets = recording.targets();
        let row = |at: usize| {
            let pulled =
                over_basis(&results[at].ty(), self.location(), |seed| recording.pull(&alone(&results, at, seed)));
            let blocks = self.raised(pulled);
            let block = |(block, target): (Tensor, &Tensor)| ops::reshape(&block, &joined(&results[at], target));
            blocks.into_iter().zip(&targets).map(block).collect()
        };
        let blocks = (0..results.len()).map(row).collect();
        self.assembled(arguments, &template, results, blocks)
    }
}

impl<Args, F, S> Transform<Args> for Derived<F, S, ByColumns>
where
    Args: Arguments,
    F: Function<Args, Output: Jacobian<S::Gradient>>,
    S: Select<Args>,
{
    type Output = <F::Output as Jacobian<S::Gradient>>::Output;
    const CAPTURES: bool = F::CAPTURES || size_of::<S>() != 0;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.function().sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> Self::Output {
        let (template, recording) = self.record("jacfwd", arguments);
        let results = self.raised(recording.values());
        let targets = recording.targets();
        let column = |at: usize| {
            let pushed = over_basis(&targets[at].ty(), self.location(), |tangent| {
                recording.push(&alone(&targets, at, tangent), results.len())
            });
            let blocks = self.raised(pushed);
            let block = |(block, result): (Tensor, &Tensor)| {
                let axes: Vec<isize> = (1..block.rank() as isize).chain([0]).collect();
                ops::reshape(ops::permute(&block, &*axes), &joined(result, &targets[at]))
            };
            blocks.into_iter().zip(&results).map(block).collect::<Vec<Tensor>>()
        };
        let columns: Vec<Vec<Tensor>> = (0..targets.len()).map(column).collect();
        let row = |at: usize| columns.map_vec(|column| column[at].clone());
        let blocks = (0..results.len()).map(row).collect();
        self.assembled(arguments, &template, results, blocks)
    }
}

/// Returns the Jacobian of a function's result with respect to its first argument, in reverse mode. For each tensor of
/// the result, and each of the argument, it has a tensor whose shape is the result's followed by the argument's. See
/// [`Transformed::wrt`] for other arguments.
///
/// ```
/// use ms_core::{Tensor, ops, session::jacrev};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// assert_eq!(jacrev(|x: &Tensor| ops::mul(x, x))(&x).to_vec::<f32>(), [2.0, 0.0, 0.0, 4.0]);
/// ```
///
/// # Errors
/// See [`grad`](crate::session::grad).
#[track_caller]
pub fn jacrev<'f, Args, F>(f: F) -> Args::Transformed<'f, Derived<F, At<0>, ByRows>>
where
    Args: Arguments,
    At<0>: Select<Args>,
    F: Function<Args, Output: Jacobian<<At<0> as Select<Args>>::Gradient, Output: 'f>> + 'f,
{
    Args::transformed(Derived::new(f, At, Location::caller()))
}

/// Returns the Jacobian like [`jacrev`], in forward mode.
///
/// ```
/// use ms_core::{Tensor, ops, session::jacfwd};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let jacobian = jacfwd(|x: &Tensor| ops::mul(x, x))(&x);
/// assert_eq!((jacobian.shape(), jacobian.to_vec::<f32>()), (&[2, 2][..], vec![2.0, 0.0, 0.0, 4.0]));
/// ```
///
/// # Errors
/// See [`grad`](crate::session::grad).
#[track_caller]
pub fn jacfwd<'f, Args, F>(f: F) -> Args::Transformed<'f, Derived<F, At<0>, ByColumns>>
where
    Args: Arguments,
    At<0>: Select<Args>,
    F: Function<Args, Output: Jacobian<<At<0> as Select<Args>>::Gradient, Output: 'f>> + 'f,
{
    Args::transformed(Derived::new(f, At, Location::caller()))
}

/// The transform behind [`hessian`].
pub type Hessian<'f, Args, F> = Derived<Transformed<'f, Args, Derived<F, At<0>, ByRows>>, At<0>, ByColumns>;

/// Returns the second derivatives of a function's result with respect to its first argument: the forward-mode Jacobian
/// of its reverse-mode Jacobian.
///
/// ```
/// use ms_core::{Tensor, ops, session::hessian};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let f = |x: &Tensor| ops::sum(ops::mul(ops::mul(x, x), x), ());
/// assert_eq!(hessian(f)(&x).to_vec::<f32>(), [6.0, 0.0, 0.0, 12.0]);
/// ```
///
/// # Errors
/// See [`grad`](crate::session::grad).
#[track_caller]
pub fn hessian<'f, Args, F>(f: F) -> Args::Transformed<'f, Hessian<'f, Args, F>>
where
    Args: Arguments,
    At<0>: Select<Args>,
    Derived<F, At<0>, ByRows>: Transform<Args, Output: 'f>,
    Transformed<'f, Args, Derived<F, At<0>, ByRows>>: Function<Args>,
    Hessian<'f, Args, F>: Transform<Args, Output: 'f>,
    F: Function<Args, Output: Jacobian<<At<0> as Select<Args>>::Gradient, Output: 'f>> + 'f,
{
    let inner = Transformed::new(Derived::new(f, At, Location::caller()));
    Args::transformed(Derived::new(inner, At, Location::caller()))
}

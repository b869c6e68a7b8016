//! Gradients as functions: `grad`, `value_and_grad`.

use super::tape::Tape;
use crate::error::{Code, Error, Result, raise};
use crate::ops::VALUE_AND_GRAD;
use crate::tensor::{Attrs, DType, Parameter, Tensor, Type};
use crate::trace::{Arg, Cell, Tracer, Tree, leaves, run_nested};
use smallvec::smallvec;
use std::ops::Deref;
use std::panic::Location;

/// What gradients are taken with respect to: tensors of an argument, or parameters.
#[derive(Default)]
pub struct Wrt {
    tensors: Vec<Tensor>,
    parameters: Vec<Parameter>,
}

/// The gradients of a cell's trainable parameters.
#[derive(Clone)]
pub struct Gradients {
    parameters: Vec<Parameter>,
    tensors: Vec<Tensor>,
}

impl Gradients {
    /// Gradients of these parameters, in the same order.
    pub fn new(parameters: Vec<Parameter>, tensors: Vec<Tensor>) -> Self {
        Self { parameters, tensors }
    }

    /// Each parameter with its gradient.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Parameter, &Tensor)> {
        self.parameters.iter().zip(&self.tensors)
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The gradient of one parameter.
    pub fn get(&self, parameter: &Parameter) -> Option<&Tensor> {
        self.iter().find(|it| it.0 == parameter).map(|it| it.1)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}

impl Arg for Gradients {
    fn visit(&self, sink: &mut dyn crate::trace::Sink) {
        self.tensors.visit(sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        Some(Box::new(self.rebuild(next)))
    }
}

impl Tree for Gradients {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Self { parameters: self.parameters.clone(), tensors: self.tensors.rebuild(next) }
    }
}

/// An argument that gradients can be taken with respect to: a structure of float tensors, or a
/// cell, which stands for its trainable parameters.
#[diagnostic::on_unimplemented(
    message = "no gradient can be taken with respect to `{Self}`",
    note = "gradients are taken with respect to tensors, structures of them that derive `Tree`, and cells"
)]
pub trait Differentiable: Arg {
    /// What a gradient of it is.
    type Gradient: Tree;

    /// Adds what gradients are taken with respect to.
    fn collect(&self, wrt: &mut Wrt);

    /// The argument with other tensors inside; nothing where it stays as it is.
    fn substitute(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>>;

    /// The gradient, made of its tensors in order.
    fn gradient(&self, next: &mut dyn FnMut() -> Tensor) -> Self::Gradient;
}

impl<C: Cell> Differentiable for C {
    type Gradient = Gradients;

    fn collect(&self, wrt: &mut Wrt) {
        wrt.parameters.extend(self.trainable_parameters());
    }

    fn substitute(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        None
    }

    fn gradient(&self, next: &mut dyn FnMut() -> Tensor) -> Gradients {
        let parameters = self.trainable_parameters();
        let tensors = parameters.iter().map(|_| next()).collect();
        Gradients { parameters, tensors }
    }
}

/// Implements [`Differentiable`] for a [`Tree`]: its gradient is a tree of the same structure.
#[macro_export]
macro_rules! differentiable_tree {
    ($({$($generics:tt)*})? $ty:ty) => {
        impl$(<$($generics)*>)? $crate::session::Differentiable for $ty {
            type Gradient = Self;
            fn collect(&self, wrt: &mut $crate::session::Wrt) {
                wrt.tree(self);
            }
            fn substitute(&self, next: &mut dyn FnMut(&$crate::Tensor) -> $crate::Tensor) -> Option<Box<Self>> {
                Some(Box::new($crate::trace::Tree::rebuild(self, next)))
            }
            fn gradient(&self, next: &mut dyn FnMut() -> $crate::Tensor) -> Self {
                $crate::trace::Tree::rebuild(self, &mut |_| next())
            }
        }
    };
}

differentiable_tree!(Tensor);
differentiable_tree!({T: Tree} Vec<T>);
differentiable_tree!({T: Tree} Option<T>);
differentiable_tree!({T: Tree, const N: usize} [T; N]);
differentiable_tree!({A: Tree} (A,));
differentiable_tree!({A: Tree, B: Tree} (A, B));
differentiable_tree!({A: Tree, B: Tree, C: Tree} (A, B, C));
differentiable_tree!({A: Tree, B: Tree, C: Tree, D: Tree} (A, B, C, D));

impl Differentiable for Parameter {
    type Gradient = Tensor;

    fn collect(&self, wrt: &mut Wrt) {
        wrt.parameters.push(self.clone());
    }

    fn substitute(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        None
    }

    fn gradient(&self, next: &mut dyn FnMut() -> Tensor) -> Tensor {
        next()
    }
}

impl Wrt {
    /// Adds the tensors of a structure.
    pub fn tree(&mut self, tree: &impl Tree) {
        self.tensors.extend(leaves(tree));
    }

    /// How many tensors of arguments there are; parameters are not counted.
    pub(super) fn tensor_count(&self) -> usize {
        self.tensors.len()
    }

    /// Refuses what has no gradient.
    fn check(&self) -> Result<()> {
        let dtypes = self.tensors.iter().map(Tensor::dtype).chain(self.parameters.iter().map(|it| it.load().dtype()));
        match dtypes.into_iter().find(|it| !it.is_float()) {
            Some(dtype) => Err(no_gradient(dtype)),
            None => Ok(()),
        }
    }
}

fn no_gradient(dtype: DType) -> Error {
    Error::new(Code::NoGradient, format!("no gradient with respect to a tensor of {dtype}"))
        .with_op("grad")
        .help("cast it to a float dtype first")
}

/// Runs `body` and gives its result with the gradients of the sum of the result's tensors: first
/// those of the tensors of `wrt`, then those of its parameters.
///
/// `location` is the user's line, where the transform was asked for.
/// `body` gets the tensors that stand for those of `wrt`. Outside a trace the ops are run and
/// recorded on a tape; inside one they become the region of a node.
///
/// # Errors
/// [`Code::NoGradient`] for integer inputs and for ops without a derivative.
pub fn differentiate<R: Tree>(
    wrt: &Wrt,
    body: impl FnOnce(&[Tensor]) -> R,
    location: &'static Location<'static>,
) -> Result<(R, Vec<Tensor>)> {
    wrt.check().map_err(|it| it.at(location))?;
    match Tracer::current() {
        Some(tracer) => in_trace(&tracer, wrt, body, location),
        None => on_tape(wrt, body),
    }
}

/// The value, or a panic with the error's text; the error names the user's line already.
pub(super) fn or_raise_at<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => raise(error),
    }
}

fn on_tape<R: Tree>(wrt: &Wrt, body: impl FnOnce(&[Tensor]) -> R) -> Result<(R, Vec<Tensor>)> {
    let tape = Tape::new();
    let tensors: Vec<Tensor> = wrt.tensors.iter().map(|it| tape.watch(it)).collect();
    let mut watched = tensors.clone();
    for parameter in &wrt.parameters {
        watched.push(tape.watch_parameter(parameter)?);
    }
    let result = tape.record(|| body(&tensors));
    let gradients = tape.gradients(&leaves(&result), &watched)?;
    Ok((result, gradients))
}

fn in_trace<R: Tree>(
    tracer: &Tracer,
    wrt: &Wrt,
    body: impl FnOnce(&[Tensor]) -> R,
    location: &'static Location<'static>,
) -> Result<(R, Vec<Tensor>)> {
    let mut inputs: Vec<Tensor> = wrt.tensors.clone();
    for parameter in &wrt.parameters {
        inputs.push(parameter.value());
    }
    let ((result, results), region) = run_nested(tracer, "grad", || {
        let given: Vec<Tensor> = inputs.iter().map(|it| tracer.input(it.ty())).collect();
        let (tensors, parameters) = given.split_at(wrt.tensors.len());
        for (parameter, value) in wrt.parameters.iter().zip(parameters) {
            tracer.bind_slot(parameter, value, false)?;
        }
        let result = body(tensors);
        let results = leaves(&result);
        Ok(((result, results.len()), results))
    })?;
    let attrs = {
        let wrt: Vec<usize> = (0..inputs.len()).collect();
        Attrs::new([(&wrt[..]).into(), results.into()])
    };
    let mut types: Vec<Type> = region.graph.outputs().iter().map(|&it| region.graph.ty(it).clone()).collect();
    types.extend(inputs.iter().map(Tensor::ty));
    inputs.extend(region.captures);
    let mut outputs =
        tracer.region_node(VALUE_AND_GRAD.op(), attrs, smallvec![region.graph], &inputs, types, location)?;
    let gradients = outputs.split_off(results + region.writes.len());
    for (parameter, value) in region.writes.iter().zip(outputs.split_off(results)) {
        tracer.bind_slot(parameter, &value, true)?;
    }
    let mut next = outputs.into_iter();
    Ok((result.rebuild(&mut |_| next.next().expect("as many outputs as results")), gradients))
}

/// A function made by a transform: it is called like the function it was made from.
pub struct Transformed<F: ?Sized>(pub(super) Box<F>);

impl<F: ?Sized> Transformed<F> {
    pub(super) fn new(function: Box<F>) -> Self {
        Self(function)
    }
}

impl<F: ?Sized> Deref for Transformed<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.0
    }
}

/// A function that transforms take, of one to six borrowed arguments.
pub trait Function<'f, Args>: Sized {
    /// The function that gives the gradient of the first argument.
    type Grad: ?Sized;
    /// The function that gives the result too.
    type ValueAndGrad: ?Sized;

    /// See [`grad`].
    fn into_grad(self, location: &'static Location<'static>) -> Box<Self::Grad>;
    /// See [`value_and_grad`].
    fn into_value_and_grad(self, location: &'static Location<'static>) -> Box<Self::ValueAndGrad>;
}

macro_rules! functions {
    ($(($($rest:ident $arg:ident),*);)*) => {$(
        impl<'f, F, R, A, $($rest),*> Function<'f, (R, A, $($rest,)*)> for F
        where
            F: Fn(&A, $(&$rest),*) -> R + 'f,
            R: Tree + 'f,
            A: Differentiable + 'f,
            $($rest: 'f),*
        {
            type Grad = dyn Fn(&A, $(&$rest),*) -> A::Gradient + 'f;
            type ValueAndGrad = dyn Fn(&A, $(&$rest),*) -> (R, A::Gradient) + 'f;

            fn into_grad(self, location: &'static Location<'static>) -> Box<Self::Grad> {
                let both = self.into_value_and_grad(location);
                Box::new(move |a: &A, $($arg: &$rest),*| both(a, $($arg),*).1)
            }

            fn into_value_and_grad(self, location: &'static Location<'static>) -> Box<Self::ValueAndGrad> {
                Box::new(move |a: &A, $($arg: &$rest),*| {
                    let mut wrt = Wrt::default();
                    a.collect(&mut wrt);
                    let run = |tensors: &[Tensor]| {
                        let mut next = tensors.iter();
                        let given = a.substitute(&mut |_| next.next().expect("one for each tensor").clone());
                        self(given.as_deref().unwrap_or(a), $($arg),*)
                    };
                    let (result, gradients) = or_raise_at(differentiate(&wrt, run, location));
                    let mut next = gradients.into_iter();
                    (result, a.gradient(&mut || next.next().expect("one for each tensor")))
                })
            }
        }
    )*};
}

functions! {
    ();
    (B b);
    (B b, C c);
    (B b, C c, D d);
    (B b, C c, D d, E e);
    (B b, C c, D d, E e, G g);
}

/// The gradient of the sum of a function's results with respect to its first argument.
///
/// ```
/// use ms_core::{Tensor, ops, session};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let g = session::grad(|x: &Tensor| ops::add(x, x))(&x);
/// assert_eq!(g.to_vec::<f32>(), [2.0, 2.0]);
/// ```
#[track_caller]
pub fn grad<'f, Args, F: Function<'f, Args>>(f: F) -> Transformed<F::Grad> {
    Transformed(f.into_grad(Location::caller()))
}

/// The results of a function, and the gradient of their sum with respect to its first argument.
#[track_caller]
pub fn value_and_grad<'f, Args, F: Function<'f, Args>>(f: F) -> Transformed<F::ValueAndGrad> {
    Transformed(f.into_value_and_grad(Location::caller()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops;
    use crate::session::{JitFn, JitReturn, type_key};

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

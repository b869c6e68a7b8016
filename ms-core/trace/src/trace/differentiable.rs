//! Defines the targets of derivatives, and their gradients.

use super::{Arg, Cell, Sink, Tree, leaves};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{Parameter, Tensor, WeakParameter};

/// The targets of a derivative, in order.
#[derive(Default)]
pub struct Wrt {
    targets: Vec<Target>,
}

/// A target of a derivative.
#[doc(hidden)]
pub enum Target {
    /// A tensor of an argument.
    Tensor(Tensor),
    /// The value of a parameter.
    Parameter(Parameter),
}

/// The gradients of a cell's trainable parameters.
///
/// ```
/// use ms_core::session::{Gradients, grad};
/// use ms_core::{Parameter, Tensor, ops, tensor};
/// let weight = Parameter::new(tensor![3.0], "weight");
/// let square = |x: &Tensor| ops::mul(x, ops::square(&weight));
/// let gradients: Gradients = grad(square).wrt(vec![weight.clone()])(&tensor![1.0]);
/// assert_eq!(gradients.get(&weight).map(Tensor::item::<f32>), Some(6.0));
/// ```
#[derive(Clone)]
pub struct Gradients {
    parameters: Vec<Parameter>,
    tensors: Vec<Tensor>,
    /// The parameters of a template, which it does not keep alive.
    template: Vec<WeakParameter>,
}

impl Gradients {
    /// Creates gradients of these parameters, in the same order.
    pub fn new(parameters: Vec<Parameter>, tensors: Vec<Tensor>) -> Self {
        Self { parameters, tensors, template: Vec::new() }
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

    /// Returns the number of gradients.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Returns whether there are no gradients.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Gradients {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.tensors.visit(sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        Some(Box::new(self.rebuild(next)))
    }
}

#[diagnostic::do_not_recommend]
impl Tree for Gradients {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        let mut made = Self::new(self.parameters.clone(), self.tensors.rebuild(next));
        if !self.template.is_empty() {
            // A dropped parameter has no gradient.
            let kept = self.template.iter().zip(made.tensors).filter_map(|(slot, it)| Some((slot.upgrade()?, it)));
            (made.parameters, made.tensors) = kept.unzip();
        }
        made
    }

    fn as_template(&self) -> Self {
        let template = self.parameters.map_vec(Parameter::downgrade);
        Self { parameters: Vec::new(), tensors: self.tensors.clone(), template }
    }
}

/// An argument that gradients can be taken with respect to: a structure of float tensors, or a cell, which stands for
/// its trainable parameters.
#[diagnostic::on_unimplemented(
    message = "no gradient can be taken with respect to `{Self}`",
    note = "gradients are taken with respect to tensors, structures of them that derive `Tree`, and cells"
)]
pub trait Differentiable: Arg {
    /// The type of the gradient.
    type Gradient: Tree;

    /// Adds the targets.
    fn collect(&self, wrt: &mut Wrt);

    /// Returns the argument with other tensors; `None` if it stays unchanged.
    fn substitute(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>>;

    /// Builds the gradient from its tensors in order.
    fn gradient(&self, next: &mut dyn FnMut() -> Tensor) -> Self::Gradient;
}

impl<C: Cell> Differentiable for C {
    type Gradient = Gradients;

    fn collect(&self, wrt: &mut Wrt) {
        wrt.parameters(self.trainable_parameters());
    }

    fn substitute(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        None
    }

    fn gradient(&self, next: &mut dyn FnMut() -> Tensor) -> Gradients {
        let parameters = self.trainable_parameters();
        let tensors = parameters.map_vec(|_| next());
        Gradients::new(parameters, tensors)
    }
}

/// Implements [`Differentiable`] for a [`Tree`]. Its gradient is a pytree with the same structure.
#[macro_export]
macro_rules! differentiable_tree {
    ($({$($generics:tt)*})? $ty:ty) => {
        impl$(<$($generics)*>)? $crate::trace::Differentiable for $ty {
            type Gradient = Self;
            fn collect(&self, wrt: &mut $crate::trace::Wrt) {
                wrt.tree(self);
            }
            fn substitute(&self, next: &mut dyn FnMut(&$crate::tensor::Tensor) -> $crate::tensor::Tensor) -> Option<Box<Self>> {
                Some(Box::new($crate::trace::Tree::rebuild(self, next)))
            }
            fn gradient(&self, next: &mut dyn FnMut() -> $crate::tensor::Tensor) -> Self {
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
        wrt.parameters([self.clone()]);
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
        self.targets.extend(leaves(tree).into_iter().map(Target::Tensor));
    }

    /// Adds parameters.
    pub fn parameters(&mut self, parameters: impl IntoIterator<Item = Parameter>) {
        self.targets.extend(parameters.into_iter().map(Target::Parameter));
    }

    #[doc(hidden)]
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Reports targets without gradients.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        let integer = self.targets.iter().enumerate().find_map(|(at, target)| {
            let ty = match target {
                Target::Tensor(tensor) => tensor.ty(),
                Target::Parameter(parameter) => parameter.load().ty(),
            };
            (!ty.dtype.is_float()).then_some((at, ty))
        });
        match integer {
            None => Ok(()),
            Some((at, ty)) => Err(Error::new(
                Code::NoGradient,
                format!("no gradient with respect to input {at}, a tensor of {}", ty.dtype),
            )
            .with_op("grad")
            .with_operands([ty.to_string()])
            .help("cast it to a float dtype first")),
        }
    }
}

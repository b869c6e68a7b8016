//! The half of an op's definition that differentiates and batches it. The compiler reads the other half, [`OpDef`].

use crate::ops::{AxisOrder, Batching, Body, OpDef, PartialGradient};
use crate::tensor::{Attrs, Tensor};
use smallvec::SmallVec;

/// Gradients of the inputs; `None` for an input without one.
pub type Cotangents = SmallVec<[Option<Tensor>; 3]>;

/// The rules by which transforms rewrite an op.
pub struct TransformRules {
    /// The derivative.
    pub derivative: Derivative,
    /// Whether the derivatives of every order are finite at all finite operands. Otherwise the zero gradient of an
    /// unused result may become NaN.
    pub finite_derivatives: bool,
    /// The batching rule.
    pub batching: Batching,
    /// The ops that may replace the op.
    pub body: Option<OpBody>,
}

/// The ops that may replace an op.
#[derive(Clone, Copy)]
pub enum OpBody {
    /// The body of a composite.
    Composite(Body),
    /// The body of a convolution in an axis order.
    Image(ImageBody),
}

/// Computes the result of an op on images. The images among operands and result have the given order. The result has
/// the bits of the op in [strict](ms_ir::Precision::Strict) precision.
pub type ImageBody = fn(&Attrs, &[&Tensor], AxisOrder) -> Tensor;

/// Returns the rules by which transforms rewrite an op.
#[inline]
pub fn transform_rules(def: &OpDef) -> &'static TransformRules {
    def.transforms.downcast_ref().expect("every definition refers to `TransformRules`")
}

/// The derivative of an op.
pub enum Derivative {
    /// A vector-Jacobian product, written against [`Tensor`], for the tape and for graphs.
    Rule(fn(&Vjp<'_>) -> Cotangents),
    /// A rule for an op that reads elements of its first operand, is linear in it, and has no other gradient. The rule
    /// returns the gradient of these elements with their position.
    Read(fn(&Vjp<'_>) -> PartialGradient),
    /// The derivative of a composite's body: the ops of the body are differentiated instead.
    Body,
    /// Zero: the op is constant almost everywhere.
    Zero,
    /// No derivative, for this reason.
    None(&'static str),
}

/// The arguments of a derivative rule.
pub struct Vjp<'a> {
    /// The attributes of the node.
    pub attrs: &'a Attrs,
    /// The operands.
    pub inputs: &'a [Tensor],
    /// The results.
    pub outputs: &'a [Tensor],
    /// The gradients of the results, `None` for a result without one. At least one is `Some`.
    pub cotangents: &'a [Option<Tensor>],
    /// Whether each operand needs a gradient; a rule may omit the others.
    pub needs: &'a [bool],
}

impl Vjp<'_> {
    /// Returns the gradient of the only result.
    pub fn cotangent(&self) -> &Tensor {
        self.cotangents[0].as_ref().expect("a rule runs only if a result has a gradient")
    }
}

impl TransformRules {
    /// Returns the gradients of the operands by the op's rule; `None` if it has none.
    pub fn pull(&self, vjp: &Vjp<'_>) -> Option<Cotangents> {
        match self.derivative {
            Derivative::Rule(rule) => Some(rule(vjp)),
            Derivative::Read(rule) => {
                let mut all = SmallVec::from_elem(None, vjp.inputs.len());
                all[0] = Some(PartialGradient::sum(None, &[rule(vjp)]));
                Some(all)
            }
            Derivative::Body | Derivative::Zero | Derivative::None(_) => None,
        }
    }

    /// Returns the body of a composite; `None` for other ops.
    #[inline]
    pub fn composite(&self) -> Option<Body> {
        match self.body {
            Some(OpBody::Composite(body)) => Some(body),
            Some(OpBody::Image(_)) | None => None,
        }
    }
}

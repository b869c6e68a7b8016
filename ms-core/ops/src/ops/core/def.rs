//! The definition of an op.

use crate::ops::Batching;
use crate::ops::{Body, Control, Effects, ImageForm, ImageRule, Part, Sample};
use crate::tensor::{Array, Attrs, DType, Layout, Literal, Op, OpInfo, Tensor, Type};
use ms_ir::error::Result;
use ms_ir::{ContractionRanks, Graph, KernelBuilder, Precision, Reducer, Val};
use smallvec::SmallVec;
use std::sync::Arc;

/// The types of an op's results.
pub type Types = SmallVec<[Type; 1]>;

/// An op's results.
pub type Arrays = SmallVec<[Array; 1]>;

/// Gradients of the inputs; `None` for an input without one.
pub type Cotangents = SmallVec<[Option<Tensor>; 3]>;

/// The definition of an op: all knowledge that the compiler has of it.
pub struct OpDef {
    /// The number, the name and the attributes.
    pub info: OpInfo,
    /// The type rule: returns the types of the results, or an error for illegal operands.
    pub infer: fn(&Attrs, &[&Type]) -> Result<Types>,
    /// The reference evaluation: slow, independent of the lowering, and the oracle of tests. `infer` has accepted the
    /// operands; results are row-major.
    pub eval: fn(&Attrs, &[&Array]) -> Result<Arrays>,
    /// The derivative.
    pub derivative: Derivative,
    /// Whether the derivatives of every order are finite at all finite operands. Otherwise the zero gradient of an
    /// unused result may become NaN.
    pub finite_derivatives: bool,
    /// The side effects of the op.
    pub effects: Effects,
    /// The batching rule.
    pub batching: Batching,
    /// The lowering rule.
    pub lowering: Lowering,
    /// Operands for generated tests; never empty.
    pub samples: fn() -> Vec<Sample>,
}

/// The derivative of an op.
pub enum Derivative {
    /// A vector-Jacobian product, written against [`Tensor`], for the tape and for graphs.
    Rule(fn(&Vjp<'_>) -> Cotangents),
    /// A rule for an op that reads elements of its first operand, is linear in it, and has no other gradient. The rule
    /// returns the gradient of these elements with their position.
    Read(fn(&Vjp<'_>) -> Part),
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

/// The lowering rule of an op.
pub enum Lowering {
    /// Elementwise over broadcast operands: builds the body for one element. Each operand has its dtype, and the value
    /// has the result's dtype.
    Map(fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val),
    /// A function of the index: builds the body for one element of the result from its index along each axis (i64). The
    /// argument is the dtype of the result. The op has no operands. The body does not depend on attributes that are
    /// [sizes](crate::tensor::AttrKind).
    Generate(fn(&Attrs, &mut KernelBuilder, &[Val], DType) -> Val),
    /// A function of the row-major position (i64) of an element in the result. Builds the body for one element from
    /// this position and all elements of the operands, in this order. The body does not depend on attributes that are
    /// sizes.
    Position(fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val),
    /// A reduction over axes.
    Reduce(ReduceRule),
    /// A gather of slices of the first operand at the positions in the second one, which is of integers. The attributes
    /// determine the axis, and the axes of the second operand replace it. Negative positions count from the end. A
    /// position out of range is an error, see [`check_positions`](crate::ops::host::check_positions).
    Gather(fn(&Attrs) -> usize),
    /// A view of the first operand's memory; `None` if the view needs a row-major operand.
    View(fn(&Attrs, &Layout) -> Option<Layout>),
    /// A contraction: returns the number of axes of each kind from the rank of the first operand. Operands and result
    /// have one dtype.
    Contraction(fn(&Attrs, usize) -> ContractionRanks),
    /// Constant data.
    Constant(fn(&Attrs) -> &Literal),
    /// A check of the only operand, which is also the result. The check reads the bytes of a row-major array of that
    /// dtype.
    Check(fn(&Attrs, DType, &[u8]) -> Result<()>),
    /// A call of the backend's library, or of `eval`.
    Library,
    /// A library call like [`Library`](Self::Library), on images. It runs in another axis order if the target asks for
    /// one (`Target::images`); a convolution is then a contraction.
    OfImages(ImageRule),
    /// A library call like [`Library`](Self::Library). The only result is the first operand with some elements changed.
    /// If it is computed in place, the other elements are not written.
    Update,
    /// The operands as slices of the only result: returns the layout of each operand in it.
    Slices(SliceRule),
    /// The ops that the body applies, unless the composite is native to the target
    /// (`Target::keeps`).
    Composite(Body),
    /// Execution of the node's regions: calls and control flow. The definition's `infer` and `eval` have no access to
    /// regions and return errors.
    Regions(RegionRule),
}

impl Lowering {
    /// Returns the precision in which a library runs an op in code of the given precision. Only convolutions contain
    /// matrix products. Other ops have the same bits in every precision, so they run in strict precision.
    pub fn library_precision(&self, of_code: Precision) -> Precision {
        match self {
            Self::OfImages(ImageRule { form: ImageForm::Convolution { .. }, .. }) => of_code,
            _ => Precision::Strict,
        }
    }
}

/// Returns the layout of each operand, of these shapes, in a result of this row-major layout.
///
/// The slices cover the result. Only the first may overlap others, which then replace its elements. In that case it is
/// the whole result.
pub type SliceRule = fn(&Attrs, &[&[usize]], &Layout) -> Slices;

/// The layouts of operands in a result.
pub type Slices = SmallVec<[Layout; 2]>;

/// The regions of a node.
pub type Regions = [Arc<Graph>];

/// The rules of an op with regions.
pub struct RegionRule {
    /// The number of regions of a node.
    pub count: usize,
    /// Returns how a node with these attributes runs its regions.
    pub control: fn(&Attrs) -> Control,
    /// Returns the types of the results, or an error for illegal regions and operands.
    pub infer: fn(&Attrs, &Regions, &[&Type]) -> Result<Types>,
    /// The reference evaluation; `infer` has accepted the operands.
    pub eval: fn(&Attrs, &Regions, &[&Array]) -> Result<Arrays>,
}

/// A reduction over axes.
pub struct ReduceRule {
    /// Returns the reduced axes.
    pub axes: fn(&Attrs) -> SmallVec<[usize; 4]>,
    /// The reduction function.
    pub reducer: Reducer,
    /// Returns the dtype of accumulators for the operand's dtype.
    pub accumulate: fn(DType) -> DType,
}

impl OpDef {
    /// Returns the gradients of the operands by the op's rule; `None` if it has none.
    pub fn pull(&self, vjp: &Vjp<'_>) -> Option<Cotangents> {
        match self.derivative {
            Derivative::Rule(rule) => Some(rule(vjp)),
            Derivative::Read(rule) => {
                let mut all = SmallVec::from_elem(None, vjp.inputs.len());
                all[0] = Some(Part::sum(None, &[rule(vjp)]));
                Some(all)
            }
            Derivative::Body | Derivative::Zero | Derivative::None(_) => None,
        }
    }

    /// Returns the handle of the op.
    #[inline]
    pub const fn op(&'static self) -> Op {
        Op(&self.info)
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.info.name
    }
}

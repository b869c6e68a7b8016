//! The definition of ops.

use crate::error::Result;
use crate::ir::{ContractionRanks, Graph, KernelBuilder, Precision, Reducer, Val};
use crate::ops::Batching;
use crate::ops::{Body, Control, Effects, ImageForm, ImageRule, Part, Sample};
use crate::tensor::{Array, Attrs, DType, Layout, Literal, Op, OpInfo, Tensor, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// The types of an op's results.
pub type Types = SmallVec<[Type; 1]>;

/// An op's results.
pub type Arrays = SmallVec<[Array; 1]>;

/// Gradients by input; `None` if there is none.
pub type Cotangents = SmallVec<[Option<Tensor>; 3]>;

/// The definition of an op: everything that the compiler knows about it.
pub struct OpDef {
    /// Number, name, names of attributes.
    pub info: OpInfo,
    /// The type rule: types of the results, or an error if the operands do not fit.
    pub infer: fn(&Attrs, &[&Type]) -> Result<Types>,
    /// The reference evaluation: slow, independent of the lowering, and the oracle of tests. Operands
    /// have passed `infer`; results are row-major.
    pub eval: fn(&Attrs, &[&Array]) -> Result<Arrays>,
    /// The derivative.
    pub derivative: Derivative,
    /// Whether the derivatives of every order are finite at all finite operands. Otherwise the zero gradient of a
    /// result that is not wanted may become a NaN.
    pub finite_derivatives: bool,
    /// What the op does besides computing its results.
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
    /// The op reads elements of its first operand, in which it is linear and which alone has a
    /// gradient: the gradient of these elements, with their position.
    Read(fn(&Vjp<'_>) -> Part),
    /// That of the body of a composite, whose ops are differentiated in its place.
    Body,
    /// Constant almost everywhere: the gradient is zero.
    Zero,
    /// There is none, for this reason.
    None(&'static str),
}

/// The arguments of a derivative rule.
pub struct Vjp<'a> {
    /// The attributes of the node.
    pub attrs: &'a Attrs,
    /// Its operands.
    pub inputs: &'a [Tensor],
    /// Its results.
    pub outputs: &'a [Tensor],
    /// The gradients of its results, `None` if there is none. At least one is `Some`.
    pub cotangents: &'a [Option<Tensor>],
    /// Which operands need a gradient; a rule may omit the others.
    pub needs: &'a [bool],
}

impl Vjp<'_> {
    /// The gradient of the only result.
    pub fn cotangent(&self) -> &Tensor {
        self.cotangents[0].as_ref().expect("a rule runs only if a result has a gradient")
    }
}

/// The lowering rule of an op.
pub enum Lowering {
    /// Elementwise over broadcast operands: the body for one element. Operands have their own dtypes,
    /// and the value has the result's dtype.
    Map(fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val),
    /// A function of the position: the body for one element of the result, of this dtype, from its index along
    /// each axis (i64). The op has no operands. The body does not depend on attributes that are
    /// [sizes](crate::tensor::AttrKind).
    Generate(fn(&Attrs, &mut KernelBuilder, &[Val], DType) -> Val),
    /// A function of the row-major position of the element in the result (i64), and of all elements
    /// of the operands: the body for one element, from these values in this order. It does not depend on attributes
    /// that are sizes either.
    Position(fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val),
    /// A reduction over axes.
    Reduce(ReduceRule),
    /// The slices of the first operand at the positions along an axis that are in the second one, of
    /// integers; the axes of the second replace that axis, which the attributes determine. Negative positions
    /// count from the end; a position out of range is an error, see
    /// [`check_positions`](crate::ops::host::check_positions).
    Gather(fn(&Attrs) -> usize),
    /// A view of the first operand's memory. `None` if the view needs a row-major operand.
    View(fn(&Attrs, &Layout) -> Option<Layout>),
    /// A contraction: how many axes of its operands are of which kind, by the rank of the first one. Operands and
    /// result have one dtype.
    Contraction(fn(&Attrs, usize) -> ContractionRanks),
    /// Constant data.
    Constant(fn(&Attrs) -> &Literal),
    /// The only operand, unless this refuses its elements: the bytes of a row-major array of that dtype.
    Check(fn(&Attrs, DType, &[u8]) -> Result<()>),
    /// A call of the backend's library, or of `eval`.
    Library,
    /// Like [`Library`](Self::Library), on images. Where the target asks for it
    /// ([`Target::images`](crate::lower::Target::images)), it runs on images in another order of axes, and a convolution
    /// is a contraction.
    OfImages(ImageRule),
    /// Like [`Library`](Self::Library). The only result is the first operand with some elements
    /// changed, and may share its memory: then the other elements are not written.
    Update,
    /// The only result consists of its operands: the layout of each of them in it.
    Slices(SliceRule),
    /// The ops that the body applies, unless the target runs the op itself
    /// ([`Target::keeps`](crate::lower::Target::keeps)).
    Composite(Body),
    /// By the regions of the node: calls and control flow. The definition's own `infer` and `eval`, which
    /// have no access to regions, return errors.
    Regions(RegionRule),
}

impl Lowering {
    /// The precision in which a library runs an op in code of this one: convolutions are products of matrices. Others
    /// have the same bits in every precision, and so run in one.
    pub fn library_precision(&self, of_code: Precision) -> Precision {
        match self {
            Self::OfImages(ImageRule { form: ImageForm::Convolution { .. }, .. }) => of_code,
            _ => Precision::Strict,
        }
    }
}

/// The layout of each operand, of these shapes, in a result of this row-major layout.
///
/// The slices cover the result. Only the first may overlap others, which then replace its elements; in that
/// case it is the whole result.
pub type SliceRule = fn(&Attrs, &[&[usize]], &Layout) -> Slices;

/// Layouts of operands in a result.
pub type Slices = SmallVec<[Layout; 2]>;

/// The regions of a node.
pub type Regions = [Arc<Graph>];

/// The type rule and the reference evaluation of an op with regions.
pub struct RegionRule {
    /// The number of regions of a node.
    pub count: usize,
    /// How a node with these attributes runs its regions.
    pub control: fn(&Attrs) -> Control,
    /// Types of the results, or an error if the regions and operands do not fit.
    pub infer: fn(&Attrs, &Regions, &[&Type]) -> Result<Types>,
    /// The reference evaluation; operands have passed `infer`.
    pub eval: fn(&Attrs, &Regions, &[&Array]) -> Result<Arrays>,
}

/// A reduction over axes.
pub struct ReduceRule {
    /// The reduced axes.
    pub axes: fn(&Attrs) -> SmallVec<[usize; 4]>,
    /// How values are reduced.
    pub reducer: Reducer,
    /// The dtype of accumulators, by the operand's dtype.
    pub accumulate: fn(DType) -> DType,
}

impl OpDef {
    /// The gradients of the operands by the op's rule; `None` if it has none.
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

    /// The handle of the op.
    #[inline]
    pub const fn op(&'static self) -> Op {
        Op(&self.info)
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.info.name
    }
}

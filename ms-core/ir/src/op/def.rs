//! The definition of an op.

use super::{Control, Effects, Sample, SpatialForm, SpatialRule};
use crate::data::{Array, Attrs, DType, Layout, Literal, Op, OpInfo, Scalar, Type};
use crate::error::{Error, Result};
use crate::{ContractionRanks, Graph, KernelBuilder, Precision, Reducer, Val};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// The types of an op's results.
pub type Types = SmallVec<[Type; 1]>;

/// An op's results.
pub type Arrays = SmallVec<[Array; 1]>;

/// The definition of an op: all knowledge that the compiler has of it.
///
/// The rules that differentiate and batch the op speak of tensors, which this crate does not know. [`transforms`]
/// refers to them, and only the crate that defines the op reads it.
///
/// [`transforms`]: Self::transforms
pub struct OpDef {
    /// The number, the name and the attributes.
    pub info: OpInfo,
    /// The type rule: returns the types of the results, or an error for illegal operands.
    pub infer: fn(&Attrs, &[&Type]) -> Result<Types>,
    /// The reference evaluation: slow, independent of the lowering, and the oracle of tests. `infer` has accepted the
    /// operands; results are row-major.
    pub eval: fn(&Attrs, &[&Array]) -> Result<Arrays>,
    /// The side effects of the op.
    pub effects: Effects,
    /// The lowering rule.
    pub lowering: Lowering,
    /// Operands for generated tests; never empty.
    pub samples: fn() -> Vec<Sample>,
    /// The rules of transforms, in the type of the crate that defines the op.
    pub transforms: &'static (dyn Any + Send + Sync),
}

/// The lowering rule of an op.
pub enum Lowering {
    /// Elementwise over broadcast operands: builds the body for one element. Each operand has its dtype, and the value
    /// has the result's dtype.
    Map(fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val),
    /// A function of the index: builds the body for one element of the result from its index along each axis (i64). The
    /// argument is the dtype of the result. The op has no operands. The body does not depend on attributes that are
    /// [sizes](crate::data::AttrKind).
    Generate(fn(&Attrs, &mut KernelBuilder, &[Val], DType) -> Val),
    /// A function of the row-major position (i64) of an element in the result. Builds the body for one element from
    /// this position and all elements of the operands, in this order. The body does not depend on attributes that are
    /// sizes.
    Position(fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val),
    /// A reduction over axes.
    Reduce(ReduceRule),
    /// A gather of slices of the first operand at the positions in the second one, which is of integers. The attributes
    /// determine the axis, and the axes of the second operand replace it. Negative positions count from the end. A
    /// position out of range is an error, which a [check](OpDef::build_check) of the second operand finds.
    Gather(fn(&Attrs) -> usize),
    /// A view of the first operand's memory; `None` if the view needs a row-major operand.
    View(fn(&Attrs, &Layout) -> Option<Layout>),
    /// A contraction: returns the number of axes of each kind from the rank of the first operand. Operands and result
    /// have one dtype.
    Contraction(fn(&Attrs, usize) -> ContractionRanks),
    /// Constant data.
    Constant(fn(&Attrs) -> &Literal),
    /// A check of an operand. The first operand is the result.
    Check(CheckRule),
    /// A call of the backend's library, or of `eval`.
    Library,
    /// A library call like [`Library`](Self::Library), on images. It runs in another axis order if the target asks for
    /// one (`Target::images`); a convolution is then a contraction.
    Spatial(SpatialRule),
    /// A library call like [`Library`](Self::Library). The only result is the first operand with some elements changed.
    /// If it is computed in place, the other elements are not written.
    Update,
    /// The operands as slices of the only result: returns the layout of each operand in it.
    Slices(SliceRule),
    /// The ops of a body, unless the composite is native to the target (`Target::is_legal`).
    Composite(CompositeRule),
    /// Execution of the node's regions: calls and control flow. The definition's `infer` and `eval` have no access to
    /// regions and return errors.
    Regions(RegionRule),
}

impl Lowering {
    /// Returns the precision in which a library runs an op in code of the given precision. Only convolutions contain
    /// matrix products. Other ops have the same bits in every precision, so they run in strict precision.
    pub fn library_precision(&self, of_code: Precision) -> Precision {
        match self {
            Self::Spatial(SpatialRule { form: SpatialForm::Convolution(_), .. }) => of_code,
            _ => Precision::Strict,
        }
    }
}

/// The properties of a composite's body.
pub struct CompositeRule {
    /// Counts the [floating-point operations](super::flops) of the body on operands of these types.
    pub flops: fn(&Attrs, &[&Type]) -> u64,
    /// Whether the body applies a [product](super::has_product) to operands of these types.
    pub has_product: fn(&Attrs, &[&Type]) -> bool,
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

/// A check of an operand's elements. The result of the op is its first operand, unchanged.
///
/// A kernel computes the [position](OpDef::build_check) of the first element that is not accepted. So the check runs on
/// the device, and the host waits for nothing. The host makes the error, from what the device recorded.
pub struct CheckRule {
    /// The number of the checked operand. Errors show the operands behind it.
    pub operand: usize,
    /// Builds whether an element is accepted, a bool. The values are the element, in its dtype, and those attributes
    /// that are sizes or extents (i64), in order. The body depends on no other attribute that is a size or text.
    pub accepts: fn(&Attrs, &mut KernelBuilder, Val, &[Val]) -> Val,
    /// Returns the error of the first element that is not accepted.
    pub refuse: fn(&Attrs, &Refused<'_>) -> Error,
}

/// The first element that a check does not accept, on the host.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// The row-major position of the element in its operand.
    pub position: usize,
    /// The element.
    pub element: Scalar,
    /// The operands behind the checked one.
    pub shown: &'a [&'a Array],
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

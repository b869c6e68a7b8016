//! What an op is.

use crate::error::Result;
use crate::ir::{Graph, KernelBuilder, Reducer, Val};
use crate::ops::Batching;
use crate::ops::{Part, Sample};
use crate::tensor::{Array, Attrs, DType, Layout, Op, OpInfo, Tensor, Type};
use smallvec::SmallVec;
use std::sync::Arc;

/// The types of an op's results.
pub type Types = SmallVec<[Type; 1]>;

/// An op's results.
pub type Arrays = SmallVec<[Array; 1]>;

/// Gradients by input; nothing where none flows.
pub type Cotangents = SmallVec<[Option<Tensor>; 3]>;

/// The definition of a primitive: everything the compiler knows of it.
pub struct OpDef {
    /// Number, name, names of attributes.
    pub info: OpInfo,
    /// Types of the results, or why the operands do not fit.
    pub infer: fn(&Attrs, &[&Type]) -> Result<Types>,
    /// The meaning, on arrays: slow, independent of the lowering, and the oracle of its tests.
    /// Operands have passed `infer`; results are row-major.
    pub eval: fn(&Attrs, &[&Array]) -> Result<Arrays>,
    /// The derivative.
    pub derivative: Derivative,
    /// How it runs on many lanes at once.
    pub batching: Batching,
    /// How it becomes kernels.
    pub lowering: Lowering,
    /// Operands on which the generated tests try it; never empty.
    pub samples: fn() -> Vec<Sample>,
}

/// The derivative of an op.
pub enum Derivative {
    /// A vector-Jacobian product, written against [`Tensor`]: it serves the tape and graphs.
    Rule(fn(&Vjp<'_>) -> Cotangents),
    /// The op reads elements of its first operand, which alone has a gradient: what reaches them,
    /// where they lie. The op is linear in that operand.
    Read(fn(&Vjp<'_>) -> Part),
    /// Constant almost everywhere: the gradient is zero.
    Zero,
    /// There is none, because of this.
    None(&'static str),
}

/// What a derivative rule sees.
pub struct Vjp<'a> {
    /// The attributes of the node.
    pub attrs: &'a Attrs,
    /// Its operands.
    pub inputs: &'a [Tensor],
    /// Its results.
    pub outputs: &'a [Tensor],
    /// The gradients that reach its results; nothing where none does. At least one is there.
    pub cotangents: &'a [Option<Tensor>],
    /// Which operands want a gradient; a rule may leave the others out.
    pub needs: &'a [bool],
}

impl Vjp<'_> {
    /// The gradient of the only result.
    pub fn cotangent(&self) -> &Tensor {
        self.cotangents[0].as_ref().expect("a rule runs only when a gradient reaches the op")
    }
}

/// How an op becomes kernels.
pub enum Lowering {
    /// Elementwise over broadcast operands: the body for one element. Operands reach it in
    /// their own dtypes, and it gives a value of the result's dtype.
    Map(fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val),
    /// A function of the position: the body for one element of the result, from its index
    /// along each axis (i64). No tensor operands.
    Generate(fn(&Attrs, &mut KernelBuilder, &[Val], &Type) -> Val),
    /// A fold over axes.
    Reduce(ReduceRule),
    /// Another view of the first operand's memory: no work. Nothing where the view needs a
    /// row-major operand first.
    View(fn(&Attrs, &Layout) -> Option<Layout>),
    /// A product of matrices, attribute-free: `[.., m, k]` with `[.., k, n]`.
    Product,
    /// Constant data: attribute 0.
    Constant,
    /// Run as a whole by the backend's library, or by `eval`.
    Library,
    /// As [`Library`](Self::Library). The only result is the first operand with some elements changed,
    /// and may lie in its memory: then the others are not touched.
    Update,
    /// By the graphs that stand in the node as regions: calls and control flow. The
    /// definition's own `infer` and `eval`, which see no regions, refuse.
    Regions(RegionRule),
}

/// The graphs that stand in a node.
pub type Regions = [Arc<Graph>];

/// What an op that holds graphs is, given those graphs.
pub struct RegionRule {
    /// How many regions a node has.
    pub count: usize,
    /// Types of the results, or why the regions and operands do not fit each other.
    pub infer: fn(&Attrs, &Regions, &[&Type]) -> Result<Types>,
    /// The meaning, on arrays; operands have passed `infer`.
    pub eval: fn(&Attrs, &Regions, &[&Array]) -> Result<Arrays>,
}

/// A fold over the axes in attribute 0; attribute 1 says whether they stay with size one.
pub struct ReduceRule {
    /// How values are folded.
    pub reducer: Reducer,
    /// The dtype in which they are, for an operand's dtype.
    pub accumulate: fn(DType) -> DType,
}

impl OpDef {
    /// The gradients of the operands by the op's rule; nothing where it has none.
    pub fn pull(&self, vjp: &Vjp<'_>) -> Option<Cotangents> {
        match self.derivative {
            Derivative::Rule(rule) => Some(rule(vjp)),
            Derivative::Read(rule) => {
                let mut all = SmallVec::from_elem(None, vjp.inputs.len());
                all[0] = Some(Part::sum(None, &[rule(vjp)]));
                Some(all)
            }
            Derivative::Zero | Derivative::None(_) => None,
        }
    }

    /// The handle under which the op is applied.
    #[inline]
    pub const fn op(&'static self) -> Op {
        Op(&self.info)
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.info.name
    }
}

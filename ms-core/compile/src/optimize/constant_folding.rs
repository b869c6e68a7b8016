//! Folds constants.

use super::uniform::Uniform;
use super::{Pass, PassContext};
use ms_ir::MapVec;
use ms_ir::data::{Array, Attrs, DType, Literal};
use ms_ir::error::in_op;
use ms_ir::op::{Lowering, OpDef, definition, dialect};
use ms_ir::{
    BinaryOp, Graph, Inst, KernelBuilder, LaneAxis, Node, Rewriter, Role, StrideClass, Type, UnaryOp, Val, ValueId,
    Values, rewrite,
};
use std::borrow::Cow;

/// The maximal number of bytes by which a constant may be larger than its operands.
const LARGEST_GROWTH: usize = 4 << 10;

/// The maximal ratio of the total size of folded constants to the graph's own constants. Without a limit, a chain of
/// concatenations of a constant with itself doubles it at every node.
const LARGEST_RATIO: usize = 16;

/// Computes nodes on constant operands. The reference evaluation must be bit-identical to a kernel, and the result not
/// much larger than the operands.
///
/// An elementwise node of uniform operands becomes a `full` of any size. All results together are bounded by the size
/// of the graph and its constants.
pub struct ConstantFolding;

impl Pass for ConstantFolding {
    fn name(&self) -> &'static str {
        "constant_folding"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        let mut uniform = Uniform::default();
        let constants = graph.nodes().filter_map(|(_, node)| constant_of(node)).map(|it| it.bytes().len());
        let mut room = constants.sum::<usize>().saturating_mul(LARGEST_RATIO) + graph.len() * LARGEST_GROWTH;
        rewrite(graph, |rewriter, node, operands| {
            let [result] = node.outputs[..] else { return None };
            let def = definition(node.op);
            // The reference evaluation knows no other ranks.
            if operands.is_empty() || !def.effects.are_local() {
                return None;
            }
            let ty = graph.ty(result);
            fold_uniform(rewriter, &mut uniform, def, node, operands, ty)
                .or_else(|| fold_data(rewriter, def, node, operands, ty, &mut room))
        })
    }
}

/// Returns the value of a node on uniform operands.
fn fold_uniform(
    rewriter: &mut Rewriter<'_>,
    uniform: &mut Uniform,
    def: &OpDef,
    node: &Node,
    operands: &[ValueId],
    ty: &Type,
) -> Option<Values> {
    if !matches!(def.lowering, Lowering::Map(_) | Lowering::View(_)) || ty.numel() == Some(0) {
        return None;
    }
    let graph = rewriter.graph();
    // Most nodes have an operand that is not uniform. Literals for the others would be built and not used.
    if !operands.iter().all(|&id| uniform.is_known(graph, id)) {
        return None;
    }
    let elements: Vec<Literal> = operands.iter().map(|&id| uniform.literal(graph, id)).collect::<Option<_>>()?;
    let element = match def.lowering {
        Lowering::View(_) => elements.into_iter().next()?,
        _ => {
            let dtypes: Vec<DType> = elements.map_vec(Literal::dtype);
            if !is_exact(def, &node.attrs, &dtypes, ty.dtype) {
                return None;
            }
            evaluated(def, &node.attrs, &elements.iter().collect::<Vec<_>>())?
        }
    };
    if ty.rank() == 0 {
        return Some(constant(rewriter, element, node, ty));
    }
    ty.shape()?;
    let full = dialect().full(element, &ty.dims);
    Some(rewriter.add(Node { location: node.location, ..full }, [ty.clone()]))
}

/// Returns the value of a node on constants.
fn fold_data(
    rewriter: &mut Rewriter<'_>,
    def: &OpDef,
    node: &Node,
    operands: &[ValueId],
    ty: &Type,
    room_of_all: &mut usize,
) -> Option<Values> {
    let literal = |&id: &ValueId| rewriter.graph().producer(id).and_then(constant_of);
    let literals: Vec<&Literal> = operands.iter().map(literal).collect::<Option<_>>()?;
    let bytes = ty.numel()?.checked_mul(ty.dtype.size())?;
    let dtypes: Vec<DType> = literals.map_vec(|it| it.dtype());
    let room: usize = literals.iter().map(|it| it.bytes().len()).sum::<usize>() + LARGEST_GROWTH;
    if bytes > room.min(*room_of_all) || !node.regions.is_empty() || !is_exact(def, &node.attrs, &dtypes, ty.dtype) {
        return None;
    }
    let folded = evaluated(def, &node.attrs, &literals)?;
    drop(literals);
    *room_of_all -= bytes;
    Some(constant(rewriter, folded, node, ty))
}

/// Returns the first result of an op on constants; `None` if the op fails or memory runs out.
fn evaluated(def: &OpDef, attrs: &Attrs, operands: &[&Literal]) -> Option<Literal> {
    in_op(|| {
        let arrays: Vec<Array> = operands.map_vec(|it| it.to_array());
        let results = (def.eval)(attrs, &arrays.iter().collect::<Vec<_>>())?;
        Literal::from_array(&results[0])
    })
    .ok()
}

/// Returns the data of a constant node.
fn constant_of(node: &Node) -> Option<&Literal> {
    match definition(node.op).lowering {
        Lowering::Constant(data) => Some(data(&node.attrs)),
        _ => None,
    }
}

fn constant(rewriter: &mut Rewriter<'_>, literal: Literal, old: &Node, ty: &Type) -> Values {
    rewriter.add(Node { location: old.location, ..dialect().constant(literal) }, [ty.clone()])
}

/// Returns whether the reference evaluation of an op, which is independent of kernels, is bit-identical to its kernel.
///
/// This holds if nothing is rounded, or if the whole body is one correctly rounded instruction. The reference computes
/// such an instruction in f64. This is wide enough that rounding the sum, product, quotient or root a second time is
/// innocuous.
fn is_exact(def: &OpDef, attrs: &Attrs, operands: &[DType], result: DType) -> bool {
    match &def.lowering {
        Lowering::View(_) | Lowering::Slices(_) => true,
        Lowering::Map(map) => rounds_at_most_once(*map, attrs, operands),
        Lowering::Reduce(_) | Lowering::Contraction(_) => {
            !result.is_float() && !operands.iter().any(|it| it.is_float())
        }
        Lowering::Generate(_)
        | Lowering::Position(_)
        | Lowering::Gather(_)
        | Lowering::Constant(_)
        | Lowering::Check(_)
        | Lowering::Library
        | Lowering::Spatial(_)
        | Lowering::Update
        | Lowering::Composite(_)
        | Lowering::Regions(_) => false,
    }
}

fn rounds_at_most_once(map: fn(&Attrs, &mut KernelBuilder, &[Val]) -> Val, attrs: &Attrs, operands: &[DType]) -> bool {
    let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let params: Vec<_> = operands.map_vec(|&it| body.param(it, Role::Input, StrideClass::Any));
    let values: Vec<Val> = params.into_iter().map(|it| body.load(it)).collect();
    map(attrs, &mut body, &values);
    body.end_stage(ms_ir::Scope::Point);
    let kernel = body.finish();
    let mut rounded: Option<Val> = None;
    for (i, inst) in kernel.insts.iter().enumerate() {
        let val = Val(i as u32);
        let float = kernel.ty(val).is_float();
        match *inst {
            Inst::Unary(UnaryOp::Sqrt, _) => {}
            Inst::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div, ..) if float => {}
            Inst::Cast { value, to } => match cast_rounding(kernel.ty(value), to) {
                Rounding::None => continue,
                // The second half of narrow arithmetic, which is computed in f32.
                Rounding::Once if rounded == Some(value) && to.is_narrow_float() => continue,
                Rounding::Once => {}
                Rounding::Unclear => return false,
            },
            Inst::Math(..) | Inst::Fma(..) | Inst::Reduce(..) | Inst::Store(..) | Inst::Index(_) => return false,
            Inst::Carry(_) | Inst::While(_) | Inst::Next(..) => return false,
            Inst::Load(_)
            | Inst::Gather(..)
            | Inst::Const(_)
            | Inst::Unary(..)
            | Inst::Binary(..)
            | Inst::Compare(..)
            | Inst::Select(..) => continue,
        }
        if rounded.replace(val).is_some() {
            return false;
        }
    }
    true
}

/// The rounding of a conversion.
enum Rounding {
    None,
    Once,
    /// Rounded twice on one of the paths, or out of range.
    Unclear,
}

/// Returns how a value of a compute dtype is rounded when it is converted to `to`.
fn cast_rounding(from: DType, to: DType) -> Rounding {
    match (from, to) {
        _ if from == to || from == DType::Bool || to == DType::Bool => Rounding::None,
        _ if !from.is_float() && !to.is_float() => Rounding::None,
        (DType::F32, DType::F64) => Rounding::None,
        (DType::F64, DType::F32) => Rounding::Once,
        (DType::F32, _) if to.is_narrow_float() => Rounding::Once,
        (DType::I32 | DType::U32, DType::F64) => Rounding::None,
        (DType::I32 | DType::U32, DType::F32) | (DType::I64 | DType::U64, DType::F64) => Rounding::Once,
        _ => Rounding::Unclear,
    }
}

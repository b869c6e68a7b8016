//! Removes views and conversions without effect and combines others.

use ms_compile::optimize::{Pass, PassContext};
use ms_ir::data::{DType, Dim, Dims, Kind, Op, Type};
use ms_ir::{Graph, Node, Reducer, Rewriter, ValueId, Values, rewrite};
use ms_ops::ops::{
    self, ASSIGN, BROADCAST_TO, BroadcastToAttrs, CAST, CastAttrs, Lowering, PERMUTE, PermuteAttrs, RESHAPE,
    ReshapeAttrs, SLICE, STOP_GRADIENT, SliceAttrs, definition,
};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// Removes views and casts that change nothing, and combines pairs of them. Drops broadcasts that elementwise ops do
/// implicitly, and rewrites views that move no element as `reshape`.
pub struct Views;

impl Pass for Views {
    fn name(&self) -> &'static str {
        "views"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        rewrite(graph, |rewriter, node, operands| {
            let [result] = node.outputs[..] else { return None };
            let ty = graph.ty(result);
            match View::of(node) {
                // Transforms are expanded, so there is no gradient left to stop.
                None if node.op == STOP_GRADIENT.op() || node.op == ASSIGN.op() => Some(smallvec![operands[0]]),
                Some(mut view) => {
                    let mut x = *operands.first()?;
                    let mut changed = view.canonical(rewriter.graph().ty(x), ty);
                    while let Some((joined, from)) =
                        rewriter.graph().producer(x).and_then(|it| view.after(it, rewriter))
                    {
                        (view, x, changed) = (joined, from, true);
                        view.canonical(rewriter.graph().ty(x), ty);
                    }
                    if view.is_identity(rewriter.graph().ty(x), ty) {
                        return Some(smallvec![x]);
                    }
                    changed.then(|| rewriter.add(view.node(x, ty, node), [ty.clone()]))
                }
                None => match &definition(node.op).lowering {
                    Lowering::Map(_) => unbroadcast(rewriter, node, operands, ty),
                    Lowering::Reduce(rule) => {
                        let from = rewriter.graph().ty(operands[0]);
                        // A sum starts from +0, so it maps -0 to +0.
                        let exact = rule.reducer != Reducer::Sum || !ty.dtype.is_float();
                        let nothing = from.dtype == ty.dtype && from.numel().is_some() && from.numel() == ty.numel();
                        if !exact || !nothing || ty.numel() == Some(0) {
                            return None;
                        }
                        if from == ty {
                            return Some(smallvec![operands[0]]);
                        }
                        Some(rewriter.add(View::Reshape.node(operands[0], ty, node), [ty.clone()]))
                    }
                    _ => None,
                },
            }
        })
    }
}

/// A node with one operand that moves or converts elements. The node's result type gives its shape and the dtype of a
/// cast.
#[derive(Clone, PartialEq, Debug)]
enum View {
    Reshape,
    BroadcastTo,
    Permute(SmallVec<[usize; 4]>),
    Slice { starts: Dims, steps: SmallVec<[i64; 4]> },
    Cast,
}

impl View {
    fn of(node: &Node) -> Option<Self> {
        const OPS: [Op; 5] = [RESHAPE.op(), BROADCAST_TO.op(), PERMUTE.op(), SLICE.op(), CAST.op()];
        Some(match OPS.iter().position(|&op| op == node.op)? {
            0 => Self::Reshape,
            1 => Self::BroadcastTo,
            2 => Self::Permute(PermuteAttrs::of(&node.attrs).axes().sizes()),
            3 => {
                let it = SliceAttrs::of(&node.attrs);
                Self::Slice { starts: it.starts().dims(), steps: it.steps().as_slice().into() }
            }
            _ => Self::Cast,
        })
    }

    /// Rewrites a view that preserves the row-major order of all elements as `reshape`, and returns whether it did.
    fn canonical(&mut self, from: &Type, to: &Type) -> bool {
        let keeps_order = match self {
            Self::BroadcastTo => from.numel().is_some() && from.numel() == to.numel() && to.numel() != Some(0),
            Self::Permute(axes) => axes.iter().filter(|&&axis| from.dims[axis] != 1).is_sorted(),
            _ => false,
        };
        if keeps_order {
            *self = Self::Reshape;
        }
        keeps_order
    }

    fn is_identity(&self, from: &Type, to: &Type) -> bool {
        from == to
            && match self {
                Self::Reshape | Self::BroadcastTo | Self::Cast => true,
                Self::Permute(axes) => axes.iter().copied().eq(0..axes.len()),
                Self::Slice { starts, steps } => starts.iter().all(|it| *it == 0) && steps.iter().all(|&it| it == 1),
            }
    }

    /// Returns the view of `inner`'s operand that is equivalent to this view of `inner`'s result.
    fn after(&self, inner: &Node, rewriter: &Rewriter<'_>) -> Option<(Self, ValueId)> {
        let x = *inner.inputs.first()?;
        let graph = rewriter.graph();
        let (from, through) = (graph.ty(x), graph.ty(*inner.outputs.first()?));
        let joined = match (self, Self::of(inner)?) {
            (Self::Reshape, Self::Reshape) => Self::Reshape,
            (Self::BroadcastTo, Self::BroadcastTo) => Self::BroadcastTo,
            (Self::Permute(outer), Self::Permute(inner)) => Self::Permute(outer.iter().map(|&it| inner[it]).collect()),
            (Self::Slice { starts, steps }, Self::Slice { starts: from, steps: by }) => Self::Slice {
                starts: starts
                    .iter()
                    .zip(&from)
                    .zip(&by)
                    .map(|((&at, &from), &by)| from + at * Dim::signed(by))
                    .collect(),
                steps: steps.iter().zip(&by).map(|(step, by)| step * by).collect(),
            },
            // Broadcasting adds leading axes implicitly.
            (Self::BroadcastTo, Self::Reshape) if adds_leading_ones(from, through) => Self::BroadcastTo,
            (Self::Cast, Self::Cast) if holds(through.dtype, from.dtype) => Self::Cast,
            _ => return None,
        };
        Some((joined, x))
    }

    /// Builds the view as a node with a result of type `ty`, replacing `old`.
    fn node(&self, x: ValueId, ty: &Type, old: &Node) -> Node {
        let shape = &*ty.dims;
        let (op, attrs) = match self {
            Self::Reshape => (RESHAPE.op(), ReshapeAttrs::attrs(shape)),
            Self::BroadcastTo => (BROADCAST_TO.op(), BroadcastToAttrs::attrs(shape)),
            Self::Permute(axes) => (PERMUTE.op(), PermuteAttrs::attrs(&axes[..])),
            Self::Slice { starts, steps } => (SLICE.op(), SliceAttrs::attrs(&starts[..], shape, &steps[..])),
            Self::Cast => (CAST.op(), CastAttrs::attrs(ty.dtype)),
        };
        Node { location: old.location, ..Node::new(op, attrs, [x]) }
    }
}

/// Returns whether `to` is `from` with additional leading axes of size one.
fn adds_leading_ones(from: &Type, to: &Type) -> bool {
    let Some(extra) = to.rank().checked_sub(from.rank()) else { return false };
    to.dims[extra..] == from.dims[..] && to.dims[..extra].iter().all(|&dim| dim == 1)
}

/// Returns whether every value of `from` is exact in `to`, and later conversions have the same result.
fn holds(to: DType, from: DType) -> bool {
    match (from.kind(), to.kind()) {
        _ if from == to => true,
        (Kind::Bool, _) => true,
        (Kind::Int, Kind::Int) => {
            // An unsigned integer fits a wider one of either sign, a signed one a wider signed one.
            to.size() > from.size() && (to.is_signed_int() || !from.is_signed_int())
        }
        (Kind::Float, Kind::Float) => to.size() > from.size(),
        _ => false,
    }
}

/// Removes views that only broadcast the operands of an elementwise node, unless that changes its result.
fn unbroadcast(rewriter: &mut Rewriter<'_>, node: &Node, operands: &[ValueId], ty: &Type) -> Option<Values> {
    let graph = rewriter.graph();
    let mut bare: SmallVec<[ValueId; 3]> = operands.into();
    for i in 0..bare.len() {
        let Some(view) = graph.producer(bare[i]) else { continue };
        let broadcasts = view.op == BROADCAST_TO.op()
            || (view.op == RESHAPE.op() && adds_leading_ones(graph.ty(view.inputs[0]), graph.ty(bare[i])));
        if !broadcasts {
            continue;
        }
        let wide = std::mem::replace(&mut bare[i], view.inputs[0]);
        let types: SmallVec<[&Type; 3]> = bare.iter().map(|&id| graph.ty(id)).collect();
        if !ops::infer(definition(node.op), &node.attrs, &[], &types).is_ok_and(|it| it[..] == [ty.clone()]) {
            bare[i] = wide;
        }
    }
    if bare[..] == *operands {
        return None;
    }
    let node = Node { inputs: bare, ..node.clone() };
    Some(rewriter.add(node, [ty.clone()]))
}

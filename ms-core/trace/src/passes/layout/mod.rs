//! Lowers convolutions to contractions over kernel taps and propagates channels-last layouts (NHWC) between them.

mod borders;

use crate::trace;
use borders::Bordered;
use ms_compile::optimize::{Pass, PassContext};
use ms_compile::target::Contracted;
use ms_ir::MapVec;
use ms_ir::{Graph, Memo, Node, Reducer, Rewriter, ValueId, Values};
use ms_ops::ops::{
    self, AxisAttrs, AxisOrder, BROADCAST_TO, BroadcastToAttrs, CONCAT, Extents, FULL, ImageBody, Ints, Lowering,
    OpBody, OpDef, PERMUTE, PermuteAttrs, RESHAPE, ReduceAttrs, ReshapeAttrs, SLICE, SLICE_UPDATE, SliceAttrs,
    SpatialForm, SpatialRule, StridedSliceAttrs, definition, full_node, literal_of, transform_rules,
};
use ms_ops::tensor::{Attr, Attrs, Dim, Dims, Type};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// Lowers the convolutions that [`PassContext::images`] selects to contractions, and keeps images in the axis order
/// that the target prefers.
///
/// A channels-last convolution reads its input permuted, and its result is permuted back. An op on a permuted image is
/// instead applied before the permutation, and its result is permuted. This holds for elementwise ops and for those
/// that move, pool, or reduce elements without an order of sums. So a chain of such ops has permutations, which are
/// views, only at its ends. Sums of floats read their operand through the permutation, because their order follows from
/// the axes and must not change.
///
/// Chains extend through calls, branches and loops. An image that a region permutes first enters it permuted, and one
/// that it permutes last leaves it permuted. Carries of loops are permuted if they both enter and leave permuted.
pub struct Layouts;

impl Pass for Layouts {
    fn name(&self) -> &'static str {
        "layout"
    }

    fn run<'g>(&self, graph: &'g Graph, context: &PassContext) -> Cow<'g, Graph> {
        let is_last = context.images.order == AxisOrder::ChannelsLast;
        if !(has_contracted(graph, context) || is_last && borders::has_borders(graph)) {
            return Cow::Borrowed(graph);
        }
        let mut order = Ordering::new(graph, context.images.order);
        graph.nodes().for_each(|(_, node)| order.replace_or_keep(graph, node, context));
        order.rewriter.finish()
    }
}

/// Returns whether a graph itself, without its regions, has a convolution that is lowered to a contraction.
pub fn has_contracted(graph: &Graph, context: &PassContext) -> bool {
    context.images.contracted != Contracted::None
        && graph.nodes().any(|(_, node)| contracted(graph, node, context).is_some())
}

/// Returns the rule and the body of a node that is lowered to a contraction.
fn contracted(graph: &Graph, node: &Node, context: &PassContext) -> Option<(&'static SpatialRule, ImageBody)> {
    let Lowering::Spatial(rule) = &definition(node.op).lowering else { return None };
    let SpatialForm::Convolution(geometry) = rule.form else { return None };
    let Some(OpBody::Image(body)) = transform_rules(definition(node.op)).body else { return None };
    let types = types(graph, &node.inputs);
    let results = node.outputs.iter().map(|&it| graph.ty(it));
    let is_empty = types.iter().copied().chain(results).any(|it| it.dims.iter().any(|&dim| dim == 0));
    (!is_empty && context.images.contracted.admits(&geometry(&node.attrs, &types))).then_some((rule, body))
}

fn types<'g>(graph: &'g Graph, values: &[ValueId]) -> SmallVec<[&'g Type; 3]> {
    values.iter().map(|&it| graph.ty(it)).collect()
}

/// The key of a convolution's graph: op, attributes and operand types.
type Key = (u16, Attrs, Vec<Type>);

struct Ordering<'g> {
    rewriter: Rewriter<'g>,
    order: AxisOrder,
    /// The channels-last values by their channels-first ones.
    last: FxHashMap<ValueId, ValueId>,
    bodies: Memo<Key>,
    /// The replacement of calls, by called graph.
    called: FxHashMap<*const Graph, Bordered>,
    /// The number of enclosing borders.
    depth: usize,
}

impl<'g> Ordering<'g> {
    /// Creates the rewriter of a graph whose nodes are visited next.
    fn new(graph: &'g Graph, order: AxisOrder) -> Self {
        let (last, called) = (FxHashMap::default(), FxHashMap::default());
        Self { rewriter: Rewriter::new(graph), order, last, bodies: Memo::default(), called, depth: 0 }
    }

    /// Visits the next node.
    fn replace_or_keep(&mut self, graph: &Graph, node: &Node, context: &PassContext) {
        let operands = self.rewriter.operands(node);
        match self.node(graph, node, &operands, context) {
            Some(values) => self.rewriter.replace(&values),
            None => self.rewriter.keep(),
        }
    }
}

impl Ordering<'_> {
    /// Returns the values that replace the results of a node.
    fn node(&mut self, graph: &Graph, node: &Node, operands: &[ValueId], context: &PassContext) -> Option<Values> {
        if !node.regions.is_empty() && self.order == AxisOrder::ChannelsLast {
            return self.across_border(graph, node, operands, context);
        }
        let [result] = node.outputs[..] else { return None };
        if let Some((rule, body)) = contracted(graph, node, context) {
            return self.contraction(node, operands, rule, body);
        }
        // Nothing moves before a convolution has a channels-last result.
        if self.last.is_empty() {
            return None;
        }
        let ty = graph.ty(result);
        if ty.rank() > 2 && permutes(node, &AxisOrder::ChannelsLast.axes(ty.rank())) {
            return self.last.get(&operands[0]).map(|&it| smallvec![it]);
        }
        let def = definition(node.op);
        let (attrs, operands) = match &def.lowering {
            Lowering::Map(_) => (node.attrs.clone(), self.elements(operands, ty.rank())?),
            Lowering::Spatial(SpatialRule { operands: images, form: SpatialForm::Pooling(attrs), .. }) => {
                if !images.iter().any(|&it| self.last.contains_key(&operands[it])) {
                    return None;
                }
                let attrs = attrs(&node.attrs, ty.dims[1]);
                (attrs, operands.iter().map(|&it| self.last_of(it)).collect())
            }
            Lowering::Reduce(rule) => {
                let ordered = matches!(rule.reducer, Reducer::Sum | Reducer::Prod) && ty.dtype.is_float();
                let at = ReduceAttrs::of(&node.attrs);
                let rank = self.rewriter.graph().ty(operands[0]).rank();
                // Without the reduced axes, the others are not in image order.
                if ordered || !at.keepdims() || !self.last.contains_key(&operands[0]) {
                    return None;
                }
                let inverse = AxisOrder::ChannelsLast.inverse(rank);
                let mut axes: SmallVec<[usize; 4]> = at.axes().sizes().iter().map(|&it| inverse[it]).collect();
                axes.sort_unstable();
                (ReduceAttrs::attrs(&*axes, true), smallvec![self.last_of(operands[0])])
            }
            _ => self.moved(node, operands, ty)?,
        };
        self.permuted_back(def, node, attrs, operands, ty)
    }

    /// Returns the contraction that replaces a convolution.
    fn contraction(
        &mut self,
        node: &Node,
        operands: &[ValueId],
        rule: &SpatialRule,
        body: ImageBody,
    ) -> Option<Values> {
        let is_last = self.order == AxisOrder::ChannelsLast;
        let image = |(at, &value): (usize, &ValueId)| match is_last && rule.operands.contains(&at) {
            true => self.last_of(value),
            false => value,
        };
        let operands: Values = operands.iter().enumerate().map(image).collect();
        let types: Vec<Type> = operands.map_vec(|&it| self.rewriter.graph().ty(it).clone());
        let key = (node.op.number(), node.attrs.clone(), types);
        let apply = |inputs: &[_]| Ok(vec![body(&node.attrs, &inputs.iter().collect::<Vec<_>>(), self.order)]);
        let traced = self.bodies.get_or_build(key, |(_, _, types)| trace::build(node.op.name(), types, apply));
        // A convolution with inconsistent sizes remains, and running it reports the error.
        let traced = traced.ok()?;
        let results = self.rewriter.splice_at(&traced, &operands, node.location);
        Some(if is_last && rule.result { self.first_of(results[0], node) } else { results })
    }

    /// Applies the node to channels-last operands and permutes its result back to channels-first. Returns `None` if the
    /// op does not accept such operands.
    fn permuted_back(
        &mut self,
        def: &'static OpDef,
        node: &Node,
        attrs: Attrs,
        operands: Values,
        ty: &Type,
    ) -> Option<Values> {
        let want = in_order(ty, AxisOrder::ChannelsLast);
        let given = ops::infer(def, &attrs, &[], &types(self.rewriter.graph(), &operands)).ok()?;
        if given[..] != [want.clone()] {
            return None;
        }
        let inputs = operands.iter().copied().collect();
        let results = self.rewriter.add(Node { attrs, inputs, ..node.clone() }, [want]);
        Some(self.first_of(results[0], node))
    }

    /// Returns a channels-last value permuted to channels-first.
    fn first_of(&mut self, last: ValueId, node: &Node) -> Values {
        let ty = self.rewriter.graph().ty(last).clone();
        let axes = AxisOrder::ChannelsLast.inverse(ty.rank());
        let first = self.permute(last, &axes, Some(node));
        self.last.insert(first, last);
        smallvec![first]
    }

    /// Returns the operands of an elementwise node with a result of this rank in channels-last, if one of them is known
    /// in this layout.
    fn elements(&mut self, operands: &[ValueId], rank: usize) -> Option<Values> {
        if !operands.iter().any(|it| self.last.contains_key(it)) {
            return None;
        }
        let element = |&value: &ValueId| {
            let dims = self.rewriter.graph().ty(value).dims.clone();
            if dims.is_empty() || dims.len() == rank {
                return if dims.is_empty() { value } else { self.last_of(value) };
            }
            // Operands of a lower rank have leading axes of size one.
            let ones = std::iter::repeat_n(Dim::new(1), rank - dims.len()).chain(dims).collect::<Dims>();
            let spread = self.reshape(value, ones);
            self.last_of(spread)
        };
        Some(operands.iter().map(element).collect())
    }

    /// Returns the attributes and operands of a node that moves elements.
    fn moved(&mut self, node: &Node, operands: &[ValueId], ty: &Type) -> Option<(Attrs, Values)> {
        let rank = ty.rank();
        let known = |it: &ValueId| self.last.contains_key(it);
        let same_rank = operands.iter().all(|&it| self.rewriter.graph().ty(it).rank() == rank);
        if !same_rank || !operands.iter().any(known) {
            return None;
        }
        let axes = AxisOrder::ChannelsLast.axes(rank);
        let steps = |list: Ints<'_>| axes.iter().map(|&it| list.as_slice()[it]).collect();
        let extents = |list: Extents<'_>| {
            let dims = list.dims();
            axes.iter().map(|&it| dims[it]).collect::<Dims>()
        };
        let attrs = if node.op == BROADCAST_TO.op() {
            BroadcastToAttrs::attrs(&*in_order(ty, AxisOrder::ChannelsLast).dims)
        } else if node.op == CONCAT.op() {
            AxisAttrs::attrs(AxisOrder::ChannelsLast.inverse(rank)[AxisAttrs::of(&node.attrs).axis()])
        } else if node.op == SLICE.op() {
            let at = SliceAttrs::of(&node.attrs);
            SliceAttrs::attrs(&*extents(at.starts()), &*extents(at.sizes()), Attr::Ints(steps(at.steps())))
        } else if node.op == SLICE_UPDATE.op() {
            // The whole value, part of which is replaced, is not copied to another layout.
            if !known(&operands[0]) && !self.is_uniform(operands[0]) {
                return None;
            }
            let at = StridedSliceAttrs::of(&node.attrs);
            StridedSliceAttrs::attrs(&*extents(at.starts()), Attr::Ints(steps(at.steps())))
        } else {
            return None;
        };
        Some((attrs, operands.iter().map(|&it| self.last_of(it)).collect()))
    }

    fn is_uniform(&self, value: ValueId) -> bool {
        self.rewriter.graph().producer(value).is_some_and(|it| it.op == FULL.op())
    }

    /// Returns a channels-first value of at least three axes in channels-last.
    fn last_of(&mut self, first: ValueId) -> ValueId {
        if let Some(&known) = self.last.get(&first) {
            return known;
        }
        let graph = self.rewriter.graph();
        let ty = in_order(graph.ty(first), AxisOrder::ChannelsLast);
        let axes = AxisOrder::ChannelsLast.axes(ty.rank());
        let last = match graph.producer(first).cloned() {
            Some(node) if node.op == FULL.op() => {
                let literal = literal_of(&node).expect("it has a value").clone();
                let node = Node { location: node.location, ..full_node(literal, &ty.dims) };
                self.rewriter.add(node, [ty])[0]
            }
            Some(node) if node.op == BROADCAST_TO.op() => {
                let dims = graph.ty(node.inputs[0]).dims.clone();
                let from = match dims.is_empty() {
                    true => node.inputs[0],
                    false => {
                        let ones = std::iter::repeat_n(Dim::new(1), axes.len() - dims.len()).chain(dims);
                        let spread = self.reshape(node.inputs[0], ones.collect());
                        self.permute(spread, &axes, Some(&node))
                    }
                };
                let attrs = BroadcastToAttrs::attrs(&*ty.dims);
                let node = Node { location: node.location, ..Node::new(node.op, attrs, [from]) };
                self.rewriter.add(node, [ty])[0]
            }
            node => self.permute(first, &axes, node.as_ref()),
        };
        self.last.insert(first, last);
        last
    }

    fn permute(&mut self, x: ValueId, axes: &[usize], of: Option<&Node>) -> ValueId {
        let ty = self.rewriter.graph().ty(x);
        let ty = Type::new(ty.dtype, axes.iter().map(|&it| ty.dims[it]).collect());
        self.rewriter.add(Node { location: of.and_then(|it| it.location), ..permute_node(x, axes) }, [ty])[0]
    }

    fn reshape(&mut self, x: ValueId, dims: Dims) -> ValueId {
        let ty = self.rewriter.graph().ty(x);
        if ty.dims == dims {
            return x;
        }
        let ty = Type::new(ty.dtype, dims);
        self.rewriter.add(Node::new(RESHAPE.op(), ReshapeAttrs::attrs(&*ty.dims), [x]), [ty.clone()])[0]
    }
}

/// Builds the node that permutes axes to this order.
fn permute_node(x: ValueId, axes: &[usize]) -> Node {
    Node::new(PERMUTE.op(), PermuteAttrs::attrs(axes), [x])
}

/// Returns whether a node permutes axes to this order.
fn permutes(node: &Node, axes: &[usize]) -> bool {
    node.op == PERMUTE.op() && PermuteAttrs::of(&node.attrs).axes().sizes()[..] == *axes
}

/// Returns the type of a channels-first image in this order.
fn in_order(ty: &Type, order: AxisOrder) -> Type {
    Type::new(ty.dtype, order.axes(ty.rank()).iter().map(|&it| ty.dims[it]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_inverse_to_one_another() {
        for order in [AxisOrder::ChannelsFirst, AxisOrder::ChannelsLast] {
            for rank in 3..=5 {
                let (axes, inverse) = (order.axes(rank), order.inverse(rank));
                assert!((0..rank).all(|it| axes[inverse[it]] == it), "{order:?}");
                assert_eq!(axes[order.channels(rank)], 1);
                assert_eq!(axes[order.spatial()], 2);
            }
        }
    }
}

//! Distributes elementwise ops over results that consist of slices.
//!
//! `f(concat(a, b))` becomes `concat(f(a), f(b))`, so the concatenation is not materialised before `f`. The other
//! operands of `f` must be in memory anyway: an operand that another kernel computes might be fused with `f` instead.

use crate::lower::rewrites::flat::{Access, Accesses, Flat, FlatNode, Kind, NodeIndex, Origin, ValueIndex};
use crate::lower::rewrites::sink::Steps;
use ms_ir::data::Layout;
use smallvec::smallvec;

/// The maximum number of slices that an op is computed for, each of which is a separate kernel.
const MAX_SLICES: usize = 8;

/// Computes ops slice by slice, if possible.
pub(in crate::lower) fn distribute(flat: &mut Flat) {
    if !flat.nodes.iter().any(|it| matches!(it.kind, Kind::Slices(_))) {
        return;
    }
    let mut distributed = Distributed { uses: flat.uses(), replaced: Vec::new(), flat };
    let distributable = |it: &NodeIndex| distributed.slices(&distributed.flat.nodes[*it]).is_some();
    let Some(first) = (0..distributed.flat.nodes.len()).find(distributable) else { return };
    for node in distributed.flat.nodes.split_off(first) {
        match distributed.slices(&node) {
            Some((producer, steps)) => distributed.node(&node, producer, steps),
            None => distributed.push(node),
        }
    }
    let mut replaced = distributed.replaced;
    replaced.sort_unstable();
    let mut next = replaced.into_iter().peekable();
    flat.retain_nodes(|index, _| next.next_if_eq(&index).is_none());
}

/// The steps of each slice of a result along its axes; `None` for an empty slice.
type SliceSteps = Vec<Option<Steps>>;

struct Distributed<'a> {
    flat: &'a mut Flat,
    uses: Vec<u32>,
    /// Nodes whose only reader is computed slice by slice.
    replaced: Vec<NodeIndex>,
}

impl Distributed<'_> {
    fn push(&mut self, node: FlatNode) {
        let origin = Origin::Node(self.flat.nodes.len());
        node.outputs.iter().for_each(|&it| self.flat.values[it].origin = origin);
        self.flat.nodes.push(node);
    }

    /// Returns the node over whose slices `node` should be distributed, and those slices.
    fn slices(&self, node: &FlatNode) -> Option<(NodeIndex, SliceSteps)> {
        if !matches!(node.kind, Kind::Map(_)) {
            return None;
        }
        node.inputs.iter().filter_map(Access::value).find_map(|value| {
            let (producer, made) = self.producer(value)?;
            if !matches!(made.kind, Kind::Slices(_)) || !self.is_read_alone(node, value) {
                return None;
            }
            let slices = self.flat.slices(made);
            let count = slices.iter().filter(|it| it.numel() != 0).count();
            let are_apart = slices.iter().map(Layout::numel).sum::<usize>() == self.flat.numel(value);
            if count > MAX_SLICES || !are_apart {
                return None;
            }
            let shape = &self.flat.values[value].shape;
            let steps = |it: &Layout| if it.numel() == 0 { Some(None) } else { Steps::of(it, shape).map(Some) };
            Some((producer, slices.iter().map(steps).collect::<Option<_>>()?))
        })
    }

    fn producer(&self, value: ValueIndex) -> Option<(NodeIndex, &FlatNode)> {
        let producer = self.flat.producer(value)?;
        Some((producer, &self.flat.nodes[producer]))
    }

    /// Returns whether the value has no other readers, the node reads it element by element, and all its
    /// other operands are in memory.
    fn is_read_alone(&self, node: &FlatNode, value: ValueIndex) -> bool {
        let whole = Layout::contiguous(&self.flat.values[value].shape);
        let is_kernel = |it: ValueIndex| {
            let producer = self.producer(it);
            producer
                .is_some_and(|it| matches!(it.1.kind, Kind::Map(_) | Kind::Copy | Kind::Generate(_) | Kind::Reduce(_)))
        };
        let fits = |it: &Access| match it.value() {
            Some(read) if read == value => it.layout == whole,
            Some(read) => !is_kernel(read),
            None => true,
        };
        let reads = node.inputs.iter().filter(|it| it.value() == Some(value)).count();
        reads as u32 == self.uses[value] && node.inputs.iter().all(fits)
    }

    /// Adds a node slice by slice.
    fn node(&mut self, node: &FlatNode, producer: NodeIndex, steps: SliceSteps) {
        self.replaced.push(producer);
        let made = &self.flat.nodes[producer];
        let (whole, result) = (made.outputs[0], node.outputs[0]);
        let (kind, attrs, inputs, location) = (made.kind, made.attrs.clone(), made.inputs.clone(), made.location);
        let dtype = self.flat.values[result].dtype;
        let mut slices = Accesses::new();
        for (access, steps) in inputs.iter().zip(steps) {
            let Some(steps) = steps else {
                slices.push(access.clone());
                continue;
            };
            let input = |it: &Access| match it.value() {
                Some(value) if value == whole => access.clone(),
                _ => it.with_layout(steps.through(&it.layout)),
            };
            let inputs = node.inputs.iter().map(input).collect();
            let shape = access.layout.shape();
            let value = self.flat.add_value(dtype, shape.into(), Origin::Node(self.flat.nodes.len()));
            self.uses.push(1);
            slices.push(Access::whole(value, dtype, shape));
            let (attrs, location) = (node.attrs.clone(), node.location);
            self.push(FlatNode { kind: node.kind, attrs, inputs, outputs: smallvec![value], location });
        }
        self.push(FlatNode { kind, attrs, inputs: slices, outputs: smallvec![result], location });
    }
}

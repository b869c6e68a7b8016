//! Forms epilogues: groups that are attached to the contraction or library op whose result they read.
//!
//! A group qualifies if its kernel processes a contraction's result element by element, or reduces its rows. If such
//! groups are the only readers, they run on tiles of the result as these are computed, and the result is not
//! materialised. A result with any other reader is stored by the fastest code, and its readers are separate kernels.
//!
//! The result of a library op is materialised, but its tiles are still in a cache when epilogues read them. Groups that
//! read the outputs of epilogues at the same rows may run [after](rows) them.
//!
//! Epilogues change neither what a kernel computes nor where it rounds: each group remains a kernel.

mod rows;

use crate::lower::fusion::domain::{AxisSet, Domain};
use crate::lower::fusion::group::{Group, Groups, operand_axes, result_axes};
use crate::lower::plan::image_axes;
use crate::lower::rewrites::flat::{Access, Flat, Kind, NodeIndex, ValueIndex};
use crate::target::{EpilogueKernel, EpilogueKind, EpilogueOperands, Producer, Target};
use ms_ir::MapVec;
use ms_ir::data::{Layout, Op, Shape, Strides};
use ms_ir::{Contraction, Precision};
use rustc_hash::FxHashMap;

/// Attaches groups to contractions and library ops as epilogues, where the target takes them in this precision.
pub(in crate::lower) fn attach(flat: &Flat, groups: &mut Groups, target: &Target, precision: Precision) {
    if target.epilogues.is_empty() {
        return;
    }
    let mut ops: Vec<NodeIndex> = (0..flat.nodes.len()).filter(|it| may_have_epilogues(flat, *it)).collect();
    if ops.is_empty() {
        return;
    }
    let (readers, stored) = (readers(flat, groups), groups.stored(flat));
    let mut search = Search { flat, groups, stored, target, precision, taken: vec![false; groups.list.len()] };
    // A group that reads several results is an epilogue of the last one.
    ops.sort_unstable_by_key(|&it| std::cmp::Reverse(groups.of[it]));
    let find = |it| search.find(it, readers.get(&it)?.as_deref()?);
    let mut found: Vec<Found> = ops.into_iter().filter_map(find).collect();
    if found.is_empty() {
        return;
    }
    let readers = rows::readers(flat, groups);
    found.iter_mut().for_each(|it| search.add_chained(it, &readers));
    let mut list: Vec<Vec<Group>> = std::mem::take(&mut groups.list).into_iter().map(|it| vec![it]).collect();
    for Found { op, epilogues, at } in found {
        list[groups.of[op].expect("an op with a result is a step")].clear();
        let mut rests: Vec<(usize, Group)> = Vec::new();
        for Epilogue { group, nodes, domain, rows, .. } in epilogues {
            let mut rest = list[group].pop().expect("a group is an epilogue of one op");
            rest.nodes.retain(|it| nodes.binary_search(it).is_err());
            let Group { insts, late, .. } = rest;
            list[at].push(Group { nodes, domain: Some(domain), insts, late, op: Some(op), rows });
            rests.push((group, rest));
        }
        for (group, rest) in rests.into_iter().filter(|it| !it.1.nodes.is_empty()) {
            list[group].push(rest);
        }
    }
    groups.list = list.into_iter().flatten().collect();
    for (index, group) in groups.list.iter().enumerate() {
        group.step().for_each(|it| groups.of[it] = Some(index));
    }
}

/// Returns whether a node is an op that may have epilogues.
fn may_have_epilogues(flat: &Flat, node: NodeIndex) -> bool {
    matches!(flat.nodes[node].kind, Kind::Contraction(_) | Kind::Library(_)) && flat.nodes[node].outputs.len() == 1
}

/// Returns, by op that may have epilogues, the groups that read its result, in order. The entry is `None` if anything
/// else reads it.
fn readers(flat: &Flat, groups: &Groups) -> FxHashMap<NodeIndex, Option<Vec<usize>>> {
    let op = |it: ValueIndex| flat.producer(it).filter(|&it| may_have_epilogues(flat, it));
    let mut readers = FxHashMap::default();
    for (node, group) in flat.nodes.iter().zip(&groups.of) {
        let Some(group) = *group else { continue };
        for it in node.inputs.iter().filter_map(|it| op(it.value()?)) {
            let known = readers.entry(it).or_insert_with(|| Some(Vec::new()));
            if let Some(known) = known.as_mut().filter(|it| !it.contains(&group)) {
                known.push(group);
            }
        }
    }
    for it in flat.outputs.iter().filter_map(|&it| op(it)) {
        readers.insert(it, None);
    }
    readers.values_mut().flatten().for_each(|it| it.sort_unstable());
    readers
}

/// A contraction or library op with its epilogues.
struct Found {
    op: NodeIndex,
    epilogues: Vec<Epilogue>,
    /// The position of the step among the groups.
    at: usize,
}

/// A candidate epilogue: a group, or the members of one before its reductions.
struct Epilogue {
    group: usize,
    /// The members of the candidate.
    nodes: Vec<NodeIndex>,
    /// The axes of the result, or its row axes and the extents along each row.
    domain: Domain,
    /// See [`Group`].
    rows: Option<usize>,
    /// The kernel as the target is asked for it.
    kernel: EpilogueKernel,
}

/// A node that may have epilogues.
struct ProducerNode {
    node: NodeIndex,
    computes: Computes,
    /// The sizes of the axes of its result.
    sizes: Shape,
    precision: Precision,
}

#[expect(clippy::large_enum_variant, reason = "one at a time is on the stack")]
enum Computes {
    Contraction(Contraction),
    Library(Op),
}

impl ProducerNode {
    fn new(flat: &Flat, node: NodeIndex, precision: Precision) -> Self {
        let of = &flat.nodes[node];
        let (computes, sizes) = match of.kind {
            Kind::Library(op) => {
                let axes = image_axes(&flat.values[of.outputs[0]].shape);
                (Computes::Library(op), axes.into_iter().collect())
            }
            _ => {
                let contraction = flat.contraction(of, precision);
                let sizes = contraction.axes_of(2).map(|it| it.size).collect();
                (Computes::Contraction(contraction), sizes)
            }
        };
        Self { node, computes, sizes, precision }
    }

    fn producer(&self) -> Producer<'_> {
        match &self.computes {
            Computes::Contraction(contraction) => Producer::Contraction(contraction),
            &Computes::Library(op) => Producer::Library { op, axes: &self.sizes, precision: self.precision },
        }
    }

    fn contraction(&self) -> Option<&Contraction> {
        match &self.computes {
            Computes::Contraction(contraction) => Some(contraction),
            Computes::Library(_) => None,
        }
    }

    /// Returns the number of elements along the last axis of the result.
    fn columns(&self) -> usize {
        self.sizes.last().copied().unwrap_or(1)
    }
}

struct Search<'a> {
    flat: &'a Flat,
    groups: &'a Groups,
    /// Whether each value has its own memory.
    stored: Vec<bool>,
    target: &'a Target,
    precision: Precision,
    /// Whether each group is an epilogue.
    taken: Vec<bool>,
}

impl Search<'_> {
    /// Returns the epilogues of an op, if only these groups read its result and all of them qualify.
    fn find(&mut self, op: NodeIndex, readers: &[usize]) -> Option<Found> {
        let Self { flat, groups, target, .. } = *self;
        let is_free = |it: &usize| {
            let group = &groups.list[*it];
            group.domain.is_some() && !group.late && !self.taken[*it]
        };
        if !readers.iter().all(is_free) {
            return None;
        }
        let source = ProducerNode::new(flat, op, self.precision);
        if !target.takes_epilogues(source.producer(), &[]) {
            return None;
        }
        let epilogues: Vec<Epilogue> = readers.iter().map(|&it| self.epilogue(&source, it)).collect::<Option<_>>()?;
        let kernels = epilogues.map_vec(|it| it.kernel.clone());
        if !target.takes_epilogues(source.producer(), &kernels) {
            return None;
        }
        // The kernels' other operands must be available when the op is computed, or the op has to wait for them.
        let (first, earliest) = (groups.of[op]?, *readers.first()?);
        let latest = epilogues.iter().filter_map(|it| self.latest_operand(op, it)).max();
        let at = if latest.is_some_and(|it| it > first) { earliest } else { first };
        if latest.is_some_and(|it| it >= at) {
            return None;
        }
        epilogues.iter().for_each(|it| self.taken[it.group] = true);
        Some(Found { op, epilogues, at })
    }

    /// The last group that an epilogue of an op reads, other than itself.
    fn latest_operand(&self, op: NodeIndex, epilogue: &Epilogue) -> Option<usize> {
        let others = self.operands(&epilogue.nodes).filter(|it| *it != op);
        others.filter_map(|it| self.groups.of[it]).max()
    }

    /// Returns the nodes outside `nodes` that `nodes` read.
    fn operands(&self, nodes: &[NodeIndex]) -> impl Iterator<Item = NodeIndex> {
        let flat = self.flat;
        let operands = nodes.iter().flat_map(move |&it| {
            let node = &flat.nodes[it];
            let check = match node.kind {
                Kind::Gather { check, .. } => check.map(|it| flat.checks[it].node),
                _ => None,
            };
            node.inputs.iter().filter_map(|it| flat.producer(it.value()?)).chain(check)
        });
        operands.filter(|it| nodes.binary_search(it).is_err())
    }

    /// Returns a group as an epilogue of an op, if it qualifies.
    fn epilogue(&self, source: &ProducerNode, group: usize) -> Option<Epilogue> {
        let Self { flat, groups, ref stored, target, .. } = *self;
        let whole = &groups.list[group];
        let elements = Domain::of(&source.sizes);
        let result = flat.nodes[source.node].outputs[0];
        let fits = |nodes: &[NodeIndex], domain: &Domain| {
            fits(flat, nodes, domain, |it| it.value != result || it.is_own_element(flat, domain))
        };
        let epilogue = |nodes: Vec<NodeIndex>, domain, kind| {
            let kernel = self.kernel(kind, &nodes, &domain, source.columns(), whole.insts, source.node);
            Epilogue { group, nodes, domain, rows: None, kernel }
        };
        if !whole.domain.as_ref()?.is_reduced() {
            return fits(&whole.nodes, &elements)
                .then(|| epilogue(whole.nodes.clone(), elements, EpilogueKind::Elements));
        }
        let probe = EpilogueKernel::empty(EpilogueKind::Reduction, source.columns());
        if source.contraction().is_some_and(|it| it.n.len() == 1)
            && target.takes_epilogues(source.producer(), &[probe])
            && let Some(rows) = elements.reduce(&source.sizes, &[source.sizes.len() - 1])
            && !rows.has_short_rows()
            && fits(&whole.nodes, &rows)
        {
            return Some(epilogue(whole.nodes.clone(), rows, EpilogueKind::Reduction));
        }
        let nodes = before_reductions(flat, whole, source.node, stored)?;
        fits(&nodes, &elements).then(|| epilogue(nodes, elements, EpilogueKind::Elements))
    }

    /// Returns the kernel of nodes with this domain, of `columns` elements in a row and at most `insts` instructions,
    /// that computes with the result of an op.
    fn kernel(
        &self,
        kind: EpilogueKind,
        nodes: &[NodeIndex],
        domain: &Domain,
        columns: usize,
        insts: usize,
        op: NodeIndex,
    ) -> EpilogueKernel {
        let flat = self.flat;
        // The last axes of the domain are those along a row.
        let mut row = 1;
        let along_row = domain.axes().iter().rev().take_while(|it| {
            row *= it.size;
            row <= columns
        });
        let rows = domain.axes().len() - along_row.count();
        let result = flat.nodes[op].outputs[0];
        let is_outside =
            |it: ValueIndex| it != result && flat.producer(it).is_none_or(|it| nodes.binary_search(&it).is_err());
        let mut ops = Some(Vec::new());
        let mut operands = EpilogueOperands::default();
        let mut known: Vec<(ValueIndex, usize, Strides)> = Vec::new();
        for node in nodes.iter().map(|&it| &flat.nodes[it]) {
            match (node.kind, &mut ops) {
                (Kind::Map(op), Some(ops)) => ops.push(op),
                (Kind::Copy, _) => {}
                _ => ops = None,
            }
            let Some(part) = operand_axes(flat, node, domain) else { continue };
            for access in &node.inputs {
                let Some(value) = access.value().filter(|it| is_outside(*it)) else { continue };
                let Some(strides) = domain.walk(part, &access.layout) else { continue };
                let operand = (value, access.layout.offset(), strides);
                if known.contains(&operand) {
                    continue;
                }
                let varies = |strides: &[isize]| strides.iter().any(|it| *it != 0);
                operands.count(varies(&operand.2[rows..]), varies(&operand.2[..rows]));
                known.push(operand);
            }
        }
        let written = nodes.iter().flat_map(|&it| flat.nodes[it].outputs.iter());
        let results = written.filter(|it| self.stored[**it]).count();
        EpilogueKernel { kind, ops, insts, columns, operands, results }
    }
}

/// Returns the members of a group with reductions that compute with an op's result, and the members that they read.
///
/// The remaining members may read from them only reduction operands, which are stored anyway. So a row sum of a masked
/// gradient is a separate kernel, and the mask is an epilogue. Other elementwise members would share instructions with
/// them, and separating these would change which products and sums are contracted.
fn before_reductions(flat: &Flat, group: &Group, op: NodeIndex, stored: &[bool]) -> Option<Vec<NodeIndex>> {
    let is_reduction = |it: NodeIndex| matches!(flat.nodes[it].kind, Kind::Reduce(_));
    let operands = |it: NodeIndex| flat.nodes[it].inputs.iter().filter_map(|it| flat.producer(it.value()?));
    // Members are in execution order.
    let mut is_inside = vec![false; group.nodes.len()];
    let at = |node: NodeIndex| group.nodes.binary_search(&node);
    for (member, &node) in group.nodes.iter().enumerate() {
        let depends = |it: NodeIndex| it == op || at(it).is_ok_and(|it| is_inside[it]);
        is_inside[member] = !is_reduction(node) && operands(node).any(depends);
    }
    for member in (0..group.nodes.len()).rev() {
        if is_inside[member] {
            operands(group.nodes[member]).filter_map(|it| at(it).ok()).for_each(|it| is_inside[it] = true);
        }
    }
    let elements = flat.numel(flat.nodes[op].outputs[0]);
    let fits = |(member, &node): (usize, &NodeIndex)| {
        let is_read = |value: ValueIndex| {
            let producer = flat.producer(value);
            let is_member = producer.is_some_and(|it| at(it).is_ok_and(|it| is_inside[it]));
            producer != Some(op) && (!is_member || (is_reduction(node) && stored[value]))
        };
        is_inside[member]
            || ((is_reduction(node) || flat.numel(flat.nodes[node].outputs[0]) != elements)
                && flat.nodes[node].inputs.iter().filter_map(Access::value).all(is_read))
    };
    let all = || group.nodes.iter().enumerate();
    all().all(fits).then(|| all().filter(|it| is_inside[it.0]).map(|it| *it.1).collect())
}

/// A read of a value by a node.
struct Read<'a> {
    value: ValueIndex,
    layout: &'a Layout,
    /// The strides along all axes of the domain.
    strides: &'a Strides,
    /// Whether it is a gather.
    is_positional: bool,
}

impl Read<'_> {
    /// Returns whether the read is of the current element of a row-major value.
    fn is_own_element(&self, flat: &Flat, domain: &Domain) -> bool {
        let is_dense = || result_axes(flat, self.value, domain).is_some_and(|it| *self.strides == domain.dense(it));
        !self.is_positional && self.layout.offset() == 0 && is_dense()
    }
}

/// Returns whether nodes iterate over the axes of `domain`, or reduce the same axes, and `may_read` accepts their reads
/// of values from other nodes.
fn fits(flat: &Flat, nodes: &[NodeIndex], domain: &Domain, may_read: impl Fn(&Read<'_>) -> bool) -> bool {
    let is_inside = |value: ValueIndex| flat.producer(value).is_some_and(|it| nodes.binary_search(&it).is_ok());
    let fits = |&index: &NodeIndex| {
        let node = &flat.nodes[index];
        let shape = &flat.values[node.outputs[0]].shape;
        let is_member = match node.kind {
            Kind::Map(_) | Kind::Copy | Kind::Gather { .. } => true,
            // An index along its axes follows from the loop indices only if no loop covers several axes.
            Kind::Generate(_) => !domain.is_reduced() && domain.refine(AxisSet::All, shape).as_ref() == Some(domain),
            Kind::Reduce(rule) => {
                let row = domain.numel(AxisSet::All) / domain.numel(AxisSet::NotReduced).max(1);
                domain.is_reduced() && reduces_rows(node.inputs[0].layout.shape(), &(rule.axes)(&node.attrs), row)
            }
            _ => false,
        };
        let Some(part) = operand_axes(flat, node, domain) else { return false };
        let is_read = |(at, access): (usize, &Access)| {
            let Some(value) = access.value() else { return true };
            let Some(strides) = domain.walk(part, &access.layout) else { return false };
            let is_positional = at == 0 && matches!(node.kind, Kind::Gather { .. });
            let read = Read { value, layout: &access.layout, strides: &strides, is_positional };
            if is_inside(value) { read.is_own_element(flat, domain) } else { may_read(&read) }
        };
        is_member && node.inputs.iter().enumerate().all(is_read)
    };
    nodes.iter().all(fits)
}

/// Returns whether `reduced` are the last axes of a shape and have `row` elements together.
fn reduces_rows(shape: &[usize], reduced: &[usize], row: usize) -> bool {
    let kept = (0..shape.len()).rposition(|it| shape[it] != 1 && !reduced.contains(&it)).map_or(0, |it| it + 1);
    let is_last = reduced.iter().all(|&it| shape[it] == 1 || it >= kept);
    is_last && shape[kept..].iter().product::<usize>() == row
}

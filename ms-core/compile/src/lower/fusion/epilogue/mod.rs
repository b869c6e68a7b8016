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
use crate::target::Target;
use ms_ir::data::{Layout, Shape, Strides};
use ms_ir::{Contraction, Precision};
use rustc_hash::FxHashMap;

/// Attaches groups to contractions and library ops as epilogues, where the target supports it.
pub(in crate::lower) fn attach(flat: &Flat, groups: &mut Groups, target: &Target) {
    let takes = |it: &NodeIndex| may_have_epilogues(flat, *it, target);
    let mut ops: Vec<NodeIndex> = (0..flat.nodes.len()).filter(takes).collect();
    if target.epilogues.is_none() || ops.is_empty() {
        return;
    }
    let (readers, stored) = (readers(flat, groups, target), groups.stored(flat));
    let mut search = Search { flat, groups, stored, target, taken: vec![false; groups.list.len()] };
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
        for Epilogue { group, nodes, domain, rows } in epilogues {
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
fn may_have_epilogues(flat: &Flat, node: NodeIndex, target: &Target) -> bool {
    match flat.nodes[node].kind {
        Kind::Contraction(_) => true,
        Kind::Library(op) => target.epilogues.as_ref().is_some_and(|it| it.ops.contains(&op)),
        _ => false,
    }
}

/// Returns, by op that may have epilogues, the groups that read its result, in order. The entry is `None` if anything
/// else reads it.
fn readers(flat: &Flat, groups: &Groups, target: &Target) -> FxHashMap<NodeIndex, Option<Vec<usize>>> {
    let op = |it: ValueIndex| flat.producer(it).filter(|&it| may_have_epilogues(flat, it, target));
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
}

/// The axes of a result that epilogues read.
struct ResultAxes {
    /// The sizes of the axes.
    sizes: Shape,
    /// The size of a row that epilogues may reduce, if there is exactly one column axis.
    row: Option<usize>,
}

impl ResultAxes {
    /// Returns the axes of a contraction's result.
    fn of(contraction: &Contraction) -> Self {
        let row = if let [row] = contraction.n[..] { Some(row.size) } else { None };
        Self { sizes: contraction.axes_of(2).map(|it| it.size).collect(), row }
    }
}

struct Search<'a> {
    flat: &'a Flat,
    groups: &'a Groups,
    /// Whether each value has its own memory.
    stored: Vec<bool>,
    target: &'a Target,
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
        let axes = match flat.nodes[op].kind {
            Kind::Library(it) => {
                let axes = image_axes(&flat.values[flat.nodes[op].outputs[0]].shape);
                let takes = target.takes_epilogues_of(it, &axes, readers.len());
                takes.then_some(ResultAxes { sizes: axes.into_iter().collect(), row: None })?
            }
            _ => {
                let axes = flat.contraction(&flat.nodes[op], Precision::Strict);
                let insts = readers.iter().fold(0, |all: usize, &it| all.saturating_add(groups.list[it].insts));
                target.takes_epilogues(&axes, readers.len(), insts).then(|| ResultAxes::of(&axes))?
            }
        };
        let epilogue = |&it: &usize| self.epilogue(op, &axes, it);
        let epilogues: Vec<Epilogue> = readers.iter().map(epilogue).collect::<Option<_>>()?;
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

    /// Returns a group as an epilogue of an op whose result has these axes, if it qualifies.
    fn epilogue(&self, op: NodeIndex, axes: &ResultAxes, group: usize) -> Option<Epilogue> {
        let Self { flat, groups, ref stored, target, .. } = *self;
        let whole = &groups.list[group];
        let ResultAxes { sizes, row } = axes;
        let elements = Domain::of(sizes);
        let result = flat.nodes[op].outputs[0];
        let fits = |nodes: &[NodeIndex], domain: &Domain| {
            fits(flat, nodes, domain, |it| it.value != result || it.is_own_element(flat, domain))
        };
        let epilogue = |nodes, domain| Epilogue { group, nodes, domain, rows: None };
        if !whole.domain.as_ref()?.is_reduced() {
            return fits(&whole.nodes, &elements).then(|| epilogue(whole.nodes.clone(), elements));
        }
        if let Some(row) = *row
            && target.takes_rows(row)
            && let Some(rows) = elements.reduce(sizes, &[sizes.len() - 1])
            && !rows.has_short_rows()
            && fits(&whole.nodes, &rows)
        {
            return Some(epilogue(whole.nodes.clone(), rows));
        }
        let nodes = before_reductions(flat, whole, op, stored)?;
        fits(&nodes, &elements).then(|| epilogue(nodes, elements))
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

//! Epilogues: groups that become a part of the contraction whose result they read.
//!
//! A group whose kernel goes through the result of a contraction element by element, and is the only reader of it, runs
//! on parts of the result as they are computed, and the result is in no memory. A result that anything else reads is
//! stored in any case, by the fastest code for it, so that its readers are kernels of their own. What a kernel computes,
//! and what it rounds, does not depend on this.

use super::domain::{Domain, Part};
use super::flat::{Access, Flat, Kind, NodeIndex, ValueIndex};
use super::group::{Group, Groups};
use super::target::Target;
use crate::ir::Precision;
use crate::tensor::Shape;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Makes groups the epilogues of contractions, where the target takes them.
pub(super) fn attach(flat: &Flat, groups: &mut Groups, target: &Target) {
    if target.epilogues.is_none() || !flat.nodes.iter().any(|it| matches!(it.kind, Kind::Contraction(_))) {
        return;
    }
    let (readers, stored) = (only_readers(flat, groups), groups.stored(flat));
    let find = |at: usize| Epilogue::find(flat, groups, &readers, &stored, at, target);
    let found: Vec<Epilogue> = (0..groups.list.len()).filter_map(find).collect();
    if found.is_empty() {
        return;
    }
    let mut list: Vec<SmallVec<[Group; 2]>> =
        std::mem::take(&mut groups.list).into_iter().map(|it| SmallVec::from_iter([it])).collect();
    for Epilogue { contraction, group, nodes, domain, at } in found {
        list[groups.of[contraction].expect("a contraction with a result is a step")].clear();
        let mut rest = list[group].pop().expect("a group is the epilogue of one contraction");
        rest.nodes.retain(|it| nodes.binary_search(it).is_err());
        let Group { insts, late, .. } = rest;
        list[at].push(Group { nodes, domain: Some(domain), insts, late, product: Some(contraction) });
        if !rest.nodes.is_empty() {
            list[group].push(rest);
        }
    }
    groups.list = list.into_iter().flatten().collect();
    for (index, group) in groups.list.iter().enumerate() {
        group.step().for_each(|it| groups.of[it] = Some(index));
    }
}

/// By value that is the result of a contraction, the group that reads it, if it is the only one.
fn only_readers(flat: &Flat, groups: &Groups) -> FxHashMap<ValueIndex, Option<usize>> {
    let is_product =
        |it: ValueIndex| flat.producer(it).is_some_and(|it| matches!(flat.nodes[it].kind, Kind::Contraction(_)));
    let mut readers = FxHashMap::default();
    for (node, group) in flat.nodes.iter().zip(&groups.of) {
        let Some(group) = *group else { continue };
        for value in node.inputs.iter().filter_map(Access::value).filter(|&it| is_product(it)) {
            let reader = readers.entry(value).or_insert(Some(group));
            *reader = reader.filter(|&it| it == group);
        }
    }
    for &output in flat.outputs.iter().filter(|&&it| is_product(it)) {
        readers.insert(output, None);
    }
    readers
}

/// A group, or its part before reductions, that is to be the epilogue of a contraction.
struct Epilogue {
    contraction: NodeIndex,
    group: usize,
    /// The members that are a part of it.
    nodes: Vec<NodeIndex>,
    /// The axes of the result.
    domain: Domain,
    /// Where the step is, among the groups.
    at: usize,
}

impl Epilogue {
    /// The contraction that a group can be the epilogue of, the last one if there are several.
    fn find(
        flat: &Flat,
        groups: &Groups,
        readers: &FxHashMap<ValueIndex, Option<usize>>,
        stored: &[bool],
        at: usize,
        target: &Target,
    ) -> Option<Self> {
        let group = &groups.list[at];
        let is_reduced = group.domain.as_ref()?.is_reduced();
        if group.late {
            return None;
        }
        let values = group.nodes.iter().flat_map(|&it| &flat.nodes[it].inputs).filter_map(Access::value);
        let own = values.filter(|it| readers.get(it).is_some_and(|it| *it == Some(at)));
        let contraction = own.filter_map(|it| flat.producer(it)).max_by_key(|&it| groups.of[it])?;
        let nodes = match is_reduced {
            true => before_reductions(flat, group, contraction, stored)?,
            false => group.nodes.clone(),
        };
        let domain = shared_domain(flat, &nodes, contraction, group.insts, target)?;
        let first = groups.of[contraction]?;
        // What the kernel reads besides is there when the contraction is computed, or the contraction waits for it.
        let is_before = |it: NodeIndex| groups.of[it].is_none_or(|it| it <= first || it == at);
        let is_ready = nodes.iter().all(|&it| {
            let node = &flat.nodes[it];
            let check = match node.kind {
                Kind::Gather { check, .. } => check.map(|it| flat.checks[it].node),
                _ => None,
            };
            node.inputs.iter().filter_map(|it| flat.producer(it.value()?)).chain(check).all(is_before)
        });
        Some(Self { contraction, group: at, nodes, domain, at: if is_ready { first } else { at } })
    }
}

/// The members of a group with reductions that compute with the result of a contraction, and those that they read. They
/// are apart from the others if these read nothing of them but terms of reductions, which are stored anyway: so a sum
/// over the rows of a masked gradient is a kernel of its own, and the mask is not. Other elementwise members would have
/// instructions in common with them, without which products and sums may be contracted.
fn before_reductions(flat: &Flat, group: &Group, contraction: NodeIndex, stored: &[bool]) -> Option<Vec<NodeIndex>> {
    let is_reduction = |it: NodeIndex| matches!(flat.nodes[it].kind, Kind::Reduce(_));
    let operands = |it: NodeIndex| flat.nodes[it].inputs.iter().filter_map(|it| flat.producer(it.value()?));
    // Members are in execution order.
    let mut is_inside = vec![false; group.nodes.len()];
    let at = |node: NodeIndex| group.nodes.binary_search(&node);
    for (member, &node) in group.nodes.iter().enumerate() {
        let depends = |it: NodeIndex| it == contraction || at(it).is_ok_and(|it| is_inside[it]);
        is_inside[member] = !is_reduction(node) && operands(node).any(depends);
    }
    for member in (0..group.nodes.len()).rev() {
        if is_inside[member] {
            operands(group.nodes[member]).filter_map(|it| at(it).ok()).for_each(|it| is_inside[it] = true);
        }
    }
    let elements = flat.numel(flat.nodes[contraction].outputs[0]);
    let fits = |(member, &node): (usize, &NodeIndex)| {
        let is_read = |value: ValueIndex| {
            let producer = flat.producer(value);
            let is_member = producer.is_some_and(|it| at(it).is_ok_and(|it| is_inside[it]));
            producer != Some(contraction) && (!is_member || (is_reduction(node) && stored[value]))
        };
        is_inside[member]
            || ((is_reduction(node) || flat.numel(flat.nodes[node].outputs[0]) != elements)
                && flat.nodes[node].inputs.iter().filter_map(Access::value).all(is_read))
    };
    let all = || group.nodes.iter().enumerate();
    all().all(fits).then(|| all().filter(|it| is_inside[it.0]).map(|it| *it.1).collect())
}

/// The axes of the result of a contraction, if nodes go through them as through their own, and the target takes a kernel
/// of them that has so many instructions.
fn shared_domain(
    flat: &Flat,
    nodes: &[NodeIndex],
    contraction: NodeIndex,
    insts: usize,
    target: &Target,
) -> Option<Domain> {
    let node = &flat.nodes[contraction];
    let axes = flat.contraction(node, Precision::Strict);
    if !target.takes_epilogue(&axes, insts) {
        return None;
    }
    let sizes: Shape = axes.axes_of(2).map(|it| it.size).collect();
    let domain = Domain::of(&sizes);
    let result = node.outputs[0];
    let is_inside =
        |value: ValueIndex| value == result || flat.producer(value).is_some_and(|it| nodes.binary_search(&it).is_ok());
    let fits = |&index: &NodeIndex| {
        let node = &flat.nodes[index];
        let shape = &flat.values[node.outputs[0]].shape;
        let is_elementwise = match node.kind {
            Kind::Map(_) | Kind::Copy | Kind::Gather { .. } => true,
            // A position along its axes follows from those along the loops only if none of these is several of them.
            Kind::Generate(_) => domain.refine(Part::All, shape).as_ref() == Some(&domain),
            _ => false,
        };
        let is_read = |(at, access): (usize, &Access)| {
            let Some(value) = access.value() else { return true };
            let Some(strides) = domain.walk(Part::All, &access.layout) else { return false };
            let is_positional = at == 0 && matches!(node.kind, Kind::Gather { .. });
            !is_inside(value) || (!is_positional && access.layout.offset() == 0 && strides == domain.dense(Part::All))
        };
        is_elementwise
            && shape.iter().product::<usize>() == domain.numel(Part::All)
            && node.inputs.iter().enumerate().all(is_read)
    };
    nodes.iter().all(fits).then_some(domain)
}

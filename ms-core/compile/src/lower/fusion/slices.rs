//! Decides which kernel writes which slice of results that consist of slices.
//!
//! A kernel that computes the elements of a slice writes them to the slice. Slices that no kernel computes, such as
//! those of inputs, are copied. A slice may itself consist of slices.
//!
//! The first slice of an update is the whole result, in which the other slices replace elements. It is copied before
//! they are written. The copy does nothing if the result is in the memory of the copied value.

use crate::lower::fusion::domain::Domain;
use crate::lower::fusion::group::{Group, Groups, result_axes};
use crate::lower::rewrites::flat::{Access, Flat, FlatNode, Kind, NodeIndex, Origin, ValueIndex};
use crate::lower::rewrites::sink::Steps;
use crate::target::{Cost, Target};
use ms_ir::MapVec;
use ms_ir::data::{Attrs, Layout};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// The locations that the results of kernels are written to.
pub(in crate::lower) struct Stores {
    /// Whether each value has its own memory.
    own: Vec<bool>,
    slices: FxHashMap<ValueIndex, Vec<Slice>>,
}

/// Some elements of a value.
pub(in crate::lower) struct Slice {
    /// The value that contains them.
    pub whole: ValueIndex,
    /// Their positions in it.
    pub layout: Layout,
}

impl Stores {
    /// Returns whether a value has its own memory.
    pub fn has_own(&self, value: ValueIndex) -> bool {
        self.own[value]
    }

    /// Returns the slices of other values that a value is written to.
    pub fn slices(&self, value: ValueIndex) -> &[Slice] {
        self.slices.get(&value).map_or(&[], |it| it)
    }

    /// Returns whether a value is written at all.
    pub fn is_written(&self, value: ValueIndex) -> bool {
        self.own[value] || self.slices.contains_key(&value)
    }
}

/// Replaces groups whose results consist of slices by groups that copy slices.
pub(in crate::lower) fn place(flat: &mut Flat, groups: &mut Groups, target: &Target) -> Stores {
    let stores = Stores { own: groups.stored(flat), slices: FxHashMap::default() };
    if !flat.nodes.iter().any(|it| matches!(it.kind, Kind::Slices(_))) {
        return stores;
    }
    let (readers, inner) = (base_readers(flat, groups), inner_slices(flat, groups));
    let before = groups.list.map_vec(|_| Vec::new());
    let mut placer = Placer { flat, groups, target, readers, inner, before, stores };
    (0..placer.groups.list.len()).for_each(|it| placer.group(it));
    let Placer { before, stores, .. } = placer;
    let placed = std::mem::take(&mut groups.list);
    groups.list.reserve(placed.len() + before.iter().map(Vec::len).sum::<usize>());
    for (group, copies) in placed.into_iter().zip(before) {
        groups.list.extend(copies);
        if !matches!(flat.nodes[group.nodes[0]].kind, Kind::Slices(_)) {
            groups.list.push(group);
        }
    }
    stores
}

/// Returns the value whose elements an update replaces, if it is a whole value.
fn base(flat: &Flat, node: &FlatNode) -> Option<ValueIndex> {
    node.inputs[0].value().filter(|_| flat.is_whole(&node.inputs[0]))
}

/// Returns the groups that read the updated values, in order. An output is read after all of them.
fn base_readers(flat: &Flat, groups: &Groups) -> FxHashMap<ValueIndex, Vec<usize>> {
    let updates = flat.nodes.iter().filter(|it| matches!(it.kind, Kind::Slices(_)));
    let mut readers: FxHashMap<ValueIndex, Vec<usize>> =
        updates.filter_map(|it| Some((base(flat, it)?, Vec::new()))).collect();
    for (index, group) in groups.list.iter().enumerate() {
        for value in group.step().flat_map(|it| &flat.nodes[it].inputs).filter_map(Access::value) {
            if let Some(readers) = readers.get_mut(&value).filter(|it| it.last() != Some(&index)) {
                readers.push(index);
            }
        }
    }
    for output in &flat.outputs {
        readers.entry(*output).and_modify(|it| it.push(usize::MAX));
    }
    readers
}

/// Returns the results that consist of slices and are themselves slices of other results, which are their only readers.
fn inner_slices(flat: &Flat, groups: &Groups) -> FxHashMap<NodeIndex, Slice> {
    let uses = flat.uses();
    let mut inner: FxHashMap<NodeIndex, Slice> = FxHashMap::default();
    for group in groups.list.iter().rev() {
        let node = &flat.nodes[group.nodes[0]];
        // The updated value comes before its other slices, whatever their source.
        if !matches!(node.kind, Kind::Slices(_)) || is_update(flat, node) {
            continue;
        }
        for (access, layout) in node.inputs.iter().zip(flat.slices(node)) {
            let Some(value) = access.value().filter(|&it| uses[it] == 1 && flat.is_whole(access)) else { continue };
            let producer = flat.producer(value).filter(|&it| matches!(flat.nodes[it].kind, Kind::Slices(_)));
            if let Some(producer) = producer
                && access.layout.shape() == &*flat.values[value].shape
                && let Some(slice) = outermost(flat, group.nodes[0], layout, &inner)
            {
                inner.insert(producer, slice);
            }
        }
    }
    inner
}

/// Converts a slice of a node's result to a slice of the outermost value that contains the result.
fn outermost(flat: &Flat, node: NodeIndex, layout: Layout, inner: &FxHashMap<NodeIndex, Slice>) -> Option<Slice> {
    let whole = flat.nodes[node].outputs[0];
    match inner.get(&node) {
        Some(outer) => {
            let steps = Steps::of(&layout, &flat.values[whole].shape)?;
            Some(Slice { whole: outer.whole, layout: steps.through(&outer.layout) })
        }
        None => Some(Slice { whole, layout }),
    }
}

/// Returns whether slices of a result replace elements of the first one.
fn is_update(flat: &Flat, node: &FlatNode) -> bool {
    let slices = flat.slices(node);
    slices[0].numel() == flat.numel(node.outputs[0]) && slices[1..].iter().any(|it| it.numel() != 0)
}

struct Placer<'a> {
    flat: &'a mut Flat,
    groups: &'a mut Groups,
    target: &'a Target,
    readers: FxHashMap<ValueIndex, Vec<usize>>,
    inner: FxHashMap<NodeIndex, Slice>,
    /// The groups that copy slices before each group.
    before: Vec<Vec<Group>>,
    stores: Stores,
}

impl Placer<'_> {
    /// Writes the slices of the result of a group, if it consists of slices.
    fn group(&mut self, at: usize) {
        let index = self.groups.list[at].nodes[0];
        let node = &self.flat.nodes[index];
        if !matches!(node.kind, Kind::Slices(_)) {
            return;
        }
        let inputs = node.inputs.clone();
        let numel = self.flat.numel(node.outputs[0]);
        let slices = self.flat.slices(node);
        let is_update = is_update(self.flat, node);
        let is_replaced = is_update && slices[1..].iter().any(|it| it.numel() == numel);
        let slice = |placer: &Self, layout: Layout| {
            outermost(placer.flat, index, layout, &placer.inner).expect("a slice goes along the axes of its result")
        };
        let mut first = at;
        let mut copies = Vec::new();
        for (access, layout) in inputs.iter().zip(&slices).skip(usize::from(is_update)) {
            let producer = access.value().and_then(|it| self.flat.producer(it));
            if access.layout.numel() == 0 || producer.is_some_and(|it| self.inner.contains_key(&it)) {
                continue;
            }
            let slice = slice(self, layout.clone());
            let writer = self.writer(access, &slice.layout, at);
            match writer.filter(|it| !is_update || is_replaced || self.may_update(index, it.0, at)) {
                Some((group, value)) => {
                    first = first.min(group);
                    self.stores.slices.entry(value).or_default().push(slice);
                }
                None => copies.push((access, slice)),
            }
        }
        if is_update && !is_replaced {
            let slice = slice(self, slices[0].clone());
            self.copy(&inputs[0], slice, first);
        }
        self.reserve(at, copies.len());
        copies.into_iter().for_each(|(access, slice)| self.copy(access, slice, at));
    }

    /// Returns the group that computes the accessed elements and can write them to a slice of group `at`'s result, and
    /// the value.
    fn writer(&self, access: &Access, layout: &Layout, at: usize) -> Option<(usize, ValueIndex)> {
        let flat = &*self.flat;
        let value = access.value().filter(|_| flat.is_whole(access))?;
        let index = self.groups.of[flat.producer(value)?]?;
        let group = &self.groups.list[index];
        debug_assert!(index < at);
        let domain = group.domain.as_ref()?;
        let run = run(flat, value, layout, domain)?;
        let cost = || group.nodes.iter().map(|&it| self.groups.costs[it].insts).sum::<usize>();
        let is_worth = run >= self.target.parallel_width.min(flat.numel(value)) || {
            group.nodes.len() <= self.target.budget.repeated_cost && cost() <= self.target.budget.repeated_cost
        };
        is_worth.then_some((index, value))
    }

    /// Returns whether the update of group `at` may begin before `group`. The updated value must be available. From
    /// then on, only the update may read it, or it could not be in place.
    fn may_update(&self, update: NodeIndex, group: usize, at: usize) -> bool {
        let access = &self.flat.nodes[update].inputs[0];
        let Some(value) = access.value() else { return true };
        let is_there =
            self.flat.producer(value).is_none_or(|it| self.groups.of[it].is_some_and(|producer| producer < group));
        let in_place = base(self.flat, &self.flat.nodes[update])
            .filter(|&it| !matches!(self.flat.values[it].origin, Origin::Constant(_)));
        is_there
            && in_place.is_none_or(|value| {
                let readers = &self.readers[&value];
                let later = &readers[readers.partition_point(|&it| it < group)..];
                later.last().is_some_and(|&it| it > at) || later == [at]
            })
    }

    /// Makes room for groups that copy slices.
    fn reserve(&mut self, at: usize, copies: usize) {
        self.flat.nodes.reserve(copies);
        self.flat.values.reserve(copies);
        self.stores.slices.reserve(copies);
        self.before[at].reserve(copies);
    }

    /// Adds a group before group `at` that copies the accessed elements to a slice.
    fn copy(&mut self, access: &Access, slice: Slice, at: usize) {
        let node = self.flat.nodes.len();
        let shape = access.layout.shape();
        let value = self.flat.add_value(access.dtype, shape.into(), Origin::Node(node));
        let (inputs, outputs) = (smallvec![access.clone()], smallvec![value]);
        self.flat.nodes.push(FlatNode { kind: Kind::Copy, attrs: Attrs::none(), inputs, outputs, location: None });
        self.groups.levels.push(0);
        self.groups.costs.push(Cost { insts: 1, ..Cost::default() });
        self.stores.own.push(false);
        self.stores.slices.insert(value, vec![slice]);
        if let Some(read) = access.value() {
            self.stores.own[read] = true;
        }
        let domain = Some(Domain::of(shape));
        let nodes = vec![node];
        self.before[at].push(Group { nodes, domain, insts: 1, late: false, op: None, rows: None });
    }
}

/// Returns how many adjacent elements a kernel over `domain` that computes a value writes to a slice at a time. Returns
/// `None` if it cannot write to the slice.
fn run(flat: &Flat, value: ValueIndex, slice: &Layout, domain: &Domain) -> Option<usize> {
    let part = result_axes(flat, value, domain)?;
    domain.run(part, &domain.walk(part, slice)?)
}

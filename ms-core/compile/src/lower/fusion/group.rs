//! Forms fusion groups: decides which ops share a kernel.
//!
//! Nodes are visited in execution order. Each joins the groups of its operands if it iterates over their elements in
//! the same order ([`Domain`]). A group becomes one kernel, which stores the members that other groups read.
//!
//! Groups have positions in the order of steps. A node may join a group only if its other operands come before the
//! group. A group without readers so far may move to the end. This prevents cycles without searching for paths, so the
//! time is linear in the number of nodes. Nodes that are [`Siblings`] join each other too.

use crate::lower::fusion::body::weigh;
use crate::lower::fusion::domain::{AxisSet, Domain, MAX_ACCUMULATORS};
use crate::lower::plan::routines::Routines;
use crate::lower::plan::schedule::{Order, is_local};
use crate::lower::rewrites::flat::{Access, Flat, FlatNode, Kind, NodeIndex, ValueIndex};
use crate::lower::rewrites::siblings::Siblings;
use crate::target::{Cost, Target};
use ms_ir::data::{Attrs, DType, Op};
use ms_ir::op::Effects;
use ms_ir::run_multiple;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A future step of the plan: one node, or several in one kernel.
#[derive(Debug)]
pub(in crate::lower) struct Group {
    /// The members, in execution order.
    pub nodes: Vec<NodeIndex>,
    /// The axes of the kernel; `None` for a node that is not a kernel.
    pub domain: Option<Domain>,
    /// The cost of the kernel's body.
    pub insts: usize,
    /// Whether a member is [late](Order::Late).
    pub late: bool,
    /// The contraction or library op that this kernel is an epilogue of. Only this kernel, and kernels next to it in
    /// the list, read its result.
    pub op: Option<NodeIndex>,
    /// The number of row axes, for an epilogue over [rows](crate::lower::plan::EpilogueLoops::Rows) of the result. They
    /// are the first axes of the kernel.
    pub rows: Option<usize>,
}

impl Group {
    /// Returns the nodes that are computed in the step: the op that the kernel is an epilogue of, and the members.
    pub fn step(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.op.into_iter().chain(self.nodes.iter().copied())
    }
}

/// The groups of a graph.
#[derive(Debug)]
pub(in crate::lower) struct Groups {
    /// The groups, in an order in which they can be executed.
    pub list: Vec<Group>,
    /// The group of each node; `None` for one that computes nothing.
    pub of: Vec<Option<usize>>,
    /// The number of reduced loops of each node's kernel that come before its result.
    pub levels: Vec<u32>,
    /// The [cost](weigh) of the body of each node in a kernel.
    pub costs: Vec<Cost>,
}

/// A group under construction.
pub(super) struct Draft {
    pub(super) nodes: Vec<NodeIndex>,
    domain: Option<Domain>,
    /// The position in the order of steps.
    position: i64,
    /// A lower bound of the positions of the groups that read this one.
    first_use: i64,
    /// Groups that this one reads.
    reads: SmallVec<[usize; 4]>,
    /// Values that the group reads.
    pub(super) inputs: Vec<ValueIndex>,
    insts: usize,
    /// The [`run_multiple`] of its reductions.
    multiple: Option<usize>,
    /// Whether a member that iterates over all axes accesses 8-byte elements.
    wide: bool,
    /// Whether bodies depend on the position.
    generates: bool,
    /// Whether a member is [early](Order::Early), and whether one is late.
    early: bool,
    late: bool,
    /// Whether the group accepts no more nodes.
    closed: bool,
}

pub(super) struct Grouper<'a> {
    pub(super) flat: &'a Flat,
    pub(super) target: &'a Target,
    routines: &'a Routines,
    fuse: bool,
    /// The order of each node; empty if no node may fail.
    orders: &'a [Order],
    pub(super) drafts: Vec<Draft>,
    /// Union-find over drafts.
    parent: Vec<usize>,
    of: Vec<Option<usize>>,
    levels: Vec<u32>,
    costs: Vec<Cost>,
    /// The costs of elementwise ops without attributes, by the dtypes of operands.
    known_costs: FxHashMap<(Op, SmallVec<[DType; 4]>), Cost>,
    pub(super) uses: Vec<u32>,
    siblings: Siblings,
    /// The position after all steps, and the one before.
    next: i64,
    front: i64,
}

impl Groups {
    /// Groups the nodes. Without `fuse`, each node is a separate group. No group contains both early and late nodes of
    /// `orders`; an empty `orders` imposes no such limit.
    pub fn new(flat: &Flat, fuse: bool, orders: &[Order], routines: &Routines, target: &Target) -> Self {
        let uses = flat.uses();
        let mut grouper = Grouper {
            flat,
            target,
            routines,
            fuse,
            orders,
            drafts: Vec::with_capacity(flat.nodes.len()),
            parent: Vec::with_capacity(flat.nodes.len()),
            of: vec![None; flat.nodes.len()],
            levels: vec![0; flat.nodes.len()],
            costs: vec![Cost::default(); flat.nodes.len()],
            known_costs: FxHashMap::default(),
            uses,
            siblings: Siblings::default(),
            next: 0,
            front: -1,
        };
        (0..flat.nodes.len()).for_each(|it| grouper.place(it));
        grouper.finish()
    }

    /// Returns for each value whether it needs its own memory, because another group reads it or it is an output. A
    /// result that consists of slices does not count as such a reader.
    pub fn stored(&self, flat: &Flat) -> Vec<bool> {
        let mut stored = vec![false; flat.values.len()];
        flat.outputs.iter().for_each(|&it| stored[it] = true);
        for (index, node) in flat.nodes.iter().enumerate().filter(|it| !matches!(it.1.kind, Kind::Slices(_))) {
            for value in node.inputs.iter().filter_map(|it| it.value()) {
                let apart = flat.producer(value).is_none_or(|it| self.of[it] != self.of[index]);
                stored[value] |= apart;
            }
        }
        for group in self.list.iter().filter(|it| it.domain.is_none()) {
            group.nodes.iter().flat_map(|&it| &flat.nodes[it].outputs).for_each(|&it| stored[it] = true);
        }
        stored
    }
}

/// The group of a node before any merge.
enum Own {
    /// A kernel over a domain, which other nodes may join.
    Open(Domain),
    /// A separate kernel: a reduction of nothing, or of single elements.
    Closed(Domain),
    /// A step that is not a kernel.
    Whole,
}

impl Own {
    fn of(flat: &Flat, node: &FlatNode) -> Self {
        match node.kind {
            Kind::Map(_) | Kind::Copy | Kind::Generate(_) | Kind::Gather { .. } => {
                Self::Open(Domain::of(&flat.values[node.outputs[0]].shape))
            }
            Kind::Reduce(rule) => {
                let (shape, reduced) = (node.inputs[0].layout.shape(), (rule.axes)(&node.attrs));
                let count: usize = reduced.iter().map(|&axis| shape[axis]).product();
                match Domain::of(shape).reduce(shape, &reduced) {
                    Some(domain) if count > 1 => Self::Open(domain),
                    _ => Self::Closed(Domain::of_reduction(shape, &reduced)),
                }
            }
            Kind::Contraction(_) | Kind::Library(_) | Kind::Slices(_) | Kind::Check(_) | Kind::Region(_) => Self::Whole,
        }
    }
}

/// Two groups that are candidates for merging, and the node that reads the second one.
#[derive(Clone, Copy)]
struct Pair<'a> {
    /// The node's current group.
    own: usize,
    /// A group that the node reads.
    source: usize,
    index: NodeIndex,
    node: &'a FlatNode,
    /// All groups that the node reads.
    sources: &'a [usize],
}

impl<'a> Grouper<'a> {
    /// Returns the group that a draft was merged into.
    fn root(&self, mut draft: usize) -> usize {
        while self.parent[draft] != draft {
            draft = self.parent[draft];
        }
        draft
    }

    /// Returns the group that computes the value.
    pub(super) fn group_of(&self, value: ValueIndex) -> Option<usize> {
        self.of[self.flat.producer(value)?].map(|it| self.root(it))
    }

    fn place(&mut self, index: NodeIndex) {
        let flat = self.flat;
        let node = &flat.nodes[index];
        // Library ops check the values of operands, even if the result is empty.
        let computes = matches!(node.kind, Kind::Region(_) | Kind::Library(_)) || node.outputs.is_empty();
        if !computes && node.outputs.iter().all(|&it| flat.numel(it) == 0) {
            return;
        }
        // The latest group comes first: after merging with it, most of the others precede the result.
        let mut sources: SmallVec<[usize; 4]> = SmallVec::new();
        for value in node.inputs.iter().filter_map(Access::value) {
            sources.extend(self.group_of(value));
        }
        if let Kind::Gather { check: Some(check), .. } = node.kind {
            sources.extend(self.of[flat.checks[check].node].map(|it| self.root(it)));
        }
        // The check reports its error before a library op on the same operand runs.
        let follows_check = matches!(node.kind, Kind::Check(_))
            || matches!(node.kind, Kind::Region(_) | Kind::Library(_))
                && node.inputs.iter().filter_map(Access::value).any(|it| flat.checked.contains(&it));
        sources.sort_unstable_by_key(|&it| (std::cmp::Reverse(self.drafts[it].position), it));
        sources.dedup();
        let own = Own::of(flat, node);
        let joins = self.fuse && matches!(own, Own::Open(_));
        let mut group = self.start(index, node, own);
        // A kernel that joins what a start reads would delay the start.
        if node.effects().any_of(Effects::PENDING) {
            sources.iter().for_each(|&it| self.drafts[it].closed = true);
        }
        if !follows_check
            && is_local(flat, node, self.routines)
            && sources.is_empty()
            && node.outputs.iter().all(|&it| flat.numel(it) <= self.target.small_elements)
        {
            self.drafts[group].position = self.front;
            self.front -= 1;
        }
        if joins {
            let siblings = self.siblings.of(flat, index).and_then(|it| self.of[it]).map(|it| self.root(it));
            for &source in sources.iter().chain(siblings.iter().filter(|it| !sources.contains(it))) {
                group = self.merge(Pair { own: group, source, index, node, sources: &sources }).unwrap_or(group);
            }
        }
        let sources: SmallVec<[usize; 4]> =
            sources.into_iter().map(|it| self.root(it)).filter(|&it| it != group).collect();
        self.add_reads(group, sources);
        self.update_first_uses(group);
    }

    /// Adds to the groups that a group reads, without duplicates.
    fn add_reads(&mut self, group: usize, added: SmallVec<[usize; 4]>) {
        let reads = &mut self.drafts[group].reads;
        if added.iter().any(|it| reads.last() != Some(it)) {
            reads.extend(added);
            reads.sort_unstable();
            reads.dedup();
        }
    }

    /// Updates the first uses of the groups that a group reads.
    fn update_first_uses(&mut self, group: usize) {
        let position = self.drafts[group].position;
        for i in 0..self.drafts[group].reads.len() {
            let source = self.root(self.drafts[group].reads[i]);
            let first_use = &mut self.drafts[source].first_use;
            *first_use = position.min(*first_use);
        }
    }

    /// Returns the cost of a node of a kernel.
    fn cost(&mut self, node: &FlatNode) -> Cost {
        let weigh = || weigh(self.flat, node, self.target);
        match node.kind {
            Kind::Map(op) if node.attrs == Attrs::none() => {
                let dtypes = node.inputs.iter().map(|it| it.dtype).collect();
                *self.known_costs.entry((op, dtypes)).or_insert_with(weigh)
            }
            _ => weigh(),
        }
    }

    /// Starts a group with a node, after all other groups.
    fn start(&mut self, index: NodeIndex, node: &FlatNode, own: Own) -> usize {
        let draft = self.drafts.len();
        let closed = !self.fuse || !matches!(own, Own::Open(_));
        let (domain, cost) = match own {
            Own::Open(domain) | Own::Closed(domain) => (Some(domain), self.cost(node)),
            Own::Whole => (None, Cost::default()),
        };
        self.costs[index] = cost;
        let multiple = match node.kind {
            Kind::Reduce(rule) => Some(run_multiple((rule.accumulate)(node.inputs[0].dtype))),
            _ => None,
        };
        self.drafts.push(Draft {
            nodes: vec![index],
            domain,
            position: self.next,
            first_use: i64::MAX,
            reads: SmallVec::new(),
            inputs: node.inputs.iter().filter_map(Access::value).collect(),
            insts: cost.insts,
            multiple,
            wide: cost.is_wide,
            generates: matches!(node.kind, Kind::Generate(_)),
            early: self.orders.get(index) == Some(&Order::Early),
            late: self.orders.get(index) == Some(&Order::Late),
            closed,
        });
        self.parent.push(draft);
        self.of[index] = Some(draft);
        self.levels[index] = u32::from(multiple.is_some());
        self.next += 1;
        draft
    }

    /// Merges two groups, if that is possible and profitable.
    fn merge(&mut self, pair: Pair<'_>) -> Option<usize> {
        let Pair { own, source, index, .. } = pair;
        let position = self.common_position(pair)?;
        let (a, b) = (&self.drafts[own], &self.drafts[source]);
        let multiple = a.multiple.or(b.multiple);
        let insts = a.insts + b.insts;
        if b.closed
            || ((a.early || b.early) && (a.late || b.late))
            || insts > self.target.budget.cost
            || b.multiple.is_some_and(|it| multiple != Some(it))
            || (multiple.is_some() && (a.generates || b.generates))
        {
            return None;
        }
        let (mine, theirs) = (a.domain.as_ref()?, b.domain.as_ref()?);
        let domain = mine.unify(theirs)?;
        let level = self.level(pair);
        if !self.operands_fit(pair, &domain) || !self.is_row_worth_staging(pair.node, &domain, level) {
            return None;
        }
        let mut wide = false;
        for draft in [own, source] {
            let own_domain = self.drafts[draft].domain.as_ref()?;
            if own_domain.is_reduced() || !domain.is_reduced() {
                wide |= self.drafts[draft].wide;
            } else if domain.part(own_domain.numel(AxisSet::All))? == AxisSet::All {
                wide |= self.drafts[draft].wide;
                if !self.may_loop(draft, pair, &domain) {
                    return None;
                }
            }
        }
        if wide && multiple == Some(MAX_ACCUMULATORS) && insts > self.target.budget.wide_cost {
            return None;
        }
        let inputs = self.joint_inputs(own, source)?;
        if !self.words_fit([own, source], inputs.len(), &domain) {
            return None;
        }
        self.levels[index] = level;
        Some(self.join(own, source, |draft| {
            draft.position = position;
            draft.domain = Some(domain);
            draft.multiple = multiple;
            draft.wide = wide;
            draft.inputs = inputs;
        }))
    }

    /// Returns a position in the order of steps at which both groups can run as one. The earlier group's position works
    /// if all operands of the later group come before it. The later group's position works if the earlier group has no
    /// reader before it.
    fn common_position(&self, pair: Pair<'_>) -> Option<i64> {
        let Pair { own, source, sources, .. } = pair;
        // Older members read values of the other group that they could not be merged with.
        if self.drafts[own].reads.iter().any(|&it| self.root(it) == source) {
            return None;
        }
        let own_is_later = self.drafts[own].position > self.drafts[source].position;
        let (later, earlier) = if own_is_later { (own, source) } else { (source, own) };
        let (last, first) = (self.drafts[later].position, self.drafts[earlier].position);
        let read = self.drafts[later].reads.iter().chain(if own_is_later { sources } else { &[] });
        let mut read = read.map(|&it| self.root(it)).filter(|&it| it != own && it != source);
        if read.all(|it| self.drafts[it].position < first) {
            return Some(first);
        }
        (self.drafts[earlier].first_use > last).then_some(last)
    }

    /// Returns the level of the node in the common group.
    fn level(&self, pair: Pair<'_>) -> u32 {
        let values = pair.node.inputs.iter().filter_map(Access::value);
        let inside = values.filter(|&it| self.group_of(it).is_some_and(|it| it == pair.own || it == pair.source));
        let level = inside.filter_map(|it| self.flat.producer(it)).map(|it| self.levels[it]).max().unwrap_or(0);
        level + u32::from(matches!(pair.node.kind, Kind::Reduce(_)))
    }

    /// Returns whether the node reads members of both groups only at the element that it computes. Its other reads must
    /// be possible with reduced lanes.
    fn operands_fit(&self, pair: Pair<'_>, domain: &Domain) -> bool {
        let Some(part) = operand_axes(self.flat, pair.node, domain) else { return false };
        pair.node.inputs.iter().enumerate().all(|(at, access)| {
            let Some(value) = access.value() else { return true };
            let Some(strides) = domain.walk(part, &access.layout) else { return false };
            if self.group_of(value).is_some_and(|it| it == pair.own || it == pair.source) {
                // A gather reads elements that are computed in other iterations.
                if at == 0 && matches!(pair.node.kind, Kind::Gather { .. }) {
                    return false;
                }
                let part = result_axes(self.flat, value, domain);
                return access.layout.offset() == 0 && part.is_some_and(|part| strides == domain.dense(part));
            }
            part == AxisSet::NotReduced || domain.run_fits(&strides, MAX_ACCUMULATORS)
        })
    }

    /// Returns whether a row may be iterated over by one more stage, if the node needs it.
    fn is_row_worth_staging(&self, node: &FlatNode, domain: &Domain, level: u32) -> bool {
        let stage = match node.kind {
            Kind::Reduce(_) => level - 1,
            _ if domain.part(self.flat.numel(node.outputs[0])) == Some(AxisSet::All) => level,
            _ => 0,
        };
        let row = domain.numel(AxisSet::All) / domain.numel(AxisSet::NotReduced).max(1);
        stage == 0 || (row <= self.target.longest_staged_row() && stage < self.target.budget.loops)
    }

    /// Returns whether a group over a domain without reductions may be computed in reduced loops.
    fn may_loop(&self, draft: usize, pair: Pair<'_>, domain: &Domain) -> bool {
        let fits = |access: &Access| {
            domain.walk(AxisSet::All, &access.layout).is_some_and(|it| domain.run_fits(&it, MAX_ACCUMULATORS))
        };
        let members = || self.drafts[draft].nodes.iter().map(|&it| &self.flat.nodes[it]);
        if !members().flat_map(|it| &it.inputs).filter(|it| it.value().is_some()).all(fits) {
            return false;
        }
        if !domain.has_short_rows() {
            return true;
        }
        // The values of the pair cannot be stored, so they must not have other readers.
        let inside = self.reads_inside([pair.own, pair.source]);
        members().flat_map(|it| &it.outputs).all(|it| inside.get(it) == Some(&self.uses[*it]))
    }

    /// Merges two groups; the smaller one is added to the larger one.
    fn join(&mut self, a: usize, b: usize, set: impl FnOnce(&mut Draft)) -> usize {
        let (to, from) = if self.drafts[a].nodes.len() > self.drafts[b].nodes.len() { (a, b) } else { (b, a) };
        self.parent[from] = to;
        let nodes = std::mem::take(&mut self.drafts[from].nodes);
        let reads = std::mem::take(&mut self.drafts[from].reads);
        let (first_use, insts) = (self.drafts[from].first_use, self.drafts[from].insts);
        let Draft { generates, early, late, .. } = self.drafts[from];
        let draft = &mut self.drafts[to];
        draft.nodes.extend(nodes);
        draft.first_use = draft.first_use.min(first_use);
        draft.insts += insts;
        draft.generates |= generates;
        draft.early |= early;
        draft.late |= late;
        set(draft);
        self.add_reads(to, reads);
        to
    }

    fn finish(mut self) -> Groups {
        let mut order: Vec<usize> = (0..self.drafts.len()).filter(|&it| self.parent[it] == it).collect();
        order.sort_unstable_by_key(|&it| self.drafts[it].position);
        let mut of = vec![None; self.flat.nodes.len()];
        let mut list = Vec::with_capacity(order.len());
        for (i, draft) in order.into_iter().enumerate() {
            let mut nodes = std::mem::take(&mut self.drafts[draft].nodes);
            nodes.sort_unstable();
            nodes.iter().for_each(|&it| of[it] = Some(i));
            let Draft { insts, late, .. } = self.drafts[draft];
            list.push(Group { nodes, domain: self.drafts[draft].domain.take(), insts, late, op: None, rows: None });
        }
        Groups { list, of, levels: self.levels, costs: self.costs }
    }
}

/// Returns the axes over which a node reads its operands.
pub(in crate::lower) fn operand_axes(flat: &Flat, node: &FlatNode, domain: &Domain) -> Option<AxisSet> {
    match node.kind {
        Kind::Reduce(_) => Some(AxisSet::All),
        _ => domain.part(flat.numel(node.outputs[0])),
    }
}

/// Returns the axes over which a value of the group is computed.
pub(in crate::lower) fn result_axes(flat: &Flat, value: ValueIndex, domain: &Domain) -> Option<AxisSet> {
    match flat.producer(value).map(|it| &flat.nodes[it].kind) {
        Some(Kind::Reduce(_)) => Some(AxisSet::NotReduced),
        _ => domain.part(flat.numel(value)),
    }
}

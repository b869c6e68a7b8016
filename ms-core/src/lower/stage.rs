//! Stages of a group's kernel: which loop computes what.
//!
//! A reduction ends a loop over the reduced axes, and what depends on its result over all axes needs
//! another loop. The level of a member ([`Groups`]) is the number of loops that come
//! before it. What a later loop needs again is computed again where that is cheap, and read
//! back from memory where it is not.

use super::body::weigh;
use super::domain::Part;
use super::flat::{Access, Flat, Kind, NodeIndex, ValueIndex};
use super::group::{Group, Groups, result_part};
use super::slices::Stores;
use super::target::Target;
use rustc_hash::{FxHashMap, FxHashSet};

/// One loop over the reduced axes.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Members that are computed, in running order: reductions, and what they need.
    pub computed: Vec<NodeIndex>,
    /// Values of earlier loops that are read back.
    pub reloaded: Vec<ValueIndex>,
    /// Values that are written.
    pub stored: Vec<ValueIndex>,
}

/// The stages of a kernel: point members of level 0, loop 0, point members of level 1, ...
#[derive(Debug, Default)]
pub(super) struct Stages {
    /// By level, members that run once per point.
    pub points: Vec<Vec<NodeIndex>>,
    /// By level, the loops; one fewer than points.
    pub rounds: Vec<Round>,
    /// Values that are stored only to be read back by a later loop.
    pub scratch: Vec<ValueIndex>,
}

impl Stages {
    /// The stages of a group; `stores` says which values must be in memory.
    pub fn new(flat: &Flat, groups: &Groups, group: &Group, stores: &Stores, target: &Target) -> Self {
        let domain = group.domain.as_ref().expect("only kernels have stages");
        let reduced = group.nodes.iter().any(|&it| matches!(flat.nodes[it].kind, Kind::Reduce(_)));
        let in_loop = |node: NodeIndex| {
            let value = flat.nodes[node].outputs[0];
            reduced && result_part(flat, value, domain) == Some(Part::All)
        };
        let level = |node: NodeIndex| groups.levels[node] as usize;
        let last = group.nodes.iter().map(|&it| level(it)).max().unwrap_or(0);
        let mut out = Self { points: vec![Vec::new(); last + 1], ..Self::default() };
        // A reduction is computed in the loop before its level, everything else at its level.
        let mut reductions = vec![Vec::new(); last + 1];
        for &node in &group.nodes {
            match flat.nodes[node].kind {
                Kind::Reduce(_) => reductions[level(node) - 1].push(node),
                _ if !in_loop(node) => out.points[level(node)].push(node),
                _ => {}
            }
        }
        if !reduced {
            return out;
        }
        let looped: Vec<NodeIndex> = group.nodes.iter().copied().filter(|&it| in_loop(it)).collect();
        let members: FxHashSet<NodeIndex> = looped.iter().copied().collect();
        let operands = |node: NodeIndex| {
            let values = flat.nodes[node].inputs.iter().filter_map(Access::value);
            values.filter_map(|it| flat.producer(it)).filter(|it| members.contains(it))
        };
        let cheap = target.budget.recomputed_cost;
        let costs = costs(flat, &looped, operands, target);
        let mut computed_in: FxHashMap<NodeIndex, usize> = FxHashMap::default();
        let mut scratch: FxHashSet<NodeIndex> = FxHashSet::default();
        for (at, reductions) in reductions.iter().enumerate() {
            let mut needed: FxHashSet<NodeIndex> = reductions.iter().flat_map(|&it| operands(it)).collect();
            let mut round = Round::default();
            for &node in looped.iter().rev() {
                let value = flat.nodes[node].outputs[0];
                let is_result = stores.is_written(value) && level(node) == at;
                if !is_result && !needed.contains(&node) {
                    continue;
                }
                if let Some(&before) = computed_in.get(&node) {
                    let in_memory = stores.has_own(value) || scratch.contains(&node);
                    if !in_memory && costs[&node] > cheap {
                        scratch.insert(node);
                        out.scratch.push(value);
                        let earlier: &mut Round = &mut out.rounds[before];
                        if !earlier.stored.contains(&value) {
                            earlier.stored.push(value);
                        }
                    }
                    if in_memory || costs[&node] > cheap {
                        round.reloaded.push(value);
                        continue;
                    }
                } else {
                    computed_in.insert(node, at);
                }
                if is_result {
                    round.stored.push(value);
                }
                needed.extend(operands(node));
                round.computed.push(node);
            }
            round.computed.extend(reductions);
            round.computed.sort_unstable();
            out.rounds.push(round);
        }
        out
    }

    /// The last loop that reads a value back.
    pub fn last_reload(&self, value: ValueIndex) -> Option<usize> {
        self.rounds.iter().rposition(|it| it.reloaded.contains(&value))
    }

    /// The first loop that writes a value.
    pub fn stored_in(&self, value: ValueIndex) -> Option<usize> {
        self.rounds.iter().position(|it| it.stored.contains(&value))
    }
}

/// What each member of the loops costs, with all that it needs of them; what costs more
/// than may be computed again is not told apart.
fn costs<I: Iterator<Item = NodeIndex>>(
    flat: &Flat,
    looped: &[NodeIndex],
    operands: impl Fn(NodeIndex) -> I,
    target: &Target,
) -> FxHashMap<NodeIndex, usize> {
    let cheap = target.budget.recomputed_cost;
    let mut costs: FxHashMap<NodeIndex, usize> = FxHashMap::default();
    for &node in looped {
        let before: usize = operands(node).map(|it| costs[&it]).sum();
        costs.insert(node, (before + weigh(flat, &flat.nodes[node], target).insts).min(cheap + 1));
    }
    costs
}

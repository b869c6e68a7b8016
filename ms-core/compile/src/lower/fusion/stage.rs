//! Divides a group's kernel into stages: what each loop computes.
//!
//! A reduction ends a loop over the reduced axes, and values over all axes that depend on its result need
//! another loop. The level of a member ([`Groups`]) is the number of loops before it. Values that a later
//! loop needs again are recomputed if that is cheap, and reloaded from memory otherwise.

use crate::lower::fusion::domain::AxisSet;
use crate::lower::fusion::group::{Group, Groups, result_axes};
use crate::lower::fusion::slices::Stores;
use crate::lower::rewrites::flat::{Access, Flat, Kind, NodeIndex, ValueIndex};
use crate::target::Target;
use rustc_hash::{FxHashMap, FxHashSet};

/// A loop over the reduced axes.
#[derive(Debug, Default)]
pub(in crate::lower) struct Round {
    /// Members that are computed, in execution order: reductions and their dependencies.
    pub computed: Vec<NodeIndex>,
    /// Values of earlier loops that are reloaded.
    pub reloaded: Vec<ValueIndex>,
    /// Values that are written.
    pub stored: Vec<ValueIndex>,
}

/// The stages of a kernel: point members of level 0, loop 0, point members of level 1, ...
#[derive(Debug, Default)]
pub(in crate::lower) struct Stages {
    /// The members that run once per point, by level.
    pub points: Vec<Vec<NodeIndex>>,
    /// The loops, by level; one fewer than points.
    pub rounds: Vec<Round>,
    /// Values that are stored only to be reloaded by a later loop.
    pub scratch: Vec<ValueIndex>,
}

impl Stages {
    /// Builds the stages of a group; `stores` determines which values must be in memory.
    pub fn new(flat: &Flat, groups: &Groups, group: &Group, stores: &Stores, target: &Target) -> Self {
        let domain = group.domain.as_ref().expect("only kernels have stages");
        let reduced = group.nodes.iter().any(|&it| matches!(flat.nodes[it].kind, Kind::Reduce(_)));
        let in_loop = |node: NodeIndex| {
            let value = flat.nodes[node].outputs[0];
            reduced && result_axes(flat, value, domain) == Some(AxisSet::All)
        };
        let level = |node: NodeIndex| groups.levels[node] as usize;
        let last = group.nodes.iter().map(|&it| level(it)).max().unwrap_or(0);
        let mut out = Self { points: vec![Vec::new(); last + 1], ..Self::default() };
        // A reduction is computed in the loop before its level, all other members at their level.
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
        let costs = costs(groups, &looped, operands, cheap);
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

    /// Returns the last loop that reloads a value.
    pub fn last_reload(&self, value: ValueIndex) -> Option<usize> {
        self.rounds.iter().rposition(|it| it.reloaded.contains(&value))
    }

    /// Returns the first loop that writes a value.
    pub fn stored_in(&self, value: ValueIndex) -> Option<usize> {
        self.rounds.iter().position(|it| it.stored.contains(&value))
    }
}

/// Returns the cost of each member of the loops together with all its dependencies in them. Costs above `cheap`, the
/// limit for recomputation, are not distinguished.
fn costs<I: Iterator<Item = NodeIndex>>(
    groups: &Groups,
    looped: &[NodeIndex],
    operands: impl Fn(NodeIndex) -> I,
    cheap: usize,
) -> FxHashMap<NodeIndex, usize> {
    let mut costs: FxHashMap<NodeIndex, usize> = FxHashMap::default();
    for &node in looped {
        let before: usize = operands(node).map(|it| costs[&it]).sum();
        costs.insert(node, (before + groups.costs[node].insts).min(cheap + 1));
    }
    costs
}

//! Orders steps: those that may fail come before those that overwrite inputs, where data dependences allow it.
//!
//! A failing run must leave the slots that it writes unchanged. So a slot's new value may overwrite the old one only
//! when no later step can fail ([`Reuse::allows_state`](crate::lower::plan::Reuse::allows_state)). Which inputs are
//! values of slots is not known here, so all inputs of the main routine are treated as such.

use crate::lower::plan::draft::Draft;
use crate::lower::plan::reuse::Uses;
use crate::lower::plan::routines::Routines;
use crate::lower::rewrites::flat::{Access, Flat, FlatNode, FlatValue, Kind, Origin, Region, TripCount, ValueIndex};
use ms_ir::MapVec;

/// Returns whether a step of a node may fail at run time, because it checks values or allocates memory.
fn may_fail(flat: &Flat, node: &FlatNode, routines: &Routines) -> bool {
    let fails = |routine| routines.reuse(routine).fallible > 0;
    match node.kind {
        Kind::Map(_) | Kind::Copy | Kind::Generate(_) | Kind::Reduce(_) | Kind::Gather { .. } | Kind::Slices(_) => {
            false
        }
        Kind::Contraction(_) | Kind::Library(_) | Kind::Check(_) => true,
        Kind::Region(region) => match &flat.regions[region] {
            Region::Call(routine, _) => fails(*routine),
            Region::Branch(arms, _) => arms.iter().any(|it| fails(*it)),
            Region::Repeat(..) => false,
            Region::Loop(it) => {
                let keeps_stacks = match it.trips {
                    TripCount::While { .. } => it.series > 0,
                    TripCount::Fixed { .. } => false,
                    TripCount::Counted { .. } => true,
                };
                keeps_stacks || fails(it.body)
            }
        },
    }
}

/// Returns whether a step may fail at run time.
pub(in crate::lower) fn step_may_fail(flat: &Flat, step: &Draft, routines: &Routines) -> bool {
    match step {
        Draft::Kernel(_) | Draft::Kernels(_) => false,
        Draft::Contraction(node, _) | Draft::Library(node, _) | Draft::Whole(node) => {
            may_fail(flat, &flat.nodes[*node], routines)
        }
    }
}

/// Returns whether the step of a node is [local](ms_ir::op::Effects::are_local). Others keep the order of the graph.
pub(in crate::lower) fn is_local(flat: &Flat, node: &FlatNode, routines: &Routines) -> bool {
    let is_local = |routine| routines.is_local(routine);
    match node.kind {
        Kind::Region(region) => match &flat.regions[region] {
            Region::Call(routine, _) => is_local(*routine),
            Region::Branch(arms, _) => arms.iter().all(|it| is_local(*it)),
            Region::Repeat(..) => true,
            Region::Loop(it) => is_local(it.body),
        },
        _ => node.effects().are_local(),
    }
}

/// The constraint that a node puts on the order of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lower) enum Order {
    /// The node may fail, or a node that may fail depends on it.
    Early,
    /// The node is not early, and computes the elements of an output that may overwrite an input.
    Late,
    /// No constraint.
    Any,
}

/// Returns the order of each node; empty if no node may fail.
pub(in crate::lower) fn orders(flat: &Flat, routines: &Routines) -> Vec<Order> {
    if !flat.nodes.iter().any(|it| may_fail(flat, it, routines)) {
        return Vec::new();
    }
    let bytes = |value: ValueIndex| flat.numel(value) * flat.values[value].dtype.size();
    let operands = |node: &'_ FlatNode| node.inputs.iter().filter_map(Access::value).collect::<Vec<_>>();
    // By value, whether it is an input, or is computed elementwise from an input of the same size in bytes.
    let is_input = |it: &FlatValue| matches!(it.origin, Origin::Input(_));
    let mut is_updated: Vec<bool> = flat.values.map_vec(is_input);
    for node in flat.nodes.iter().filter(|it| matches!(it.kind, Kind::Map(_))) {
        let result = node.outputs[0];
        is_updated[result] = operands(node).iter().any(|it| is_updated[*it] && bytes(*it) == bytes(result));
    }
    let mut is_output = vec![false; flat.values.len()];
    flat.outputs.iter().for_each(|it| is_output[*it] = true);
    // By value, the orders of the nodes that read it.
    let mut is_needed = vec![false; flat.values.len()];
    let (mut is_late, mut is_free) = (is_needed.clone(), is_needed.clone());
    let mut order = |node: &FlatNode| {
        let any = |of: &[bool]| node.outputs.iter().any(|it| of[*it]);
        let order = if may_fail(flat, node, routines) || any(&is_needed) {
            Order::Early
        } else if !matches!(node.kind, Kind::Map(_)) {
            Order::Any
        } else if (any(&is_output) && any(&is_updated)) || (any(&is_late) && !any(&is_free) && !any(&is_output)) {
            Order::Late
        } else {
            Order::Any
        };
        let uses = match order {
            Order::Early => &mut is_needed,
            Order::Late => &mut is_late,
            Order::Any => &mut is_free,
        };
        operands(node).into_iter().for_each(|it| uses[it] = true);
        order
    };
    let mut orders: Vec<Order> = flat.nodes.iter().rev().map(&mut order).collect();
    orders.reverse();
    orders
}

/// Moves steps that may overwrite an input, and their dependents, after the last step that may fail. Steps on which a
/// fallible one depends stay, and all others keep their order.
pub(in crate::lower) fn delay_overwriting(flat: &Flat, steps: Vec<Draft>, routines: &Routines) -> Vec<Draft> {
    let fails: Vec<bool> = steps.map_vec(|it| step_may_fail(flat, it, routines));
    let Some(last) = fails.iter().rposition(|it| *it) else { return steps };
    if steps[..last].iter().all(|it| it.over_inputs(flat).is_empty()) {
        return steps;
    }
    let uses = Uses::of(flat, &steps);
    // Values accessed by a step that may fail, or that such a step depends on.
    let mut is_needed = vec![false; flat.values.len()];
    let mut may_wait = vec![false; last + 1];
    for (step, draft) in steps[..=last].iter().enumerate().rev() {
        let needed = fails[step] || draft.results(flat).iter().any(|it| is_needed[*it]);
        may_wait[step] = !needed;
        if needed {
            draft.uses(flat).iter().for_each(|it| is_needed[it.value] = true);
        }
    }
    // Values that a delayed step writes.
    let mut is_late = vec![false; flat.values.len()];
    let mut is_delayed = |draft: &Draft| {
        let overwrites = draft.over_inputs(flat).iter().any(|it| uses.output_of.contains_key(&it.result));
        let delayed = overwrites || draft.uses(flat).iter().any(|it| is_late[it.value]);
        if delayed {
            draft.results(flat).iter().for_each(|it| is_late[*it] = true);
        }
        delayed
    };
    let mut delayed = Vec::new();
    let mut ordered = Vec::with_capacity(steps.len());
    for (step, draft) in steps.into_iter().enumerate() {
        match may_wait.get(step) {
            Some(true) if is_delayed(&draft) => delayed.push(draft),
            _ => ordered.push(draft),
        }
        if step == last {
            ordered.append(&mut delayed);
        }
    }
    ordered
}

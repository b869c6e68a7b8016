//! Builds one iteration of a loop as a graph.

use crate::lower::plan::NextCarry;
use ms_ir::MapVec;
use ms_ir::op::{Loop, TripCount};
use ms_ir::{Def, Graph, ValueId};
use std::sync::Arc;

/// Returns whether a loop may be a kernel, judged by its trip count and sequences.
pub(in crate::lower) fn may_be_kernel(at: &Loop) -> bool {
    match at.trips {
        TripCount::While => true,
        TripCount::Fixed { count, .. } => count <= i32::MAX as usize && at.sequences == 0,
        TripCount::Counted { .. } => false,
    }
}

/// Returns the carries that are computed. Each starts a chain: the carry itself, the carry that takes its previous
/// value, the carry that takes that carry's previous value, and so on.
pub(in crate::lower) fn computed(next: &[NextCarry]) -> impl Iterator<Item = usize> {
    next.iter().enumerate().filter(|it| !matches!(it.1, NextCarry::From(_))).map(|it| it.0)
}

/// Returns the source of the next value of each carry. A carry that the body returns unchanged, as the same or another
/// carry, is not computed.
pub(in crate::lower) fn next_carries(body: &Graph, carries: usize) -> Vec<NextCarry> {
    let mut taken = vec![false; carries];
    let mut next = |output: &ValueId| match body.value(*output).def {
        Def::Input(from) if (from as usize) < carries && !std::mem::replace(&mut taken[from as usize], true) => {
            NextCarry::From(from)
        }
        _ => NextCarry::Computed,
    };
    body.outputs()[..carries].map_vec(&mut next)
}

/// Builds the graph of one iteration: the carries that `body` computes, its further results, and the `condition` of the
/// next iteration.
pub(in crate::lower) fn iteration(body: &Graph, condition: Option<&Arc<Graph>>, carries: usize) -> Graph {
    let mut graph = body.clone();
    let next = next_carries(body, carries);
    let mut outputs: Vec<ValueId> = computed(&next).map(|it| body.outputs()[it]).collect();
    outputs.extend(&body.outputs()[carries..]);
    if let Some(condition) = condition {
        let operands: Vec<ValueId> =
            body.outputs()[..carries].iter().chain(&body.inputs()[carries..]).copied().collect();
        outputs.push(graph.inline(condition, &operands)[0]);
    }
    graph.set_outputs(outputs);
    graph
}

//! Nodes with graphs of their own: what they repeat or choose from become routines.

use super::flatten::{Accesses, Flatten, Kind, Origin};
use super::plan::{NextCarry, RoutineId, is_stack};
use super::reuse::Reuse;
use crate::error::{Code, Error, Result};
use crate::ir::{Def, Graph, Node, ValueId};
use crate::ops::{IF, SCAN, ScanOperands, WHILE, is_call};
use crate::tensor::{DType, Shape};
use smallvec::SmallVec;
use std::sync::Arc;

/// Numbers of results, each with that of an operand in whose memory it may lie.
type Updated = SmallVec<[(usize, usize); 1]>;

/// What a node with graphs does.
#[derive(Debug)]
pub(super) enum Region {
    /// Runs a routine on its operands.
    Call(RoutineId, Updated),
    /// Runs one of two routines on the operands behind the first, the condition.
    Branch([RoutineId; 2], Updated),
    /// Repeats a routine.
    Loop(RegionLoop),
}

/// A loop. Operands: the first condition or the number of iterations, where [`Trips`] has one,
/// then carries, sequences, and what stays the same. Results: carries, the number of iterations,
/// where it is wanted, series; then memory of the loop's own: for the next condition, and a
/// spare for each chain of carries.
#[derive(Debug)]
pub(super) struct RegionLoop {
    pub body: RoutineId,
    pub trips: Trips,
    pub next: Vec<NextCarry>,
    pub sequences: usize,
    pub series: usize,
}

impl Region {
    /// Numbers of results, each with that of an operand in whose memory it may lie: what routines
    /// update, and carries that iterations write over.
    pub fn updated(&self) -> Updated {
        match self {
            Self::Call(_, updated) | Self::Branch(_, updated) => updated.clone(),
            Self::Loop(it) => {
                let first = usize::from(!matches!(it.trips, Trips::Times { .. }));
                let carries = it.next.iter().enumerate().filter(|(_, next)| **next == NextCarry::Updated);
                carries.map(|(carry, _)| (carry, first + carry)).collect()
            }
        }
    }
}

/// The outputs of a graph, each with an input of the same type that one of these routines, of which one
/// runs, updates in its memory, and that all may write it over. Every input for one output.
fn updated(graph: &Graph, routines: &[&Reuse]) -> Updated {
    let mut found = Updated::new();
    for (output, &result) in graph.outputs().iter().enumerate() {
        let ty = graph.ty(result);
        let fits = |&input: &usize| {
            !is_stack(ty)
                && graph.ty(graph.inputs()[input]) == ty
                && found.iter().all(|it| it.1 != input)
                && routines.iter().all(|it| it.allows(output, input))
        };
        let input = routines.iter().flat_map(|it| it.in_place_of(output)).find(fits);
        found.extend(input.map(|input| (output, input)));
    }
    found
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trips {
    While { counted: bool },
    Times { count: usize, reverse: bool },
    Counted { reverse: bool },
}

impl Flatten<'_> {
    /// Adds a node with graphs; gives its results.
    pub fn region(&mut self, graph: &Graph, node: &Node, inputs: Accesses) -> Result<Accesses> {
        if is_call(node.op) {
            let callee = self.routines.of_graph(&node.regions[0])?;
            let updated = updated(&node.regions[0], &[self.routines.reuse(callee)]);
            return self.push_region(graph, node, Region::Call(callee, updated), inputs);
        }
        if node.op == IF.op() {
            let arms = [self.routines.of_graph(&node.regions[0])?, self.routines.of_graph(&node.regions[1])?];
            let mut updated = updated(&node.regions[0], &arms.map(|it| self.routines.reuse(it)));
            updated.iter_mut().for_each(|it| it.1 += 1);
            return self.push_region(graph, node, Region::Branch(arms, updated), inputs);
        }
        if node.op == WHILE.op() {
            return self.while_loop(graph, node, inputs);
        }
        if node.op == SCAN.op() {
            return self.scan(graph, node, inputs);
        }
        Err(Error::new(Code::Backend, "transforms are expanded before graphs are lowered"))
    }

    /// The condition of the first iteration is computed here, that of each later one by the
    /// iteration before.
    fn while_loop(&mut self, graph: &Graph, node: &Node, inputs: Accesses) -> Result<Accesses> {
        let carries = node.attrs.int(0) as usize;
        let [condition, body] = [&node.regions[0], &node.regions[1]];
        let (repeated, next) = self.iteration(body, Some(condition), carries)?;
        let series = body.outputs().len() - carries;
        let mut operands = self.graph(condition, inputs.clone())?;
        operands.truncate(1);
        operands.extend(inputs);
        let trips = Trips::While { counted: series > 0 };
        self.push_loop(graph, node, RegionLoop { body: repeated, trips, next, sequences: 0, series }, operands)
    }

    fn scan(&mut self, graph: &Graph, node: &Node, inputs: Accesses) -> Result<Accesses> {
        let at = ScanOperands::of(&node.attrs);
        let carries = at.sequences - at.carries;
        let body = &node.regions[0];
        let (repeated, next) = self.iteration(body, None, carries)?;
        let trips = match at.length {
            Some(count) => Trips::Times { count, reverse: at.reverse },
            None => Trips::Counted { reverse: at.reverse },
        };
        let (sequences, series) = (at.invariants - at.sequences, body.outputs().len() - carries);
        self.push_loop(graph, node, RegionLoop { body: repeated, trips, next, sequences, series }, inputs)
    }

    /// The routine of one iteration, and what it does with carries.
    fn iteration(
        &mut self,
        body: &Arc<Graph>,
        condition: Option<&Arc<Graph>>,
        carries: usize,
    ) -> Result<(RoutineId, Vec<NextCarry>)> {
        let mut next = next_carries(body, carries);
        let routine = self.routines.of_loop(body, condition, &next)?;
        let heads: SmallVec<[usize; 4]> = computed(&next).collect();
        for (output, carry) in heads.into_iter().enumerate() {
            let goes_on = next.contains(&NextCarry::From(carry as u32));
            if !goes_on && self.routines.reuse(routine).allows(output, carry) {
                next[carry] = NextCarry::Updated;
            }
        }
        Ok((routine, next))
    }

    fn push_loop(&mut self, graph: &Graph, node: &Node, region: RegionLoop, inputs: Accesses) -> Result<Accesses> {
        let heads = computed(&region.next).filter(|&it| region.next[it] == NextCarry::Computed);
        let heads: SmallVec<[usize; 4]> = heads.collect();
        let condition = matches!(region.trips, Trips::While { .. }).then(|| (DType::Bool, Shape::new()));
        let results = self.push_region(graph, node, Region::Loop(region), inputs)?;
        let index = self.flat.nodes.len() - 1;
        let spares = heads.into_iter().map(|it| {
            let value = &self.flat.values[results[it].value().expect("results of loops are values")];
            (value.dtype, value.shape.clone())
        });
        let own: SmallVec<[_; 4]> = condition.into_iter().chain(spares).collect();
        for (dtype, shape) in own {
            let value = self.flat.add_value(dtype, shape, Origin::Node(index));
            self.flat.nodes[index].outputs.push(value);
        }
        Ok(results)
    }

    fn push_region(&mut self, graph: &Graph, node: &Node, region: Region, inputs: Accesses) -> Result<Accesses> {
        let inputs = inputs.into_iter().map(|it| self.dense(it)).collect::<Result<_>>()?;
        let number = self.flat.regions.len();
        self.flat.regions.push(region);
        self.push(graph, node, Kind::Region(number), inputs)
    }
}

/// The carries that are computed. Each begins a chain: itself, the one that takes over from it,
/// the one that takes over from that, and so on.
fn computed(next: &[NextCarry]) -> impl Iterator<Item = usize> {
    next.iter().enumerate().filter(|it| !matches!(it.1, NextCarry::From(_))).map(|it| it.0)
}

/// Where the next values of a loop's carries come from: a body that gives a carry as it took it
/// has nothing to compute.
fn next_carries(body: &Graph, carries: usize) -> Vec<NextCarry> {
    let mut taken = vec![false; carries];
    let mut next = |output: &ValueId| match body.value(*output).def {
        Def::Input(from) if (from as usize) < carries && !std::mem::replace(&mut taken[from as usize], true) => {
            NextCarry::From(from)
        }
        _ => NextCarry::Computed,
    };
    body.outputs()[..carries].iter().map(&mut next).collect()
}

/// The graph of one iteration: what `body` computes of its carries, its further results, and
/// whether `condition` holds for what comes next.
pub(super) fn iteration(body: &Graph, condition: Option<&Arc<Graph>>, next: &[NextCarry]) -> Graph {
    let mut graph = body.clone();
    let carries = next.len();
    let mut outputs: Vec<ValueId> = computed(next).map(|it| body.outputs()[it]).collect();
    outputs.extend(&body.outputs()[carries..]);
    if let Some(condition) = condition {
        let operands: SmallVec<[ValueId; 8]> =
            body.outputs()[..carries].iter().chain(&body.inputs()[carries..]).copied().collect();
        outputs.push(graph.inline(condition, &operands)[0]);
    }
    graph.set_outputs(outputs);
    graph
}

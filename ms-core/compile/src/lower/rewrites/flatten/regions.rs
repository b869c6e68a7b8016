//! Lowers nodes with regions, which become routines.

use super::Flatten;
use crate::lower::fusion::iteration::{computed, may_be_kernel, next_carries};
use crate::lower::plan::routines::Key;
use crate::lower::plan::{NextCarry, Reuse, RoutineId, is_stack};
use crate::lower::rewrites::flat::{
    Access, Accesses, Kind, Origin, Region, RegionLoop, Repetition, TripCount, Updated,
};
use ms_ir::data::{DType, Shape};
use ms_ir::error::{Code, Error, Result};
use ms_ir::op::{Control, Loop};
use ms_ir::{Graph, Node};
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

/// Returns the outputs of a graph that can be updated in place, each with an input of the same type. All of the
/// routines, one of which runs, may overwrite that input, and at least one updates it in place. No input occurs twice.
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

impl Flatten<'_> {
    /// Adds a node with regions and returns its results.
    pub fn region(&mut self, graph: &Graph, node: &Node, inputs: Accesses) -> Result<Accesses> {
        match Control::of(node) {
            Some(Control::Call { .. }) => {
                let callee = self.routines.of_graph(&node.regions[0]);
                let updated = updated(&node.regions[0], &[self.routines.reuse(callee)]);
                self.push_region(graph, node, Region::Call(callee, updated), inputs)
            }
            Some(Control::Branch) => {
                let arms = [self.routines.of_graph(&node.regions[0]), self.routines.of_graph(&node.regions[1])];
                let mut updated = updated(&node.regions[0], &arms.map(|it| self.routines.reuse(it)));
                updated.iter_mut().for_each(|it| it.1 += 1);
                self.push_region(graph, node, Region::Branch(arms, updated), inputs)
            }
            Some(Control::Loop(at)) => match self.repetition(node, &at).cloned() {
                Some(repetition) => self.repeat(graph, node, Region::Repeat(repetition, at.length()), inputs),
                None if at.is_while() => self.while_loop(graph, node, &at, inputs),
                None => self.scan(graph, node, &at, inputs),
            },
            Some(Control::Recompute | Control::CustomVjp(_) | Control::TransformNode(_)) | None => {
                Err(Error::new(Code::Backend, "transforms are expanded before graphs are lowered"))
            }
        }
    }

    /// Returns the loop of a node if it is a kernel.
    fn repetition(&self, node: &Node, at: &Loop) -> Option<&Rc<Repetition>> {
        let condition = at.is_while().then(|| &node.regions[0]);
        let key = Key::iteration(&node.regions[at.body()], condition, at.carries);
        self.routines.repetition(&key).filter(|_| may_be_kernel(at))
    }

    /// Adds a loop that is a kernel. Such a loop reads splats as constants.
    fn repeat(&mut self, graph: &Graph, node: &Node, region: Region, inputs: Accesses) -> Result<Accesses> {
        let operand = |it: Access| if it.value().is_some() { self.dense(it) } else { Ok(it) };
        let inputs = inputs.into_iter().map(operand).collect::<Result<_>>()?;
        self.push_node(graph, node, region, inputs)
    }

    /// Adds a `while`. The first condition is computed before the loop, each later one by the previous iteration.
    fn while_loop(&mut self, graph: &Graph, node: &Node, at: &Loop, inputs: Accesses) -> Result<Accesses> {
        let carries = at.carries;
        let [condition, body] = [&node.regions[0], &node.regions[1]];
        let (repeated, next) = self.iteration(body, Some(condition), carries);
        let series = body.outputs().len() - carries;
        let mut operands = self.graph(condition, inputs.clone())?;
        operands.truncate(1);
        operands.extend(inputs);
        let trips = TripCount::While { counted: series > 0 };
        self.push_loop(graph, node, RegionLoop { body: repeated, trips, next, sequences: 0, series }, operands)
    }

    fn scan(&mut self, graph: &Graph, node: &Node, at: &Loop, inputs: Accesses) -> Result<Accesses> {
        let &Loop { carries, sequences, .. } = at;
        let body = &node.regions[0];
        let (repeated, next) = self.iteration(body, None, carries);
        let trips = match at.length() {
            Some(count) => TripCount::Fixed { count, reverse: at.reverse() },
            None => TripCount::Counted { reverse: at.reverse() },
        };
        let series = body.outputs().len() - carries;
        self.push_loop(graph, node, RegionLoop { body: repeated, trips, next, sequences, series }, inputs)
    }

    /// Returns the routine of one iteration and its effect on carries.
    fn iteration(
        &mut self,
        body: &Arc<Graph>,
        condition: Option<&Arc<Graph>>,
        carries: usize,
    ) -> (RoutineId, Vec<NextCarry>) {
        let mut next = next_carries(body, carries);
        let routine = self.routines.of_loop(body, condition, carries);
        let heads: SmallVec<[usize; 4]> = computed(&next).collect();
        for (output, carry) in heads.into_iter().enumerate() {
            let goes_on = next.contains(&NextCarry::From(carry as u32));
            if !goes_on && self.routines.reuse(routine).allows(output, carry) {
                next[carry] = NextCarry::Updated;
            }
        }
        (routine, next)
    }

    fn push_loop(&mut self, graph: &Graph, node: &Node, region: RegionLoop, inputs: Accesses) -> Result<Accesses> {
        let heads = computed(&region.next).filter(|&it| region.next[it] == NextCarry::Computed);
        let heads: SmallVec<[usize; 4]> = heads.collect();
        let condition = matches!(region.trips, TripCount::While { .. }).then(|| (DType::Bool, Shape::new()));
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
        self.push_node(graph, node, region, inputs)
    }

    /// Adds a node with a region on operands that are row-major.
    fn push_node(&mut self, graph: &Graph, node: &Node, region: Region, inputs: Accesses) -> Result<Accesses> {
        let number = self.flat.regions.len();
        self.flat.regions.push(region);
        self.push(graph, node, Kind::Region(number), inputs)
    }
}

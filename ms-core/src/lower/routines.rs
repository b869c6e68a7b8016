//! The routines of a plan: each distinct graph is lowered once.

use super::assemble::{Located, LowerOptions, routine};
use super::plan::{KernelId, NextCarry, Plan, RoutineId};
use super::region::iteration;
use super::reuse::Reuse;
use crate::error::Result;
use crate::ir::{Graph, Kernel};
use crate::tensor::Literal;
use rustc_hash::FxHashMap;
use std::panic::Location;
use std::sync::Arc;

/// A plan under construction.
pub(super) struct Routines {
    pub options: LowerOptions,
    plan: Plan,
    kernels: FxHashMap<Kernel, KernelId>,
    constants: FxHashMap<Literal, u32>,
    known: FxHashMap<Key, RoutineId>,
    located: Vec<Located>,
}

/// The graphs that a routine was made of, which live as long as the graph that is lowered.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Graph(*const Graph),
    /// A body, its condition, and how many carries it has.
    Iteration(*const Graph, Option<*const Graph>, usize),
}

impl Routines {
    /// The plan of a graph, and the lines of steps that may refuse.
    pub fn plan(graph: &Graph, options: &LowerOptions) -> Result<(Plan, Vec<Located>)> {
        let mut routines = Self {
            options: *options,
            plan: Plan::default(),
            kernels: FxHashMap::default(),
            constants: FxHashMap::default(),
            known: FxHashMap::default(),
            located: Vec::new(),
        };
        routines.add(graph)?;
        Ok((routines.plan, routines.located))
    }

    /// The routine of a graph.
    pub fn of_graph(&mut self, graph: &Arc<Graph>) -> Result<RoutineId> {
        self.lower_once(Key::Graph(Arc::as_ptr(graph)), |it| it.add(graph))
    }

    /// The routine of one iteration of a loop.
    pub fn of_loop(
        &mut self,
        body: &Arc<Graph>,
        condition: Option<&Arc<Graph>>,
        next: &[NextCarry],
    ) -> Result<RoutineId> {
        let key = Key::Iteration(Arc::as_ptr(body), condition.map(Arc::as_ptr), next.len());
        self.lower_once(key, |it| it.add(&iteration(body, condition, next)))
    }

    fn lower_once(&mut self, key: Key, lower: impl FnOnce(&mut Self) -> Result<RoutineId>) -> Result<RoutineId> {
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let made = lower(self)?;
        self.known.insert(key, made);
        Ok(made)
    }

    /// Lowers a graph; the depth of recursion is that of graphs in graphs.
    fn add(&mut self, graph: &Graph) -> Result<RoutineId> {
        let routine = routine(graph, self)?;
        self.plan.routines.push(routine);
        Ok(RoutineId(self.plan.routines.len() as u32 - 1))
    }

    /// Keeps the line of a step of the routine that is added next.
    pub fn located(&mut self, step: usize, line: &'static Location<'static>) {
        let routine = RoutineId(self.plan.routines.len() as u32);
        self.located.push(Located { routine, step, line });
    }

    /// Which outputs of a routine may be written over which inputs.
    pub fn reuse(&self, routine: RoutineId) -> &Reuse {
        &self.plan.routines[routine.0 as usize].reuse
    }

    /// The number of a kernel.
    pub fn kernel(&mut self, kernel: Kernel) -> KernelId {
        let next = KernelId(self.kernels.len() as u32);
        let kernels = &mut self.plan.kernels;
        *self.kernels.entry(kernel).or_insert_with_key(|kernel| {
            kernels.push(kernel.clone());
            next
        })
    }

    /// The number of constant data.
    pub fn constant(&mut self, literal: &Literal) -> u32 {
        if let Some(&known) = self.constants.get(literal) {
            return known;
        }
        let at = self.plan.constants.len() as u32;
        self.plan.constants.push(literal.clone());
        self.constants.insert(literal.clone(), at);
        at
    }
}

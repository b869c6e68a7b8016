//! Collects the routines of a plan: each distinct graph is lowered once.

use crate::lower::plan::{KernelId, Plan, PlanStep, Reuse, Routine, RoutineId};
use crate::lower::rewrites::flat::Repetition;
use ms_ir::data::{Literal, Op};
use ms_ir::error::Result;
use ms_ir::op::definition;
use ms_ir::{Graph, Kernel, Precision};
use rustc_hash::FxHashMap;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// The names of the inputs of each routine of a plan ([`Graph::input_names`] of its graph). They are not part of the
/// plan, which does not depend on names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PlanNames(pub(in crate::lower) Vec<Vec<Option<Arc<str>>>>);

/// A plan under construction.
pub(in crate::lower) struct Routines {
    precision: Precision,
    /// Whether the target runs kernels.
    kernels_run: bool,
    plan: Plan,
    kernels: FxHashMap<Kernel, KernelId>,
    constants: FxHashMap<Literal, u32>,
    known: FxHashMap<Key, RoutineId>,
    /// The loops that are kernels.
    repetitions: FxHashMap<Key, Rc<Repetition>>,
    located: Vec<Located>,
    names: PlanNames,
    /// Whether each routine [is local](Routines::is_local).
    local: Vec<bool>,
}

/// The source location of a step that can fail.
pub(in crate::lower) struct Located {
    pub routine: RoutineId,
    pub step: usize,
    pub line: &'static Location<'static>,
}

/// The origin of a routine: graphs that live as long as the graph being lowered.
#[derive(PartialEq, Eq, Hash)]
pub(in crate::lower) enum Key {
    Graph(*const Graph),
    /// A body, its condition, and the number of its carries.
    Iteration(*const Graph, Option<*const Graph>, usize),
}

impl Key {
    /// Returns the key of the routine of a graph.
    pub fn graph(graph: &Arc<Graph>) -> Self {
        Self::Graph(Arc::as_ptr(graph))
    }

    /// Returns the key of the routine of one iteration of a loop.
    pub fn iteration(body: &Arc<Graph>, condition: Option<&Arc<Graph>>, carries: usize) -> Self {
        Self::Iteration(Arc::as_ptr(body), condition.map(Arc::as_ptr), carries)
    }
}

impl Routines {
    /// Creates a plan of this precision without routines. Without `kernels`, library steps run in it, too.
    pub fn new(precision: Precision, kernels: bool) -> Self {
        Self {
            precision,
            kernels_run: kernels,
            plan: Plan::default(),
            kernels: FxHashMap::default(),
            constants: FxHashMap::default(),
            known: FxHashMap::default(),
            repetitions: FxHashMap::default(),
            located: Vec::new(),
            names: PlanNames::default(),
            local: Vec::new(),
        }
    }

    /// Returns the plan, the source locations of steps that can fail, and the names of inputs.
    pub fn finish(self) -> (Plan, Vec<Located>, PlanNames) {
        (self.plan, self.located, self.names)
    }

    /// Adds the routine of a key unless it exists.
    pub fn once(&mut self, key: Key, add: impl FnOnce(&mut Self) -> Result<RoutineId>) -> Result<()> {
        if !self.known.contains_key(&key) {
            let added = add(self)?;
            self.known.insert(key, added);
        }
        Ok(())
    }

    /// Adds the routine of a graph, after its callees.
    pub fn push(&mut self, graph: &Graph, routine: Routine) -> RoutineId {
        let is_local = |step: &PlanStep| match step {
            PlanStep::Library { op, .. } => definition(op.0).effects.are_local(),
            _ => step.callees().iter().all(|it| self.is_local(*it)),
        };
        self.local.push(routine.steps.iter().all(is_local));
        self.plan.routines.push(routine);
        self.names.0.push(graph.input_names().to_vec());
        RoutineId(self.plan.routines.len() as u32 - 1)
    }

    /// Returns the precision of a library step that runs an op.
    pub fn library_precision(&self, op: Op) -> Precision {
        match self.kernels_run {
            true => definition(op).lowering.library_precision(self.precision),
            false => self.precision,
        }
    }

    /// Returns the precision of the plan's kernels and contractions.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the routine of a graph.
    pub fn of_graph(&self, graph: &Arc<Graph>) -> RoutineId {
        self.known[&Key::graph(graph)]
    }

    /// Returns the routine of one iteration of a loop.
    pub fn of_loop(&self, body: &Arc<Graph>, condition: Option<&Arc<Graph>>, carries: usize) -> RoutineId {
        self.known[&Key::iteration(body, condition, carries)]
    }

    /// Adds the loop of a key as a kernel.
    pub fn add_repetition(&mut self, key: Key, it: Repetition) {
        self.repetitions.insert(key, Rc::new(it));
    }

    /// Returns the loop of a key, if it is a kernel.
    pub fn repetition(&self, key: &Key) -> Option<&Rc<Repetition>> {
        self.repetitions.get(key)
    }

    /// Records the source location of a step of the routine that is added next.
    pub fn located(&mut self, step: usize, line: &'static Location<'static>) {
        let routine = RoutineId(self.plan.routines.len() as u32);
        self.located.push(Located { routine, step, line });
    }

    /// Returns the memory reuse of a routine: which outputs may overwrite which inputs.
    pub fn reuse(&self, routine: RoutineId) -> &Reuse {
        &self.plan.routines[routine.0 as usize].reuse
    }

    /// Returns whether all steps of a routine, and of those that it runs, are [local](ms_ir::op::Effects::are_local).
    pub fn is_local(&self, routine: RoutineId) -> bool {
        self.local[routine.0 as usize]
    }

    /// Interns a kernel and returns its number.
    pub fn kernel(&mut self, kernel: Kernel) -> KernelId {
        let next = KernelId(self.kernels.len() as u32);
        let kernels = &mut self.plan.kernels;
        *self.kernels.entry(kernel).or_insert_with_key(|kernel| {
            kernels.push(kernel.clone());
            next
        })
    }

    /// Returns whether a kernel [only copies](Kernel::is_copy).
    pub fn is_copy(&self, kernel: KernelId) -> bool {
        self.plan.kernels[kernel.0 as usize].is_copy()
    }

    /// Interns constant data and returns its number.
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

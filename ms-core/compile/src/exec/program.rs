//! Compiled graphs: what callers know of them, and the bytes of the backend that compiled them.

use super::waits::Waits;
use crate::error::{Code, Error, Result};
use crate::ir::{Graph, Precision, Type};
use crate::lower::{LowerOptions, Plan, PlanNames, PlanStep, Target, lower_traced};
use crate::stored::{Reader, Stored, stored};
use std::any::Any;
use std::sync::Arc;

/// How a graph is compiled.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileOptions<'a> {
    /// [`Precision::Strict`]: results are equal to those of op-by-op execution to the bit, on every device.
    pub precision: Precision,
    /// Whether kernels are compiled even if this process has the code of equal ones, to compare it with stored code.
    pub fresh: bool,
    /// The graph as it was traced, if that is known. An op that fails at run time reports the number of its node
    /// there; see [`line_of_node`](crate::lower::line_of_node).
    pub traced: Option<&'a Graph>,
}

impl CompileOptions<'_> {
    /// The plan of an optimised graph for a target, and the names of inputs: for backends that run plans.
    ///
    /// # Errors
    /// As for [`lower`](crate::lower::lower).
    pub fn lower(&self, graph: &Graph, target: &Target) -> Result<(Plan, PlanNames)> {
        let options = LowerOptions { precision: self.precision, ..LowerOptions::default() };
        lower_traced(graph, &options, target, self.traced)
    }
}

/// A compiled graph.
#[derive(Clone)]
pub struct Artifact {
    /// What callers know of it.
    pub interface: Interface,
    /// Everything else but the code, in a form of the backend.
    pub program: Program,
    /// The code.
    pub code: MachineCode,
}

/// What callers know of a compiled graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Interface {
    /// Types of the inputs.
    pub inputs: Vec<Type>,
    /// Types of the outputs.
    pub outputs: Vec<Type>,
    /// Its sizes.
    pub plan: PlanReport,
}

/// The sizes of a plan.
///
/// See the example of [`compile_report`](crate::session::compile_report).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlanReport {
    /// Routines: one for each distinct graph, and one for each loop.
    pub routines: usize,
    /// Distinct kernels.
    pub kernels: usize,
    /// Steps of all routines.
    pub steps: usize,
    /// The number of calls of routines among the steps, without branches and loops.
    pub calls: usize,
    /// Bytes of intermediate values of one run.
    pub arena_bytes: usize,
    /// Bytes of constants.
    pub constant_bytes: usize,
    /// What the host waits for in a run on a device with memory of its own.
    pub waits: Waits,
}

stored! {
    struct Interface { inputs: Vec<Type>, outputs: Vec<Type>, plan: PlanReport }
    struct PlanReport {
        routines: usize,
        kernels: usize,
        steps: usize,
        calls: usize,
        arena_bytes: usize,
        constant_bytes: usize,
        waits: Waits,
    }
}

impl Interface {
    /// The interface of a plan.
    pub fn of(plan: &Plan) -> Self {
        let steps = || plan.routines.iter().flat_map(|it| &it.steps);
        let main = plan.routines.last();
        Self {
            inputs: main.map_or_else(Vec::new, |it| it.inputs.clone()),
            outputs: main.map_or_else(Vec::new, |it| it.outputs.clone()),
            plan: PlanReport {
                routines: plan.routines.len(),
                kernels: plan.kernels.len(),
                steps: steps().count(),
                calls: steps().filter(|it| matches!(it, PlanStep::Call { .. })).count(),
                arena_bytes: plan.arena().map_or(0, |it| it.1),
                constant_bytes: plan.constants.iter().map(|it| it.bytes().len()).sum(),
                waits: Waits::of(plan),
            },
        }
    }
}

/// The program of a compiled graph without its code. It is bytes only where it is stored, so that what runs in the
/// process that compiles it is neither written nor read.
#[derive(Clone)]
pub enum Program {
    /// Bytes that [`StoredProgram::write`] wrote.
    Bytes(Arc<[u8]>),
    /// As the backend made it.
    Made(Arc<dyn StoredProgram>),
}

/// A program that can be written as bytes.
pub trait StoredProgram: Any + Send + Sync {
    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);
}

impl Program {
    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Made(made) => made.write(out),
        }
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }
}

/// Position-independent code, which may be empty.
#[derive(Clone)]
pub enum MachineCode {
    /// In memory that is not executable.
    Bytes(Vec<u8>),
    /// In executable memory that is never written, aligned to a page.
    Executable(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl AsRef<[u8]> for MachineCode {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Executable(memory) => (**memory).as_ref(),
        }
    }
}

/// The program of a backend that runs plans.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanProgram {
    /// The plan.
    pub plan: Plan,
    /// Metadata of the code of its kernels, in a format of the backend.
    pub table: Vec<u8>,
}

impl PlanProgram {
    /// The program of an artifact.
    ///
    /// # Errors
    /// [`Code::Backend`] if it is another backend's, its bytes are no program, or its interface is that of another
    /// plan.
    pub fn of(artifact: &Artifact) -> Result<Arc<Self>> {
        let refuse = |why: &str| Error::new(Code::Backend, format!("a program cannot be loaded: {why}"));
        match &artifact.program {
            Program::Made(made) => {
                let made: Arc<dyn Any + Send + Sync> = made.clone();
                made.downcast().map_err(|_| refuse("it is another backend's"))
            }
            Program::Bytes(bytes) => {
                let program = Self::read(bytes).ok_or_else(|| refuse("its plan is not one of this version"))?;
                if Interface::of(&program.plan) != artifact.interface {
                    return Err(refuse("its interface is of another plan"));
                }
                Ok(Arc::new(program))
            }
        }
    }

    /// The program of these bytes; `None` if they are none, or the plan is not [sound](Plan::is_sound).
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let len = usize::read(&mut from)?;
        let table = from.bytes(len)?.to_vec();
        let plan = Plan::read(&mut from).filter(|it| from.is_empty() && it.is_sound())?;
        Some(Self { plan, table })
    }

    /// The artifact of this program and its code.
    pub fn artifact(self, code: MachineCode) -> Artifact {
        Artifact { interface: Interface::of(&self.plan), program: Program::Made(Arc::new(self)), code }
    }
}

impl StoredProgram for PlanProgram {
    fn write(&self, out: &mut Vec<u8>) {
        self.table.len().write(out);
        out.extend_from_slice(&self.table);
        self.plan.write(out);
    }
}

//! Defines compiled graphs: their interface to callers, and the program of the backend that compiled them.

use super::waits::Waits;
use crate::lower::{LowerOptions, Plan, PlanNames, PlanStep, lower_traced};
use crate::target::Target;
use ms_ir::error::{Code, Error, Result};
use ms_ir::stored::{Reader, Stored, stored};
use ms_ir::{Graph, Precision, Type};
use std::any::Any;
use std::sync::Arc;

/// Options of a compilation.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompileOptions<'a> {
    /// The precision. With [`Precision::Strict`], results are bit-identical to op-by-op execution, on every
    /// device.
    pub precision: Precision,
    /// Whether to compile kernels even if this process has the code of equal ones, to compare it with stored code.
    pub fresh: bool,
    /// The traced graph, if it is known. An op that fails at run time reports the number of its node there; see
    /// [`line_of_node`](crate::lower::line_of_node).
    pub traced: Option<&'a Graph>,
    /// The function with symbolic sizes to which the graph belongs, if there is one. A backend whose compilations take
    /// long compiles one program for all sizes.
    pub family: Option<Family<'a>>,
}

/// A graph with symbolic sizes, and the constant sizes of one of its instances. Backends that run plans do not need it:
/// instances share kernels by content.
#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    /// The graph before optimisation; its dimensions contain symbols.
    pub graph: &'a Graph,
    /// The size of each symbol.
    pub sizes: &'a [(String, usize)],
}

impl CompileOptions<'_> {
    /// Lowers an optimised graph to a plan for a target, for backends that run plans. Also returns the names of inputs.
    ///
    /// # Errors
    /// See [`lower`](crate::lower::lower).
    pub fn lower(&self, graph: &Graph, target: &Target) -> Result<(Plan, PlanNames)> {
        let options = LowerOptions { precision: self.precision, ..LowerOptions::default() };
        lower_traced(graph, &options, target, self.traced)
    }

    /// Formats the plan of an optimised graph as text, for the [`describe`](super::Backend::describe) of backends that
    /// run plans.
    ///
    /// # Errors
    /// See [`CompileOptions::lower`].
    pub fn describe(&self, graph: &Graph, target: &Target) -> Result<String> {
        let (plan, names) = self.lower(graph, target)?;
        Ok(plan.display_named(&names).to_string())
    }
}

/// A compiled graph.
#[derive(Clone)]
pub struct Artifact {
    /// The interface to callers.
    pub interface: Interface,
    /// Everything else except the code, in a format of the backend.
    pub program: Program,
    /// The code.
    pub code: MachineCode,
}

/// The interface of a compiled graph to its callers.
#[derive(Clone, PartialEq, Debug)]
pub struct Interface {
    /// Types of the inputs.
    pub inputs: Vec<Type>,
    /// Types of the outputs.
    pub outputs: Vec<Type>,
    /// An estimate of the bytes that the loaded program takes beside its code.
    pub loaded_bytes: usize,
    /// The sizes of its plan; `None` for a program of another form.
    pub plan: Option<PlanReport>,
}

/// The approximate size of a step with its buffers, both in the plan and in the executable.
const STEP_BYTES: usize = 1 << 10;

/// The sizes of a plan.
///
/// ```
/// use ms_core::exec::PlanReport;
/// let twice = PlanReport { routines: 1, kernels: 1, steps: 2, ..PlanReport::default() };
/// assert!(twice.kernels < twice.steps, "equal kernels are compiled once");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlanReport {
    /// The number of routines: one for each distinct graph, and one for each loop.
    pub routines: usize,
    /// Distinct kernels.
    pub kernels: usize,
    /// Steps of all routines.
    pub steps: usize,
    /// The number of routine calls among the steps, without branches and loops.
    pub calls: usize,
    /// The number of run-time checks of operands. Kernels compute them, and the host does not wait for them.
    pub checks: usize,
    /// Bytes of intermediate values of one run.
    pub arena_bytes: usize,
    /// Bytes of constants.
    pub constant_bytes: usize,
    /// The points at which the host waits in a run on a device with separate memory.
    pub waits: Waits,
}

stored! {
    struct Interface { inputs: Vec<Type>, outputs: Vec<Type>, loaded_bytes: usize, plan: Option<PlanReport> }
    struct PlanReport {
        routines: usize,
        kernels: usize,
        steps: usize,
        calls: usize,
        checks: usize,
        arena_bytes: usize,
        constant_bytes: usize,
        waits: Waits,
    }
}

impl Interface {
    /// Returns the interface of a plan.
    pub fn of(plan: &Plan) -> Self {
        let steps = || plan.routines.iter().flat_map(|it| &it.steps);
        let main = plan.routines.last();
        let constant_bytes = plan.constants.iter().map(|it| it.bytes().len()).sum();
        Self {
            inputs: main.map_or_else(Vec::new, |it| it.inputs.clone()),
            outputs: main.map_or_else(Vec::new, |it| it.outputs.clone()),
            loaded_bytes: steps().count() * STEP_BYTES + constant_bytes,
            plan: Some(PlanReport {
                routines: plan.routines.len(),
                kernels: plan.kernels.len(),
                steps: steps().count(),
                calls: steps().filter(|it| matches!(it, PlanStep::Call { .. })).count(),
                checks: steps().filter(|it| matches!(it, PlanStep::Check { .. })).count(),
                arena_bytes: plan.arena().map_or(0, |it| it.1),
                constant_bytes,
                waits: Waits::of(plan),
            }),
        }
    }
}

/// The program of a compiled graph without its code. It is serialised only when it is stored, so a program that runs in
/// the process that compiled it is neither written nor read.
#[derive(Clone)]
pub enum Program {
    /// Bytes from [`StoredProgram::write`].
    Bytes(Arc<[u8]>),
    /// The backend's in-memory form.
    InMemory(Arc<dyn StoredProgram>),
}

/// A program that can be serialised.
pub trait StoredProgram: Any + Send + Sync {
    /// Appends the program to `out`.
    fn write(&self, out: &mut Vec<u8>);
}

impl Program {
    /// Appends the bytes of the program to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::InMemory(made) => made.write(out),
        }
    }

    /// Returns the bytes of the program.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }
}

/// Position-independent code, which may be empty.
#[derive(Clone)]
pub enum MachineCode {
    /// Bytes in memory that is not executable.
    Bytes(Vec<u8>),
    /// Executable memory that is never written, aligned to a page.
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
    /// Returns the program of an artifact.
    ///
    /// # Errors
    /// [`Code::Backend`] if the artifact belongs to another backend, its bytes are not a valid program, or its
    /// interface differs from the plan's.
    pub fn of(artifact: &Artifact) -> Result<Arc<Self>> {
        let refuse = |why: &str| Error::new(Code::Backend, format!("a program cannot be loaded: {why}"));
        match &artifact.program {
            Program::InMemory(made) => {
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

    /// Decodes a program. Returns `None` if the bytes are invalid, or the plan is not [sound](Plan::is_sound).
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let len = usize::read(&mut from)?;
        let table = from.bytes(len)?.to_vec();
        let plan = Plan::read(&mut from).filter(|it| from.is_empty() && it.is_sound())?;
        Some(Self { plan, table })
    }

    /// Combines this program and its code to an artifact.
    pub fn artifact(self, code: MachineCode) -> Artifact {
        Artifact { interface: Interface::of(&self.plan), program: Program::InMemory(Arc::new(self)), code }
    }
}

impl StoredProgram for PlanProgram {
    fn write(&self, out: &mut Vec<u8>) {
        self.table.len().write(out);
        out.extend_from_slice(&self.table);
        self.plan.write(out);
    }
}

//! A simulated device that runs ops only: [`SimOpsBackend`].

use crate::backend::memory;
use crate::driver::SimDriver;
use crate::memory::SimMemory;
use crate::scheduler::Simulation;
use ms_compile::exec::{
    Artifact, Backend, BackendEntry, Check, CompileOptions, Driver, EpilogueCode, Executable, LibraryCall, MachineCode,
    PlanExecutable, PlanProgram, Prepared, StepCall, StepCode, StepOperand,
};
use ms_compile::lower::eager::Step;
use ms_compile::target::Target;
use ms_ir::data::{Array, Attrs, DeviceKind, MemorySpace, Op};
use ms_ir::error::{Code, Error, Result, in_op};
use ms_ir::op::definition;
use ms_ir::{Contraction, Graph};
use std::sync::{Arc, LazyLock};

/// The kind of the devices.
pub const KIND: DeviceKind = DeviceKind::named("simops");

static TARGET: LazyLock<Target> = LazyLock::new(|| Target { kernels: false, ..Target::unbounded() });

/// A driver of the host that evaluates each op by its definition.
#[derive(Clone, Copy)]
pub struct ReferenceOps;

/// Returns the error of a step that a plan without kernels does not have.
fn unsupported<T>(what: &str) -> Result<T> {
    Err(Error::new(Code::Backend, format!("the device runs ops only, and no {what}")))
}

/// Evaluates an op by its definition, and writes its results.
///
/// # Safety
/// The results have the types that the op's type rule infers. Nothing else accesses their memory, which may only be
/// shared with the first operand.
///
/// # Errors
/// The errors of the op.
unsafe fn evaluate(op: Op, attrs: &Attrs, operands: &[&Array], results: &[Array]) -> Result<()> {
    let made = (definition(op).eval)(attrs, operands)?;
    for (from, to) in made.iter().zip(results) {
        assert_eq!(from.ty(), to.ty(), "the definition of `{}` has the types of its rule", op.name());
        let from = from.on_host()?.to_contiguous().into_host()?;
        let bytes = from.bytes();
        // SAFETY: the result is row-major and has the type of `from`, by this function's contract.
        unsafe { to.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(())
}

// SAFETY: definitions of ops return all elements of their results, which are written after the operands were read.
unsafe impl Driver for ReferenceOps {
    type Kernel = ();
    type Contraction = ();
    type LibraryStep = Arc<LibraryCall>;
    type Commands = ();
    const QUEUED: bool = false;

    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }

    unsafe fn launch(&self, (): &mut (), (): &(), _: &[u64]) -> Result<()> {
        unsupported("kernels")
    }

    fn prepare_contraction(&self, _: &Contraction, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<()>> {
        unsupported("contractions")
    }

    fn prepare_library(
        &self,
        call: &Arc<LibraryCall>,
        epilogues: &[EpilogueCode<'_, ()>],
    ) -> Result<Prepared<Arc<LibraryCall>>> {
        if !epilogues.is_empty() {
            return unsupported("epilogues");
        }
        Ok(Prepared { code: call.clone(), workspace: 0 })
    }

    unsafe fn contract(&self, (): &mut (), _: &Arc<()>, _: StepCall<'_>) -> Result<()> {
        unsupported("contractions")
    }

    unsafe fn library(&self, (): &mut (), code: &Arc<Arc<LibraryCall>>, call: StepCall<'_>) -> Result<()> {
        // SAFETY: the addresses are the host's, and the memory is live during the call. Operands were written, and
        // results are written before they are read.
        let (operands, results) = unsafe {
            let operands = code.operands.iter().zip(call.operands).map(|(it, &at)| it.borrowed(at));
            let results = code.results.iter().zip(call.results).map(|(it, &at)| it.borrowed(StepOperand::at(at)));
            (operands.collect::<Vec<_>>(), results.collect::<Vec<_>>())
        };
        let operands: Vec<&Array> = operands.iter().collect();
        // SAFETY: by the contract of `library`, the results have the op's types. Their memory is separate, or the first
        // operand's.
        code.explained(|| unsafe { evaluate(code.op, &code.attrs, &operands, &results) })
    }

    unsafe fn check(&self, (): &mut (), _: &Arc<Check>, _: u64, _: &[u64]) -> Result<()> {
        unsupported("checks of kernels")
    }

    unsafe fn copy(&self, (): &mut (), from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: by the contract of `copy`, both ranges are live and do not overlap.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
        Ok(())
    }

    unsafe fn set_number(&self, (): &mut (), to: u64, number: u64) -> Result<()> {
        // SAFETY: by the contract of `set_number`, `to` is valid for a write of eight bytes. It may be unaligned.
        unsafe { (to as *mut u64).write_unaligned(number) };
        Ok(())
    }

    unsafe fn condition(&self, (): &mut (), at: u64) -> Result<bool> {
        // SAFETY: by the contract of `condition`, the byte at `at` was written, and nobody writes it during the call.
        Ok(unsafe { *(at as *const u8) } != 0)
    }

    unsafe fn numbers(&self, (): &mut (), at: &[u64], to: &mut [u64]) -> Result<()> {
        for (&at, to) in at.iter().zip(to) {
            // SAFETY: by the contract of `numbers`, each address has eight bytes that were written. It may be
            // unaligned.
            *to = unsafe { (at as *const u64).read_unaligned() };
        }
        Ok(())
    }

    fn submit(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }
}

/// A backend that runs graphs on a simulated device that runs ops only, each by its definition. It has the memory and
/// the queues of [`SimBackend`](crate::SimBackend).
pub struct SimOpsBackend {
    memory: &'static SimMemory,
}

impl SimOpsBackend {
    /// Creates the backend of simulated device `id`.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`] if there is no such device, or if the system cannot reserve the addresses.
    pub fn new(id: u16) -> Result<Self> {
        Ok(Self { memory: memory(KIND, id)? })
    }

    /// Returns the counters and failures of simulated device `id`.
    ///
    /// # Errors
    /// The errors of [`SimOpsBackend::new`].
    pub fn simulation(id: u16) -> Result<&'static Simulation> {
        Ok(&memory(KIND, id)?.simulation)
    }

    fn driver(&self) -> SimDriver<ReferenceOps> {
        SimDriver { host: ReferenceOps, memory: self.memory }
    }
}

// SAFETY: the definitions of ops write all elements of their results, on the bytes behind the device addresses.
unsafe impl Backend for SimOpsBackend {
    fn name(&self) -> &'static str {
        "simops"
    }

    fn memory(&self) -> MemorySpace {
        MemorySpace::Device(self.memory)
    }

    fn fingerprint(&self) -> String {
        "simops".into()
    }

    fn sources(&self) -> &'static str {
        env!("MS_SIM_SOURCES")
    }

    fn target(&self) -> &Target {
        &TARGET
    }

    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact> {
        let program = PlanProgram { plan: options.lower(graph, &TARGET)?.0, table: Vec::new() };
        Ok(program.artifact(MachineCode::Bytes(Vec::new())))
    }

    unsafe fn load(&self, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        let program = PlanProgram::of(artifact)?;
        if !program.plan.kernels.is_empty() {
            return unsupported("kernels");
        }
        // SAFETY: the plan is the result of lowering a valid graph, by this method's contract, and has no kernels.
        Ok(Arc::new(unsafe { PlanExecutable::new(&program.plan, &[], self.driver())? }))
    }

    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String> {
        options.describe(graph, &TARGET)
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        match step {
            Step::Library { op, attrs, .. } => {
                Ok(Arc::new(OpStep { op: *op, attrs: attrs.clone(), driver: self.driver() }))
            }
            _ => unsupported("other steps"),
        }
    }
}

/// The code of an op on arrays of the device.
struct OpStep {
    op: Op,
    attrs: Attrs,
    driver: SimDriver<ReferenceOps>,
}

// SAFETY: the definition of the op returns all elements of its results, and its arrays are dropped.
unsafe impl StepCode for OpStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        let (op, attrs) = (self.op, self.attrs.clone());
        let run = move |operands: &[&Array], results: &[Array]| {
            // SAFETY: the contract of `StepCode::run` covers the time when the work runs.
            in_op(|| unsafe { evaluate(op, &attrs, operands, results) })
        };
        // SAFETY: the conditions of `StepCode::run` hold for the arrays.
        unsafe { self.driver.run_step(definition(self.op).effects.act_on_host(), operands, results, run) }
    }
}

inventory::submit! {
    BackendEntry { kind: KIND, probe: |id| Ok(Arc::new(SimOpsBackend::new(id)?)) }
}

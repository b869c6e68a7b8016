//! Compiles graphs for simulated devices: [`SimBackend`].

use crate::driver::SimDriver;
use crate::kernel::SimKernel;
use crate::memory::SimMemory;
use crate::scheduler::Simulation;
use crate::step::step_code;
use crate::target;
use ms_compile::exec::{
    Artifact, Backend, BackendEntry, CompileOptions, Executable, MachineCode, PlanExecutable, PlanProgram, StepCode,
    unavailable,
};
use ms_compile::lower::eager::Step;
use ms_compile::target::Target;
use ms_ir::data::{Device, DeviceKind, MemorySpace};
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Kernel, MapVec};
use std::sync::{Arc, LazyLock, OnceLock};

/// The number of simulated devices of each kind.
pub const DEVICES: u16 = 4;

/// The kind of the devices that run kernels.
const KERNELS: DeviceKind = DeviceKind::named("sim");

/// The kind of the devices that run ops only.
const OPS: DeviceKind = DeviceKind::named("simops");

/// A backend that runs graphs on a simulated device.
pub struct SimBackend {
    kind: DeviceKind,
    memory: &'static SimMemory,
}

impl SimBackend {
    /// Creates the backend of simulated device `sim:id`.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`] if `id` is not below [`DEVICES`], or if the system cannot reserve the addresses.
    pub fn new(id: u16) -> Result<Self> {
        Self::of_kind(KERNELS, id)
    }

    fn of_kind(kind: DeviceKind, id: u16) -> Result<Self> {
        Ok(Self { kind, memory: memory(kind, id)? })
    }

    /// Returns the counters and failures of simulated device `sim:id`.
    ///
    /// # Errors
    /// The errors of [`SimBackend::new`].
    pub fn simulation(id: u16) -> Result<&'static Simulation> {
        Ok(&memory(KERNELS, id)?.simulation)
    }

    /// Returns the counters and failures of simulated device `simops:id`.
    ///
    /// # Errors
    /// The errors of [`SimBackend::new`].
    pub fn simulation_of_ops(id: u16) -> Result<&'static Simulation> {
        Ok(&memory(OPS, id)?.simulation)
    }

    /// Makes the streams of simulated device `sim:id` run in another order that their fences allow.
    ///
    /// # Errors
    /// The errors of [`SimBackend::new`].
    pub fn set_schedule(id: u16, seed: u64) -> Result<()> {
        memory(KERNELS, id)?.set_seed(seed);
        Ok(())
    }

    /// Fails if the device does not run these kernels.
    fn check<'k>(&self, kernels: impl IntoIterator<Item = &'k Kernel>) -> Result<()> {
        kernels.into_iter().try_for_each(|it| match self.target().kernels {
            true => self.target().check(it),
            false => Err(Error::new(Code::Backend, "the device runs ops only, and no kernels")),
        })
    }
}

/// Returns the memory of simulated device `id` of a kind, which lives as long as the process.
fn memory(kind: DeviceKind, id: u16) -> Result<&'static SimMemory> {
    static MEMORIES: [[OnceLock<SimMemory>; DEVICES as usize]; 2] =
        [const { [const { OnceLock::new() }; DEVICES as usize] }; 2];
    let device = Device::new(kind, id);
    let of_kind = &MEMORIES[usize::from(kind == OPS)];
    let place = of_kind
        .get(id as usize)
        .ok_or_else(|| unavailable(device, &format!("there are {DEVICES} simulated devices, numbered from 0")))?;
    match place.get() {
        Some(known) => Ok(known),
        None => {
            let made = SimMemory::new(device)?;
            Ok(place.get_or_init(|| made))
        }
    }
}

// SAFETY: the interpreter, the products and the definitions of ops write all elements of their results, on the bytes
// behind the device addresses. Executables and steps retain no arrays.
unsafe impl Backend for SimBackend {
    fn name(&self) -> &'static str {
        if self.kind == OPS { "simops" } else { "sim" }
    }

    fn memory(&self) -> MemorySpace {
        MemorySpace::Device(self.memory)
    }

    fn fingerprint(&self) -> String {
        self.name().into()
    }

    fn sources(&self) -> &'static str {
        static SOURCES: LazyLock<String> = LazyLock::new(|| format!("{} {}", env!("MS_SIM_SOURCES"), ms_x64::SOURCES));
        &SOURCES
    }

    fn target(&self) -> &Target {
        if self.kind == OPS { &target::OPS } else { &target::KERNELS }
    }

    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact> {
        let program = PlanProgram { plan: options.lower(graph, self.target())?.0, table: Vec::new() };
        self.check(&program.plan.kernels)?;
        Ok(program.artifact(MachineCode::Bytes(Vec::new())))
    }

    unsafe fn load(&self, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        let program = PlanProgram::of(artifact)?;
        self.check(&program.plan.kernels)?;
        let kernels = program.plan.kernels.map_vec(|it| Arc::new(SimKernel::new(it)));
        // SAFETY: the plan is the result of lowering a valid graph, by this method's contract, and the kernels are its
        // own.
        Ok(Arc::new(unsafe { PlanExecutable::new(&program.plan, &kernels, SimDriver::of_executable(self.memory))? }))
    }

    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String> {
        options.describe(graph, self.target())
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        if let Step::Kernel(kernel) | Step::Check { kernel, .. } = step {
            self.check([kernel])?;
        }
        Ok(step_code(step, SimDriver::of_steps(self.memory)))
    }
}

inventory::submit! {
    BackendEntry { kind: KERNELS, probe: |id| Ok(Arc::new(SimBackend::of_kind(KERNELS, id)?)) }
}

inventory::submit! {
    BackendEntry { kind: OPS, probe: |id| Ok(Arc::new(SimBackend::of_kind(OPS, id)?)) }
}

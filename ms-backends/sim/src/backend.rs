//! Runs the CPU backend on the memory of a simulated device: [`SimBackend`].

use crate::driver::{Commands, SimDriver, SimKernel, addresses};
use crate::memory::SimMemory;
use crate::ops;
use crate::scheduler::Simulation;
use ms_compile::exec::{Artifact, Backend, BackendEntry, CompileOptions, Driver, Executable, StepCode, unavailable};
use ms_compile::lower::eager::Step;
use ms_compile::target::{Contracted, EpilogueSupport, Images, Target};
use ms_cpu::{CpuBackend, CpuDriver, KernelCode};
use ms_ir::data::{Array, Device, DeviceKind, MemorySpace};
use ms_ir::error::{Result, in_op};
use ms_ir::{Graph, Kernel};
use ms_ops::ops::{AxisOrder, definition};
use smallvec::SmallVec;
use std::sync::{Arc, LazyLock, OnceLock};

/// The number of simulated devices.
pub const DEVICES: u16 = 4;

const KIND: DeviceKind = DeviceKind::named("sim");

/// The target of the CPU, except that all convolutions are contractions, activations are channels-last (NHWC), and
/// every legal epilogue is fused.
static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let images = Images { contracted: Contracted::All, order: AxisOrder::ChannelsLast };
    Target { images, epilogues: &[EpilogueSupport::ALL], parallel_width: 0, ..ms_cpu::TARGET.clone() }
});

/// A backend that runs graphs on a simulated device.
pub struct SimBackend {
    cpu: CpuBackend,
    memory: &'static SimMemory,
}

impl SimBackend {
    /// Creates the backend of simulated device `id`.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`](ms_ir::Code::DeviceUnavailable) if `id` is not below [`DEVICES`], or if the system
    /// cannot reserve the addresses.
    pub fn new(id: u16) -> Result<Self> {
        Ok(Self { cpu: CpuBackend::new(), memory: memory(KIND, id)? })
    }

    /// Returns the counters and failures of simulated device `id`.
    ///
    /// # Errors
    /// The errors of [`SimBackend::new`].
    pub fn simulation(id: u16) -> Result<&'static Simulation> {
        Ok(&memory(KIND, id)?.simulation)
    }

    fn driver(&self) -> SimDriver<CpuDriver> {
        SimDriver { host: self.cpu.driver(), memory: self.memory }
    }

    /// Makes the streams of simulated device `id` run in another order that their fences allow.
    ///
    /// # Errors
    /// The errors of [`SimBackend::new`].
    pub fn set_schedule(id: u16, seed: u64) -> Result<()> {
        memory(KIND, id)?.set_seed(seed);
        Ok(())
    }
}

/// Returns the memory of simulated device `id` of a kind, which lives as long as the process.
pub(crate) fn memory(kind: DeviceKind, id: u16) -> Result<&'static SimMemory> {
    static MEMORIES: [[OnceLock<SimMemory>; DEVICES as usize]; 2] =
        [const { [const { OnceLock::new() }; DEVICES as usize] }; 2];
    let device = Device::new(kind, id);
    let of_kind = &MEMORIES[usize::from(kind == ops::KIND)];
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

// SAFETY: the CPU backend runs all work, on the bytes behind the device addresses.
unsafe impl Backend for SimBackend {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn memory(&self) -> MemorySpace {
        MemorySpace::Device(self.memory)
    }

    fn fingerprint(&self) -> String {
        format!("sim of {}", self.cpu.fingerprint())
    }

    fn sources(&self) -> &'static str {
        static SOURCES: LazyLock<String> =
            LazyLock::new(|| format!("{} {}", env!("MS_SIM_SOURCES"), CpuBackend::new().sources()));
        &SOURCES
    }

    fn target(&self) -> &Target {
        &TARGET
    }

    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact> {
        self.cpu.compile_plan(options.lower(graph, &TARGET)?.0, options)
    }

    unsafe fn load(&self, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        let kernel = |kernel: &Kernel, code| Arc::new(SimKernel::new(kernel, code));
        // SAFETY: the artifact satisfies the conditions of `Backend::load` by this function's contract. This backend
        // compiles with the CPU backend.
        Ok(Arc::new(unsafe { self.cpu.load_for(artifact, self.driver(), kernel)? }))
    }

    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String> {
        options.describe(graph, &TARGET)
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        let acts_on_host = match step {
            Step::Kernel(kernel) => {
                let kernel = Arc::new(SimKernel::new(kernel, self.cpu.kernel(kernel)?));
                return Ok(Arc::new(SimKernelStep { kernel, driver: self.driver() }));
            }
            Step::Contraction { .. } | Step::Check { .. } => false,
            Step::Library { op, .. } => definition(*op).effects.act_on_host(),
        };
        let addresses = match step {
            // The CPU's code provides the memory of the record, the last param.
            Step::Check { kernel, .. } => addresses(kernel).into_iter().rev().skip(1).collect(),
            _ => SmallVec::new(),
        };
        Ok(Arc::new(SimStep { code: self.cpu.compile_step(step)?, addresses, acts_on_host, driver: self.driver() }))
    }
}

/// The code of a step with a single kernel.
struct SimKernelStep {
    kernel: Arc<SimKernel<Arc<dyn KernelCode>>>,
    driver: SimDriver<CpuDriver>,
}

// SAFETY: the driver runs the kernel as work of the thread's stream, on the bytes behind the device addresses.
unsafe impl StepCode for SimKernelStep {
    unsafe fn run(&self, block: &[u64], _: &[&Array], _: &[Array]) -> Result<()> {
        let mut commands = Commands::default();
        // SAFETY: for a kernel's argument block, `StepCode::run` has the conditions of `Driver::launch`.
        unsafe { self.driver.launch(&mut commands, &self.kernel, block)? };
        self.driver.submit(&mut commands)
    }
}

/// The code of a contraction, a library op or a check on arrays of the device.
struct SimStep {
    code: Arc<dyn StepCode>,
    /// The words of an argument block that are addresses.
    addresses: SmallVec<[usize; 4]>,
    /// Whether the op acts on the host.
    acts_on_host: bool,
    driver: SimDriver<CpuDriver>,
}

// SAFETY: the CPU backend runs the step, on the bytes behind the device addresses.
unsafe impl StepCode for SimStep {
    unsafe fn run(&self, block: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        let code = self.code.clone();
        let mut block: SmallVec<[u64; 24]> = block.into();
        self.addresses.iter().for_each(|&it| block[it] = self.driver.real(block[it]));
        let run = move |operands: &[&Array], results: &[Array]| {
            // SAFETY: the contract of `StepCode::run` covers the time when the work runs.
            in_op(|| unsafe { code.run(&block, operands, results) })
        };
        // SAFETY: the conditions of `StepCode::run` hold for the arrays.
        unsafe { self.driver.run_step(self.acts_on_host, operands, results, run) }
    }
}

inventory::submit! {
    BackendEntry { kind: KIND, probe: |id| Ok(Arc::new(SimBackend::new(id)?)) }
}

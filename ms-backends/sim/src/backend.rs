//! [`SimBackend`]: the CPU backend on the memory of a simulated device.

use crate::memory::SimMemory;
use crate::simulation::Simulation;
use ms_core::error::{Result, in_op};
use ms_core::exec::{
    Artifact, Backend, BackendEntry, CompileOptions, Executable, Inputs, PlanExecutable, PreparedRun, StepCode, Waits,
    unavailable,
};
use ms_core::ir::{Graph, Role};
use ms_core::lower::Target;
use ms_core::lower::single::Step;
use ms_core::ops::definition;
use ms_core::tensor::{Array, Device, DeviceKind, MemorySpace, Stream, StreamKind, Streams, with_stream};
use ms_cpu::CpuBackend;
use smallvec::SmallVec;
use std::sync::{Arc, LazyLock, OnceLock};

/// The number of simulated devices.
pub const DEVICES: u16 = 4;

const KIND: DeviceKind = DeviceKind::named("sim");

/// Runs graphs on a simulated device.
pub struct SimBackend {
    cpu: CpuBackend,
    memory: &'static SimMemory,
}

impl SimBackend {
    /// The backend of simulated device `id`.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`](ms_core::Code::DeviceUnavailable) if there are not so many devices, or
    /// the system reserves no addresses for one.
    pub fn new(id: u16) -> Result<Self> {
        Ok(Self { cpu: CpuBackend::new(), memory: memory(id)? })
    }

    /// The counters and failures of simulated device `id`.
    ///
    /// # Errors
    /// As [`SimBackend::new`].
    pub fn simulation(id: u16) -> Result<&'static Simulation> {
        Ok(&memory(id)?.simulation)
    }

    /// Makes the streams of simulated device `id` run in another order that their fences allow.
    ///
    /// # Errors
    /// As [`SimBackend::new`].
    pub fn set_schedule(id: u16, seed: u64) -> Result<()> {
        memory(id)?.set_seed(seed);
        Ok(())
    }
}

/// Calls `f` with the stream of the calling thread for computing.
fn on_stream<R>(memory: &'static SimMemory, f: impl FnOnce(Stream) -> R) -> R {
    with_stream(memory, StreamKind::Compute, f)
}

/// The memory of simulated device `id`, which lasts as long as the process.
fn memory(id: u16) -> Result<&'static SimMemory> {
    static MEMORIES: [OnceLock<SimMemory>; DEVICES as usize] = [const { OnceLock::new() }; DEVICES as usize];
    let device = Device::new(KIND, id);
    let place = MEMORIES
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

// SAFETY: the CPU backend runs everything, on the bytes behind the addresses.
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
        self.cpu.target()
    }

    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact> {
        self.cpu.compile(graph, options)
    }

    unsafe fn load(&self, artifact: &Artifact, options: &CompileOptions<'_>) -> Result<Arc<dyn Executable>> {
        let at = (MemorySpace::Device(self.memory), self.memory.offset());
        // SAFETY: as the caller's; the bytes of all blocks are at this distance.
        let program = unsafe { self.cpu.load_in(artifact, options, at)? };
        Ok(Arc::new(SimExecutable { program: Arc::new(program), memory: self.memory }))
    }

    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String> {
        self.cpu.describe(graph, options)
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        let code = self.cpu.compile_step(step)?;
        Ok(match step {
            Step::Kernel(kernel) => {
                let is_addressed = |at: &usize| match kernel.params[*at].role {
                    Role::Input | Role::Output | Role::Indexed => true,
                    Role::Position | Role::Immediate => false,
                };
                let addresses = (0..kernel.params.len()).filter(is_addressed).map(|at| kernel.param_word(at)).collect();
                Arc::new(SimKernel { code, addresses, memory: self.memory })
            }
            Step::Product { .. } => Arc::new(SimWhole { code, waits: false, memory: self.memory }),
            Step::Library { op, .. } => {
                let waits = definition(*op).effects.act_on_host();
                Arc::new(SimWhole { code, waits, memory: self.memory })
            }
        })
    }
}

/// A kernel whose addresses are those of the device.
struct SimKernel {
    code: Arc<dyn StepCode>,
    /// The words of a block with addresses.
    addresses: SmallVec<[usize; 4]>,
    memory: &'static SimMemory,
}

// SAFETY: as that of the CPU backend, on the bytes behind the addresses.
unsafe impl StepCode for SimKernel {
    unsafe fn run(&self, block: &[u64], _: &[&Array], _: &[Array]) -> Result<()> {
        self.memory.simulation.call()?;
        let mut block: SmallVec<[u64; 32]> = SmallVec::from_slice(block);
        for &word in &self.addresses {
            block[word] = self.memory.real(block[word] as usize) as u64;
        }
        let code = self.code.clone();
        // SAFETY: the contract of the caller, for the bytes behind the addresses, when the work runs.
        let run = move || in_op(|| unsafe { code.run(&block, &[], &[]) });
        on_stream(self.memory, |stream| self.memory.run(stream, run));
        Ok(())
    }
}

/// A product or an op of the library on arrays of the device.
struct SimWhole {
    code: Arc<dyn StepCode>,
    /// Whether it acts on the host.
    waits: bool,
    memory: &'static SimMemory,
}

// SAFETY: as that of the CPU backend, on the bytes behind the addresses.
unsafe impl StepCode for SimWhole {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        self.memory.simulation.call()?;
        // SAFETY: the memory is freed behind the work of its streams, and the CPU backend retains no array.
        let borrowed = |it: &Array| unsafe { self.memory.borrowed(it) };
        let operands: SmallVec<[Array; 4]> = operands.iter().map(|it| borrowed(it)).collect();
        let results: SmallVec<[Array; 1]> = results.iter().map(borrowed).collect();
        let code = self.code.clone();
        let run = move || {
            let operands: SmallVec<[&Array; 4]> = operands.iter().collect();
            // SAFETY: as the caller's, when the work runs.
            in_op(|| unsafe { code.run(&[], &operands, &results) })
        };
        on_stream(self.memory, |stream| {
            if self.waits {
                // On this thread, whatever it is that happens on the host.
                self.memory.simulation.ran();
                self.memory.wait(self.memory.fence(stream))?;
                return run();
            }
            self.memory.run(stream, run);
            Ok(())
        })
    }
}

/// A plan whose inputs and outputs are on the device.
struct SimExecutable {
    program: Arc<PlanExecutable>,
    memory: &'static SimMemory,
}

impl SimExecutable {
    /// Runs on the inputs: as a step of the stream, or, if there is something to wait for, here.
    fn start(&self, mut inputs: Inputs<'_>) -> Result<SmallVec<[Array; 1]>> {
        self.memory.simulation.call()?;
        on_stream(self.memory, |stream| {
            // SAFETY: what reads the outputs awaits the work of this stream.
            let prepare = |inputs| unsafe { self.program.prepare(inputs) };
            if !self.program.waits().any()
                && let Some(PreparedRun { outputs, places }) = prepare(inputs.reborrow())?
            {
                let program = self.program.clone();
                // SAFETY: inputs are written and nobody else accesses the outputs when the step runs, and their memory
                // is freed behind it.
                self.memory.run(stream, move || unsafe { program.run_prepared(&places) });
                return Ok(outputs);
            }
            self.memory.simulation.ran();
            self.memory.wait(self.memory.fence(stream))?;
            match inputs {
                Inputs::Read(inputs) => self.program.run(inputs),
                Inputs::Donated(inputs, state) => self.program.run_donated(inputs, state),
            }
        })
    }
}

impl Executable for SimExecutable {
    fn run(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>> {
        self.start(Inputs::Read(inputs))
    }

    fn run_donated(&self, inputs: &mut [Array], state: &[Option<u32>]) -> Result<SmallVec<[Array; 1]>> {
        self.start(Inputs::Donated(inputs, state))
    }

    fn overwrites(&self, output: usize, input: usize) -> bool {
        self.program.overwrites(output, input)
    }

    fn waits(&self) -> Waits {
        self.program.waits()
    }
}

inventory::submit! {
    BackendEntry { kind: KIND, probe: |id| Ok(Arc::new(SimBackend::new(id)?)) }
}

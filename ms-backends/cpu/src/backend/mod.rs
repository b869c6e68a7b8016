//! Executes plans and single steps on the CPU: [`CpuBackend`].

pub mod driver;
mod roofline;
mod step;

use crate::backend::driver::CpuDriver;
use crate::backend::step::{CheckStep, ContractionCode};
use crate::library::{self, EagerOp};
use crate::target::TARGET;
use ms_compile::exec::{
    ArrayLayout, Artifact, Backend, BackendEntry, CompileOptions, Driver, Exceeded, Executable, MachineCode,
    PlanExecutable, PlanProgram, Roof, StepCode, unavailable,
};
use ms_compile::lower::eager::Step;
use ms_compile::lower::{Plan, PlanStep, View};
use ms_compile::target::Target;
use ms_ir::data::{Device, DeviceKind, Op};
use ms_ir::environment::Variable;
use ms_ir::environment_variables;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Kernel, MapVec};
use ms_x64::Isa;
use ms_x64::KernelCode;
use ms_x64::code::CodeMemory;
use ms_x64::code::artifact;
use ms_x64::codegen;
use ms_x64::gemm::Arithmetic;
use ms_x64::loaded::{Loaded, LoadedKernels};
use ms_x64::threads;
use once_cell::sync::OnceCell;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::LazyCell;
use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The minimum number of instructions for which kernels are compiled on several threads. Compiling fewer takes less
/// time than waking the threads.
const MANY_INSTS: usize = 2000;

environment_variables! {
    static CPU_ISA: Variable<Isa> = Variable::new(
        "MS_CPU_ISA",
        |it| Isa::from_name(it.to_str()?).filter(|it| it.is_supported()),
        || {
            let names: Vec<&str> = Isa::ALL.iter().filter(|it| it.is_supported()).map(|it| it.name()).collect();
            format!("what this machine runs: {}", names.join(" or "))
        },
    );
}

/// The CPU backend. It runs kernels as generated code or interprets them. Contractions run in the GEMM library.
pub struct CpuBackend {
    isa: Isa,
    kernels: Mutex<LoadedKernels>,
}

impl CpuBackend {
    /// Creates the backend for the instruction set that the environment variable `MS_CPU_ISA` names
    /// ([`Isa::from_name`]), or else for the fastest one of this machine.
    ///
    /// # Panics
    /// Raises [`Code::Environment`] if the name is unknown or this machine lacks the instruction set.
    pub fn new() -> Self {
        Self::from_isa(CPU_ISA.value().unwrap_or_else(Isa::detect))
    }

    /// Creates the backend for one instruction set.
    ///
    /// # Errors
    /// [`Code::Backend`] if this machine lacks the instruction set.
    pub fn with_isa(isa: Isa) -> Result<Self> {
        if !isa.is_supported() {
            return Err(Error::new(Code::Backend, format!("this machine does not run {isa}")));
        }
        Ok(Self::from_isa(isa))
    }

    fn from_isa(isa: Isa) -> Self {
        Self { isa, kernels: Mutex::default() }
    }

    /// Returns the machine code of a kernel, or `None` if it is interpreted.
    fn machine_code(&self, kernel: &Kernel) -> Option<Vec<u8>> {
        codegen::compile(kernel, self.isa).ok().map(|it| it.bytes)
    }

    /// Returns the machine code of kernels. They are compiled on several threads if there is enough work.
    fn machine_codes(&self, kernels: &[&Kernel]) -> Vec<Option<Vec<u8>>> {
        let code = |kernel: &&Kernel| self.machine_code(kernel);
        let insts: usize = kernels.iter().map(|it| it.insts.len()).sum();
        let pool = if kernels.len() > 1 && insts >= MANY_INSTS { compilers() } else { None };
        match pool {
            Some(pool) => pool.install(|| kernels.par_iter().map(code).collect()),
            None => kernels.iter().map(code).collect(),
        }
    }

    /// Returns the machine code of kernels, reusing the code of loaded kernels. `hashes` are the hashes of the kernels.
    fn shared_machine_codes(&self, kernels: &[Kernel], hashes: &[u64]) -> Vec<Option<Vec<u8>>> {
        let table = self.kernels();
        let loaded = |(kernel, &hash): (&Kernel, &u64)| {
            let (memory, at) = table.get(hash, kernel)?.at.as_ref()?;
            Some(memory.bytes()[at.clone()].to_vec())
        };
        let loaded: Vec<Option<Vec<u8>>> = kernels.iter().zip(hashes).map(loaded).collect();
        drop(table);
        let missing: Vec<&Kernel> = kernels.iter().zip(&loaded).filter(|it| it.1.is_none()).map(|it| it.0).collect();
        let mut made = self.machine_codes(&missing).into_iter();
        loaded.into_iter().map(|it| it.or_else(|| made.next().flatten())).collect()
    }

    /// Compiles a plan, as [`Backend::compile`] does after lowering a graph.
    ///
    /// # Errors
    /// [`Code::Backend`] if a kernel was lowered for another target.
    pub fn compile_plan(&self, plan: Plan, options: &CompileOptions<'_>) -> Result<Artifact> {
        plan.kernels.iter().try_for_each(|it| TARGET.check(it))?;
        let hashes = hashes(&plan.kernels);
        let codes = if options.fresh {
            self.machine_codes(&plan.kernels.iter().collect::<Vec<_>>())
        } else {
            self.shared_machine_codes(&plan.kernels, &hashes)
        };
        let codes = codes.iter().map(Option::as_deref);
        let (table, code) = artifact::encode(self.isa, hashes.into_iter().zip(codes));
        Ok(PlanProgram { plan, table }.artifact(MachineCode::Bytes(code)))
    }

    fn kernels(&self) -> MutexGuard<'_, LoadedKernels> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a kernel from the table, compiling and adding it if it is not there.
    fn loaded(&self, kernel: &Kernel) -> Loaded {
        let hash = ms_x64::hash(kernel);
        let mut table = self.kernels();
        if let Some(loaded) = table.get(hash, kernel) {
            return loaded.clone();
        }
        let kernel = Arc::new(kernel.clone());
        let loaded = Loaded::compile(self.isa, &kernel);
        table.insert(hash, kernel, &loaded);
        loaded
    }

    /// Loads an artifact for a driver that derives its kernels from this backend's code, see [`Backend::load`].
    ///
    /// # Safety
    /// The conditions of [`Backend::load`] hold.
    ///
    /// # Errors
    /// Errors of [`Backend::load`] and of [`PlanExecutable::new`].
    pub unsafe fn load_for<D: Driver + 'static>(
        &self,
        artifact: &Artifact,
        driver: D,
        make: impl Fn(&Kernel, Arc<dyn KernelCode>) -> D::Kernel,
    ) -> Result<PlanExecutable<D>> {
        let program = PlanProgram::of(artifact)?;
        let kernels = &program.plan.kernels;
        let hashes = hashes(kernels);
        let at = artifact::decode(self.isa, &hashes, &program.table, artifact.code.as_ref())?;
        // SAFETY: by the contract of `Backend::load`, the artifact was compiled by this backend from a valid graph.
        // `decode` checks that the code is for these kernels and this instruction set.
        unsafe {
            let codes = self.codes(kernels.iter().zip(hashes).zip(at), &artifact.code);
            let made: Vec<D::Kernel> = kernels.iter().zip(codes).map(|(it, code)| make(it, code)).collect();
            PlanExecutable::new(&program.plan, &made, driver)
        }
    }

    /// Returns the driver that runs the steps of plans.
    pub fn driver(&self) -> CpuDriver {
        CpuDriver { isa: self.isa }
    }

    /// Returns the code of kernels with these hashes. Kernels that are not in the table are added with the code in
    /// their ranges.
    ///
    /// # Safety
    /// Each range contains the kernel's code for this instruction set.
    unsafe fn codes<'a>(
        &self,
        kernels: impl Iterator<Item = ((&'a Kernel, u64), Option<Range<usize>>)>,
        code: &MachineCode,
    ) -> Vec<Arc<dyn KernelCode>> {
        let mut table = self.kernels();
        let memory = LazyCell::new(|| code_memory(code));
        let mut loaded = |((kernel, hash), at): ((&Kernel, u64), Option<Range<usize>>)| {
            if let Some(loaded) = table.get(hash, kernel) {
                return loaded.code.clone();
            }
            let at = at.and_then(|at| Some((memory.as_ref()?.clone(), at)));
            let kernel = Arc::new(kernel.clone());
            // SAFETY: the range contains the kernel's code by this function's contract.
            let loaded = unsafe { Loaded::new(self.isa, &kernel, at) };
            table.insert(hash, kernel, &loaded);
            loaded.code
        };
        kernels.map(|it| loaded(it) as Arc<dyn KernelCode>).collect()
    }

    /// Returns the code of a kernel, which partitions its calls over threads.
    ///
    /// # Errors
    /// [`Code::Backend`] if the kernel was lowered for another target.
    pub fn kernel(&self, kernel: &Kernel) -> Result<Arc<dyn KernelCode>> {
        Ok(self.checked(kernel)?.code)
    }

    /// Returns a kernel from the table after checking that it was lowered for this target.
    fn checked(&self, kernel: &Kernel) -> Result<Loaded> {
        TARGET.check(kernel)?;
        Ok(self.loaded(kernel))
    }

    /// Returns the instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

/// Returns the pool of compiler threads, one per compute thread. Returns `None` if there is only one, or if the system
/// cannot start them. The start is retried at the next call.
fn compilers() -> Option<&'static ThreadPool> {
    static POOL: OnceCell<ThreadPool> = OnceCell::new();
    if threads::count() == 1 {
        return None;
    }
    let start = || ThreadPoolBuilder::new().num_threads(threads::count()).thread_name(|i| format!("ms-compiler-{i}"));
    POOL.get_or_try_init(|| start().build()).ok()
}

/// Returns the code of an artifact, in place if it is already executable, and else as a mapped copy.
fn code_memory(code: &MachineCode) -> Option<Arc<CodeMemory>> {
    match code {
        MachineCode::Bytes(bytes) => CodeMemory::map(bytes),
        MachineCode::Executable(memory) => Some(CodeMemory::mapped(memory.clone())),
    }
}

impl CpuBackend {
    /// Returns the op of a library step, and the implementation that its driver prepares.
    fn implementation(&self, step: &PlanStep) -> Result<Option<(Op, String)>> {
        let PlanStep::Library { op, attrs, precision, inputs, outputs, .. } = step else { return Ok(None) };
        let layouts = |views: &[View]| views.map_vec(|it| ArrayLayout { dtype: it.dtype, layout: it.layout.clone() });
        let arithmetic = Arithmetic::new(self.isa, *precision);
        let code = library::prepare(arithmetic, op.0, attrs, &layouts(inputs), &layouts(outputs))?;
        Ok(code.map(|it| (op.0, it.choice().to_owned())))
    }
}

fn hashes(kernels: &[Kernel]) -> Vec<u64> {
    kernels.iter().map(ms_x64::hash).collect()
}

impl Default for CpuBackend {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: generated code, the interpreter, the GEMM library and the op library write every element of their outputs,
// which tests compare with the reference. None of them retains arrays.
unsafe impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn fingerprint(&self) -> String {
        format!("cpu {} {}", std::env::consts::ARCH, self.isa)
    }

    fn sources(&self) -> &'static str {
        static SOURCES: LazyLock<String> = LazyLock::new(|| format!("{} {}", env!("MS_CPU_SOURCES"), ms_x64::SOURCES));
        &SOURCES
    }

    fn target(&self) -> &Target {
        &TARGET
    }

    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact> {
        self.compile_plan(options.lower(graph, &TARGET)?.0, options)
    }

    unsafe fn load(&self, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        // SAFETY: the artifact satisfies the conditions of `Backend::load` by this function's contract.
        Ok(Arc::new(unsafe { self.load_for(artifact, self.driver(), |_, code| code)? }))
    }

    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String> {
        let (mut text, (plan, _)) = (options.describe(graph, &TARGET)?, options.lower(graph, &TARGET)?);
        for (number, routine) in plan.routines.iter().enumerate() {
            for (at, step) in routine.steps.iter().enumerate() {
                if let Some((op, choice)) = self.implementation(step)? {
                    let _ = writeln!(text, "implementation of r{number} step {at}, {}: {choice}", op.name());
                }
            }
        }
        Ok(text)
    }

    fn roof(&self, exceeded: Exceeded) -> Option<Roof> {
        roofline::measured(self, exceeded)
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        Ok(match step {
            Step::Kernel(kernel) => self.checked(kernel)?.code,
            &Step::Contraction { precision, types, ranks } => {
                Arc::new(ContractionCode { isa: self.isa, precision, types, ranks })
            }
            &Step::Library { op, ref attrs, precision, .. } => {
                let arithmetic = Arithmetic::new(self.isa, precision);
                Arc::new(EagerOp::new(arithmetic, op, attrs.clone()))
            }
            Step::Check { kernel, op, attrs } => {
                let record = kernel.param_word(kernel.params.len() - 1);
                Arc::new(CheckStep { kernel: self.checked(kernel)?.code, record, op: *op, attrs: attrs.clone() })
            }
        })
    }
}

inventory::submit! {
    BackendEntry { kind: DeviceKind::CPU, probe }
}

/// Returns the backend of the CPU.
fn probe(id: u16) -> Result<Arc<dyn Backend>> {
    match id {
        0 => Ok(Arc::new(CpuBackend::new())),
        _ => Err(unavailable(Device::new(DeviceKind::CPU, id), "all processors of a machine are one device, `cpu`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::data::DType;
    use ms_ir::{BinaryOp, KernelBuilder, LaneAxis, Role, Scope, StrideClass};

    /// Builds a sum of `terms` terms.
    fn kernel(terms: usize) -> Kernel {
        let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let [x, out] = [Role::Input, Role::Output].map(|it| builder.param(DType::F32, it, StrideClass::Unit));
        let x = builder.load(x);
        let sum = (1..terms).fold(x, |sum, _| builder.binary(BinaryOp::Add, sum, x));
        builder.store(out, sum);
        builder.end_stage(Scope::Point);
        builder.finish()
    }

    /// The code of kernels does not depend on the number of compiler threads, and has their order.
    #[test]
    fn code_does_not_depend_on_threads() {
        let kernels: Vec<Kernel> = (0..100).map(|it| kernel(1 + it * 37 % 100)).collect();
        let all: Vec<&Kernel> = kernels.iter().collect();
        assert!(kernels.iter().map(|it| it.insts.len()).sum::<usize>() > 2 * MANY_INSTS);
        for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
            let backend = CpuBackend::from_isa(isa);
            let one_by_one: Vec<Option<Vec<u8>>> = kernels.iter().map(|it| backend.machine_code(it)).collect();
            assert!(backend.machine_codes(&all) == one_by_one);
            let plan = Plan { kernels: kernels.clone(), ..Plan::default() };
            backend.loaded(&kernels[7]);
            let [own, shared] = [true, false].map(|fresh| {
                let options = CompileOptions { fresh, ..CompileOptions::default() };
                let artifact = backend.compile_plan(plan.clone(), &options).expect("the processor runs sums");
                artifact.code.as_ref().to_vec()
            });
            assert!(own == shared, "what is loaded is taken as it is");
        }
    }
}

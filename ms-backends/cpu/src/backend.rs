//! [`CpuBackend`]: execution of plans and steps on the CPU.

use crate::code::{CodeMemory, Compiled};
use crate::codegen::{self, Calls};
use crate::driver::CpuDriver;
use crate::interp::Interpreted;
use crate::isa::Isa;
use crate::kernel::KernelCode;
use crate::loaded::{self, Loaded, LoadedKernels};
use crate::parallel::Parallel;
use crate::product::Arithmetic;
use crate::step::{CheckStep, ContractionCode, LibraryStep};
use crate::target::TARGET;
use crate::{artifact, roof, threads};
use ms_core::environment::Variable;
use ms_core::environment_variables;
use ms_core::error::{Code, Error, Result};
use ms_core::exec::{
    Artifact, Backend, BackendEntry, CompileOptions, Driver, Exceeded, Executable, MachineCode, PlanExecutable,
    PlanProgram, Roof, StepCode, unavailable,
};
use ms_core::ir::{Graph, Kernel};
use ms_core::lower::single::Step;
use ms_core::lower::{Plan, Target};
use ms_core::tensor::{Device, DeviceKind};
use once_cell::sync::OnceCell;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::LazyCell;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Minimum number of instructions of kernels that are compiled on several threads: compiling so many
/// takes longer than waking the threads.
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

/// Runs plans on the CPU: kernels as generated code or interpreted, contractions by the library of products.
pub struct CpuBackend {
    isa: Isa,
    kernels: Mutex<LoadedKernels>,
}

impl Loaded {
    /// A kernel with its machine code at this range, if it has any.
    ///
    /// # Safety
    /// The range has the kernel's code for this machine.
    unsafe fn new(isa: Isa, kernel: &Arc<Kernel>, at: Option<(Arc<CodeMemory>, Range<usize>)>) -> Self {
        let code: Arc<dyn KernelCode> = match at.clone() {
            // SAFETY: the caller's contract.
            Some((memory, at)) => Arc::new(unsafe { Compiled::new(kernel.clone(), memory, at) }),
            None => Arc::new(Interpreted::new(kernel.clone())),
        };
        let code = Parallel::new(kernel, code).with_rows(kernel, isa, part);
        let code = if at.is_some() { code.with_long(kernel, isa, compiled) } else { code };
        Self { code: Arc::new(code), at }
    }
}

impl CpuBackend {
    /// The backend for the instruction set in the environment variable `MS_CPU_ISA` (`avx512`, `avx2` or
    /// `interp`), or for the best one of this machine.
    ///
    /// # Panics
    /// Raises [`Code::Environment`] if the name is unknown or this machine does not have the instruction
    /// set.
    pub fn new() -> Self {
        Self::of(CPU_ISA.value().unwrap_or_else(Isa::detect))
    }

    /// The backend for one instruction set.
    ///
    /// # Errors
    /// [`Code::Backend`] if this machine does not have it.
    pub fn with_isa(isa: Isa) -> Result<Self> {
        if !isa.is_supported() {
            return Err(Error::new(Code::Backend, format!("this machine does not run {isa}")));
        }
        Ok(Self::of(isa))
    }

    fn of(isa: Isa) -> Self {
        Self { isa, kernels: Mutex::default() }
    }

    /// The machine code of a kernel; `None` if it is interpreted.
    fn machine_code(&self, kernel: &Kernel) -> Option<Vec<u8>> {
        codegen::compile(kernel, self.isa).ok().map(|it| it.bytes)
    }

    /// The machine code of kernels, compiled on several threads if there is enough work.
    fn machine_codes(&self, kernels: &[&Kernel]) -> Vec<Option<Vec<u8>>> {
        let code = |kernel: &&Kernel| self.machine_code(kernel);
        let insts: usize = kernels.iter().map(|it| it.insts.len()).sum();
        let pool = if kernels.len() > 1 && insts >= MANY_INSTS { compilers() } else { None };
        match pool {
            Some(pool) => pool.install(|| kernels.par_iter().map(code).collect()),
            None => kernels.iter().map(code).collect(),
        }
    }

    /// Like [`machine_codes`](Self::machine_codes), with the code of kernels in the table; these are
    /// their hashes.
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

    /// Compiles a plan as [`Backend::compile`] compiles the one that a graph is lowered to.
    ///
    /// # Errors
    /// [`Code::Backend`] for kernels of another target.
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

    /// The kernel in the table, to which it is added if it is not there.
    fn loaded(&self, kernel: &Kernel) -> Loaded {
        let hash = loaded::hash(kernel);
        let mut table = self.kernels();
        if let Some(loaded) = table.get(hash, kernel) {
            return loaded.clone();
        }
        let code = self.machine_code(kernel);
        let at = code.and_then(|it| Some((CodeMemory::map(&it)?, 0..it.len())));
        let kernel = Arc::new(kernel.clone());
        // SAFETY: the memory has this kernel's code for an instruction set of this machine.
        let loaded = unsafe { Loaded::new(self.isa, &kernel, at) };
        table.insert(hash, kernel, &loaded);
        loaded
    }

    /// [`Backend::load`] for a driver whose kernels are made of this backend's code for them.
    ///
    /// # Safety
    /// As [`Backend::load`].
    ///
    /// # Errors
    /// As [`Backend::load`]; those of [`PlanExecutable::new`].
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
        // SAFETY: by the caller's contract the code is that of these kernels for this instruction set, and the plan
        // is lowered from a valid graph.
        unsafe {
            let codes = self.codes(kernels.iter().zip(hashes).zip(at), &artifact.code);
            let made: Vec<D::Kernel> = kernels.iter().zip(codes).map(|(it, code)| make(it, code)).collect();
            PlanExecutable::new(&program.plan, &made, driver)
        }
    }

    /// What runs the steps of plans.
    pub fn driver(&self) -> CpuDriver {
        CpuDriver { isa: self.isa }
    }

    /// The code of kernels with these hashes: that of the table, to which the others are added with these
    /// ranges of machine code.
    ///
    /// # Safety
    /// The ranges are those of the kernels' code for this instruction set.
    unsafe fn codes<'a>(
        &self,
        kernels: impl Iterator<Item = ((&'a Kernel, u64), Option<Range<usize>>)>,
        code: &MachineCode,
    ) -> Vec<Arc<dyn KernelCode>> {
        let mut table = self.kernels();
        let memory = LazyCell::new(|| CodeMemory::of(code));
        let mut loaded = |((kernel, hash), at): ((&Kernel, u64), Option<Range<usize>>)| {
            if let Some(loaded) = table.get(hash, kernel) {
                return loaded.code.clone();
            }
            let at = at.and_then(|at| Some((memory.as_ref()?.clone(), at)));
            let kernel = Arc::new(kernel.clone());
            // SAFETY: the caller's contract.
            let loaded = unsafe { Loaded::new(self.isa, &kernel, at) };
            table.insert(hash, kernel, &loaded);
            loaded.code
        };
        kernels.map(|it| loaded(it) as Arc<dyn KernelCode>).collect()
    }

    /// The code of a kernel, cut over threads.
    ///
    /// # Errors
    /// [`Code::Backend`] for a kernel of another target.
    pub fn kernel(&self, kernel: &Kernel) -> Result<Arc<dyn KernelCode>> {
        Ok(self.checked(kernel)?.code)
    }

    /// A kernel of this target in the table.
    fn checked(&self, kernel: &Kernel) -> Result<Loaded> {
        TARGET.check(kernel)?;
        Ok(self.loaded(kernel))
    }

    /// The instruction set.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

/// The code of a part of a kernel whose rows are cut.
pub(crate) fn part(kernel: Kernel, isa: Isa) -> Arc<dyn KernelCode> {
    let kernel = Arc::new(kernel);
    compiled(&kernel, isa, Calls::Any).unwrap_or_else(|| Arc::new(Interpreted::new(kernel)))
}

/// The machine code of a kernel for these calls, in memory; `None` if there is none, or no memory for it.
pub(crate) fn compiled(kernel: &Arc<Kernel>, isa: Isa, calls: Calls) -> Option<Arc<dyn KernelCode>> {
    let code = codegen::compile_for(kernel, isa, calls).ok()?;
    let memory = CodeMemory::map(&code.bytes)?;
    // SAFETY: the memory has this kernel's code for an instruction set of this machine.
    Some(Arc::new(unsafe { Compiled::new(kernel.clone(), memory, 0..code.bytes.len()) }))
}

/// The threads that compile, as many as compute; `None` if there is only one, or if the system cannot
/// start more, which is tried again the next time.
fn compilers() -> Option<&'static ThreadPool> {
    static POOL: OnceCell<ThreadPool> = OnceCell::new();
    if threads::count() == 1 {
        return None;
    }
    let start = || ThreadPoolBuilder::new().num_threads(threads::count()).thread_name(|i| format!("ms-compiler-{i}"));
    POOL.get_or_try_init(|| start().build()).ok()
}

fn hashes(kernels: &[Kernel]) -> Vec<u64> {
    kernels.iter().map(loaded::hash).collect()
}

impl Default for CpuBackend {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: generated code, the interpreter, products and the library write all elements of outputs,
// which their tests compare with the reference, and retain no arrays.
unsafe impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn fingerprint(&self) -> String {
        format!("cpu {} {}", std::env::consts::ARCH, self.isa)
    }

    fn sources(&self) -> &'static str {
        env!("MS_CPU_SOURCES")
    }

    fn target(&self) -> &Target {
        &TARGET
    }

    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact> {
        self.compile_plan(options.lower(graph, &TARGET)?.0, options)
    }

    unsafe fn load(&self, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        // SAFETY: as the caller's.
        Ok(Arc::new(unsafe { self.load_for(artifact, self.driver(), |_, code| code)? }))
    }

    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String> {
        let (plan, names) = options.lower(graph, &TARGET)?;
        Ok(plan.display_named(&names).to_string())
    }

    fn roof(&self, exceeded: Exceeded) -> Option<Roof> {
        roof::measured(self, exceeded)
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        Ok(match step {
            Step::Kernel(kernel) => self.checked(kernel)?.code,
            &Step::Contraction { precision, types, ranks } => {
                Arc::new(ContractionCode { isa: self.isa, precision, types, ranks })
            }
            &Step::Library { op, ref attrs, precision, .. } => {
                let arithmetic = Arithmetic::new(self.isa, precision);
                Arc::new(LibraryStep { arithmetic, op, attrs: attrs.clone() })
            }
            &Step::Check { axis } => Arc::new(CheckStep { axis }),
        })
    }
}

inventory::submit! {
    BackendEntry { kind: DeviceKind::CPU, probe }
}

/// The backend of the processor.
fn probe(id: u16) -> Result<Arc<dyn Backend>> {
    match id {
        0 => Ok(Arc::new(CpuBackend::new())),
        _ => Err(unavailable(Device::new(DeviceKind::CPU, id), "all processors of a machine are one device, `cpu`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_core::ir::{BinaryOp, KernelBuilder, LaneAxis, Role, Scope, StrideClass};
    use ms_core::tensor::DType;

    /// A sum of this many terms.
    fn kernel(terms: usize) -> Kernel {
        let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let [x, out] = [Role::Input, Role::Output].map(|it| builder.param(DType::F32, it, StrideClass::Unit));
        let x = builder.load(x);
        let sum = (1..terms).fold(x, |sum, _| builder.binary(BinaryOp::Add, sum, x));
        builder.store(out, sum);
        builder.end_stage(Scope::Point);
        builder.finish()
    }

    /// Code is the same, and in the order of the kernels, for every number of compiling threads.
    #[test]
    fn code_does_not_depend_on_threads() {
        let kernels: Vec<Kernel> = (0..100).map(|it| kernel(1 + it * 37 % 100)).collect();
        let all: Vec<&Kernel> = kernels.iter().collect();
        assert!(kernels.iter().map(|it| it.insts.len()).sum::<usize>() > 2 * MANY_INSTS);
        for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
            let backend = CpuBackend::of(isa);
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

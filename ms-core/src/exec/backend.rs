//! What a backend is.

use crate::environment;
use crate::error::{OrRaise, Result};
use crate::ir::{Kernel, Precision};
use crate::lower::{Plan, Target};
use crate::tensor::{Array, Attrs, Op};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// Turns plans into something that runs, on one kind of device.
///
/// # Safety
/// What runs is trusted with memory: [`Backend::product`], [`Backend::library`], and the executables
/// and kernels that a backend gives, write all elements of their outputs as values of their dtypes,
/// touch no other memory, and keep none of the arrays that they are given.
pub unsafe trait Backend: Send + Sync {
    /// The name: `cpu`, `cuda`.
    fn name(&self) -> &'static str;

    /// The device that code is made for, as far as it decides the code: part of every stored key.
    fn fingerprint(&self) -> String;

    /// What makes the code, as a hash of its sources: part of every stored key.
    fn sources(&self) -> &'static str;

    /// What plans and kernels for this backend are made for. It is part of every stored key.
    fn target(&self) -> &Target;

    /// Compiles a plan to what [`Backend::load`] takes, in this process or a later one.
    ///
    /// # Errors
    /// [`Code::Backend`](crate::Code::Backend) when the plan holds what the device cannot run.
    fn compile(&self, plan: &Plan) -> Result<Artifact>;

    /// Makes compiled code callable.
    ///
    /// # Safety
    /// The plan is one that lowering gave for a sound graph, and the artifact what this backend, of
    /// these [sources](Backend::sources) and this [fingerprint](Backend::fingerprint), compiled it to.
    /// Damage is not looked for: the code is run.
    ///
    /// # Errors
    /// [`Code::Backend`](crate::Code::Backend) when the artifact is not this backend's.
    unsafe fn load(&self, plan: Arc<Plan>, artifact: &Artifact) -> Result<Arc<dyn Executable>>;

    /// As [`Backend::compile`], for one of many plans with the same kernels: the code of those that
    /// are ready in this process is taken as it is.
    ///
    /// # Errors
    /// As [`Backend::compile`].
    fn compile_shared(&self, plan: &Plan) -> Result<Artifact> {
        self.compile(plan)
    }

    /// As [`Backend::load`], for one of many plans with the same kernels: those that are ready in
    /// this process are run, and the others are ready from then on.
    ///
    /// # Safety
    /// As [`Backend::load`].
    ///
    /// # Errors
    /// As [`Backend::load`].
    unsafe fn load_shared(&self, plan: Arc<Plan>, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        // SAFETY: as the caller's.
        unsafe { self.load(plan, artifact) }
    }

    /// One kernel by itself, for eager execution.
    ///
    /// # Errors
    /// [`Code::Backend`](crate::Code::Backend) when the device cannot run it.
    fn kernel(&self, kernel: &Kernel) -> Result<Arc<dyn KernelCode>>;

    /// `out = a b`, batched over leading dimensions of equal size; `out` is row-major. In strict precision
    /// terms of floats are added up as `docs/numerics.md` says.
    ///
    /// # Safety
    /// Nobody else uses the memory of `out`, the operands included.
    ///
    /// # Errors
    /// [`Code::DType`](crate::Code::DType) and [`Code::Shape`](crate::Code::Shape) for operands that
    /// do not fit, [`Code::Backend`](crate::Code::Backend) when the device cannot run it.
    unsafe fn product(&self, precision: Precision, a: &Array, b: &Array, out: &Array) -> Result<()>;

    /// Runs an op as a whole, writing its row-major `outputs`.
    ///
    /// # Safety
    /// The op's type rule takes the inputs and gives the types of the outputs, whose memory nobody
    /// else uses, the inputs included.
    ///
    /// # Errors
    /// What the op refuses.
    unsafe fn library(&self, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()>;
}

/// What a plan compiles to: plain bytes, the same wherever they lie.
#[derive(Clone)]
pub struct Artifact {
    /// What the backend has to know of the code, in a format of its own.
    pub table: Vec<u8>,
    /// The code.
    pub code: MachineCode,
}

/// Position-independent code; empty where there is none.
#[derive(Clone)]
pub enum MachineCode {
    /// In memory that cannot be executed.
    Bytes(Vec<u8>),
    /// In memory that can be executed and that nobody writes, from the start of a page on.
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

/// A compiled kernel.
///
/// # Safety
/// A call writes every place that the kernel stores to, with a value of the dtype, and touches no
/// other memory than [`KernelCode::call`] speaks of.
pub unsafe trait KernelCode: Send + Sync {
    /// Runs it on the block of a call (see [`crate::ir::Kernel`]).
    ///
    /// # Safety
    /// The block has the kernel's number of words, and extents that it [takes](Kernel::takes); every address that its extents and strides
    /// reach lies in memory that lives during the call, that nobody writes meanwhile where the
    /// kernel reads, and that nobody touches meanwhile where it writes. A written place may be
    /// read by the kernel itself only at the very same loop indices.
    unsafe fn call(&self, block: &[u64]);

    /// Code that does the same for calls of these extents, if there is a shorter way for them.
    fn at(&self, extents: &[u64]) -> Option<Arc<dyn KernelCode>> {
        let _ = extents;
        None
    }
}

/// A compiled plan. Re-entrant: concurrent runs have an arena each.
pub trait Executable: Send + Sync {
    /// Runs it on inputs of the plan's types. It gives row-major arrays.
    ///
    /// # Errors
    /// [`Code::Argument`](crate::Code::Argument) for inputs of other types; what an op of the plan
    /// refuses while running.
    fn run(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>>;

    /// Runs it on inputs that are given up: an output may take the memory of one that nobody else
    /// has.
    ///
    /// # Errors
    /// As for [`Executable::run`].
    fn run_owned(&self, inputs: Vec<Array>) -> Result<SmallVec<[Array; 1]>> {
        self.run(&inputs.iter().collect::<Vec<_>>())
    }
}

/// A backend that the facade hands over; the first one submitted is the default.
pub struct BackendEntry(pub fn() -> Arc<dyn Backend>);

inventory::collect!(BackendEntry);

/// The backend of this process: the first one submitted; nothing where none is linked.
///
/// # Panics
/// Raises [`Code::Environment`](crate::Code::Environment) when an environment variable is set to what is not
/// allowed.
pub fn backend() -> Option<&'static Arc<dyn Backend>> {
    static BACKEND: OnceLock<Option<Arc<dyn Backend>>> = OnceLock::new();
    let make = || {
        environment::check().or_raise();
        inventory::iter::<BackendEntry>.into_iter().next().map(|entry| (entry.0)())
    };
    BACKEND.get_or_init(make).as_ref()
}

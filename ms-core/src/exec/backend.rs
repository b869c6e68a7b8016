//! The interface of backends.

use crate::environment;
use crate::error::{Code, Error, OrRaise, Result};
use crate::ir::{Kernel, Precision};
use crate::lower::{Plan, Target};
use crate::tensor::{Array, Attrs, Device, DeviceKind, MemorySpace, Op};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Compiles plans to executables for one device.
///
/// The arrays that [`Backend::product`], [`Backend::library`] and executables take and return, and the
/// addresses in the blocks of kernels, are in the [memory](Backend::memory) of the device.
///
/// # Safety
/// [`Backend::product`], [`Backend::library`], and the executables and kernels of a backend write
/// all elements of their outputs with valid values of their dtypes, access no other memory, and
/// retain none of the arrays that are passed to them.
pub unsafe trait Backend: Send + Sync {
    /// The name: `cpu`, `cuda`.
    fn name(&self) -> &'static str;

    /// The memory of the device.
    fn memory(&self) -> MemorySpace {
        MemorySpace::Host
    }

    /// The properties of the device that determine the code; part of every stored key.
    fn fingerprint(&self) -> String;

    /// The hash of the sources of the code generator; part of every stored key.
    fn sources(&self) -> &'static str;

    /// The target for which plans and kernels are lowered; part of every stored key.
    fn target(&self) -> &Target;

    /// Compiles a plan to an artifact for [`Backend::load`], in this process or a later one.
    ///
    /// # Errors
    /// [`Code::Backend`](crate::Code::Backend) if the device cannot run the plan.
    fn compile(&self, plan: &Plan) -> Result<Artifact>;

    /// Loads compiled code.
    ///
    /// # Safety
    /// The plan is the result of lowering a valid graph, and the artifact is what this backend, with
    /// these [sources](Backend::sources) and this [fingerprint](Backend::fingerprint), compiled it
    /// to. The code is executed without verification.
    ///
    /// # Errors
    /// [`Code::Backend`](crate::Code::Backend) if the artifact is not this backend's.
    unsafe fn load(&self, plan: Arc<Plan>, artifact: &Artifact) -> Result<Arc<dyn Executable>>;

    /// Like [`Backend::compile`], for one of many plans with the same kernels: reuses the code of
    /// kernels that are compiled in this process.
    ///
    /// # Errors
    /// As [`Backend::compile`].
    fn compile_shared(&self, plan: &Plan) -> Result<Artifact> {
        self.compile(plan)
    }

    /// Like [`Backend::load`], for one of many plans with the same kernels: reuses kernels that are
    /// loaded in this process, and keeps the others for later plans.
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

    /// Compiles one kernel, for eager execution.
    ///
    /// # Errors
    /// [`Code::Backend`](crate::Code::Backend) if the device cannot run it.
    fn kernel(&self, kernel: &Kernel) -> Result<Arc<dyn KernelCode>>;

    /// `out = a b`, batched over leading dimensions of equal size; `out` is row-major. In strict precision
    /// terms of floats are added in the order that `docs/numerics.md` specifies.
    ///
    /// # Safety
    /// The memory of `out` is not accessed by anyone else during the call, and does not overlap that
    /// of the operands.
    ///
    /// # Errors
    /// [`Code::DType`](crate::Code::DType) and [`Code::Shape`](crate::Code::Shape) for operands that
    /// do not fit, [`Code::Backend`](crate::Code::Backend) if the device cannot run it.
    unsafe fn product(&self, precision: Precision, a: &Array, b: &Array, out: &Array) -> Result<()>;

    /// Runs an op as a library call that writes its row-major `outputs`.
    ///
    /// # Safety
    /// The op's type rule accepts the inputs and infers the types of the outputs. The memory of the
    /// outputs is not accessed by anyone else during the call, and does not overlap that of the
    /// inputs.
    ///
    /// # Errors
    /// Those of the op.
    unsafe fn library(&self, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()>;
}

/// A compiled plan: relocatable bytes.
#[derive(Clone)]
pub struct Artifact {
    /// Metadata of the code, in a format of the backend.
    pub table: Vec<u8>,
    /// The code.
    pub code: MachineCode,
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

/// A compiled kernel.
///
/// # Safety
/// A call writes every element that the kernel stores, with a valid value of the dtype, and accesses
/// only the memory in the contract of [`KernelCode::call`].
pub unsafe trait KernelCode: Send + Sync {
    /// Runs the kernel with the block of a call (see [`crate::ir::Kernel`]).
    ///
    /// # Safety
    /// The block has the kernel's number of words, and extents that the kernel
    /// [takes](Kernel::takes). All elements that its extents and strides address are in memory that
    /// is live during the call. During the call, nobody else writes the elements that the kernel
    /// reads, or accesses those that it writes. The kernel itself may read an element that it writes
    /// only at the same loop indices.
    unsafe fn call(&self, block: &[u64]);

    /// Specialised code for calls with these extents, if there is any.
    fn at(&self, extents: &[u64]) -> Option<Arc<dyn KernelCode>> {
        let _ = extents;
        None
    }
}

/// A loaded plan. Re-entrant: every concurrent run has its own arena.
pub trait Executable: Send + Sync {
    /// Runs it on inputs of the plan's types. Returns row-major arrays.
    ///
    /// # Errors
    /// [`Code::Argument`](crate::Code::Argument) for inputs of other types; errors of the plan's ops.
    fn run(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>>;

    /// Runs it on donated inputs: an output may reuse the memory of one without other references. If the run
    /// fails, inputs that are marked in `state` still have their elements; those of others are lost.
    ///
    /// # Errors
    /// As for [`Executable::run`].
    fn run_donated(&self, inputs: &mut [Array], state: &[bool]) -> Result<SmallVec<[Array; 1]>> {
        let _ = state;
        self.run(&inputs.iter().collect::<Vec<_>>())
    }
}

/// A registered backend: how to get the devices of its kind.
pub struct BackendEntry {
    /// The kind of its devices.
    pub kind: DeviceKind,
    /// The backend of the device with this number, which is asked for once.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`](crate::Code::DeviceUnavailable), with what was searched, if there is no
    /// such device: see [`unavailable`].
    pub probe: fn(u16) -> Result<Arc<dyn Backend>>,
}

inventory::collect!(BackendEntry);

/// The error of a device that cannot be used, because of `what`.
pub fn unavailable(device: Device, what: &str) -> Error {
    let mut kinds: Vec<&str> = inventory::iter::<BackendEntry>.into_iter().map(|it| it.kind.name()).collect();
    kinds.sort_unstable();
    Error::new(Code::DeviceUnavailable, format!("the device `{device}` is not available: {what}")).help(format!(
        "this program has backends for {}; select one of their devices with `MS_DEVICE_TARGET` or \
         `Context::device_target`, or link a backend for `{}`",
        kinds.join(", "),
        device.kind()
    ))
}

/// The backend of the host; `None` if none is linked.
///
/// # Panics
/// Raises [`Code::Environment`] if an environment variable has an invalid value.
#[inline]
pub fn host_backend() -> Option<&'static Arc<dyn Backend>> {
    static HOST: OnceLock<Option<Arc<dyn Backend>>> = OnceLock::new();
    let make = || {
        environment::check().or_raise();
        entry(DeviceKind::CPU).map(|it| (it.probe)(0).or_raise())
    };
    HOST.get_or_init(make).as_ref()
}

fn entry(kind: DeviceKind) -> Option<&'static BackendEntry> {
    inventory::iter::<BackendEntry>.into_iter().find(|it| it.kind == kind)
}

/// The backend of a device.
///
/// # Errors
/// [`Code::DeviceUnavailable`] if no backend of this kind is linked, or it has no such device;
/// [`Code::Environment`] if an environment variable has an invalid value.
pub fn backend(device: Device) -> Result<&'static Arc<dyn Backend>> {
    static FOUND: Mutex<Vec<(Device, &'static Arc<dyn Backend>)>> = Mutex::new(Vec::new());
    environment::check()?;
    let missing = || unavailable(device, &format!("no backend of this program runs on `{}`", device.kind()));
    if device.is_cpu() {
        return host_backend().ok_or_else(missing);
    }
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = found.iter().find(|it| it.0 == device) {
        return Ok(known.1);
    }
    let made = (entry(device.kind()).ok_or_else(missing)?.probe)(device.id())?;
    // Arrays may be on the device until the process ends.
    let kept: &'static Arc<dyn Backend> = Box::leak(Box::new(made));
    found.push((device, kept));
    Ok(kept)
}

//! Defines the interface of backends.

use super::program::{Artifact, CompileOptions};
use super::roofline::{Exceeded, Roof};
use super::waits::Waits;
use crate::lower::eager::{EagerOp, Step};
use crate::target::Target;
use ms_ir::data::{Array, Device, DeviceKind, MemorySpace};
use ms_ir::environment;
use ms_ir::error::{Code, Error, OrRaise, Result};
use ms_ir::{Graph, StepCode};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Compiles graphs to executables for one device.
///
/// Arrays, and addresses in the argument blocks of kernels, are in the [memory](Backend::memory) of the device.
///
/// # Safety
/// The executables of a backend write all elements of their outputs with valid values of their dtypes. They access no
/// other memory, and retain none of the arrays that are passed to them. On a device with separate memory they are work
/// of the calling thread's compute [stream](ms_ir::data::with_stream), which may run later.
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

    /// The target for which graphs and steps are lowered; part of every stored key.
    fn target(&self) -> &Target;

    /// Compiles an optimised graph to an artifact for [`Backend::load`], in this process or a later one.
    ///
    /// # Errors
    /// [`Code::Backend`](ms_ir::Code::Backend) if the device cannot run the graph.
    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact>;

    /// Loads a compiled graph.
    ///
    /// # Safety
    /// This backend, with these [sources](Backend::sources) and this [fingerprint](Backend::fingerprint), compiled the
    /// artifact from a valid graph. The code is executed without verification.
    ///
    /// # Errors
    /// [`Code::Backend`](ms_ir::Code::Backend) if the artifact belongs to another backend.
    unsafe fn load(&self, artifact: &Artifact) -> Result<Arc<dyn Executable>>;

    /// Formats the artifact that [`Backend::compile`] produces for a graph as text for people.
    ///
    /// # Errors
    /// See [`Backend::compile`].
    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String>;

    /// Returns the roofline of the device, the best rates measured in this process. The first call measures all rates,
    /// and later ones measure the `exceeded` rates again. Returns `None` if the rates are unknown.
    fn roof(&self, exceeded: Exceeded) -> Option<Roof> {
        let _ = exceeded;
        None
    }

    /// Compiles one op for eager execution, for all shapes, if the device runs it as a whole. It is asked before the op
    /// is lowered. For `None`, [`Backend::compile_step`] compiles the steps to which the op is lowered. Without
    /// [kernels](Target::kernels) nothing is lowered, and every op is a library step.
    ///
    /// The code takes the operands in memory, and the bits of host scalars as its argument block. It fails if the
    /// definition of the op does, so no check precedes it. In strict precision, its results have the bits that those
    /// steps have.
    ///
    /// # Errors
    /// [`Code::Backend`](ms_ir::Code::Backend) if the code cannot be compiled.
    fn compile_op(&self, op: &EagerOp) -> Result<Option<Arc<dyn StepCode>>> {
        let _ = op;
        Ok(None)
    }

    /// Compiles a step of one op for eager execution, for all extents and strides.
    ///
    /// # Errors
    /// [`Code::Backend`](ms_ir::Code::Backend) if the device cannot run it.
    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>>;
}

/// Terms on which a run may reuse the memory of a donated input without other references.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Donation {
    /// Any output may reuse the memory. If the run fails, the elements are lost.
    #[default]
    Given,
    /// Only the output with this number, its new value, reuses the memory, or an output that is written when no step
    /// can fail any more. If the run fails, the elements are unchanged.
    State(u32),
    /// Only an output of the same type that is computed in place reuses the memory. If the run fails, the input has its
    /// old elements, or, if the output was partly written, some of the output's.
    Lent,
}

/// A loaded program. Re-entrant: every concurrent run has separate memory.
pub trait Executable: Send + Sync {
    /// Runs on inputs of its [interface](super::Interface). Returns row-major arrays.
    ///
    /// # Errors
    /// [`Code::Argument`](ms_ir::Code::Argument) for inputs of other types; errors of its ops.
    fn run(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>>;

    /// Runs on donated inputs: an output may reuse the memory of an input without other references. `donations` has the
    /// terms of each input. Inputs beyond its end are [`Donation::Given`].
    ///
    /// # Errors
    /// See [`Executable::run`].
    fn run_donated(&self, inputs: &mut [Array], donations: &[Donation]) -> Result<SmallVec<[Array; 1]>> {
        let _ = donations;
        self.run(&inputs.iter().collect::<Vec<_>>())
    }

    /// Returns whether `output`, the new value of a slot, is computed in place of `input`, its old value of the same
    /// type. Shared memory is never overwritten.
    fn overwrites(&self, output: usize, input: usize) -> bool {
        let _ = (output, input);
        false
    }

    /// Returns the points at which the host waits in a run on a device with separate memory.
    fn waits(&self) -> Waits {
        Waits::default()
    }
}

/// A registered backend and its device probe.
pub struct BackendEntry {
    /// The kind of its devices.
    pub kind: DeviceKind,
    /// Returns the backend of the device with this number. Called once for each device.
    ///
    /// # Errors
    /// [`Code::DeviceUnavailable`](ms_ir::Code::DeviceUnavailable), with what was searched, if there is no
    /// such device: see [`unavailable`].
    pub probe: fn(u16) -> Result<Arc<dyn Backend>>,
}

inventory::collect!(BackendEntry);

/// Creates the error of a device that cannot be used because of `what`.
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

/// Returns the backend of the host; `None` if none is linked.
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

/// Returns the backend of a device.
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
    // Arrays may be on the device until the process ends, so the backend is leaked.
    let kept: &'static Arc<dyn Backend> = Box::leak(Box::new(made));
    found.push((device, kept));
    Ok(kept)
}

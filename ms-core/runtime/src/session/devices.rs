//! Determines the device on which an op or a compiled function runs: the device of its operands.
//!
//! Operands of rank zero follow the others, as host scalars do. Without other operands, the device of the settings is
//! used.

use super::context::settings;
use ms_compile::exec;
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{
    Array, Device, Fence, Memory, MemorySpace, Origin, Restored, Stream, StreamKind, Tensor, sync_step, with_stream,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// Returns the memory of a device.
///
/// # Errors
/// [`Code::DeviceUnavailable`].
pub(super) fn space(device: Device) -> Result<MemorySpace> {
    if device.is_cpu() { Ok(MemorySpace::Host) } else { Ok(exec::backend(device)?.memory()) }
}

/// Returns the device of an op or a function with these operands, and the operands on it. Operands of rank zero move
/// there, and those whose positions `follows` accepts.
///
/// # Errors
/// [`Code::Devices`] when operands are on different devices; the errors of copying an operand.
#[cold]
pub(super) fn gathered(operands: &[&Array], follows: impl Fn(usize) -> bool) -> Result<(Device, SmallVec<[Array; 4]>)> {
    // Reading the settings also determines whether the process uses only the host.
    let here = settings().device;
    let decides = |it: &(usize, &&Array)| it.1.layout().rank() > 0 && !follows(it.0);
    let mut deciding = operands.iter().enumerate().filter(decides);
    let device = match deciding.next() {
        Some((first, array)) => {
            let device = array.device();
            match deciding.find(|it| it.1.device() != device) {
                Some((other, array)) => return Err(differ((first, device), (other, array.device()), operands)),
                None => device,
            }
        }
        None => {
            let numbers = operands.iter().enumerate().filter(|it| !follows(it.0));
            let mut devices = numbers.map(|it| it.1.device());
            let first = devices.next().filter(|first| devices.all(|it| it == *first));
            first.unwrap_or(here)
        }
    };
    let space = space(device)?;
    let moved = operands.iter().map(|it| it.to_space(space)).collect::<Result<_>>()?;
    Ok((device, moved))
}

/// Moves arrays to a common device like [`gathered`]. Arrays that are there already do not become shared.
///
/// # Errors
/// See [`gathered`].
#[cold]
pub(super) fn gather(operands: &mut [Array], follows: impl Fn(usize) -> bool) -> Result<Device> {
    let (device, moved) = gathered(&operands.iter().collect::<SmallVec<[&Array; 8]>>(), follows)?;
    for (operand, moved) in operands.iter_mut().zip(moved) {
        if operand.device() != device {
            *operand = moved;
        }
    }
    Ok(device)
}

/// Work that the calling thread submits to its stream of a device: an op, or a run of a compiled function. For host
/// memory, where work is done at once, it is empty.
pub(super) struct Submission(Option<(&'static dyn Memory, Stream)>);

impl Submission {
    /// Submits the work that `submit` puts on the stream of a memory's device. Its errors may occur later, and `origin`
    /// explains them.
    ///
    /// # Errors
    /// The errors of `submit`.
    pub fn make<R>(
        space: MemorySpace,
        origin: impl FnOnce() -> Arc<dyn Origin>,
        submit: impl FnOnce(&Self) -> Result<R>,
    ) -> Result<R> {
        let MemorySpace::Device(memory) = space else { return submit(&Self(None)) };
        with_stream(memory, StreamKind::Compute, |stream| {
            memory.set_origin(stream, Some(origin()));
            let submitted = submit(&Self(Some((memory, stream))));
            memory.set_origin(stream, None);
            submitted
        })
    }

    /// Makes the work begin when these arrays are written.
    ///
    /// # Errors
    /// The error of the work that writes one of them, if a wait has returned it.
    pub fn reads<'a>(&self, arrays: impl IntoIterator<Item = &'a Array>) -> Result<()> {
        match self.0 {
            Some((_, stream)) => arrays.into_iter().try_for_each(|it| it.storage().await_written(stream)),
            None => Ok(()),
        }
    }

    /// Makes the work, which may write these arrays, begin when nothing else accesses them.
    pub fn writes<'a>(&self, arrays: impl IntoIterator<Item = &'a Array>) {
        if let Some((_, stream)) = self.0 {
            arrays.into_iter().for_each(|it| it.storage().await_unused(stream));
        }
    }

    /// Records that the submitted work reads `inputs`. It writes those of `outputs` that are fresh or in the memory of
    /// an array in `over`.
    ///
    /// # Errors
    /// The errors of the work, if this waits for it.
    pub fn submitted<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a Array>,
        outputs: impl IntoIterator<Item = &'a Array>,
        over: &[Array],
    ) -> Result<()> {
        let Some((memory, stream)) = self.0 else { return Ok(()) };
        let fence: Fence = memory.fence(stream);
        inputs.into_iter().for_each(|it| it.storage().used_by(fence));
        sync_step(memory, fence)?;
        for output in outputs {
            let storage = output.storage();
            if storage.is_fresh() || over.iter().any(|it| Arc::ptr_eq(it.storage(), storage)) {
                storage.written_by(fence);
            }
        }
        Ok(())
    }
}

/// Restores the old values of slots if the work that computes the new ones fails. `values` are pairs of old and new
/// values that the calling thread has submitted to a device. New values are row-major and have no other references.
/// Host work has already succeeded, and traced values are written later.
///
/// # Errors
/// The errors of copying an old value to the device.
#[cold]
pub(super) fn keep_old_values<'a>(values: impl IntoIterator<Item = (Tensor, &'a Tensor)>) -> Result<()> {
    let mut space = MemorySpace::Host;
    let mut kept: SmallVec<[(Array, &Array); 8]> = SmallVec::new();
    for (old, new) in values {
        let (Ok(old), Some(new)) = (old.into_array(), new.as_array()) else { continue };
        // Values of other types are rejected when the slot is written.
        if !new.space().is_host() && old.ty() == new.ty() {
            space = new.space();
            let old = if old.layout().is_contiguous() { old } else { old.on_host()?.to_contiguous() };
            kept.push((old.to_space(space)?, new));
        }
    }
    let MemorySpace::Device(memory) = space else { return Ok(()) };
    with_stream(memory, StreamKind::Compute, |stream| {
        kept.retain(|it| it.0.storage().await_written(stream).is_ok());
        let restored = |(old, new): &(Array, &Array)| Restored {
            old: old.device_ptr(),
            new: new.device_ptr(),
            bytes: old.numel() * old.dtype().size(),
        };
        let moves: SmallVec<[Restored; 8]> = kept.iter().map(restored).collect();
        // SAFETY: each pair has the same type and is row-major, so both have `bytes` bytes. This stream created the new
        // values, which have no other references and do not overlap.
        unsafe { memory.restore(stream, &moves) };
        let fence = memory.fence(stream);
        kept.iter().for_each(|it| it.0.storage().used_by(fence));
        kept.iter().for_each(|it| it.1.storage().written_by(fence));
    });
    Ok(())
}

fn differ(a: (usize, Device), b: (usize, Device), operands: &[&Array]) -> Error {
    let message = format!("operand {} is on `{}`, and operand {} on `{}`", a.0, a.1, b.0, b.1);
    Error::new(Code::Devices, message)
        .with_operands(operands.iter().map(|it| format!("{} on {}", it.ty(), it.device())))
        .help(format!("move one of them: `.to(\"{}\")`", a.1))
}

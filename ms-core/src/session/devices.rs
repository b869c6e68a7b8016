//! The device on which an op or a compiled function runs: that of its operands.
//!
//! Operands of rank zero follow the others, as numbers do. Without others, the device of the settings is
//! used.

use super::context::settings;
use crate::error::{Code, Error, Result};
use crate::exec;
use crate::tensor::{Array, Device, MemorySpace};
use smallvec::SmallVec;

/// The memory of a device.
///
/// # Errors
/// [`Code::DeviceUnavailable`].
pub(super) fn space(device: Device) -> Result<MemorySpace> {
    if device.is_cpu() { Ok(MemorySpace::Host) } else { Ok(exec::backend(device)?.memory()) }
}

/// The device of an op or a function with these operands, and the operands there. Besides those of rank
/// zero, those follow that `follows` tells, by their positions.
///
/// # Errors
/// [`Code::Devices`] when operands are on different devices; those of copying an operand.
#[cold]
pub(super) fn gathered(operands: &[&Array], follows: impl Fn(usize) -> bool) -> Result<(Device, SmallVec<[Array; 4]>)> {
    // Reading them also tells whether the process uses the host only.
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

/// [`gathered`] of arrays, which are moved there. Those that are there are not shared by it.
///
/// # Errors
/// As [`gathered`].
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

fn differ(a: (usize, Device), b: (usize, Device), operands: &[&Array]) -> Error {
    let message = format!("operand {} is on `{}`, and operand {} on `{}`", a.0, a.1, b.0, b.1);
    Error::new(Code::Devices, message)
        .with_operands(operands.iter().map(|it| format!("{} on {}", it.ty(), it.device())))
        .help(format!("move one of them: `.to(\"{}\")`", a.1))
}

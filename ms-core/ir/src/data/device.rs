//! Names devices and tracks which ones are in use.

use crate::error::{Code, Error, Result};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// A kind of device by the name of its backend: `cpu`, `cuda`, `sim`.
///
/// ```
/// use ms_core::tensor::DeviceKind;
/// let kinds = ["cpu", "GPU", "Ascend"].map(|it| it.parse::<DeviceKind>().map(|it| it.name().to_owned()));
/// assert_eq!(kinds.map(|it| it.ok()), ["cpu", "cuda", "ascend"].map(|it| Some(it.to_owned())));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKind([u8; Self::MAX_NAME]);

impl DeviceKind {
    /// The processor that runs the program.
    pub const CPU: Self = Self::named("cpu");

    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 6;

    /// Returns the kind with this name: lowercase letters, at most [`DeviceKind::MAX_NAME`] of them.
    ///
    /// # Panics
    /// Panics for any other text.
    pub const fn named(name: &str) -> Self {
        match Self::of(name.as_bytes()) {
            Some(kind) => kind,
            None => panic!("the name of a kind of device is one to six lowercase letters"),
        }
    }

    const fn of(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_NAME];
        if name.is_empty() || name.len() > bytes.len() {
            return None;
        }
        let mut i = 0;
        while i < name.len() {
            if !name[i].is_ascii_lowercase() {
                return None;
            }
            bytes[i] = name[i];
            i += 1;
        }
        Some(Self(bytes))
    }

    /// The name.
    pub fn name(&self) -> &str {
        let end = self.0.iter().position(|&it| it == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).expect("a name consists of letters")
    }
}

impl FromStr for DeviceKind {
    type Err = Error;

    /// Parses a name. Case does not matter, and `GPU` is `cuda`.
    ///
    /// # Errors
    /// [`Code::Argument`] for text that does not name a kind of device.
    fn from_str(text: &str) -> Result<Self> {
        let name = text.to_ascii_lowercase();
        Self::of(if name == "gpu" { b"cuda" } else { name.as_bytes() }).ok_or_else(|| {
            Error::new(Code::Argument, format!("`{text}` names no kind of device"))
                .help("names are like `cpu`, `cuda`, `GPU`, `Ascend`")
        })
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A device: its kind, and its number within the kind.
///
/// The text form is `cpu`, `cuda:0`, `sim:1`. The names of MindSpore parse as well, in upper or lower case: `CPU`,
/// `GPU` for `cuda`, `Ascend`. Without a number, it is the first device.
///
/// ```
/// use ms_core::tensor::Device;
/// let parsed = ["cpu", "CUDA:1", "GPU", "Ascend:3"].map(|it| it.parse::<Device>().unwrap().to_string());
/// assert_eq!(parsed, ["cpu", "cuda:1", "cuda:0", "ascend:3"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    kind: DeviceKind,
    id: u16,
}

impl Device {
    /// The processor that runs the program, and its memory: the host.
    pub const CPU: Self = Self::new(DeviceKind::CPU, 0);

    /// Returns device number `id` of a kind.
    pub const fn new(kind: DeviceKind, id: u16) -> Self {
        Self { kind, id }
    }

    /// The kind.
    pub fn kind(self) -> DeviceKind {
        self.kind
    }

    /// The number among the devices of its kind.
    pub fn id(self) -> u16 {
        self.id
    }

    /// Returns whether this is the host.
    pub fn is_cpu(self) -> bool {
        self == Self::CPU
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_cpu() {
            true => fmt::Display::fmt(&self.kind, f),
            false => f.pad(&format!("{}:{}", self.kind, self.id)),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Device {
    type Err = Error;

    /// # Errors
    /// [`Code::Argument`] for text that does not name a device.
    fn from_str(text: &str) -> Result<Self> {
        let (kind, id) = text.split_once(':').unwrap_or((text, "0"));
        match (kind.parse(), id.parse()) {
            (Ok(kind), Ok(id)) => Ok(Self { kind, id }),
            _ => Err(Error::new(Code::Argument, format!("`{text}` names no device"))
                .help("names are like `cpu`, `cuda:0`, `GPU`, `Ascend:1`")),
        }
    }
}

/// A device, or its name.
///
/// ```
/// use ms_core::{tensor, tensor::{Device, IntoDevice}};
/// assert_eq!("cpu".into_device()?, Device::CPU);
/// assert_eq!(tensor![1.0].to("cpu").to_vec::<f32>(), tensor![1.0].to(Device::CPU).to_vec::<f32>());
/// # Ok::<(), ms_core::Error>(())
/// ```
pub trait IntoDevice {
    /// The device.
    ///
    /// # Errors
    /// [`Code::Argument`] for text that does not name one.
    fn into_device(self) -> Result<Device>;
}

impl IntoDevice for Device {
    fn into_device(self) -> Result<Device> {
        Ok(self)
    }
}

impl IntoDevice for &str {
    fn into_device(self) -> Result<Device> {
        self.parse()
    }
}

/// The devices that the process uses. Most processes use only the host: they check this once per op and need not
/// inspect the operands' devices.
static USE: AtomicU8 = AtomicU8::new(Use::Unknown as u8);

/// The values of [`USE`].
#[repr(u8)]
enum Use {
    /// No settings were read.
    Unknown,
    /// Every array is in host memory, and new ones are placed there.
    HostOnly,
    /// Any device.
    Any,
    /// The host only, as far as is known, but the profiler is active. Ops take the slow path of any device, so the fast
    /// path needs no check for the profiler.
    Profiled,
}

/// The number of values of [`ProfiledUse`], and the value of [`USE`] before the first of them.
static PROFILERS: Mutex<(usize, u8)> = Mutex::new((0, 0));

/// A guard: while one lives, ops and compiled functions of all threads take the slow path of any device.
#[doc(hidden)]
pub struct ProfiledUse(());

impl ProfiledUse {
    pub fn begin() -> Self {
        let mut profilers = PROFILERS.lock().unwrap_or_else(PoisonError::into_inner);
        if profilers.0 == 0 {
            let host = |now| (now != Use::Any as u8).then_some(Use::Profiled as u8);
            let (Ok(before) | Err(before)) = USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, host);
            profilers.1 = before;
        }
        profilers.0 += 1;
        Self(())
    }
}

impl Drop for ProfiledUse {
    fn drop(&mut self) {
        let mut profilers = PROFILERS.lock().unwrap_or_else(PoisonError::into_inner);
        profilers.0 -= 1;
        if profilers.0 == 0 {
            // If another device came into use meanwhile, it remains in use.
            let _any = USE.compare_exchange(Use::Profiled as u8, profilers.1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Returns whether every array of the process is in host memory, and new ones are placed there.
#[inline]
pub fn is_host_only() -> bool {
    USE.load(Ordering::Relaxed) == Use::HostOnly as u8
}

/// Records that the settings of the process place new arrays on this device, or that its memory is allocated.
#[doc(hidden)]
pub fn use_device(device: Device) {
    let (from, to) = match device.is_cpu() {
        true => (Use::Unknown, Use::HostOnly),
        false => {
            USE.store(Use::Any as u8, Ordering::Relaxed);
            return;
        }
    };
    // If another device is in use, it remains in use.
    let _other = USE.compare_exchange(from as u8, to as u8, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let cases = [
            ("cpu", "cpu"),
            ("CPU", "cpu"),
            ("cpu:0", "cpu"),
            ("cpu:1", "cpu:1"),
            ("cuda", "cuda:0"),
            ("cuda:12", "cuda:12"),
            ("GPU", "cuda:0"),
            ("gpu:1", "cuda:1"),
            ("Ascend", "ascend:0"),
            ("sim:65535", "sim:65535"),
        ];
        for (text, want) in cases {
            let device: Device = text.parse().expect("a name");
            assert_eq!(device.to_string(), want);
            assert_eq!(device.to_string().parse::<Device>().expect("its own name"), device);
        }
        for text in ["", ":0", "cuda:", "cuda:-1", "cuda:65536", "cuda:0:0", "c u", "processor", "tpü"] {
            let error = text.parse::<Device>().expect_err("no name");
            assert_eq!(error.code(), Code::Argument, "{text}");
        }
        assert_eq!(size_of::<Device>(), 8);
    }
}

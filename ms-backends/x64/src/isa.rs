//! Detects the instruction set that kernels are compiled for.

use std::fmt;
use std::sync::OnceLock;

/// The instruction set of kernels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// No machine code: the interpreter runs every kernel.
    Interp,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// AVX2 with AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// Returns whether this machine supports the instruction set.
    pub fn is_supported(self) -> bool {
        self <= Self::detect()
    }

    /// Detects the best instruction set of this machine.
    pub fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(best)
    }

    /// All instruction sets, best first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Interp];

    /// Returns the instruction set with a name: `avx512`, `avx2` or `interp`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interp => "interp",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Detects the best instruction set of this machine.
///
/// Few CPUID leaves are read, as each one traps in a virtual machine. `is_x86_feature_detected` reads ten.
#[cfg(target_arch = "x86_64")]
fn best() -> Isa {
    use std::arch::x86_64::{__cpuid, __cpuid_count};

    let has = |word: u32, bits: &[u32]| bits.iter().all(|bit| word & 1 << bit != 0);
    let features = __cpuid(1);
    // The bits of FMA, OSXSAVE, AVX and F16C.
    if !has(features.ecx, &[12, 27, 28, 29]) {
        return Isa::Interp;
    }
    // SAFETY: OSXSAVE is set, so the system has enabled `xgetbv`.
    let saved = unsafe { saved_register_state() } as u32;
    // A processor with XSAVE has leaf 13, and thus leaf 7.
    let more = __cpuid_count(7, 0).ebx;
    // The system must save 128-bit and 256-bit registers, and the processor must have AVX2.
    if !has(saved, &[1, 2]) || !has(more, &[5]) {
        return Isa::Interp;
    }
    // The system must save masks and 512-bit registers, and the processor must have AVX-512 F, DQ, BW and VL.
    match has(saved, &[5, 6, 7]) && has(more, &[16, 17, 30, 31]) {
        true => Isa::Avx512,
        false => Isa::Avx2,
    }
}

/// Whether the processor runs a 512-bit instruction as two 256-bit halves (double pumping). Among AMD's processors with
/// AVX-512, family 19h (Zen 4) does. Later families have 512-bit execution units.
///
/// Source: AMD, Software Optimization Guide for the Zen 4 Microarchitecture, publication 57647.
#[cfg(target_arch = "x86_64")]
pub fn double_pumps_512() -> bool {
    use std::arch::x86_64::__cpuid;
    static HALF: OnceLock<bool> = OnceLock::new();
    *HALF.get_or_init(|| {
        let version = __cpuid(1).eax;
        let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
        is_amd() && family == 0x19
    })
}

/// Whether the processor runs a 512-bit instruction as two 256-bit halves (double pumping).
#[cfg(not(target_arch = "x86_64"))]
pub fn double_pumps_512() -> bool {
    false
}

/// Whether AMD made the processor.
#[cfg(target_arch = "x86_64")]
pub fn is_amd() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

/// Returns the register state that the system saves for each thread (register XCR0).
///
/// # Safety
/// The system has enabled `xgetbv` (OSXSAVE), as it has on every machine with AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "xsave")]
pub fn saved_register_state() -> u64 {
    // SAFETY: XCR0 exists wherever `xgetbv` does, which this function's contract requires.
    unsafe { std::arch::x86_64::_xgetbv(0) }
}

/// Detects the best instruction set of this machine.
#[cfg(not(target_arch = "x86_64"))]
fn best() -> Isa {
    Isa::Interp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in [Isa::Interp, Isa::Avx2, Isa::Avx512] {
            assert_eq!(Isa::from_name(&isa.to_string()), Some(isa));
        }
        assert_eq!(Isa::from_name("sse2"), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_library_finds_the_same() {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma") && has!("f16c");
        let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
        let want = [(Isa::Interp, true), (Isa::Avx2, avx2), (Isa::Avx512, avx2 && avx512)];
        assert_eq!(want.map(|it| it.0.is_supported()), want.map(|it| it.1));
    }
}

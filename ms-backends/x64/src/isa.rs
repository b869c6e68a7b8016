//! Detects the instruction set that kernels and products are compiled for.

use std::fmt;
use std::sync::OnceLock;

/// The instruction set of kernels, library ops and products. Each contains the vector instructions of those before it.
/// At most one matrix engine belongs to each, see `Engine::of`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// No machine code: the interpreter runs every kernel.
    Interp,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// AVX2 with AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512, and products of bf16 by the dot products of AVX512-BF16.
    Avx512Bf16,
    /// AVX-512, and products by the tile registers of AMX.
    Avx512Amx,
}

/// The vector instructions of an [`Isa`], which determine machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vectors {
    /// None.
    Scalar,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX2 with AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// Returns whether the processor and the system support the instruction set. The first call for AMX requests it of
    /// the system, for all threads of the process.
    pub fn is_supported(self) -> bool {
        static PERMITTED: OnceLock<bool> = OnceLock::new();
        let has = Features::of_machine().supports(self);
        has && (self != Self::Avx512Amx || *PERMITTED.get_or_init(permits_tiles))
    }

    /// Detects the instruction set that is fastest on this machine. AMX is not requested of the system yet: a process
    /// that computes no large product has no use for it.
    pub fn detect() -> Self {
        Features::of_machine().fastest()
    }

    /// All instruction sets, best first.
    pub const ALL: [Self; 5] = [Self::Avx512Amx, Self::Avx512Bf16, Self::Avx512, Self::Avx2, Self::Interp];

    /// Returns the instruction set with a name: `avx512-amx`, `avx512-bf16`, `avx512`, `avx2` or `interp`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interp => "interp",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Avx512Amx => "avx512-amx",
        }
    }

    /// Returns the vector instructions.
    pub const fn vectors(self) -> Vectors {
        match self {
            Self::Interp => Vectors::Scalar,
            Self::Avx2 => Vectors::Avx2,
            Self::Avx512 | Self::Avx512Bf16 | Self::Avx512Amx => Vectors::Avx512,
        }
    }

    /// Returns the instruction set with the same vector instructions and without a matrix engine.
    pub const fn without_engine(self) -> Self {
        match self.vectors() {
            Vectors::Scalar => Self::Interp,
            Vectors::Avx2 => Self::Avx2,
            Vectors::Avx512 => Self::Avx512,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The instruction-set extensions that the processor has and the operating system enables.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Features {
    /// AVX2, FMA and F16C.
    avx2: bool,
    /// AVX-512 F, BW, DQ and VL.
    avx512: bool,
    /// AVX512-BF16.
    bf16: bool,
    /// AMX-BF16, AMX-TILE and AMX-INT8.
    amx: bool,
    /// Whether AMD made the processor.
    is_amd: bool,
}

impl Features {
    fn of_machine() -> Self {
        static FEATURES: OnceLock<Features> = OnceLock::new();
        *FEATURES.get_or_init(Self::detect)
    }

    /// Detects the features of this machine.
    ///
    /// Few CPUID leaves are read, as each one traps in a virtual machine. `is_x86_feature_detected` reads ten.
    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        use std::arch::x86_64::{__cpuid, __cpuid_count};

        let has = |word: u32, bits: &[u32]| bits.iter().all(|bit| word & 1 << bit != 0);
        let features = __cpuid(1);
        // The bits of FMA, OSXSAVE, AVX and F16C.
        if !has(features.ecx, &[12, 27, 28, 29]) {
            return Self::default();
        }
        // SAFETY: OSXSAVE is set, so the system has enabled `xgetbv`.
        let saved = unsafe { saved_register_state() } as u32;
        // A processor with XSAVE has leaf 13, and thus leaf 7.
        let more = __cpuid_count(7, 0);
        // The system must save 128-bit and 256-bit registers, and the processor must have AVX2.
        if !has(saved, &[1, 2]) || !has(more.ebx, &[5]) {
            return Self::default();
        }
        // The system must save masks and 512-bit registers, and the processor must have AVX-512 F, DQ, BW and VL.
        if !has(saved, &[5, 6, 7]) || !has(more.ebx, &[16, 17, 30, 31]) {
            return Self { avx2: true, ..Self::default() };
        }
        // Only Linux is asked for AMX, and only there are the engines tested.
        let has_engines = cfg!(target_os = "linux");
        // The system must save tiles and their configuration.
        let amx = has_engines && has(saved, &[17, 18]) && has(more.edx, &[22, 24, 25]);
        let bf16 = has_engines && more.eax >= 1 && has(__cpuid_count(7, 1).eax, &[5]);
        Self { avx2: true, avx512: true, bf16, amx, is_amd: bf16 && is_amd() }
    }

    /// Detects the features of this machine.
    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::default()
    }

    fn supports(self, isa: Isa) -> bool {
        match isa {
            Isa::Interp => true,
            Isa::Avx2 => self.avx2,
            Isa::Avx512 => self.avx512,
            Isa::Avx512Bf16 => self.bf16,
            Isa::Avx512Amx => self.amx,
        }
    }

    /// Returns the best instruction set. AVX512-BF16 counts on processors of AMD only: on those of Intel that were
    /// measured, dot products run at half the rate of multiply-adds.
    fn fastest(self) -> Isa {
        let is_fast = |it: &Isa| self.supports(*it) && (*it != Isa::Avx512Bf16 || self.is_amd);
        Isa::ALL.into_iter().find(is_fast).unwrap_or(Isa::Interp)
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
fn is_amd() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

/// Requests the permission to use the registers for all threads of this process, running ones included.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn permits_tiles() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: both arguments of the system call are numbers, and it changes no memory of the process.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Requests the permission to use the registers of AMX.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn permits_tiles() -> bool {
    false
}

/// Returns the register state that the system saves for each thread (register XCR0).
///
/// # Safety
/// The system has enabled `xgetbv` (OSXSAVE), as it has on every machine with AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "xsave")]
fn saved_register_state() -> u64 {
    // SAFETY: XCR0 exists wherever `xgetbv` does, which this function's contract requires.
    unsafe { std::arch::x86_64::_xgetbv(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in Isa::ALL {
            assert_eq!(Isa::from_name(&isa.to_string()), Some(isa));
        }
        assert_eq!(Isa::from_name("sse2"), None);
        assert!(Isa::ALL.is_sorted_by(|a, b| a > b));
    }

    /// The instruction sets that machines support, and the fastest one of each.
    #[test]
    fn machines() {
        let none = Features::default();
        let haswell = Features { avx2: true, ..none };
        let skylake = Features { avx512: true, ..haswell };
        let zen_4 = Features { bf16: true, is_amd: true, ..skylake };
        let cooper_lake = Features { is_amd: false, ..zen_4 };
        let sapphire_rapids = Features { amx: true, ..cooper_lake };
        for (machine, supported, fastest) in [
            (none, [false, false, false, false, true], Isa::Interp),
            (haswell, [false, false, false, true, true], Isa::Avx2),
            (skylake, [false, false, true, true, true], Isa::Avx512),
            (zen_4, [false, true, true, true, true], Isa::Avx512Bf16),
            (cooper_lake, [false, true, true, true, true], Isa::Avx512),
            (sapphire_rapids, [true; 5], Isa::Avx512Amx),
        ] {
            assert_eq!(Isa::ALL.map(|it| machine.supports(it)), supported, "{machine:?}");
            assert_eq!(machine.fastest(), fastest, "{machine:?}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_library_finds_the_same() {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma") && has!("f16c");
        let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
        let bf16 = cfg!(target_os = "linux") && has!("avx512bf16");
        let want = [
            (Isa::Interp, true),
            (Isa::Avx2, avx2),
            (Isa::Avx512, avx2 && avx512),
            (Isa::Avx512Bf16, avx2 && avx512 && bf16),
        ];
        assert_eq!(want.map(|it| it.0.is_supported()), want.map(|it| it.1));
    }
}

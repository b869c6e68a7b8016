//! The instruction set that kernels are compiled for.

use std::fmt;

/// What kernels run on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Isa {
    /// No code is generated: the interpreter runs every kernel.
    Interp,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL besides.
    Avx512,
}

impl Isa {
    /// Whether this machine can run it.
    pub fn is_supported(self) -> bool {
        match self {
            Self::Interp => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => has_avx2() && has_avx512(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The best that this machine can run.
    pub fn detect() -> Self {
        [Self::Avx512, Self::Avx2].into_iter().find(|it| it.is_supported()).unwrap_or(Self::Interp)
    }

    /// The one of a name: `avx512`, `avx2`, `interp`.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Avx512, Self::Avx2, Self::Interp].into_iter().find(|it| it.name() == name)
    }

    /// The name.
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

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl")
}

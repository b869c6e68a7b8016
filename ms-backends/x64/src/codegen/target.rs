//! Describes the instruction sets that code is generated for, and their registers.

use iced_x86::Register;

/// An instruction set that code is generated for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Target {
    /// The size of the widest vector register in bytes.
    pub const fn vector_bytes(self) -> usize {
        match self {
            Self::Avx2 => 32,
            Self::Avx512 => 64,
        }
    }

    /// Returns the number of vector registers.
    pub const fn vector_registers(self) -> u8 {
        match self {
            Self::Avx2 => 16,
            Self::Avx512 => 32,
        }
    }
}

/// The kind and size of a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// An AVX-512 mask register.
    Mask,
    /// 128 bits.
    Xmm,
    /// 256 bits.
    Ymm,
    /// 512 bits.
    Zmm,
}

impl Width {
    /// Returns the smallest vector register of at least `bytes`.
    pub const fn from_bytes(bytes: usize) -> Self {
        match bytes {
            0..=16 => Self::Xmm,
            17..=32 => Self::Ymm,
            _ => Self::Zmm,
        }
    }

    /// The size of a spill slot for the register in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Mask => 8,
            Self::Xmm => 16,
            Self::Ymm => 32,
            Self::Zmm => 64,
        }
    }

    /// Returns the register of this width with number `index`.
    pub fn register(self, index: u8) -> Register {
        let first = match self {
            Self::Mask => Register::K0,
            Self::Xmm => Register::XMM0,
            Self::Ymm => Register::YMM0,
            Self::Zmm => Register::ZMM0,
        };
        first + u32::from(index)
    }

    /// The register-name prefix, such as `xmm`.
    #[cfg(test)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mask => "k",
            Self::Xmm => "xmm",
            Self::Ymm => "ymm",
            Self::Zmm => "zmm",
        }
    }
}

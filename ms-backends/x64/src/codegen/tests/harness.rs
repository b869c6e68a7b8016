//! Runs a kernel on random buffers, interpreted and compiled, and compares all their bytes.

use super::super::{Tuning, Unsupported, compile_for};
use crate::code::{CodeMemory, Compiled};
use crate::interp::Interpreted;
use crate::isa::Isa;
use crate::testing::Call;
pub use crate::testing::LANES;
use ms_ir::Kernel;
use ms_ir::testing::Random;
use std::sync::Arc;

/// The instruction sets that kernels are compiled for. They include sets that this machine lacks, for the assertions of
/// the code generator.
pub const TARGETS: [Isa; 2] = [Isa::Avx2, Isa::Avx512];

/// Loads a kernel's code. Returns `None` if this machine lacks the instruction set or forbids executable memory.
pub fn mapped(kernel: &Kernel, isa: Isa, bytes: &[u8]) -> Option<Compiled> {
    let memory = isa.is_supported().then(|| CodeMemory::map(bytes))??;
    // SAFETY: `bytes` are the machine code of `kernel`, and its entry is the first byte.
    Some(unsafe { Compiled::new(Arc::new(kernel.clone()), memory, 0..bytes.len()) })
}

/// Compares code for `isa` with the interpreter for each of `sizes`, the extents of all loops. Code that this machine
/// cannot run is compiled only.
#[track_caller]
pub fn check(what: &str, kernel: &Kernel, isa: Isa, sizes: &[Vec<usize>]) -> Result<usize, Unsupported> {
    check_for(what, kernel, isa, Tuning::General, sizes)
}

/// Runs [`check`] with code of a `tuning`.
#[track_caller]
pub fn check_for(
    what: &str,
    kernel: &Kernel,
    isa: Isa,
    tuning: Tuning,
    sizes: &[Vec<usize>],
) -> Result<usize, Unsupported> {
    let code = compile_for(kernel, isa, tuning)?;
    let Some(compiled) = mapped(kernel, isa, &code.bytes) else { return Ok(code.spills) };
    for extents in sizes {
        let mut random = Random::Seed(extents.iter().sum::<usize>() as u64);
        let mut want = Call::random(kernel, extents, &mut random, 0xa5a5_a5a5_a5a5_a5a5);
        let mut got = want.with_guard(0x5a5a_5a5a_5a5a_5a5a);
        // SAFETY: `want` was created for `kernel`, so its buffers cover every access.
        unsafe { want.run(&Interpreted::new(kernel.clone())) };
        // SAFETY: `compiled` was compiled from `kernel`, and `got` is a call of `kernel`.
        unsafe { got.run(&compiled) };
        if let Some(difference) = got.difference(&want) {
            panic!("{what} on {isa}: {difference}\n{kernel}");
        }
    }
    Ok(code.spills)
}

//! Generates x86-64 machine code for kernels.
//!
//! Instruction selection (`select`) lowers a kernel's body to virtual instructions. Linear-scan register allocation
//! (`alloc`) assigns physical registers and spill slots. The emitter (`emit`) encodes the instructions inside the
//! kernel's loop nest.
//!
//! The code is one function `extern "C" fn(block: *const u64)`, followed by its constant pool. It is
//! position-independent and self-contained. Its bytes can be stored, concatenated with others at 64-byte boundaries,
//! and mapped at any address.
//!
//! Results are bit-identical to the interpreter's, except for NaN payloads.

mod alloc;
mod emit;
mod opcodes;
mod pool;
mod select;
mod target;
mod vinst;

#[cfg(test)]
mod tests;

use crate::isa::{Isa, Vectors};
use ms_ir::{Inst, Kernel, LaneAxis, Param, ReductionOrder, Role, StrideClass};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use target::Target;

/// A kernel's machine code.
#[derive(Clone, Debug)]
pub struct Code {
    /// The function, whose entry is the first byte, and its constant pool. They must be aligned to 64 bytes.
    pub bytes: Vec<u8>,
    /// The number of spilled values.
    pub spills: usize,
}

/// The reason why a kernel is interpreted.
///
/// AVX2 supports neither conversions between u64 and floats nor conversions from floats to u32. Stack frames that are
/// too large are unsupported on both instruction sets. So are math functions, which lowering expands for the CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported {
    what: Cow<'static, str>,
}

impl Unsupported {
    fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into() }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no machine code is generated for {}", self.what)
    }
}

impl std::error::Error for Unsupported {}

/// A body of a kernel after register allocation.
struct Body {
    program: vinst::Program,
    allocation: alloc::Allocation,
}

/// The loop extents that code is tuned for. The bits of results do not depend on the choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tuning {
    /// Any extents.
    General,
    /// Long lanes: the instructions of adjacent vectors are interleaved.
    Unrolled,
    /// Long lanes whose results exceed the caches: whole vectors are written with non-temporal stores, which do not
    /// read the cache lines that they overwrite. Contiguous results must begin at a multiple of [`LINE`] bytes in each
    /// step of the loops around the lanes.
    Streaming,
}

/// The size of a cache line in bytes. The results of [`Tuning::Streaming`] are aligned to it.
pub const LINE: usize = 64;

impl Tuning {
    /// Returns whether `param` is written with non-temporal stores.
    pub fn stream(self, param: &Param) -> bool {
        self == Self::Streaming && param.role == Role::Output && param.step == StrideClass::Unit
    }
}

/// The compiled variants of a kernel's body.
struct Bodies {
    /// The general body, for any extents.
    body: Body,
    /// The bodies unrolled over several adjacent vectors of lanes, widest first.
    strips: SmallVec<[Body; 2]>,
    /// The body for extents that are a multiple of the vector length.
    whole: Option<Body>,
    /// The body for rows so short that every reduction order gives the same bits.
    short: Option<Body>,
}

/// Compiles a kernel for an instruction set.
///
/// # Errors
/// If the kernel contains an unsupported operation, or `isa` is the interpreter.
pub fn compile(kernel: &Kernel, isa: Isa) -> Result<Code, Unsupported> {
    compile_for(kernel, isa, Tuning::General)
}

/// Compiles a kernel for an instruction set with a `tuning`.
///
/// # Errors
/// If [`compile`] fails, or the kernel has no variant that is specific to `tuning`.
pub fn compile_for(kernel: &Kernel, isa: Isa, tuning: Tuning) -> Result<Code, Unsupported> {
    // A kernel with reduced loops may read its results again, so they must stay in the caches.
    if tuning == Tuning::Streaming && (kernel.lanes == LaneAxis::Reduced || kernel.seq > 0) {
        return Err(Unsupported::new("streaming stores of what may be read again"));
    }
    let target = match isa.vectors() {
        Vectors::Scalar => return Err(Unsupported::new("the interpreter")),
        Vectors::Avx2 => Target::Avx2,
        Vectors::Avx512 => Target::Avx512,
    };
    let strip = select::select_strip(kernel, target, tuning);
    let wide = strip.as_ref().and_then(|_| select::select_wide_strip(kernel, target));
    // The copies of kernels with reductions are the same for every `tuning`.
    if tuning == Tuning::Unrolled && (strip.is_none() || kernel.insts.iter().any(|it| matches!(it, Inst::Reduce(..)))) {
        return Err(Unsupported::new("long calls in particular"));
    }
    let allocated = |program| {
        let allocation = alloc::allocate(&program, target);
        Body { program, allocation }
    };
    let short = match (kernel.order, kernel.lanes) {
        (ReductionOrder::Blocks, LaneAxis::Reduced) => {
            Some(allocated(select::select(kernel, target, ReductionOrder::Lanes)?))
        }
        _ => None,
    };
    let bodies = Bodies {
        body: allocated(select::select(kernel, target, kernel.order)?),
        // A wide strip without registers for all values would be slower than a narrow one.
        strips: wide
            .map(allocated)
            .filter(|it| it.allocation.spills == 0)
            .into_iter()
            .chain(strip.map(allocated))
            .collect(),
        whole: select::select_whole(kernel, target).map(allocated),
        short,
    };
    let bytes = emit::emit(kernel, target, tuning, &bodies)
        .ok_or_else(|| Unsupported::new("more values at once than the stack should hold"))?;
    Ok(Code { bytes, spills: bodies.body.allocation.spills })
}

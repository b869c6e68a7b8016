//! Machine code for kernels, on x86-64.
//!
//! A kernel is lowered to virtual instructions (`select`), which are allocated to registers (`alloc`)
//! and encoded inside the loop nest (`emit`). The code is one function
//! `extern "C" fn(block: *const u64)`, followed by its constants. It is position-independent and
//! self-contained, so that its bytes may be stored, concatenated with others at 64-byte boundaries,
//! and mapped at any address.
//!
//! Results are those of the interpreter to the bit, except for the payload of a nan.

mod alloc;
mod emit;
mod pool;
mod rows;
mod select;
mod target;
mod vinst;

#[cfg(test)]
mod tests;

use crate::isa::Isa;
use ms_core::ir::{Inst, Kernel, LaneAxis, Param, ReductionOrder, Role, StrideClass};
use std::borrow::Cow;
use std::fmt;
use target::Target;

/// A kernel's machine code.
#[derive(Clone, Debug)]
pub struct Code {
    /// The function, whose entry is the first byte, and its constants. It must be aligned to 64 bytes.
    pub bytes: Vec<u8>,
    /// Number of values that are spilled.
    pub spills: usize,
}

/// The reason why a kernel is interpreted.
///
/// Unsupported are conversions between u64 and floats, and from floats to u32, on AVX2, and stack
/// frames that are too large. Functions, which lowering expands for the CPU, are not supported on any
/// instruction set.
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

/// A kernel's body with its registers.
struct Body {
    program: vinst::Program,
    allocation: alloc::Allocation,
}

/// The calls that code is made for. The bits of results do not depend on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calls {
    /// All.
    Any,
    /// Long ones: instructions of adjacent vectors alternate.
    Long,
    /// Long ones with results that are larger than the caches: whole vectors of results are also stored past the caches,
    /// which do not read the lines that they overwrite. Results with adjacent elements begin at a multiple of [`LINE`]
    /// bytes in each step of the loops around the lanes.
    Streaming,
}

/// Bytes of a cache line, to which the results of [`Calls::Streaming`] are aligned.
pub const LINE: usize = 64;

impl Calls {
    /// Whether a param is written past the caches.
    pub fn stream(self, param: &Param) -> bool {
        self == Self::Streaming && param.role == Role::Output && param.step == StrideClass::Unit
    }
}

/// The bodies of a kernel.
struct Bodies {
    /// For any extents.
    body: Body,
    /// With several copies, for whole groups of vectors of lanes.
    strip: Option<Body>,
    /// For lanes in whole vectors.
    whole: Option<Body>,
    /// For rows whose bits are the same in all orders of reduction.
    short: Option<Body>,
}

/// Compiles a kernel for an instruction set.
///
/// # Errors
/// If the kernel has something unsupported, or the instruction set is the interpreter.
pub fn compile(kernel: &Kernel, isa: Isa) -> Result<Code, Unsupported> {
    compile_for(kernel, isa, Calls::Any)
}

/// Compiles a kernel for an instruction set and these calls.
///
/// # Errors
/// As [`compile`]; if it has no special code for them.
pub fn compile_for(kernel: &Kernel, isa: Isa, calls: Calls) -> Result<Code, Unsupported> {
    // What a kernel keeps between loops stays in the caches.
    if calls == Calls::Streaming && (kernel.lanes == LaneAxis::Reduced || kernel.seq > 0) {
        return Err(Unsupported::new("streaming stores of what may be read again"));
    }
    let target = match isa {
        Isa::Interp => return Err(Unsupported::new("the interpreter")),
        Isa::Avx2 => Target::Avx2,
        Isa::Avx512 => Target::Avx512,
    };
    let strip = select::select_strip(kernel, target, calls);
    // Kernels with reductions have the same copies for all calls.
    if calls == Calls::Long && (strip.is_none() || kernel.insts.iter().any(|it| matches!(it, Inst::Reduce(..)))) {
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
        strip: strip.map(allocated),
        whole: select::select_whole(kernel, target).map(allocated),
        short,
    };
    let bytes = emit::emit(kernel, target, calls, &bodies)
        .ok_or_else(|| Unsupported::new("more values at once than the stack should hold"))?;
    Ok(Code { bytes, spills: bodies.body.allocation.spills })
}

//! Compiles variants of a kernel for large calls, when the first large call needs them.

use crate::codegen::{LINE, Tuning};
use crate::isa::Isa;
use crate::kernel::KernelCode;
use ms_ir::{Kernel, Param, Role};
use std::sync::{Arc, OnceLock};

/// The result size in bytes from which stores are non-temporal: common caches evict such results before they are read.
const MIN_STREAMED_BYTES: u64 = 32 << 20;

/// Compiles a kernel tuned for calls of one kind. Returns `None` if it has no such variant.
pub type Compile = fn(&Arc<Kernel>, Isa, Tuning) -> Option<Arc<dyn KernelCode>>;

/// Code that is compiled at its first use.
type Lazy = OnceLock<Option<Arc<dyn KernelCode>>>;

/// The variants of a kernel for large calls.
pub struct TunedVariants {
    kernel: Arc<Kernel>,
    isa: Isa,
    compile: Compile,
    unrolled: Lazy,
    streaming: Lazy,
}

impl TunedVariants {
    /// Creates the variants of a kernel without compiling them.
    pub fn new(kernel: &Arc<Kernel>, isa: Isa, compile: Compile) -> Self {
        let (unrolled, streaming) = (Lazy::new(), Lazy::new());
        Self { kernel: kernel.clone(), isa, compile, unrolled, streaming }
    }

    /// Returns the code for a large call with this argument block. `None` if the general code is to run.
    pub fn code(&self, block: &[u64]) -> Option<&dyn KernelCode> {
        let streaming =
            if self.is_streamed(block) { self.get_or_compile(Tuning::Streaming, &self.streaming) } else { None };
        streaming.or_else(|| self.get_or_compile(Tuning::Unrolled, &self.unrolled))
    }

    fn get_or_compile<'a>(&self, tuning: Tuning, code: &'a Lazy) -> Option<&'a dyn KernelCode> {
        code.get_or_init(|| (self.compile)(&self.kernel, self.isa, tuning)).as_deref()
    }

    /// Whether the results of a call are large, aligned, and in other buffers than its operands.
    fn is_streamed(&self, block: &[u64]) -> bool {
        let (kernel, loops) = (&*self.kernel, self.kernel.loops());
        let words = |param: usize| &block[kernel.param_word(param)..][..1 + loops];
        let params = || (0..kernel.params.len()).zip(&kernel.params);
        let is_aligned = |it: &u64| it.is_multiple_of(LINE as u64);
        let mut bytes = 0u64;
        for (at, param) in params().filter(|it| Tuning::Streaming.stream(it.1)) {
            let (address, strides) = (words(at)[0], &words(at)[1..]);
            let is_input = |it: &(usize, &Param)| it.1.role == Role::Input && words(it.0)[0] == address;
            if !is_aligned(&address)
                || !strides[..kernel.par as usize].iter().all(is_aligned)
                || params().any(|it| is_input(&it))
            {
                return false;
            }
            // A loop with stride zero writes the same elements again.
            let written = block[..loops].iter().zip(strides).filter(|it| *it.0 == 0 || *it.1 != 0).map(|it| *it.0);
            bytes = bytes.saturating_add(written.fold(param.dtype.size() as u64, u64::saturating_mul));
        }
        bytes >= MIN_STREAMED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::Interpreted;

    /// Returns interpreted code for streaming calls, and no other variant.
    fn streaming(kernel: &Arc<Kernel>, _: Isa, tuning: Tuning) -> Option<Arc<dyn KernelCode>> {
        (tuning == Tuning::Streaming).then(|| Arc::new(Interpreted::new(kernel.clone())) as Arc<dyn KernelCode>)
    }

    #[test]
    fn large_aligned_results_in_other_memory_are_streamed() {
        let text = "kernel par=1 lanes=parallel seq=0 in %x: f32 unit out %y: bf16 unit
            point: x = load %x y = cast x to bf16 store %y, y";
        let kernel = Kernel::parse(text).expect(text);
        kernel.check().expect(text);
        let variants = TunedVariants::new(&Arc::new(kernel), Isa::Avx2, streaming);
        // The block contains the addresses and strides of the input and of the result.
        let block = |extents: [u64; 2], out: [u64; 3]| [&extents[..], &[1 << 30, 4 << 20, 4], &out].concat();
        let whole = block([16, 1 << 20], [1 << 40, 2 << 20, 2]);
        for (what, want, block) in [
            ("whole rows", true, whole),
            ("fewer bytes", false, block([15, 1 << 20], [1 << 40, 2 << 20, 2])),
            ("an unaligned result", false, block([16, 1 << 20], [(1 << 40) + 32, 2 << 20, 2])),
            ("unaligned rows", false, block([32, 1 << 20], [1 << 40, (2 << 20) + 8, 2])),
            ("in place", false, block([16, 1 << 20], [1 << 30, 2 << 20, 2])),
            ("rows over each other", false, block([16, 1 << 20], [1 << 40, 0, 2])),
            ("nothing", false, block([0, 1 << 40], [1 << 40, 0, 2])),
        ] {
            assert_eq!(variants.code(&block).is_some(), want, "{what}");
        }
    }
}

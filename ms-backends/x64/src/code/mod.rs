//! Manages memory for machine code, which is first writable and then executable, never both.

pub mod artifact;
pub mod compile;
mod perf;
pub mod variants;

use crate::kernel::KernelCode;
use memmap2::MmapOptions;
use ms_ir::{Kernel, KernelView};
use std::ops::Range;
use std::sync::Arc;

/// The signature of a generated kernel, which receives its argument block.
#[cfg(target_arch = "x86_64")]
pub type Entry = unsafe extern "sysv64" fn(*const u64);

/// The signature of a generated kernel, which receives its argument block.
#[cfg(not(target_arch = "x86_64"))]
pub type Entry = unsafe extern "C" fn(*const u64);

/// Position-independent code in executable memory.
pub struct CodeMemory(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl CodeMemory {
    /// Maps a copy of `code`. Returns `None` if there is no code, or if the system forbids executable memory.
    pub fn map(code: &[u8]) -> Option<Arc<Self>> {
        if code.is_empty() {
            return None;
        }
        // Every page is written next, so all are populated.
        let mut memory = MmapOptions::new().len(code.len()).populate().map_anon().ok()?;
        memory.copy_from_slice(code);
        Some(Arc::new(Self(Arc::new(memory.make_exec().ok()?))))
    }

    /// Returns the bytes of the code.
    pub fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }

    /// Returns code that is in executable memory already.
    pub fn mapped(memory: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Arc<Self> {
        Arc::new(Self(memory))
    }
}

/// A kernel as machine code in memory.
pub struct Compiled {
    entry: Entry,
    kernel: Arc<Kernel>,
    /// The code, which stays mapped as long as this value lives.
    memory: Arc<CodeMemory>,
    /// The range of the kernel's code in the memory.
    at: Range<usize>,
}

impl Compiled {
    /// Creates a kernel with its code in a range of memory.
    ///
    /// # Safety
    /// The range contains the kernel's code for this machine.
    pub unsafe fn new(kernel: Arc<Kernel>, memory: Arc<CodeMemory>, at: Range<usize>) -> Self {
        let code = &memory.bytes()[at.clone()];
        perf::mapped(code, &kernel);
        // SAFETY: the range contains a function of this signature by this function's contract. `memory` keeps it
        // mapped.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code.as_ptr()) };
        Self { entry, kernel, memory, at }
    }
}

// SAFETY: the code is a kernel's by the contract of `Compiled::new`, and generated code implements the kernel.
unsafe impl KernelCode for Compiled {
    unsafe fn call(&self, block: &[u64]) {
        // SAFETY: `block` satisfies the contract of `KernelCode::call` for the kernel whose code this is.
        unsafe { (self.entry)(block.as_ptr()) }
    }

    fn view(&self) -> Option<KernelView<'_>> {
        Some(KernelView { kernel: &self.kernel, code: Some(&self.memory.bytes()[self.at.clone()]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::{KernelBuilder, LaneAxis};

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn mapped_code_runs() {
        // mov rax, [rdi]; inc qword ptr [rax]; ret
        let code = [0xc3, 0x48, 0x8b, 0x07, 0x48, 0xff, 0x00, 0xc3];
        let Some(memory) = CodeMemory::map(&code) else { return };
        let kernel = KernelBuilder::new(0, 0, LaneAxis::Parallel).finish();
        let mut count = 41u64;
        let block = [&raw mut count as u64];
        // SAFETY: the bytes above are a function of this signature that increments `count`.
        unsafe { Compiled::new(Arc::new(kernel), memory, 1..code.len()).call(&block) };
        assert_eq!(count, 42);
    }

    #[test]
    fn no_code_is_no_memory() {
        assert!(CodeMemory::map(&[]).is_none());
    }
}

//! Memory for machine code: first writable, then executable, never both.

use crate::kernel::KernelCode;
use crate::perf;
use memmap2::MmapOptions;
use ms_core::exec::{KernelView, MachineCode};
use ms_core::ir::Kernel;
use std::ops::Range;
use std::sync::Arc;

/// The signature of a generated kernel: the block of a call.
#[cfg(target_arch = "x86_64")]
pub type Entry = unsafe extern "sysv64" fn(*const u64);

/// The signature of a generated kernel: the block of a call.
#[cfg(not(target_arch = "x86_64"))]
pub type Entry = unsafe extern "C" fn(*const u64);

/// Position-independent code in executable memory.
pub struct CodeMemory(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl CodeMemory {
    /// Maps a copy of `code`; `None` if the system does not allow executable memory, or if there is no
    /// code.
    pub fn map(code: &[u8]) -> Option<Arc<Self>> {
        if code.is_empty() {
            return None;
        }
        // All of it is written next.
        let mut memory = MmapOptions::new().len(code.len()).populate().map_anon().ok()?;
        memory.copy_from_slice(code);
        Some(Arc::new(Self(Arc::new(memory.make_exec().ok()?))))
    }

    /// The bytes of the code.
    pub fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }

    /// The code of an artifact, in place or mapped as a copy.
    pub fn of(code: &MachineCode) -> Option<Arc<Self>> {
        match code {
            MachineCode::Bytes(bytes) => Self::map(bytes),
            MachineCode::Executable(memory) => Some(Arc::new(Self(memory.clone()))),
        }
    }
}

/// A kernel as machine code.
pub struct Compiled {
    entry: Entry,
    kernel: Arc<Kernel>,
    /// Keeps the code mapped.
    memory: Arc<CodeMemory>,
    /// Its range there.
    at: Range<usize>,
}

impl Compiled {
    /// A kernel with its code in a range of memory.
    ///
    /// # Safety
    /// The kernel's code for this machine is there.
    pub unsafe fn new(kernel: Arc<Kernel>, memory: Arc<CodeMemory>, at: Range<usize>) -> Self {
        let code = &memory.bytes()[at.clone()];
        perf::mapped(code, &kernel);
        // SAFETY: the code is the caller's contract, and lives as long as this value.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code.as_ptr()) };
        Self { entry, kernel, memory, at }
    }
}

// SAFETY: the code is that of a kernel, by the contract of the constructor.
unsafe impl KernelCode for Compiled {
    unsafe fn call(&self, block: &[u64]) {
        // SAFETY: the caller's contract is that of the kernel.
        unsafe { (self.entry)(block.as_ptr()) }
    }

    fn view(&self) -> Option<KernelView<'_>> {
        Some(KernelView { kernel: &self.kernel, code: Some(&self.memory.bytes()[self.at.clone()]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_core::ir::{KernelBuilder, LaneAxis};

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

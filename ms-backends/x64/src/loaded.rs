//! Loads kernels, with code that partitions its calls over threads, and interns them.

use crate::code::compile::{compile_or_interpret, compile_variant};
use crate::code::{CodeMemory, Compiled};
use crate::codegen;
use crate::interp::Interpreted;
use crate::isa::Isa;
use crate::kernel::KernelCode;
use crate::threads::parallel::Parallel;
use ms_ir::Kernel;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The maximum number of kernels in the table. A full table is cleared, and kernels in use stay alive.
const MAX_KERNELS: usize = 4096;

/// A loaded kernel.
#[derive(Clone)]
pub struct Loaded {
    /// The code.
    pub code: Arc<Parallel>,
    /// The range of the machine code. `None` if the kernel is interpreted.
    pub at: Option<(Arc<CodeMemory>, Range<usize>)>,
}

impl Loaded {
    /// Compiles a kernel for an instruction set of this machine. Interprets it if there is no machine code.
    pub fn compile(isa: Isa, kernel: &Arc<Kernel>) -> Self {
        let code = codegen::compile(kernel, isa).ok();
        let at = code.and_then(|it| Some((CodeMemory::map(&it.bytes)?, 0..it.bytes.len())));
        // SAFETY: the memory was just mapped from this kernel's code for an instruction set of this machine.
        unsafe { Self::new(isa, kernel, at) }
    }

    /// Creates a kernel with its machine code in a range of memory, if it has any.
    ///
    /// # Safety
    /// The range contains the kernel's code for this machine.
    pub unsafe fn new(isa: Isa, kernel: &Arc<Kernel>, at: Option<(Arc<CodeMemory>, Range<usize>)>) -> Self {
        let code: Arc<dyn KernelCode> = match at.clone() {
            // SAFETY: the range contains the kernel's code by this function's contract.
            Some((memory, at)) => Arc::new(unsafe { Compiled::new(kernel.clone(), memory, at) }),
            None => Arc::new(Interpreted::new(kernel.clone())),
        };
        let code = Parallel::new(kernel, code).with_split(kernel, isa, compile_or_interpret);
        let code = if at.is_some() { code.with_variants(kernel, isa, compile_variant) } else { code };
        Self { code: Arc::new(code), at }
    }
}

/// A kernel and its code.
type Entry = (Arc<Kernel>, Loaded);

/// Loaded kernels, interned by content. Hashing a kernel is slow, so callers compute its hash once for all lookups.
#[derive(Default)]
pub struct LoadedKernels {
    by_hash: FxHashMap<u64, SmallVec<[Entry; 1]>>,
    count: usize,
}

impl LoadedKernels {
    /// Returns the kernel with this [hash](crate::kernel::hash).
    pub fn get(&self, hash: u64, kernel: &Kernel) -> Option<&Loaded> {
        self.by_hash.get(&hash)?.iter().find(|it| *it.0 == *kernel).map(|it| &it.1)
    }

    /// Adds a kernel with this [hash](crate::kernel::hash) that is not in the table.
    pub fn insert(&mut self, hash: u64, kernel: Arc<Kernel>, loaded: &Loaded) {
        if self.count >= MAX_KERNELS {
            *self = Self::default();
        }
        self.by_hash.entry(hash).or_default().push((kernel, loaded.clone()));
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::{KernelBuilder, LaneAxis};

    fn loaded(kernel: &Kernel) -> Loaded {
        Loaded { code: Arc::new(Parallel::new(kernel, Arc::new(Interpreted::new(kernel.clone())))), at: None }
    }

    /// Lookups distinguish kernels with equal hashes by their content, and a full table is cleared.
    #[test]
    fn kernels_are_found_by_content() {
        let kernel = |par| Arc::new(KernelBuilder::new(par, 0, LaneAxis::Parallel).finish());
        let kernels: Vec<Arc<Kernel>> = (0..3).map(kernel).collect();
        let mut table = LoadedKernels::default();
        let made: Vec<Loaded> = kernels.iter().map(|it| loaded(it)).collect();
        table.insert(7, kernels[0].clone(), &made[0]);
        table.insert(7, kernels[1].clone(), &made[1]);
        let same = |table: &LoadedKernels, at: usize| {
            table.get(7, &kernels[at]).map(|it| Arc::ptr_eq(&it.code, &made[at].code))
        };
        assert_eq!([0, 1, 2].map(|at| same(&table, at)), [Some(true), Some(true), None]);
        for hash in 0..MAX_KERNELS as u64 {
            table.insert(hash, kernels[2].clone(), &made[2]);
        }
        assert_eq!([0, 1].map(|at| same(&table, at)), [None, None]);
        assert!(table.count <= MAX_KERNELS);
    }
}

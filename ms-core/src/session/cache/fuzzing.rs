//! Entry points of fuzzers: any bytes are either a stored value that can be used, or rejected.

use super::entry::Entry;
use super::pure::PureEntry;
use crate::error::Result;
use crate::exec::{Host, HostExecutable, KernelCode, MatrixProduct};
use crate::stored::{Stored, read_all};
use crate::tensor::{Array, Attrs, Op};
use std::sync::Arc;

/// Reads bytes as a stored value of the compile cache; returns whether they are valid. A plan is
/// then checked and loaded, or rejected, as one from a file is.
pub fn stored(bytes: &[u8]) -> bool {
    let pure = read_again::<PureEntry>(bytes).is_some();
    let Some(Entry { plan, .. }) = read_again::<Entry>(bytes) else { return pure };
    if plan.is_sound() {
        let kernels: Vec<_> = plan.kernels.iter().map(|_| Arc::new(Nothing) as Arc<dyn KernelCode>).collect();
        // SAFETY: it is not executed.
        let _loaded_or_refused = unsafe { HostExecutable::new(&plan, &kernels, Arc::new(Nothing)) };
    }
    true
}

/// The value of these bytes; writing it must reproduce them.
fn read_again<T: Stored>(bytes: &[u8]) -> Option<T> {
    let written = |value: &T| {
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        bytes
    };
    let value = read_all(bytes)?;
    let once = written(&value);
    let again = read_all(&once).expect("what was written is read");
    assert!(written(&again) == once, "what was written is read as the same");
    Some(value)
}

/// A device that does nothing.
struct Nothing;

// SAFETY: nothing of it is ever executed.
unsafe impl KernelCode for Nothing {
    unsafe fn call(&self, _: &[u64]) {}
}

// SAFETY: as above.
unsafe impl Host for Nothing {
    unsafe fn product(&self, _: &MatrixProduct, _: *const u8, _: *const u8, _: *mut u8) -> Result<()> {
        Ok(())
    }

    unsafe fn library(&self, _: Op, _: &Attrs, _: &[&Array], _: &[Array]) -> Result<()> {
        Ok(())
    }
}

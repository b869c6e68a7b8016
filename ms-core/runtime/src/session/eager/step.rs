//! The code of steps, cached by key.

use crate::error::Result;
use crate::exec::{Backend, StepCode};
use crate::lower::single::{Call, StepKey};
use crate::tensor::Device;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// The maximum number of steps cached per thread and device; then the table is emptied.
const KEPT: usize = 4096;

/// A step that can be called.
#[derive(Clone)]
pub(super) struct Ready {
    pub code: Arc<dyn StepCode>,
    /// Words in the block of a call.
    pub words: usize,
}

impl Ready {
    /// Calls a kernel on operands and a result that start at these addresses, and on numbers of these bits.
    ///
    /// # Errors
    /// Those of the device.
    ///
    /// # Safety
    /// The code and the call are of one key. The call was made for the layouts of arrays that start there and
    /// live during the call, and for as many numbers; the memory of the result is not shared.
    pub unsafe fn launch(
        &self,
        call: &Call,
        operands: impl IntoIterator<Item = u64>,
        numbers: &[u64],
        out: *mut u8,
    ) -> Result<()> {
        let block = call.block(operands.into_iter().chain([out as u64]), numbers, self.words);
        // SAFETY: by the caller's contract the arrays live during the call, and accesses are inside their
        // storages; the memory of the result is not read or written otherwise.
        unsafe { self.code.run(&block, &[], &[]) }
    }
}

thread_local! {
    static STEPS: RefCell<Vec<(Device, Steps)>> = RefCell::default();
}

type Steps = FxHashMap<StepKey, Ready>;

/// Compiles a step. Op-by-op execution has the same bits as code compiled in `strict`, so native functions of
/// the device are not used.
#[cold]
pub(super) fn compile(backend: &dyn Backend, key: &StepKey) -> Result<Ready> {
    let step = key.build(&backend.target().portable());
    Ok(Ready { code: backend.compile_step(&step)?, words: step.call_words() })
}

/// The code of the step of a key, cached per thread and device.
pub(super) fn ready(backend: &dyn Backend, key: &StepKey) -> Result<Ready> {
    let device = backend.memory().device();
    let of_device = |tables: &[(Device, Steps)]| tables.iter().position(|it| it.0 == device);
    let known = STEPS.with_borrow(|tables| tables[of_device(tables)?].1.get(key).cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    let ready = compile(backend, key)?;
    STEPS.with_borrow_mut(|tables| {
        let at = of_device(tables).unwrap_or_else(|| {
            tables.push((device, Steps::default()));
            tables.len() - 1
        });
        let table = &mut tables[at].1;
        if table.len() >= KEPT {
            table.clear();
        }
        table.insert(key.clone(), ready.clone());
    });
    Ok(ready)
}

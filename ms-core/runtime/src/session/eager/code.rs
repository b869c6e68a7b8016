//! Caches compiled code by the class of a step, which has no extents and strides.

use ms_compile::exec::{Backend, StepCode};
use ms_compile::lower::eager::{Call, StepKey};
use ms_ir::error::Result;
use ms_ops::tensor::Device;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// The maximum number of classes cached per thread and device. When it is reached, the table is emptied.
const KEPT: usize = 4096;

/// Compiled code that can be called.
#[derive(Clone)]
pub(super) struct Ready {
    pub code: Arc<dyn StepCode>,
    /// Words in the argument block of a call.
    pub words: usize,
}

impl Ready {
    /// Calls a kernel on operands and a result that start at these addresses, and on host scalars of these bits.
    ///
    /// # Errors
    /// The errors of the device.
    ///
    /// # Safety
    /// The code and the call have the same key. The call was prepared for the layouts of arrays that start at these
    /// addresses and are live during the call, and for as many scalars. The memory of the result is not shared.
    pub unsafe fn launch(
        &self,
        call: &Call,
        operands: impl IntoIterator<Item = u64>,
        numbers: &[u64],
        out: *mut u8,
    ) -> Result<()> {
        let block = call.block(operands.into_iter().chain([out as u64]), numbers, self.words);
        // SAFETY: by this method's contract, the call was prepared for arrays at these addresses that are live. So
        // accesses are inside their storage, and nothing else accesses the result.
        unsafe { self.code.run(&block, &[], &[]) }
    }
}

thread_local! {
    static CODE: RefCell<Vec<(Device, Classes)>> = RefCell::default();
}

type Classes = FxHashMap<StepKey, Ready>;

/// Compiles a step. Op-by-op execution must have the same bits as strict compiled code, so it does not use native
/// functions of the device.
#[cold]
fn compile(backend: &dyn Backend, key: &StepKey) -> Result<Ready> {
    let step = key.build(&backend.target().portable());
    Ok(Ready { code: backend.compile_step(&step)?, words: step.call_words() })
}

/// Returns the code of a class, cached per thread and device.
pub(super) fn ready(backend: &dyn Backend, key: &StepKey) -> Result<Ready> {
    let device = backend.memory().device();
    let of_device = |tables: &[(Device, Classes)]| tables.iter().position(|it| it.0 == device);
    let known = CODE.with_borrow(|tables| tables[of_device(tables)?].1.get(key).cloned());
    if let Some(known) = known {
        return Ok(known);
    }
    let ready = compile(backend, key)?;
    CODE.with_borrow_mut(|tables| {
        let at = of_device(tables).unwrap_or_else(|| {
            tables.push((device, Classes::default()));
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

//! Caches compiled code by the class of a step, which has no extents and strides.

use crate::session::context::settings;
use ms_compile::exec::{Backend, StepCode};
use ms_compile::lower::eager::{Call, EagerOp, StepKey};
use ms_ir::error::Result;
use ms_ops::tensor::Device;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::Hash;
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
    static CODE: RefCell<Vec<(Variant, Classes)>> = RefCell::default();
    static OPS: RefCell<Vec<(Device, Ops)>> = RefCell::default();
}

/// The device of code, and whether it uses native functions of the device.
type Variant = (Device, bool);

type Classes = FxHashMap<StepKey, Ready>;

type Ops = FxHashMap<EagerOp, Arc<dyn StepCode>>;

/// Returns the table of a key, which is added if there is none yet.
fn table<K: PartialEq, T: Default>(tables: &mut Vec<(K, T)>, key: K) -> &mut T {
    let at = tables.iter().position(|it| it.0 == key).unwrap_or_else(|| {
        tables.push((key, T::default()));
        tables.len() - 1
    });
    &mut tables[at].1
}

/// Inserts into a table, which is emptied first if it is full.
fn keep<K: Eq + Hash, T>(table: &mut FxHashMap<K, T>, key: K, value: T) {
    if table.len() >= KEPT {
        table.clear();
    }
    table.insert(key, value);
}

/// Compiles a step. In strict precision, it has the bits of strict compiled code on every device, so it does not use
/// native functions.
#[cold]
fn compile(backend: &dyn Backend, key: &StepKey, uses_native: bool) -> Result<Ready> {
    let target = backend.target();
    let step = if uses_native { key.build(target) } else { key.build(&target.portable()) };
    Ok(Ready { code: backend.compile_step(&step)?, words: step.call_words() })
}

/// Returns the code of a class, cached per thread and device.
pub(super) fn ready(backend: &dyn Backend, key: &StepKey) -> Result<Ready> {
    let uses_native = !backend.target().functions.is_empty() && settings().precision.is_relaxed();
    let variant = (backend.memory().device(), uses_native);
    if let Some(known) = CODE.with_borrow_mut(|tables| table(tables, variant).get(key).cloned()) {
        return Ok(known);
    }
    let ready = compile(backend, key, uses_native)?;
    CODE.with_borrow_mut(|tables| keep(table(tables, variant), key.clone(), ready.clone()));
    Ok(ready)
}

/// Returns the code of an op that the device runs as a whole, cached per thread and device. Returns `None` if the op is
/// to be lowered.
///
/// # Errors
/// See [`Backend::compile_op`].
pub(super) fn whole(backend: &dyn Backend, op: EagerOp) -> Result<Option<Arc<dyn StepCode>>> {
    let device = backend.memory().device();
    if let Some(known) = OPS.with_borrow_mut(|tables| table(tables, device).get(&op).cloned()) {
        return Ok(Some(known));
    }
    let Some(code) = backend.compile_op(&op)? else { return Ok(None) };
    OPS.with_borrow_mut(|tables| keep(table(tables, device), op, code.clone()));
    Ok(Some(code))
}

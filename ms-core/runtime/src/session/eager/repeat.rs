//! Caches steps of recent ops by op, attributes and layouts. An op that repeats on operands of the same layouts infers
//! no types and plans no loops again.

use super::step::Ready;
use super::{Operands, addresses};
use crate::session::context::settings;
use ms_compile::exec::Backend;
use ms_compile::lower::eager;
use ms_ir::Precision;
use ms_ir::error::Result;
use ms_ops::tensor::{Array, Attrs, DType, Device, Layout, OpCall};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::slice;

/// The size of a thread's table. If entries collide, the latest one stays.
const ENTRIES: usize = 256;

/// A step, with everything it depends on except addresses and the values of host scalars.
pub(super) struct Entry {
    device: Device,
    op: u16,
    attrs: Attrs,
    precision: Precision,
    arrays: SmallVec<[(Layout, DType); 2]>,
    numbers: SmallVec<[(usize, DType); 2]>,
    /// The shape of the result.
    shape: SmallVec<[usize; 4]>,
    dtype: DType,
    /// The call of a kernel; other steps take arrays.
    call: Option<eager::Call>,
    ready: Ready,
}

thread_local! {
    static TABLE: RefCell<Vec<Option<Rc<Entry>>>> = RefCell::new(vec![None; ENTRIES]);
}

/// Returns the step of an op on operands like these, if it is cached.
pub(super) fn find(backend: &dyn Backend, op: &OpCall<'_>, operands: &Operands<'_>) -> Option<Rc<Entry>> {
    let slot = slot(op, operands);
    TABLE.with_borrow(|it| it[slot].clone().filter(|it| it.is_of(backend, op, operands)))
}

/// Caches the step of an op with the result `out`, and the call of a kernel.
pub(super) fn insert(
    backend: &dyn Backend,
    op: &OpCall<'_>,
    operands: &Operands<'_>,
    out: &Array,
    call: Option<eager::Call>,
    ready: Ready,
) {
    let entry = Entry {
        device: backend.memory().device(),
        op: op.op.number(),
        attrs: op.attrs.clone(),
        precision: settings().precision,
        arrays: operands.arrays.iter().map(|it| (it.layout().clone(), it.dtype())).collect(),
        numbers: operands.numbers.iter().map(|it| (it.0, it.1.dtype())).collect(),
        shape: out.shape().into(),
        dtype: out.dtype(),
        call,
        ready,
    };
    let slot = slot(op, operands);
    TABLE.with_borrow_mut(|it| it[slot] = Some(Rc::new(entry)));
}

impl Entry {
    /// Runs the step on operands for which it was [found](find).
    ///
    /// # Errors
    /// The errors of the device.
    pub fn run(&self, backend: &dyn Backend, operands: &Operands<'_>) -> Result<Array> {
        // SAFETY: the step writes every element before the array is returned.
        let out = unsafe { Array::uninit_in(backend.memory(), &self.shape, self.dtype)? };
        match &self.call {
            // SAFETY: the call was prepared for operands of these layouts and a fresh result of this type, and the
            // operands are live.
            Some(call) => unsafe {
                self.ready.launch(call, addresses(&operands.arrays), &operands.bits(), out.device_ptr())?;
            },
            // SAFETY: the type rule accepted operands of these types and returned the type of the fresh result.
            None => unsafe { self.ready.code.run(&[], &operands.arrays, slice::from_ref(&out))? },
        }
        Ok(out)
    }

    fn is_of(&self, backend: &dyn Backend, op: &OpCall<'_>, operands: &Operands<'_>) -> bool {
        // The offset of a layout is part of an address.
        let moves_as = |a: &Layout, b: &Layout| a.shape() == b.shape() && a.strides() == b.strides();
        let is_array = |(known, given): (&(Layout, DType), &&Array)| {
            known.1 == given.dtype() && moves_as(&known.0, given.layout())
        };
        let numbers = operands.numbers.iter().map(|it| (it.0, it.1.dtype()));
        self.op == op.op.number()
            && self.arrays.len() == operands.arrays.len()
            && self.arrays.iter().zip(&operands.arrays).all(is_array)
            && self.attrs == *op.attrs
            && self.numbers.iter().copied().eq(numbers)
            && self.precision == settings().precision
            && self.device == backend.memory().device()
    }
}

fn slot(op: &OpCall<'_>, operands: &Operands<'_>) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write_u16(op.op.number());
    op.attrs.hash(&mut hasher);
    for array in &operands.arrays {
        hasher.write_u8(array.dtype() as u8);
        array.shape().iter().for_each(|&it| hasher.write_usize(it));
    }
    hasher.finish() as usize % ENTRIES
}

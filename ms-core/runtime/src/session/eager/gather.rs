//! Implements the fast path to the kernels of gathers from a dense operand with dense indices.
//!
//! Such a call has three loops: over the elements before the axis, over the indices, and over the elements after the
//! axis. The last is omitted if there is one such element. The kernels are those of [`ms_compile::lower::eager`] for these
//! loops; only the dispatch to them is shorter.

use super::Operands;
use ms_compile::exec::{Backend, StepCode};
use ms_compile::lower::eager::prepare_gather;
use ms_ir::error::Result;
use ms_ops::ops::OpDef;
use ms_ops::ops::host::{Axis, check_positions, replace_axis};
use ms_ops::tensor::{Array, DType, Layout, Tensor};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// Dtypes of the operand and of the indices, and whether there are several elements after the axis.
type Key = (DType, DType, bool);

thread_local! {
    static KERNELS: RefCell<FxHashMap<Key, Arc<dyn StepCode>>> = RefCell::default();
}

/// Words in the argument block of a call with three loops, and with two.
const ROW_WORDS: usize = 17;
const ELEMENT_WORDS: usize = 13;

/// Concatenates the parts of an argument block, padded with zeros.
fn concat<const L: usize, const O: usize, const N: usize>(
    extents: [usize; L],
    operands: [usize; O],
    axis: [usize; 2],
) -> [usize; N] {
    let mut words = extents.into_iter().chain(operands).chain(axis);
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

/// Returns the result of a gather along `axis`, if its operands are dense. Also returns `None` if it fails, for reasons
/// that the general path reports.
pub(super) fn dense(
    backend: &dyn Backend,
    def: &'static OpDef,
    operands: &Operands<'_>,
    axis: usize,
) -> Option<Tensor> {
    let &[operand, index] = &*operands.arrays else { return None };
    let (shape, key) = (operand.shape(), |rows| (operand.dtype(), index.dtype(), rows));
    let is_dense = operand.layout().is_contiguous() && index.layout().is_contiguous();
    if !is_dense || axis >= shape.len() || !index.dtype().is_int() {
        return None;
    }
    let (sizes, count, bytes) = (replace_axis(shape, axis, index.shape()), index.numel(), operand.dtype().size());
    let Axis { outer, size, inner } = Axis::of(shape, axis);
    // The type rule rejects sizes that overflow.
    let places = sizes.iter().try_fold(bytes, |all, &it| all.checked_mul(it.max(1)))?;
    isize::try_from(places).ok()?;
    check_positions(index, axis, shape).ok()?;
    // SAFETY: the kernel writes every element before the array is returned.
    let out = unsafe { Array::uninit(&sizes, operand.dtype()).ok()? };
    if out.numel() == 0 {
        return Some(Tensor::from_array(out));
    }
    let code = kernel(backend, def, key(inner > 1)).ok()?;
    let [from, at, to] = [operand.device_ptr() as usize, index.device_ptr() as usize, out.device_ptr() as usize];
    let step = index.dtype().size();
    // Extents, then addresses and strides of the operand, the indices and the result, then the axis.
    let block: [usize; ROW_WORDS] = if inner > 1 {
        let (plane, row) = (size * inner * bytes, inner * bytes);
        let operands = [from, plane, 0, bytes, at, 0, step, 0, to, count * row, row, bytes];
        concat([outer, count, inner], operands, [row, size])
    } else {
        let operands = [from, size * bytes, 0, at, 0, step, to, count * bytes, bytes];
        concat([outer, count], operands, [bytes, size])
    };
    let block = block.map(|it| it as u64);
    let length = if inner > 1 { ROW_WORDS } else { ELEMENT_WORDS };
    // SAFETY: both operands are dense, contain all elements that the loops and the axis access, and are live during the
    // call; `out` is fresh.
    unsafe { code.run(&block[..length], &[], &[]).ok()? };
    Some(Tensor::from_array(out))
}

/// Returns the kernel of a gather from the table of this thread.
fn kernel(backend: &dyn Backend, def: &'static OpDef, key: Key) -> Result<Arc<dyn StepCode>> {
    if let Some(code) = KERNELS.with(|it| it.borrow().get(&key).cloned()) {
        return Ok(code);
    }
    compile(backend, def, key)
}

#[cold]
fn compile(backend: &dyn Backend, def: &'static OpDef, key: Key) -> Result<Arc<dyn StepCode>> {
    let (dtype, index_dtype, rows) = key;
    // Two elements represent any number, and the axis is the second one.
    let (operand, index): (&[usize], _) = if rows { (&[2, 2, 2], [2]) } else { (&[2, 2], [2]) };
    let (from, at) = (Layout::contiguous(operand), Layout::contiguous(&index));
    let call = prepare_gather(def, (&from, dtype), (&at, index_dtype), 1);
    let ready = super::step::compile(backend, &call.key)?;
    debug_assert_eq!(ready.words, if rows { ROW_WORDS } else { ELEMENT_WORDS }, "a block has what the kernel reads");
    KERNELS.with(|it| it.borrow_mut().insert(key, ready.code.clone()));
    Ok(ready.code)
}

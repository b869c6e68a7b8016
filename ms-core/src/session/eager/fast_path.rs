//! The fast path to the kernels of elementwise ops on dense operands of one shape.
//!
//! Such a call needs no broadcasting and no loop nest: one loop over all elements, in which each
//! operand advances by one element or (a single element) not at all. The kernel is the one of
//! [`crate::lower::single`] for these operands; only the dispatch to it is shorter.

use crate::error::Result;
use crate::exec::{Backend, KernelCode};
use crate::ir::Precision;
use crate::lower::single::prepare;
use crate::ops::OpDef;
use crate::tensor::{Array, Attrs, DType, Layout, OpCall, Type};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The maximum number of operands on this path.
const OPERANDS: usize = 3;

/// The size of a thread's table, in pairs of entries: a training step has so many that some
/// collide.
const ENTRIES: usize = 256;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    op: u16,
    /// Bit `i`: operand `i` is a single element.
    single: u8,
    dtypes: [Option<DType>; OPERANDS],
}

struct Entry {
    key: Key,
    attrs: Attrs,
    out: DType,
    code: Arc<dyn KernelCode>,
}

thread_local! {
    static TABLE: RefCell<Vec<Option<Entry>>> = RefCell::new((0..ENTRIES).map(|_| None).collect());
}

/// The result of an elementwise op, if its operands are dense and of one shape or one element.
pub(in crate::session) fn map(
    backend: &dyn Backend,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &[&Array],
) -> Option<Result<Array>> {
    if operands.len() > OPERANDS {
        return None;
    }
    let widest = operands.iter().max_by_key(|it| (it.layout().rank(), it.numel()))?;
    let shape = widest.shape();
    let mut key = Key { op: call.op.number(), single: 0, dtypes: [None; OPERANDS] };
    for (i, operand) in operands.iter().enumerate() {
        key.dtypes[i] = Some(operand.dtype());
        if operand.shape() == shape {
            if !operand.layout().is_contiguous() {
                return None;
            }
        } else if operand.numel() == 1 {
            // Among single elements, one advances like any dense operand.
            key.single |= ((widest.numel() != 1) as u8) << i;
        } else {
            return None;
        }
    }
    Some(TABLE.with(|table| {
        let mut table = table.borrow_mut();
        let mut slot = slot(&key, call.attrs);
        let holds = |it: &Option<Entry>| it.as_ref().is_some_and(|it| it.key == key && it.attrs == *call.attrs);
        if !holds(&table[slot]) {
            let other = slot ^ 1;
            if holds(&table[other]) {
                slot = other;
            } else {
                let (code, out) = compile(backend, def, call.attrs, operands, key.single)?;
                let entry = Entry { key: key.clone(), attrs: call.attrs.clone(), out, code };
                if let Some(older) = table[slot].replace(entry) {
                    table[other] = Some(older);
                }
            }
        }
        let entry = table[slot].as_ref().expect("filled above");
        // SAFETY: the kernel writes every element.
        let out = unsafe { Array::uninit(shape, entry.out)? };
        let mut block = [0; 1 + 2 * (OPERANDS + 1)];
        block[0] = out.numel() as u64;
        for (i, operand) in operands.iter().enumerate() {
            block[1 + 2 * i] = operand.device_ptr() as u64;
            block[2 + 2 * i] = if key.single >> i & 1 == 1 { 0 } else { operand.dtype().size() as u64 };
        }
        let words = 1 + 2 * (operands.len() + 1);
        block[words - 2] = out.device_ptr() as u64;
        block[words - 1] = entry.out.size() as u64;
        // SAFETY: every operand is dense with as many elements as `out`, or is one element that
        // does not move; all live during the call, and `out` is fresh.
        unsafe { entry.code.call(&block[..words]) };
        Ok(out)
    }))
}

fn slot(key: &Key, attrs: &Attrs) -> usize {
    let mut hasher = rustc_hash::FxHasher::default();
    key.hash(&mut hasher);
    if !attrs.as_slice().is_empty() {
        attrs.hash(&mut hasher);
    }
    hasher.finish() as usize % ENTRIES
}

/// The kernel for dense operands of these dtypes, and the result's dtype.
#[cold]
fn compile(
    backend: &dyn Backend,
    def: &'static OpDef,
    attrs: &Attrs,
    operands: &[&Array],
    single: u8,
) -> Result<(Arc<dyn KernelCode>, DType)> {
    let types: SmallVec<[Type; 3]> = operands.iter().map(|it| it.ty()).collect();
    let types = (def.infer)(attrs, &types.iter().collect::<SmallVec<[&Type; 3]>>())?;
    // Two elements represent any number: if there were fewer, every operand would be a single element.
    let layout = |i: usize| Layout::contiguous(if single >> i & 1 == 1 { &[] } else { &[2] });
    let layouts: SmallVec<[(Layout, DType); 3]> =
        operands.iter().enumerate().map(|(i, it)| (layout(i), it.dtype())).collect();
    let described: SmallVec<[(&Layout, DType); 3]> = layouts.iter().map(|(layout, dtype)| (layout, *dtype)).collect();
    let call = prepare(def, attrs, &described, &Type::of(types[0].dtype, &[2]), Precision::Highest);
    let call = call.expect("an elementwise op on dense operands is one kernel");
    let ready = super::compile(backend, &call.key)?;
    debug_assert_eq!(ready.words, 1 + 2 * (operands.len() + 1), "elementwise kernels read no position");
    Ok((ready.code, types[0].dtype))
}

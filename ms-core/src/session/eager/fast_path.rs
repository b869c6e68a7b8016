//! The fast path to the kernels of elementwise ops on dense operands of one shape.
//!
//! Such a call needs no broadcasting and no loop nest: one loop over all elements, in which each
//! operand advances by one element or (a single element) not at all; numbers of the host are immediates. The
//! kernel is the one of
//! [`crate::lower::single`] for these operands; only the dispatch to it is shorter.

use super::Operands;
use crate::error::Result;
use crate::exec::{Backend, KernelCode};
use crate::lower::single::{Source, prepare_map};
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
    /// Bit `i`: operand `i` in memory is a single element.
    single: u8,
    /// Bit `i`: operand `i` is a number of the host.
    number: u8,
    /// Of the operands in memory, then of the numbers.
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

/// The result of an elementwise op, if its operands in memory are dense and of one shape or one element.
pub(in crate::session) fn map(
    backend: &dyn Backend,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Option<Result<Array>> {
    if call.inputs.len() > OPERANDS {
        return None;
    }
    let arrays = &operands.arrays;
    let widest = arrays.iter().max_by_key(|it| (it.layout().rank(), it.numel()));
    let shape = widest.map_or(&[][..], |it| it.shape());
    let mut key = Key { op: call.op.number(), single: 0, number: 0, dtypes: [None; OPERANDS] };
    for (i, &(at, number)) in operands.numbers.iter().enumerate() {
        key.number |= 1 << at;
        key.dtypes[arrays.len() + i] = Some(number.dtype());
    }
    for (i, operand) in arrays.iter().enumerate() {
        key.dtypes[i] = Some(operand.dtype());
        if operand.shape() == shape {
            if !operand.layout().is_contiguous() {
                return None;
            }
        } else if operand.numel() == 1 {
            // Among single elements, one advances like any dense operand.
            key.single |= (shape.iter().any(|&size| size != 1) as u8) << i;
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
                let (code, out) = compile(backend, def, call, operands, &key)?;
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
        for (i, operand) in arrays.iter().enumerate() {
            block[1 + 2 * i] = operand.device_ptr() as u64;
            block[2 + 2 * i] = if key.single >> i & 1 == 1 { 0 } else { operand.dtype().size() as u64 };
        }
        let mut words = 1 + 2 * (arrays.len() + 1);
        block[words - 2] = out.device_ptr() as u64;
        block[words - 1] = entry.out.size() as u64;
        for (_, number) in &operands.numbers {
            block[words] = number.bits();
            words += 1;
        }
        // SAFETY: every operand in memory is dense with as many elements as `out`, or is one element
        // that does not move; all live during the call, and `out` is fresh.
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
    call: &OpCall<'_>,
    operands: &Operands<'_>,
    key: &Key,
) -> Result<(Arc<dyn KernelCode>, DType)> {
    let out = super::infer(def, call)?[0].dtype;
    // Two elements represent any number: if there were fewer, every operand would be a single element.
    let (single, several) = (Layout::contiguous(&[]), Layout::contiguous(&[2]));
    let layout = |i: usize| if key.single >> i & 1 == 1 { &single } else { &several };
    let memory = operands.arrays.iter().enumerate().map(|(i, it)| Source::Memory(layout(i), it.dtype()));
    let mut sources: SmallVec<[Source<'_>; OPERANDS]> = memory.collect();
    operands.numbers.iter().for_each(|&(at, number)| sources.insert(at, Source::Number(number.dtype())));
    let prepared = prepare_map(def, call.attrs, &sources, &Type::of(out, &[2]));
    let ready = super::compile(backend, &prepared.expect("the shape is constant").key)?;
    let words = 1 + 2 * (operands.arrays.len() + 1) + operands.numbers.len();
    debug_assert_eq!(ready.words, words, "elementwise kernels read no position");
    Ok((ready.code, out))
}

//! Implements the fast path to the kernels of elementwise ops on dense operands of one shape.
//!
//! Such a call needs no broadcasting and no loop nest. One loop covers all elements: each operand advances by one
//! element or, if it is a single element, not at all. Host scalars are immediates. The kernel is that of
//! [`ms_compile::lower::eager`] for these operands; only the dispatch to it is shorter.

use super::Operands;
use ms_compile::exec::{Backend, StepCode};
use ms_compile::lower::eager::{Source, prepare_map};
use ms_ir::error::Result;
use ms_ops::ops::OpDef;
use ms_ops::tensor::{Array, Attrs, DType, Layout, OpCall, Tensor, Type};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The maximum number of operands on this path.
const OPERANDS: usize = 3;

/// The size of a thread's table, in pairs of entries. A training step has enough ops for some to collide.
const ENTRIES: usize = 256;

/// The key of a kernel besides attributes, as one word, which is fast to hash and to compare. From the low end it has
/// these fields:
///
/// - the op in 16 bits;
/// - the dtypes of the operands in memory, then of the host scalars, in 8 bits each, counted from one;
/// - a bit for each operand in memory that is a single element;
/// - a bit for each operand that is a host scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(u64);

impl Key {
    const DTYPES: usize = 16;
    const SINGLE: usize = Self::DTYPES + 8 * OPERANDS;
    const NUMBER: usize = Self::SINGLE + OPERANDS;

    fn new(op: u16) -> Self {
        Self(op.into())
    }

    /// Sets the dtype of operand `i`, counting operands in memory first and then host scalars.
    fn set_dtype(&mut self, i: usize, dtype: DType) {
        self.0 |= (dtype as u64 + 1) << (Self::DTYPES + 8 * i);
    }

    /// Sets whether operand `i` in memory is a single element.
    fn set_single(&mut self, i: usize, single: bool) {
        self.0 |= u64::from(single) << (Self::SINGLE + i);
    }

    fn is_single(self, i: usize) -> bool {
        self.0 >> (Self::SINGLE + i) & 1 == 1
    }

    /// Makes operand `at` a host scalar.
    fn set_number(&mut self, at: usize) {
        self.0 |= 1 << (Self::NUMBER + at);
    }
}

struct Entry {
    key: Key,
    attrs: Attrs,
    out: DType,
    code: Arc<dyn StepCode>,
}

thread_local! {
    static TABLE: RefCell<Vec<Option<Entry>>> = RefCell::new((0..ENTRIES).map(|_| None).collect());
}

/// Returns the result of an elementwise op, if its operands in memory are dense and of one shape or one element. Also
/// returns `None` if it fails, for reasons that the general path reports.
pub(in crate::session) fn map(
    backend: &dyn Backend,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Option<Tensor> {
    if call.inputs.len() > OPERANDS {
        return None;
    }
    let arrays = &operands.arrays;
    let widest = arrays.iter().max_by_key(|it| (it.layout().rank(), it.numel()));
    let shape = widest.map_or(&[][..], |it| it.shape());
    let mut key = Key::new(call.op.number());
    for (i, &(at, number)) in operands.numbers.iter().enumerate() {
        key.set_number(at);
        key.set_dtype(arrays.len() + i, number.dtype());
    }
    for (i, operand) in arrays.iter().enumerate() {
        key.set_dtype(i, operand.dtype());
        if operand.shape() == shape {
            if !operand.layout().is_contiguous() {
                return None;
            }
        } else if operand.numel() == 1 {
            // If all operands are single elements, one of them advances like a dense operand.
            key.set_single(i, shape.iter().any(|&size| size != 1));
        } else {
            return None;
        }
    }
    TABLE.with(|table| {
        let mut table = table.borrow_mut();
        let mut slot = slot(key, call.attrs);
        let holds = |it: &Option<Entry>| it.as_ref().is_some_and(|it| it.key == key && it.attrs == *call.attrs);
        if !holds(&table[slot]) {
            let other = slot ^ 1;
            if holds(&table[other]) {
                slot = other;
            } else {
                let (code, out) = compile(backend, def, call, operands, key).ok()?;
                let entry = Entry { key, attrs: call.attrs.clone(), out, code };
                if let Some(older) = table[slot].replace(entry) {
                    table[other] = Some(older);
                }
            }
        }
        let entry = table[slot].as_ref().expect("filled above");
        // SAFETY: the kernel writes every element before the array is returned.
        let out = unsafe { Array::uninit(shape, entry.out).ok()? };
        let mut block = [0; 1 + 2 * (OPERANDS + 1)];
        block[0] = out.numel() as u64;
        for (i, operand) in arrays.iter().enumerate() {
            block[1 + 2 * i] = operand.device_ptr() as u64;
            block[2 + 2 * i] = if key.is_single(i) { 0 } else { operand.dtype().size() as u64 };
        }
        let mut words = 1 + 2 * (arrays.len() + 1);
        block[words - 2] = out.device_ptr() as u64;
        block[words - 1] = entry.out.size() as u64;
        for (_, number) in &operands.numbers {
            block[words] = number.bits();
            words += 1;
        }
        // SAFETY: every operand in memory is dense with as many elements as `out`, or is one element that does not
        // advance. All are live during the call, and `out` is fresh.
        unsafe { entry.code.run(&block[..words], &[], &[]).ok()? };
        Some(Tensor::from_array(out))
    })
}

fn slot(key: Key, attrs: &Attrs) -> usize {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write_u64(key.0);
    if !attrs.as_slice().is_empty() {
        attrs.hash(&mut hasher);
    }
    hasher.finish() as usize % ENTRIES
}

/// Compiles the kernel for dense operands of these dtypes, and returns it with the result's dtype.
#[cold]
fn compile(
    backend: &dyn Backend,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
    key: Key,
) -> Result<(Arc<dyn StepCode>, DType)> {
    let out = super::infer(def, call)?[0].dtype;
    // Two elements represent any number of them. With only one, every operand would be a single element.
    let (single, several) = (Layout::contiguous(&[]), Layout::contiguous(&[2]));
    let layout = |i: usize| if key.is_single(i) { &single } else { &several };
    let memory = operands.arrays.iter().enumerate().map(|(i, it)| Source::Memory(layout(i), it.dtype()));
    let mut sources: SmallVec<[Source<'_>; OPERANDS]> = memory.collect();
    operands.numbers.iter().for_each(|&(at, number)| sources.insert(at, Source::Number(number.dtype())));
    let prepared = prepare_map(def, call.attrs, &sources, &Type::of(out, &[2]));
    let ready = super::step::compile(backend, &prepared.expect("the shape is constant").key)?;
    let words = 1 + 2 * (operands.arrays.len() + 1) + operands.numbers.len();
    debug_assert_eq!(ready.words, words, "elementwise kernels read no position");
    Ok((ready.code, out))
}

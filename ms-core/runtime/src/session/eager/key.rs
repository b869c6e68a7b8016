//! Defines the keys of prepared steps.
//!
//! The key of dense operands has no sizes, so one step serves all of them. Any other key has the layouts of the
//! operands.

use super::{Arrays, Operands};
use crate::session::context::settings;
use ms_ops::ops::{Lowering, OpDef};
use ms_ops::tensor::{Array, Attr, Attrs, DType, Device, Layout, OpCall};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// The maximum number of operands of a [class](Class) of dense operands.
pub(super) const OPERANDS: usize = 3;

/// The operands that a step accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Operands of the layouts in the key.
    Layouts,
    /// Operands of an elementwise op that are dense and of one shape, or one element each. Any shape.
    Elementwise,
    /// A dense operand of a gather, and dense indices. Any shapes.
    Gather,
}

/// The key of a step.
pub(super) struct Key<'a> {
    word: Word,
    /// The attributes that the step depends on.
    attrs: &'a [Attr],
    device: Device,
    /// The class of the operands, which is also in the word.
    pub class: Class,
    /// The shape of the result of [`Class::Elementwise`].
    pub shape: &'a [usize],
    /// The axis of a gather.
    pub axis: Option<usize>,
}

/// Returns the shape of the operand with the most axes and then the most elements.
#[inline(never)]
fn widest_shape<'a>(arrays: &Arrays<'a>) -> &'a [usize] {
    arrays.iter().max_by_key(|it| (it.layout().rank(), it.numel())).map_or(&[], |it| it.shape())
}

/// The part of a key that is fast to hash and to compare. From the low end it has these fields:
///
/// - the op in 16 bits;
/// - the dtypes of operands of a class, first those in memory, then the host scalars, in 8 bits each, counted from one;
/// - a bit for each operand in memory that is a single element; for a gather, a bit if there are several elements after
///   the axis;
/// - a bit for each operand that is a host scalar;
/// - the class in 2 bits;
/// - the precision.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    const DTYPES: usize = 16;
    const SINGLE: usize = Self::DTYPES + 8 * OPERANDS;
    const NUMBER: usize = Self::SINGLE + OPERANDS;
    const CLASS: usize = Self::NUMBER + OPERANDS;
    const PRECISION: usize = Self::CLASS + 2;

    #[inline]
    fn new(op: u16, class: Class) -> Self {
        Self(u64::from(op) | (class as u64) << Self::CLASS | (settings().precision as u64) << Self::PRECISION)
    }

    /// Sets the dtype of operand `i`, counting operands in memory first and then host scalars.
    fn set_dtype(&mut self, i: usize, dtype: DType) {
        self.0 |= (dtype as u64 + 1) << (Self::DTYPES + 8 * i);
    }

    /// Sets whether operand `i` in memory is a single element.
    fn set_single(&mut self, i: usize, single: bool) {
        self.0 |= u64::from(single) << (Self::SINGLE + i);
    }

    /// Makes operand `at` a host scalar.
    fn set_number(&mut self, at: usize) {
        self.0 |= 1 << (Self::NUMBER + at);
    }

    /// Returns the word of an elementwise op, and the shape of its result. Returns `None` if the operands are not of
    /// [`Class::Elementwise`].
    #[inline]
    fn elementwise<'a>(call: &OpCall<'_>, operands: &Operands<'a>) -> Option<(Self, &'a [usize])> {
        if call.inputs.len() > OPERANDS {
            return None;
        }
        let mut word = Self::new(call.op.number(), Class::Elementwise);
        let arrays = &operands.arrays;
        let first = arrays.first().map_or(&[][..], |it| it.shape());
        let is_uniform = arrays.iter().skip(1).all(|it| it.shape() == first);
        let shape = if is_uniform { first } else { widest_shape(arrays) };
        for (i, &(at, number)) in operands.numbers.iter().enumerate() {
            word.set_number(at);
            word.set_dtype(arrays.len() + i, number.dtype());
        }
        for (i, operand) in arrays.iter().enumerate() {
            word.set_dtype(i, operand.dtype());
            if is_uniform || operand.shape() == shape {
                if !operand.layout().is_contiguous() {
                    return None;
                }
            } else if operand.numel() == 1 {
                // If all operands are single elements, one of them advances like a dense operand.
                word.set_single(i, shape.iter().any(|&size| size != 1));
            } else {
                return None;
            }
        }
        Some((word, shape))
    }

    /// Returns the word of a gather along an axis. Returns `None` if the operands are not of [`Class::Gather`].
    fn gather(call: &OpCall<'_>, operands: &Operands<'_>, axis: usize) -> Option<Self> {
        let &[operand, index] = &*operands.arrays else { return None };
        let (shape, bytes) = (operand.shape(), operand.dtype().size());
        let is_dense = operand.layout().is_contiguous() && index.layout().is_contiguous();
        if !is_dense || axis >= shape.len() || !index.dtype().is_int() {
            return None;
        }
        // The type rule rejects sizes that overflow.
        let mut sizes = shape[..axis].iter().chain(index.shape()).chain(&shape[axis + 1..]);
        let places = sizes.try_fold(bytes, |all, &it| all.checked_mul(it.max(1)))?;
        isize::try_from(places).ok()?;
        let mut word = Self::new(call.op.number(), Class::Gather);
        word.set_dtype(0, operand.dtype());
        word.set_dtype(1, index.dtype());
        word.set_single(0, shape[axis + 1..].iter().any(|&size| size > 1));
        Some(word)
    }
}

impl<'a> Key<'a> {
    /// Creates the key of an op on these operands.
    #[inline]
    pub fn new<'o: 'a>(device: Device, def: &OpDef, call: &OpCall<'a>, operands: &Operands<'o>) -> Self {
        let axis = match def.lowering {
            Lowering::Map(_) => {
                if let Some((word, shape)) = Word::elementwise(call, operands) {
                    return Self {
                        word,
                        attrs: call.attrs.as_slice(),
                        device,
                        class: Class::Elementwise,
                        shape,
                        axis: None,
                    };
                }
                None
            }
            Lowering::Gather(axis) => {
                let axis = axis(call.attrs);
                if let Some(word) = Word::gather(call, operands, axis) {
                    let attrs = call.attrs.as_slice();
                    return Self { word, attrs, device, class: Class::Gather, shape: &[], axis: Some(axis) };
                }
                Some(axis)
            }
            _ => None,
        };
        let word = Word::new(call.op.number(), Class::Layouts);
        Self { word, attrs: call.attrs.as_slice(), device, class: Class::Layouts, shape: &[], axis }
    }

    /// Returns whether operand `i` in memory is a single element that does not advance.
    #[inline]
    pub fn is_single(&self, i: usize) -> bool {
        self.word.0 >> (Word::SINGLE + i) & 1 == 1
    }

    /// Returns a hash.
    #[inline]
    pub fn hash(&self, operands: &Operands<'_>) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_u64(self.word.0);
        if !self.attrs.is_empty() {
            self.attrs.hash(&mut hasher);
        }
        if self.class == Class::Layouts {
            for array in &operands.arrays {
                hasher.write_u8(array.dtype() as u8);
                array.shape().iter().for_each(|&it| hasher.write_usize(it));
            }
        }
        hasher.finish()
    }

    /// Returns a copy without borrows.
    pub fn owned(&self, operands: &Operands<'_>) -> OwnedKey {
        let (mut arrays, mut numbers) = (Vec::new(), SmallVec::new());
        if self.class == Class::Layouts {
            arrays.extend(operands.arrays.iter().map(|it| (it.layout().clone(), it.dtype())));
            numbers.extend(operands.numbers.iter().map(|it| (it.0, it.1.dtype())));
        }
        OwnedKey {
            word: self.word,
            attrs: Attrs::new(self.attrs.iter().cloned()),
            device: self.device,
            arrays,
            numbers,
        }
    }
}

/// A key of the table.
pub(super) struct OwnedKey {
    word: Word,
    attrs: Attrs,
    device: Device,
    /// The operands in memory of [`Class::Layouts`].
    arrays: Vec<(Layout, DType)>,
    /// The host scalars of [`Class::Layouts`].
    numbers: SmallVec<[(usize, DType); 2]>,
}

impl OwnedKey {
    /// Returns whether this is the key of an op on these operands.
    #[inline]
    pub fn is(&self, key: &Key<'_>, operands: &Operands<'_>) -> bool {
        self.word == key.word
            && self.attrs.as_slice() == key.attrs
            && self.device == key.device
            && (key.class != Class::Layouts || self.has_layouts_of(operands))
    }

    fn has_layouts_of(&self, operands: &Operands<'_>) -> bool {
        let is_array = |(known, given): (&(Layout, DType), &&Array)| {
            known.1 == given.dtype() && moves_as(&known.0, given.layout())
        };
        self.arrays.len() == operands.arrays.len()
            && self.arrays.iter().zip(&operands.arrays).all(is_array)
            && self.numbers.iter().copied().eq(operands.numbers.iter().map(|it| (it.0, it.1.dtype())))
    }
}

/// Returns whether one nest of loops walks both layouts. The offset of a layout is part of an address.
pub(super) fn moves_as(a: &Layout, b: &Layout) -> bool {
    a.shape() == b.shape() && a.strides() == b.strides()
}

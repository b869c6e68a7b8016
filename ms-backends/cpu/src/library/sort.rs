//! Elements along an axis in order: all, or the first ones.

use super::elements;
use super::index::written;
use crate::product::Shared;
use crate::threads;
use ms_core::error::Result;
use ms_core::ops::host::{Axis, dense};
use ms_core::ops::{self, OpDef, SortAttrs, TopkAttrs};
use ms_core::tensor::{Array, Attrs, DType, Element, Op, try_room};
use ms_core::with_element;

/// Minimum number of elements of a part of a row.
const PART: usize = 1 << 15;

/// Number of elements that are compared with the last one of those that were first so far, before any of them is added.
const BLOCK: usize = 32;

/// Runs an op of this kind, writing its row-major outputs; `None` for other ops.
///
/// # Safety
/// As [`run`](super::run).
pub unsafe fn run(op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Option<Result<()>> {
    let is = |def: &'static OpDef| def.op() == op;
    let [axis, count, descending] = if is(&ops::SORT) {
        let it = SortAttrs::of(attrs);
        [it.axis(), inputs[0].shape()[it.axis()], it.descending().into()]
    } else if is(&ops::TOPK) {
        let it = TopkAttrs::of(attrs);
        [it.axis(), it.count(), it.descending().into()]
    } else {
        return None;
    };
    // SAFETY: the caller's contract is the same.
    Some(unsafe { sort(axis, count, descending == 1, inputs[0], outputs) })
}

/// A number that orders elements as sorting does: nan is above all others, and both zeros are equal. That of a type of
/// at most 32 bits has 32.
#[inline(always)]
fn key<T: Element>(value: T) -> u64 {
    let value = value.to_scalar();
    match T::DTYPE {
        DType::F64 => match value.as_f64() + 0.0 {
            it if it.is_nan() => u64::MAX,
            it => it.to_bits() ^ ((it.to_bits() as i64 >> 63) as u64 | 1 << 63),
        },
        DType::F16 | DType::BF16 | DType::F32 => match value.as_f64() as f32 + 0.0 {
            it if it.is_nan() => u64::from(u32::MAX),
            it => u64::from(it.to_bits() ^ ((it.to_bits() as i32 >> 31) as u32 | 1 << 31)),
        },
        DType::U64 => value.as_i64() as u64,
        DType::I64 => value.as_i64() as u64 ^ 1 << 63,
        DType::Bool => u64::from(value.as_bool()),
        DType::U8 | DType::U16 | DType::U32 => value.as_i64() as u64,
        DType::I8 | DType::I16 | DType::I32 => u64::from(value.as_i64() as i32 as u32 ^ 1 << 31),
    }
}

/// An element as sorting compares it: its [`key`], and its position, which orders equal elements.
trait Entry: Copy + Ord {
    fn new(key: u64, place: u64) -> Self;
    fn place(self) -> usize;
}

/// Both have at most 32 bits.
impl Entry for u64 {
    #[inline(always)]
    fn new(key: u64, place: u64) -> Self {
        key << 32 | place
    }

    fn place(self) -> usize {
        (self & u64::from(u32::MAX)) as usize
    }
}

impl Entry for (u64, u64) {
    #[inline(always)]
    fn new(key: u64, place: u64) -> Self {
        (key, place)
    }

    fn place(self) -> usize {
        self.1 as usize
    }
}

/// Writes the first `count` elements in order along an axis, and their positions.
///
/// # Safety
/// As [`run`].
unsafe fn sort(axis: usize, count: usize, descending: bool, x: &Array, outputs: &[Array]) -> Result<()> {
    let x = dense(x)?;
    let axis = Axis::of(x.shape(), axis);
    if x.layout().numel() * count == 0 {
        return Ok(());
    }
    with_element!(x.dtype(), T => {
        let from = elements::<T>(&x);
        // SAFETY: by the contract of `run`.
        let to = unsafe { (written::<T>(&outputs[0]), written::<i64>(&outputs[1])) };
        match size_of::<T>() <= 4 && u32::try_from(axis.size).is_ok() {
            true => sort_rows::<T, u64>(axis, count, descending, from, to),
            false => sort_rows::<T, (u64, u64)>(axis, count, descending, from, to),
        }
    })
}

fn sort_rows<T: Element, E: Entry>(
    axis: Axis,
    count: usize,
    descending: bool,
    from: &[T],
    (values, places): (&mut [T], &mut [i64]),
) -> Result<()> {
    let (rows, threads) = (axis.outer * axis.inner, threads::count());
    // Of every part of a row the first elements are found, among which are those of the row.
    let most = if rows < threads && count < PART / 2 { axis.size.div_ceil(PART) } else { 1 };
    let parts = most.min(threads.div_ceil(rows));
    let of_all = if descending { u64::MAX } else { 0 };
    let turned = if size_of::<T>() <= 4 { of_all & u64::from(u32::MAX) } else { of_all };
    let element =
        |row: usize, place: usize| from[(row / axis.inner * axis.size + place) * axis.inner + row % axis.inner];
    let entry = |row: usize, place: usize| E::new(key(element(row, place)) ^ turned, place as u64);
    let (values, places) = (Shared::new(values.as_mut_ptr()), Shared::new(places.as_mut_ptr()));
    let write = |row: usize, sorted: &[E]| {
        for (at, place) in sorted.iter().map(|it| it.place()).enumerate() {
            let to = (row / axis.inner * count + at) * axis.inner + row % axis.inner;
            // SAFETY: the results have room for the entries of all rows, which are disjoint.
            unsafe {
                *values.get().add(to) = element(row, place);
                *places.get().add(to) = place as i64;
            }
        }
    };
    let steps = if count == axis.size { 4 * (axis.size.ilog2() as usize + 1) } else { 2 };
    let nanos = from.len() * steps;
    if parts > 1 {
        let mut found: Vec<E> = try_room(rows * parts * count)?;
        let to = Shared::new(found.as_mut_ptr());
        threads::try_for_each(rows * parts, nanos, |task| {
            let (row, [start, end]) = (task / parts, [0, 1].map(|it| (task % parts + it) * axis.size / parts));
            let mut entries = try_room(room_of(count, end - start))?;
            first(count, (start..end).map(|it| entry(row, it)), &mut entries);
            // SAFETY: there is room for so many of each task, and a part has as many.
            unsafe { to.get().add(task * count).copy_from_nonoverlapping(entries.as_ptr(), count) };
            Ok(())
        })?;
        // SAFETY: each task wrote its entries.
        unsafe { found.set_len(rows * parts * count) };
        for (row, entries) in found.chunks_exact_mut(parts * count).enumerate() {
            entries.sort_unstable();
            write(row, &entries[..count]);
        }
        return Ok(());
    }
    let chunks = rows.min(4 * threads);
    threads::try_for_each(chunks, nanos, |chunk| {
        let mut entries = try_room(room_of(count, axis.size))?;
        for row in chunk * rows / chunks..(chunk + 1) * rows / chunks {
            first(count, (0..axis.size).map(|it| entry(row, it)), &mut entries);
            entries.sort_unstable();
            write(row, &entries);
        }
        Ok(())
    })
}

/// The room that [`first`] needs for so many entries.
fn room_of(count: usize, all: usize) -> usize {
    (2 * count + BLOCK).min(all)
}

/// Collects the `count` first ones of at least as many entries, in any order. There is [room](room_of).
fn first<E: Entry>(count: usize, mut all: impl ExactSizeIterator<Item = E>, entries: &mut Vec<E>) {
    entries.clear();
    if all.len() <= entries.capacity() {
        entries.extend(all);
    } else {
        entries.extend(all.by_ref().take(2 * count));
        let mut last = cut(count, entries);
        while all.len() > 0 {
            // What is added seldom leaves the loop over the others without branches.
            let mut block = [last; BLOCK];
            block.iter_mut().zip(all.by_ref()).for_each(|(to, it)| *to = it);
            if block.iter().fold(false, |any, it| any | (*it < last)) {
                entries.extend(block.iter().filter(|it| **it < last));
                if entries.len() >= 2 * count {
                    last = cut(count, entries);
                }
            }
        }
    }
    if entries.len() > count {
        cut(count, entries);
    }
}

/// Leaves the `count` first entries, of which there are as many and at least one; returns the last one of them.
fn cut<E: Entry>(count: usize, entries: &mut Vec<E>) -> E {
    let last = *entries.select_nth_unstable(count - 1).1;
    entries.truncate(count);
    last
}

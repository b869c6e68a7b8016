//! Sorts along an axis, and selects the first elements in order.

use super::elements;
use super::output::written;
use half::{bf16, f16};
use ms_ir::data::{Array, Attrs, Element, Op, try_room};
use ms_ir::error::Result;
use ms_ir::with_element;
use ms_ops::ops::host::{Axis, dense};
use ms_ops::ops::{self, OpDef, SortAttrs, TopkAttrs};
use ms_x64::gemm::Shared;
use ms_x64::threads;
use ms_x64::{Isa, Vectors};
use std::ops::{Not, Range};

/// Minimum number of elements of a part of a row.
const PART: usize = 1 << 15;

/// Number of elements that are compared with the last selected key at once, before any of them is added.
const BLOCK: usize = 32;

/// Maximum number of selected entries that are kept sorted during the scan.
const FEW: usize = 16;

/// Runs a sort or top-k and writes its row-major outputs; `None` for other ops.
///
/// # Safety
/// The conditions of [`run`](super::run) hold.
pub unsafe fn run(isa: Isa, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Option<Result<()>> {
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
    // SAFETY: the outputs are the values and the indices of the op, and nothing else accesses them, by this function's
    // contract.
    Some(unsafe { sort(isa, axis, count, descending == 1, inputs[0], outputs) })
}

/// An element type that can be sorted.
trait Sorted: Element {
    /// An integer that orders elements: NaN is above all others, and both zeros are equal.
    type Key: Copy + Ord + Not<Output = Self::Key>;

    /// The entry type for axes whose indices fit in 32 bits.
    type Entry: Entry<Self::Key>;

    fn key(self) -> Self::Key;
}

/// The key of an element with its index, which orders equal elements.
trait Entry<K>: Copy + Ord + Send + Sync {
    fn new(key: K, position: usize) -> Self;
    fn key(self) -> K;
    fn position(self) -> usize;
}

/// Implements [`Entry`] with this number of bits for indices.
macro_rules! entries {
    ($($entry:ty: $key:ty, $bits:expr;)*) => {
        $(impl Entry<$key> for $entry {
            #[inline(always)]
            fn new(key: $key, position: usize) -> Self {
                Self::from(key) << $bits | position as Self
            }

            #[inline(always)]
            fn key(self) -> $key {
                (self >> $bits) as $key
            }

            #[inline(always)]
            fn position(self) -> usize {
                (self & ((1 << $bits) - 1)) as usize
            }
        })*
    };
}

entries! {
    u64: u32, 32;
    u128: u32, 64;
    u128: u64, 64;
}

/// Implements [`Sorted`].
macro_rules! sorted {
    ($($key:ty, $entry:ty: $($ty:ty)*, |$it:ident| $value:expr;)*) => {
        $($(impl Sorted for $ty {
            type Key = $key;
            type Entry = $entry;

            #[inline(always)]
            fn key(self) -> $key {
                let $it = self;
                $value
            }
        })*)*
    };
}

sorted! {
    u32, u64: bool u8 u16 u32, |it| it as u32;
    u32, u64: i8 i16 i32, |it| it as i32 as u32 ^ 1 << 31;
    u32, u64: bf16, |it| f32::from_bits(u32::from(it.to_bits()) << 16).key();
    u32, u64: f16, |it| {
        let bits = it.to_bits();
        match bits & 0x7fff {
            0 => 1 << 15,
            magnitude if magnitude > 0x7c00 => u32::MAX,
            _ => u32::from(bits ^ ((bits as i16 >> 15) as u16 | 1 << 15)),
        }
    };
    u32, u64: f32, |it| match (it + 0.0).to_bits() {
        _ if it.is_nan() => u32::MAX,
        bits => bits ^ ((bits as i32 >> 31) as u32 | 1 << 31),
    };
    u64, u128: u64, |it| it;
    u64, u128: i64, |it| it as u64 ^ 1 << 63;
    u64, u128: f64, |it| match (it + 0.0).to_bits() {
        _ if it.is_nan() => u64::MAX,
        bits => bits ^ ((bits as i64 >> 63) as u64 | 1 << 63),
    };
}

/// A row of elements, which are `step` apart.
#[derive(Clone, Copy)]
struct Row<'a, T> {
    elements: &'a [T],
    step: usize,
    descending: bool,
}

impl<T: Sorted> Row<'_, T> {
    /// Returns the entry at an index; earlier elements in the sort order have smaller entries.
    #[inline(always)]
    fn entry<E: Entry<T::Key>>(&self, position: usize) -> E {
        E::new(self.key(self.elements[position * self.step]), position)
    }

    #[inline(always)]
    fn key(&self, element: T) -> T::Key {
        if self.descending { !element.key() } else { element.key() }
    }

    /// Returns the start of the first [block](BLOCK) with a key below `last`; the end of the range if there is none.
    #[inline(always)]
    fn lesser(&self, positions: Range<usize>, last: T::Key) -> usize {
        let mut at = positions.start;
        while at < positions.end {
            let end = positions.end.min(at + BLOCK);
            let any = match self.step {
                1 if end == at + BLOCK => {
                    self.elements[at..end].iter().fold(false, |any, &it| any | (self.key(it) < last))
                }
                step => (at..end).fold(false, |any, it| any | (self.key(self.elements[it * step]) < last)),
            };
            if any {
                return at;
            }
            at = end;
        }
        at
    }
}

/// Writes the first `count` elements in sort order along an axis, and their indices.
///
/// # Safety
/// The outputs are row-major arrays of the element type and of `i64`, and nothing else accesses them.
unsafe fn sort(isa: Isa, axis: usize, count: usize, descending: bool, x: &Array, outputs: &[Array]) -> Result<()> {
    let x = dense(x)?;
    let axis = Axis::of(x.shape(), axis);
    if x.layout().numel() * count == 0 {
        return Ok(());
    }
    with_element!(x.dtype(), T => {
        let from = elements::<T>(&x);
        // SAFETY: the outputs are row-major arrays of `T` and of `i64` that nothing else accesses, by this function's
        // contract.
        let to = unsafe { (written::<T>(&outputs[0]), written::<i64>(&outputs[1])) };
        match u32::try_from(axis.size) {
            Ok(_) => sort_rows::<T, <T as Sorted>::Entry>(isa, axis, count, descending, from, to),
            Err(_) => sort_rows::<T, u128>(isa, axis, count, descending, from, to),
        }
    })
}

fn sort_rows<T: Sorted, E: Entry<T::Key>>(
    isa: Isa,
    axis: Axis,
    count: usize,
    descending: bool,
    from: &[T],
    (values, positions): (&mut [T], &mut [i64]),
) -> Result<()> {
    let (rows, threads) = (axis.outer * axis.inner, threads::count());
    // Each part of a row selects its first elements; together they include the first elements of the row.
    let most = if rows < threads && count < PART / 2 { axis.size.div_ceil(PART) } else { 1 };
    let parts = most.min(threads.div_ceil(rows));
    let at = |row: usize, size: usize| row / axis.inner * size * axis.inner + row % axis.inner;
    let row_of = |row: usize| Row { elements: &from[at(row, axis.size)..], step: axis.inner, descending };
    let (values, positions) = (Shared::new(values.as_mut_ptr()), Shared::new(positions.as_mut_ptr()));
    let write = |row: usize, sorted: &[E]| {
        let (from, to) = (row_of(row), at(row, count));
        for (at, position) in sorted.iter().map(|it| it.position()).enumerate() {
            // SAFETY: the results have `count` elements for each row, at indices that no other row has.
            unsafe {
                *values.get().add(to + at * axis.inner) = from.elements[position * from.step];
                *positions.get().add(to + at * axis.inner) = position as i64;
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
            first(isa, count, &row_of(row), start..end, &mut entries);
            // SAFETY: `found` has room for `count` entries of each task, and `first` leaves that many.
            unsafe { to.get().add(task * count).copy_from_nonoverlapping(entries.as_ptr(), count) };
            Ok(())
        })?;
        // SAFETY: every task has written `count` entries.
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
            first(isa, count, &row_of(row), 0..axis.size, &mut entries);
            entries.sort_unstable();
            write(row, &entries);
        }
        Ok(())
    })
}

/// Returns the capacity that [`first`] needs for `count` of `all` entries.
fn room_of(count: usize, all: usize) -> usize {
    (2 * count + BLOCK).min(all)
}

/// Selects the first `count` entries in sort order, in any order. The range has at least as many, and `entries` has
/// [room](room_of).
fn first<T: Sorted, E: Entry<T::Key>>(
    isa: Isa,
    count: usize,
    row: &Row<'_, T>,
    mut positions: Range<usize>,
    entries: &mut Vec<E>,
) {
    entries.clear();
    let few = count <= FEW;
    let room = if few { count } else { room_of(count, positions.len()) };
    entries.extend(positions.by_ref().take(room).map(|it| row.entry::<E>(it)));
    let mut last = if few {
        entries.sort_unstable();
        entries[count - 1].key()
    } else {
        keep_first(count, entries)
    };
    loop {
        positions.start = lesser(isa, row, positions.clone(), last);
        if positions.is_empty() {
            break;
        }
        for it in positions.by_ref().take(BLOCK) {
            let mut it = row.entry::<E>(it);
            if it.key() < last {
                if few {
                    for entry in &mut *entries {
                        (*entry, it) = (it.min(*entry), it.max(*entry));
                    }
                    last = entries[count - 1].key();
                } else {
                    entries.push(it);
                }
            }
        }
        if entries.len() >= 2 * count {
            last = keep_first(count, entries);
        }
    }
    if entries.len() > count {
        keep_first(count, entries);
    }
}

/// Calls [`Row::lesser`], compiled for an instruction set that this processor has.
fn lesser<T: Sorted>(isa: Isa, row: &Row<'_, T>, positions: Range<usize>, last: T::Key) -> usize {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn avx512<T: Sorted>(row: &Row<'_, T>, positions: Range<usize>, last: T::Key) -> usize {
        row.lesser(positions, last)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2<T: Sorted>(row: &Row<'_, T>, positions: Range<usize>, last: T::Key) -> usize {
        row.lesser(positions, last)
    }

    match isa.vectors() {
        // SAFETY: the caller passes an instruction set of this processor, which has AVX-512.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => unsafe { avx512(row, positions, last) },
        // SAFETY: the caller passes an instruction set of this processor, which has AVX2.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => unsafe { avx2(row, positions, last) },
        _ => row.lesser(positions, last),
    }
}

/// Keeps the first `count` entries, of which there must be at least one, and returns the key of the last of them.
fn keep_first<K, E: Entry<K>>(count: usize, entries: &mut Vec<E>) -> K {
    let last = *entries.select_nth_unstable(count - 1).1;
    entries.truncate(count);
    last.key()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first entries of a strided row, sorted.
    fn first_ones<E: Entry<u32>>(isa: Isa, count: usize, elements: &[f32], step: usize, descending: bool) -> Vec<E> {
        let size = elements.len().div_ceil(step);
        let mut entries = Vec::with_capacity(room_of(count, size));
        first(isa, count, &Row { elements, step, descending }, 0..size, &mut entries);
        entries.sort_unstable();
        entries
    }

    #[test]
    fn first_ones_are_those_of_a_sort() {
        let mut state = 1u32;
        let elements: Vec<f32> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 24 {
                0 => f32::NAN,
                1 => -0.0,
                it => it as f32 - 100.0,
            }
        })
        .take(3_001)
        .collect();
        for step in [1, 3] {
            for descending in [false, true] {
                let row = Row { elements: &elements, step, descending };
                let size = elements.len().div_ceil(step);
                let mut sorted: Vec<u128> = (0..size).map(|it| row.entry(it)).collect();
                sorted.sort_unstable();
                for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
                    for count in [1, 2, FEW, FEW + 1, 400, size - 1, size] {
                        let long: Vec<u128> = first_ones(isa, count, &elements, step, descending);
                        assert_eq!(long, sorted[..count], "{isa}, {count} of {size}");
                        let short: Vec<u64> = first_ones(isa, count, &elements, step, descending);
                        let positions = |it: &u64| Entry::<u32>::position(*it);
                        let all: Vec<usize> = long.iter().map(|it| Entry::<u32>::position(*it)).collect();
                        assert_eq!(short.iter().map(positions).collect::<Vec<_>>(), all, "{isa}, {count} of {size}");
                    }
                }
            }
        }
    }
}

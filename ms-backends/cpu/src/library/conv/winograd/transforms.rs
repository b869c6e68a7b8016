//! The transforms of patches to components, and of sums to windows, for each instruction set.
//!
//! Each is the same along both axes. A patch `d` becomes `d0 - d2, d1 + d2, d2 - d1, d1 - d3`, across and then down; the
//! sums `m` of a square become `m0 + m1 + m2, m1 - m2 - m3`, down and then across, added from left to right. A filter `g`
//! becomes `g0, (g0 + g2 + g1) / 2, (g0 + g2 - g1) / 2, g2`, down and then across. The component in row `i` and column `j`
//! is number `4 i + j`.
//!
//! For gradients of filters, a square `g` of the gradient becomes `g0, g0 + g1, g0 - g1, g1`, across and then down; the sums
//! `m` of a filter become `m0 + (m1 + m2) / 2, (m1 - m2) / 2, (m1 + m2) / 2 - m3`, down and then across.

use super::vector::Vector;
use super::{KERNEL, SIDE, TAPS};
use ms_core::error::Result;
use ms_core::tensor::try_filled;
use std::array::from_fn;

/// Elements of a row or column of a patch.
const PATCH: usize = 4;

/// Components of a patch.
pub const COMPONENTS: usize = PATCH * PATCH;

/// The maximum number of patches that are transformed at once.
pub const LANES: usize = 16;

/// Rows of elements, transformed across: for the even rows and for the odd ones, by component, those of the patches of one
/// row after the other.
pub struct Halves {
    room: Vec<f32>,
    /// Elements of a component.
    len: usize,
    /// Patches of a row.
    patches: usize,
}

impl Halves {
    /// For so many rows of patches.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for them.
    pub fn new(rows: usize, patches: usize) -> Result<Self> {
        // What is transformed at once ends after the last patch.
        let len = (rows + 1) * patches + LANES;
        Ok(Self { room: try_filled(0.0, 2 * PATCH * len)?, len, patches })
    }

    /// Where a row of elements starts in the component `at`, of the row that it is transformed to.
    #[inline(always)]
    fn place(&self, row: usize, at: usize) -> usize {
        (row % 2 * PATCH + at) * self.len + row / 2 * self.patches
    }

    /// Makes a row of elements zero.
    pub fn clear(&mut self, row: usize) {
        for at in 0..PATCH {
            let place = self.place(row, at);
            self.room[place..][..self.patches].fill(0.0);
        }
    }
}

/// Where transformed patches are stored: vectors of them, by component.
#[derive(Clone, Copy)]
pub struct Places {
    /// The first vector.
    pub first: *mut f32,
    /// Elements from a component to the next one.
    pub component: usize,
    /// Elements from a vector to the next one.
    pub vector: usize,
}

/// The transforms of elements to components, by rows of patches, or of squares.
#[derive(Clone, Copy)]
pub struct Forward {
    /// Transforms a row of elements across.
    ///
    /// # Safety
    /// The elements of whole vectors of patches exist; the processor has the instruction set.
    pub across: unsafe fn(line: &[f32], row: usize, to: &mut Halves),
    /// Transforms so many rows of patches down, which were transformed across.
    ///
    /// # Safety
    /// There is room for whole vectors of patches; the processor has the instruction set.
    pub down: unsafe fn(halves: &Halves, rows: usize, to: Places),
}

/// The transforms in vectors of an instruction set.
#[derive(Clone, Copy)]
pub struct Transforms {
    /// Those of patches of an input.
    pub patches: Forward,
    /// Those of squares of a gradient.
    pub squares: Forward,
    /// Copies so many vectors of patches.
    ///
    /// # Safety
    /// Both have room for them, and the patches are there; the processor has the instruction set.
    pub copy: unsafe fn(from: Places, vectors: usize, to: Places),
    /// Transforms the sums of a row of patches, whose components are so far apart, to one or two rows of so many windows.
    ///
    /// # Safety
    /// The sums of whole vectors exist; the processor has the instruction set.
    pub windows: unsafe fn(sums: *const f32, component: usize, to: &mut [f32], columns: usize),
    /// Transforms a number of filters, which are a number of filters apart, to rows of components that are so far apart.
    ///
    /// # Safety
    /// There is room for as many filters as a multiple of [`LANES`]; the processor has the instruction set.
    pub filters: unsafe fn(weights: &[[f32; TAPS]], step: usize, count: usize, to: *mut f32, component: usize),
    /// Transforms sums to filters, whose components are so far apart.
    ///
    /// # Safety
    /// The sums of whole vectors exist; the processor has the instruction set.
    pub weights: unsafe fn(sums: *const f32, component: usize, to: &mut [[f32; TAPS]]),
}

impl Transforms {
    /// Those with so many lanes, which a processor has that has loops with them.
    pub fn of(lanes: usize) -> Self {
        match lanes {
            #[cfg(target_arch = "x86_64")]
            16 => avx512::TRANSFORMS,
            #[cfg(target_arch = "x86_64")]
            8 => avx2::TRANSFORMS,
            _ => scalar::TRANSFORMS,
        }
    }
}

/// A patch along one axis.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn patch<V: Vector>([a, b, c, d]: [V; PATCH]) -> [V; PATCH] {
    // SAFETY: the caller's contract is the same.
    unsafe { [a.minus(c), b.plus(c), c.minus(b), b.minus(d)] }
}

/// A square along one axis.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn square<V: Vector>([a, b, c, d]: [V; PATCH]) -> [V; SIDE] {
    // SAFETY: the caller's contract is the same.
    unsafe { [a.plus(b).plus(c), b.minus(c).minus(d)] }
}

/// A square of a gradient along one axis; the other elements are not read.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn gradient<V: Vector>([a, b, _, _]: [V; PATCH]) -> [V; PATCH] {
    // SAFETY: the caller's contract is the same.
    unsafe { [a, a.plus(b), a.minus(b), b] }
}

/// [`Forward::across`] of patches, or of squares if so it says.
///
/// # Safety
/// As that.
#[inline(always)]
unsafe fn across<V: Vector, const SQUARES: bool>(line: &[f32], row: usize, to: &mut Halves) {
    assert!(line.len() >= SIDE * to.patches.next_multiple_of(V::LANES) + PATCH - SIDE, "there are whole vectors");
    let places: [usize; PATCH] = from_fn(|at| to.place(row, at));
    let places = places.map(|it| to.room[it..].as_mut_ptr());
    for first in (0..to.patches).step_by(V::LANES) {
        // SAFETY: the elements were counted above; after the last patch of a component there are as many as in a vector.
        unsafe {
            let pair = |at: usize| V::split([0, V::LANES].map(|it| V::load(line.as_ptr().add(SIDE * first + at + it))));
            let ([a, b], [c, d]) = (pair(0), pair(SIDE));
            let all = [a, b, c, d];
            for (to, component) in places.iter().zip(if SQUARES { gradient(all) } else { patch(all) }) {
                component.store(to.add(first));
            }
        }
    }
}

/// [`Forward::down`] of patches, or of squares if so it says.
///
/// # Safety
/// As that.
#[inline(always)]
unsafe fn down<V: Vector, const SQUARES: bool>(halves: &Halves, rows: usize, to: Places) {
    for (vector, first) in (0..rows * halves.patches).step_by(V::LANES).enumerate() {
        for column in 0..PATCH {
            // SAFETY: the halves have one row more, and after it as many elements as are in a vector; there is room by the
            // caller's contract.
            unsafe {
                let row = |row: usize| V::load(halves.room.as_ptr().add(halves.place(row, column) + first));
                let all = [row(0), row(1), row(2), row(3)];
                let components = if SQUARES { gradient(all) } else { patch(all) };
                for (at, component) in components.into_iter().enumerate() {
                    component.store(to.first.add(vector * to.vector + (PATCH * at + column) * to.component));
                }
            }
        }
    }
}

/// [`Transforms::copy`].
///
/// # Safety
/// As that.
#[inline(always)]
unsafe fn copy<V: Vector>(from: Places, vectors: usize, to: Places) {
    for component in 0..COMPONENTS {
        for vector in 0..vectors {
            let place = |of: Places| of.first.wrapping_add(component * of.component + vector * of.vector);
            // SAFETY: by the caller's contract.
            unsafe { V::load(place(from)).store(place(to)) };
        }
    }
}

/// [`Transforms::windows`].
///
/// # Safety
/// As that.
#[inline(always)]
unsafe fn windows<V: Vector>(sums: *const f32, component: usize, to: &mut [f32], columns: usize) {
    let (upper, lower) = to.split_at_mut(columns);
    for first in (0..columns).step_by(SIDE * V::LANES) {
        // SAFETY: by the caller's contract.
        unsafe {
            let sum = |at: usize| V::load(sums.add(at * component + first / SIDE));
            let column = |j: usize| square([sum(j), sum(PATCH + j), sum(2 * PATCH + j), sum(3 * PATCH + j)]);
            let [a, b, c, d] = [column(0), column(1), column(2), column(3)];
            for (row, to) in [&mut *upper, &mut *lower].into_iter().enumerate().filter(|it| !it.1.is_empty()) {
                let [left, right] = V::join(square([a[row], b[row], c[row], d[row]]));
                let to = &mut to[first..];
                if to.len() >= SIDE * V::LANES {
                    left.store(to.as_mut_ptr());
                    right.store(to.as_mut_ptr().add(V::LANES));
                } else {
                    let mut both = [0.0; SIDE * LANES];
                    left.store(both.as_mut_ptr());
                    right.store(both.as_mut_ptr().add(V::LANES));
                    to.copy_from_slice(&both[..to.len()]);
                }
            }
        }
    }
}

/// A row or column of a filter.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn filter<V: Vector>([a, b, c]: [V; KERNEL]) -> [V; PATCH] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let ends = a.plus(c);
        [a, ends.plus(b).half(), ends.minus(b).half(), c]
    }
}

/// [`Transforms::filters`].
///
/// # Safety
/// As that.
#[inline(always)]
unsafe fn filters<V: Vector>(weights: &[[f32; TAPS]], step: usize, count: usize, to: *mut f32, component: usize) {
    for at in (0..count).step_by(LANES) {
        let mut taps = [[0.0; LANES]; TAPS];
        let some = weights[at * step..].iter().step_by(step).take(LANES.min(count - at));
        for (lane, weights) in some.enumerate() {
            taps.iter_mut().zip(weights).for_each(|(tap, &weight)| tap[lane] = weight);
        }
        for first in (0..LANES).step_by(V::LANES) {
            // SAFETY: the taps have whole vectors, and there is room for them by the caller's contract.
            unsafe {
                let tap = |tap: usize| V::load(taps[tap].as_ptr().add(first));
                let column = |j: usize| filter([tap(j), tap(KERNEL + j), tap(2 * KERNEL + j)]);
                let [a, b, c] = [column(0), column(1), column(2)];
                for row in 0..PATCH {
                    for (number, it) in filter([a[row], b[row], c[row]]).into_iter().enumerate() {
                        it.store(to.add((PATCH * row + number) * component + at + first));
                    }
                }
            }
        }
    }
}

/// The sums of a filter along one axis.
///
/// # Safety
/// As [`Vector`].
#[inline(always)]
unsafe fn weight<V: Vector>([a, b, c, d]: [V; PATCH]) -> [V; KERNEL] {
    // SAFETY: the caller's contract is the same.
    unsafe {
        let half = b.plus(c).half();
        [a.plus(half), b.minus(c).half(), half.minus(d)]
    }
}

/// [`Transforms::weights`].
///
/// # Safety
/// As that.
#[inline(always)]
unsafe fn weights<V: Vector>(sums: *const f32, component: usize, to: &mut [[f32; TAPS]]) {
    for (some, to) in to.chunks_mut(V::LANES).enumerate() {
        let mut taps = [[0.0; LANES]; TAPS];
        // SAFETY: by the caller's contract; the taps have whole vectors.
        unsafe {
            let mut all = [V::load(sums.add(some * V::LANES)); COMPONENTS];
            for (number, to) in all.iter_mut().enumerate().skip(1) {
                *to = V::load(sums.add(number * component + some * V::LANES));
            }
            let mut rows = [[all[0]; PATCH]; KERNEL];
            for column in 0..PATCH {
                let down = [all[column], all[PATCH + column], all[2 * PATCH + column], all[3 * PATCH + column]];
                for (row, it) in rows.iter_mut().zip(weight(down)) {
                    row[column] = it;
                }
            }
            for (taps, row) in taps.chunks_exact_mut(KERNEL).zip(rows) {
                for (tap, it) in taps.iter_mut().zip(weight(row)) {
                    it.store(tap.as_mut_ptr());
                }
            }
        }
        for (lane, to) in to.iter_mut().enumerate() {
            *to = from_fn(|tap| taps[tap][lane]);
        }
    }
}

/// The component of a filter that is turned by half a turn, among those of the filter.
pub fn turned(component: usize) -> usize {
    let turned = |at: usize| if at.is_multiple_of(PATCH - 1) { PATCH - 1 - at } else { at };
    PATCH * turned(component / PATCH) + turned(component % PATCH)
}

/// The transforms in vectors of a type, with the features that they take.
macro_rules! transforms {
    ($($name:ident $vector:ty, $(#[$features:meta])?;)*) => {$(
        mod $name {
            use super::{Forward, Halves, Places, TAPS, Transforms};

            pub const TRANSFORMS: Transforms = Transforms {
                patches: Forward { across: across::<false>, down: down::<false> },
                squares: Forward { across: across::<true>, down: down::<true> },
                copy,
                windows,
                filters,
                weights,
            };

            $(#[$features])?
            unsafe fn across<const SQUARES: bool>(line: &[f32], row: usize, to: &mut Halves) {
                // SAFETY: the caller's contract is the same, here and below.
                unsafe { super::across::<$vector, SQUARES>(line, row, to) }
            }

            $(#[$features])?
            unsafe fn down<const SQUARES: bool>(halves: &Halves, rows: usize, to: Places) {
                // SAFETY: as above.
                unsafe { super::down::<$vector, SQUARES>(halves, rows, to) }
            }

            $(#[$features])?
            unsafe fn copy(from: Places, vectors: usize, to: Places) {
                // SAFETY: as above.
                unsafe { super::copy::<$vector>(from, vectors, to) }
            }

            $(#[$features])?
            unsafe fn windows(sums: *const f32, component: usize, to: &mut [f32], columns: usize) {
                // SAFETY: as above.
                unsafe { super::windows::<$vector>(sums, component, to, columns) }
            }

            $(#[$features])?
            unsafe fn filters(weights: &[[f32; TAPS]], step: usize, count: usize, to: *mut f32, component: usize) {
                // SAFETY: as above.
                unsafe { super::filters::<$vector>(weights, step, count, to, component) }
            }

            $(#[$features])?
            unsafe fn weights(sums: *const f32, component: usize, to: &mut [[f32; TAPS]]) {
                // SAFETY: as above.
                unsafe { super::weights::<$vector>(sums, component, to) }
            }
        }
    )*};
}

transforms! { scalar f32,; }

#[cfg(target_arch = "x86_64")]
transforms! {
    avx512 std::arch::x86_64::__m512, #[target_feature(enable = "avx512f")];
    avx2 std::arch::x86_64::__m256, #[target_feature(enable = "avx2")];
}

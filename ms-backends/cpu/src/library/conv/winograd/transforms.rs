//! Winograd transforms of patches, filters and sums, for each instruction set.
//!
//! Each is the same along both axes. A patch `d` becomes `d0 - d2, d1 + d2, d2 - d1, d1 - d3`, across and then down.
//! The sums `m` of a square become `m0 + m1 + m2, m1 - m2 - m3`, down and then across, added from left to right. A
//! filter `g` becomes `g0, (g0 + g2 + g1) / 2, (g0 + g2 - g1) / 2, g2`, down and then across. The component in row `i`
//! and column `j` has index `4 i + j`.
//!
//! For backward-weights, a square `g` of the gradient becomes `g0, g0 + g1, g0 - g1, g1`, across and then down. The
//! sums `m` of a filter become `m0 + (m1 + m2) / 2, (m1 - m2) / 2, (m1 + m2) / 2 - m3`, down and then across.

use super::vector::Vector;
use super::{KERNEL, SIDE, TAPS};
use ms_core::error::Result;
use ms_core::tensor::try_filled;
use std::array::from_fn;

/// Number of rows or columns of a patch.
const PATCH: usize = 4;

/// Number of components of a patch.
pub const COMPONENTS: usize = PATCH * PATCH;

/// Maximum number of patches that are transformed at once.
pub const LANES: usize = 16;

/// Rows of elements that are transformed across. Even and odd rows are apart; each has four components, whose rows of
/// patches follow one another.
pub struct Halves {
    room: Vec<f32>,
    /// The number of elements of a component.
    len: usize,
    /// The number of patches of a row.
    patches: usize,
}

impl Halves {
    /// Allocates a buffer for `rows` rows of patches.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for it.
    pub fn new(rows: usize, patches: usize) -> Result<Self> {
        // The last vector may end after the last patch.
        let len = (rows + 1) * patches + LANES;
        Ok(Self { room: try_filled(0.0, 2 * PATCH * len)?, len, patches })
    }

    /// Returns the index of component `at` of a row of elements.
    #[inline(always)]
    fn place(&self, row: usize, at: usize) -> usize {
        (row % 2 * PATCH + at) * self.len + row / 2 * self.patches
    }

    /// Zeroes a row of elements.
    pub fn clear(&mut self, row: usize) {
        for at in 0..PATCH {
            let place = self.place(row, at);
            self.room[place..][..self.patches].fill(0.0);
        }
    }
}

/// The layout of transformed patches: vectors of patches by component.
#[derive(Clone, Copy)]
pub struct Places {
    /// The first vector.
    pub first: *mut f32,
    /// The distance between components, in elements.
    pub component: usize,
    /// The distance between vectors, in elements.
    pub vector: usize,
}

/// The transform of patches or of squares of a gradient, by rows.
#[derive(Clone, Copy)]
pub struct Forward {
    /// Transforms a row of elements across.
    ///
    /// # Safety
    /// `line` has the elements of whole vectors of patches, and the processor has the instruction set.
    pub across: unsafe fn(line: &[f32], row: usize, to: &mut Halves),
    /// Transforms `rows` rows of patches down, after the transform across.
    ///
    /// # Safety
    /// `to` has room for whole vectors of patches, and the processor has the instruction set.
    pub down: unsafe fn(halves: &Halves, rows: usize, to: Places),
}

/// The transforms of an instruction set.
#[derive(Clone, Copy)]
pub struct Transforms {
    /// The transform of patches of the input.
    pub patches: Forward,
    /// The transform of squares of a gradient.
    pub squares: Forward,
    /// Copies `vectors` vectors of patches in each component.
    ///
    /// # Safety
    /// `from` has these vectors, `to` has room for them, and the processor has the instruction set.
    pub copy: unsafe fn(from: Places, vectors: usize, to: Places),
    /// Transforms the sums of a row of patches to one or two rows of `columns` output positions. Components are
    /// `component` elements apart.
    ///
    /// # Safety
    /// The sums of whole vectors exist, and the processor has the instruction set.
    pub windows: unsafe fn(sums: *const f32, component: usize, to: &mut [f32], columns: usize),
    /// Transforms `count` filters, every `step`-th of `weights`, to rows of components that are `component` elements
    /// apart.
    ///
    /// # Safety
    /// `to` has room for `count` filters, rounded up to a multiple of [`LANES`], and the processor has the instruction
    /// set.
    pub filters: unsafe fn(weights: &[[f32; TAPS]], step: usize, count: usize, to: *mut f32, component: usize),
    /// Transforms sums, whose components are `component` elements apart, to filters.
    ///
    /// # Safety
    /// The sums of whole vectors exist, and the processor has the instruction set.
    pub weights: unsafe fn(sums: *const f32, component: usize, to: &mut [[f32; TAPS]]),
}

impl Transforms {
    /// Returns the transforms with `lanes` elements; the processor must have micro-kernels with as many.
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

/// Transforms a patch along one axis.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn patch<V: Vector>([a, b, c, d]: [V; PATCH]) -> [V; PATCH] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe { [a.minus(c), b.plus(c), c.minus(b), b.minus(d)] }
}

/// Transforms the sums of a square along one axis.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn square<V: Vector>([a, b, c, d]: [V; PATCH]) -> [V; SIDE] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe { [a.plus(b).plus(c), b.minus(c).minus(d)] }
}

/// Transforms a square of a gradient along one axis; the last two elements are not read.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn gradient<V: Vector>([a, b, _, _]: [V; PATCH]) -> [V; PATCH] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe { [a, a.plus(b), a.minus(b), b] }
}

/// Implements [`Forward::across`] for patches, or for squares of a gradient.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn across<V: Vector, const SQUARES: bool>(line: &[f32], row: usize, to: &mut Halves) {
    assert!(line.len() >= SIDE * to.patches.next_multiple_of(V::LANES) + PATCH - SIDE, "there are whole vectors");
    let places: [usize; PATCH] = from_fn(|at| to.place(row, at));
    let places = places.map(|it| to.room[it..].as_mut_ptr());
    for first in (0..to.patches).step_by(V::LANES) {
        // SAFETY: the assertion counts the elements that are read. Each component of `to` has `LANES` elements after
        // its last patch, so whole vectors have room.
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

/// Implements [`Forward::down`] for patches, or for squares of a gradient.
///
/// # Safety
/// `to` has room for whole vectors of patches, and the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn down<V: Vector, const SQUARES: bool>(halves: &Halves, rows: usize, to: Places) {
    for (vector, first) in (0..rows * halves.patches).step_by(V::LANES).enumerate() {
        for column in 0..PATCH {
            // SAFETY: the halves have one row more than `rows`, and `LANES` elements after it. `to` has room for whole
            // vectors by this function's contract.
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

/// Implements [`Transforms::copy`].
///
/// # Safety
/// `from` has these vectors, `to` has room for them, and the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn copy<V: Vector>(from: Places, vectors: usize, to: Places) {
    for component in 0..COMPONENTS {
        for vector in 0..vectors {
            let place = |of: Places| of.first.wrapping_add(component * of.component + vector * of.vector);
            // SAFETY: `component < COMPONENTS` and `vector < vectors`, so `from` has the vector and `to` has room for
            // it.
            unsafe { V::load(place(from)).store(place(to)) };
        }
    }
}

/// Implements [`Transforms::windows`].
///
/// # Safety
/// The sums of whole vectors exist, and the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn windows<V: Vector>(sums: *const f32, component: usize, to: &mut [f32], columns: usize) {
    let (upper, lower) = to.split_at_mut(columns);
    for first in (0..columns).step_by(SIDE * V::LANES) {
        // SAFETY: the sums of whole vectors exist by this function's contract. Stores go to `to` only if a whole pair
        // of vectors is left, otherwise to `both`.
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

/// Transforms a row or column of a filter.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn filter<V: Vector>([a, b, c]: [V; KERNEL]) -> [V; PATCH] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe {
        let ends = a.plus(c);
        [a, ends.plus(b).half(), ends.minus(b).half(), c]
    }
}

/// Implements [`Transforms::filters`].
///
/// # Safety
/// `to` has room for `count` filters, rounded up to a multiple of [`LANES`], and the processor has the instruction set
/// of `V`.
#[inline(always)]
unsafe fn filters<V: Vector>(weights: &[[f32; TAPS]], step: usize, count: usize, to: *mut f32, component: usize) {
    for at in (0..count).step_by(LANES) {
        let mut taps = [[0.0; LANES]; TAPS];
        let some = weights[at * step..].iter().step_by(step).take(LANES.min(count - at));
        for (lane, weights) in some.enumerate() {
            taps.iter_mut().zip(weights).for_each(|(tap, &weight)| tap[lane] = weight);
        }
        for first in (0..LANES).step_by(V::LANES) {
            // SAFETY: `first + V::LANES <= LANES`, so the taps have whole vectors. `to` has room for `LANES` filters
            // from `at` on.
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

/// Transforms the sums of a filter along one axis.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn weight<V: Vector>([a, b, c, d]: [V; PATCH]) -> [V; KERNEL] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe {
        let half = b.plus(c).half();
        [a.plus(half), b.minus(c).half(), half.minus(d)]
    }
}

/// Implements [`Transforms::weights`].
///
/// # Safety
/// The sums of whole vectors exist, and the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn weights<V: Vector>(sums: *const f32, component: usize, to: &mut [[f32; TAPS]]) {
    for (some, to) in to.chunks_mut(V::LANES).enumerate() {
        let mut taps = [[0.0; LANES]; TAPS];
        // SAFETY: the sums of whole vectors exist by this function's contract, and each of `taps` has room for a
        // vector.
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

/// Returns the component of a filter that a component of the filter rotated by 180° equals.
pub fn turned(component: usize) -> usize {
    let turned = |at: usize| if at.is_multiple_of(PATCH - 1) { PATCH - 1 - at } else { at };
    PATCH * turned(component / PATCH) + turned(component % PATCH)
}

/// Instantiates the transforms for a vector type and its target features.
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
                // SAFETY: the processor has the features by the contract of `Forward::across`.
                unsafe { super::across::<$vector, SQUARES>(line, row, to) }
            }

            $(#[$features])?
            unsafe fn down<const SQUARES: bool>(halves: &Halves, rows: usize, to: Places) {
                // SAFETY: `to` has room, and the processor has the features, by the contract of `Forward::down`.
                unsafe { super::down::<$vector, SQUARES>(halves, rows, to) }
            }

            $(#[$features])?
            unsafe fn copy(from: Places, vectors: usize, to: Places) {
                // SAFETY: both have room for the vectors, and the processor has the features, by the contract of
                // `Transforms::copy`.
                unsafe { super::copy::<$vector>(from, vectors, to) }
            }

            $(#[$features])?
            unsafe fn windows(sums: *const f32, component: usize, to: &mut [f32], columns: usize) {
                // SAFETY: the sums exist, and the processor has the features, by the contract of `Transforms::windows`.
                unsafe { super::windows::<$vector>(sums, component, to, columns) }
            }

            $(#[$features])?
            unsafe fn filters(weights: &[[f32; TAPS]], step: usize, count: usize, to: *mut f32, component: usize) {
                // SAFETY: `to` has room, and the processor has the features, by the contract of `Transforms::filters`.
                unsafe { super::filters::<$vector>(weights, step, count, to, component) }
            }

            $(#[$features])?
            unsafe fn weights(sums: *const f32, component: usize, to: &mut [[f32; TAPS]]) {
                // SAFETY: the sums exist, and the processor has the features, by the contract of `Transforms::weights`.
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

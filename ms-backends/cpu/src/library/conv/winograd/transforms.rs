//! Winograd transforms of input tiles, filters and sums, for each instruction set.
//!
//! Each is the same along both axes. An input tile `d` becomes `d0 - d2, d1 + d2, d2 - d1, d1 - d3`, across and then
//! down. The sums `m` of an output tile become `m0 + m1 + m2, m1 - m2 - m3`, down and then across, added from left to
//! right. A filter `g` becomes `g0, (g0 + g2 + g1) / 2, (g0 + g2 - g1) / 2, g2`, down and then across. The component in
//! row `i` and column `j` has index `4 i + j`.
//!
//! For backward-weights, an output tile `g` of the gradient becomes `g0, g0 + g1, g0 - g1, g1`, across and then down.
//! The sums `m` of a filter become `m0 + (m1 + m2) / 2, (m1 - m2) / 2, (m1 + m2) / 2 - m3`, down and then across.

use super::vector::Vector;
use super::{KERNEL, OUTPUT_TILE, TAPS};
use crate::library::scratch::Scratch;
use ms_ir::error::Result;
use std::array::from_fn;

/// Number of rows or columns of an input tile.
const INPUT_TILE: usize = 4;

/// Number of components of an input tile.
pub const COMPONENTS: usize = INPUT_TILE * INPUT_TILE;

/// Maximum number of input tiles that are transformed at once.
pub const LANES: usize = 16;

/// Rows of elements that are transformed across. Even and odd rows are apart; each has four components, whose rows of
/// input tiles follow one another.
pub struct Halves {
    room: Scratch<f32>,
    /// The number of elements of a component.
    len: usize,
    /// The number of input tiles of a row.
    input_tiles: usize,
}

impl Halves {
    /// Allocates a buffer for `rows` rows of input tiles.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for it.
    pub fn new(rows: usize, input_tiles: usize) -> Result<Self> {
        // The last vector may end after the last input tile.
        let len = (rows + 1) * input_tiles + LANES;
        Ok(Self { room: Scratch::filled(0.0, 2 * INPUT_TILE * len)?, len, input_tiles })
    }

    /// Returns the index of component `at` of a row of elements.
    #[inline(always)]
    fn index(&self, row: usize, at: usize) -> usize {
        (row % 2 * INPUT_TILE + at) * self.len + row / 2 * self.input_tiles
    }

    /// Zeroes a row of elements.
    pub fn clear(&mut self, row: usize) {
        for at in 0..INPUT_TILE {
            let index = self.index(row, at);
            self.room[index..][..self.input_tiles].fill(0.0);
        }
    }
}

/// The layout of transformed input tiles: vectors of input tiles by component.
#[derive(Clone, Copy)]
pub struct TileLayout {
    /// The first vector.
    pub first: *mut f32,
    /// The distance between components, in elements.
    pub component: usize,
    /// The distance between vectors, in elements.
    pub vector: usize,
}

/// The transform of input tiles or of output tiles of a gradient, by rows.
#[derive(Clone, Copy)]
pub struct Forward {
    /// Transforms a row of elements across.
    ///
    /// # Safety
    /// `elements` has the elements of whole vectors of input tiles, and the processor has the instruction set.
    pub across: unsafe fn(elements: &[f32], row: usize, to: &mut Halves),
    /// Transforms `rows` rows of input tiles down, after the transform across.
    ///
    /// # Safety
    /// `to` has room for whole vectors of input tiles, and the processor has the instruction set.
    pub down: unsafe fn(halves: &Halves, rows: usize, to: TileLayout),
}

/// The transforms of an instruction set.
#[derive(Clone, Copy)]
pub struct Transforms {
    /// The transform of input tiles.
    pub input_tiles: Forward,
    /// The transform of output tiles of a gradient.
    pub output_tiles: Forward,
    /// Copies `vectors` vectors of input tiles in each component.
    ///
    /// # Safety
    /// `from` has these vectors, `to` has room for them, and the processor has the instruction set.
    pub copy: unsafe fn(from: TileLayout, vectors: usize, to: TileLayout),
    /// Transforms the sums of a row of input tiles to one or two rows of `columns` output positions. Components are
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
    pub fn with_lanes(lanes: usize) -> Self {
        match lanes {
            #[cfg(target_arch = "x86_64")]
            16 => avx512::TRANSFORMS,
            #[cfg(target_arch = "x86_64")]
            8 => avx2::TRANSFORMS,
            _ => scalar::TRANSFORMS,
        }
    }
}

/// Transforms an input tile along one axis.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn input_tile<V: Vector>([a, b, c, d]: [V; INPUT_TILE]) -> [V; INPUT_TILE] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe { [a.minus(c), b.plus(c), c.minus(b), b.minus(d)] }
}

/// Transforms the sums of an output tile along one axis.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn output_tile<V: Vector>([a, b, c, d]: [V; INPUT_TILE]) -> [V; OUTPUT_TILE] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe { [a.plus(b).plus(c), b.minus(c).minus(d)] }
}

/// Transforms an output tile of a gradient along one axis; the last two elements are not read.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn gradient<V: Vector>([a, b, _, _]: [V; INPUT_TILE]) -> [V; INPUT_TILE] {
    // SAFETY: the processor has the instruction set of `V` by this function's contract.
    unsafe { [a, a.plus(b), a.minus(b), b] }
}

/// Implements [`Forward::across`] for input tiles, or for output tiles of a gradient.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
unsafe fn across<V: Vector, const OUTPUT_TILES: bool>(elements: &[f32], row: usize, to: &mut Halves) {
    assert!(
        elements.len() >= OUTPUT_TILE * to.input_tiles.next_multiple_of(V::LANES) + INPUT_TILE - OUTPUT_TILE,
        "there are whole vectors"
    );
    let places: [usize; INPUT_TILE] = from_fn(|at| to.index(row, at));
    let places = places.map(|it| to.room[it..].as_mut_ptr());
    for first in (0..to.input_tiles).step_by(V::LANES) {
        // SAFETY: the assertion counts the elements that are read. Each component of `to` has `LANES` elements after
        // its last input tile, so whole vectors have room.
        unsafe {
            let pair = |at: usize| {
                V::split([0, V::LANES].map(|it| V::load(elements.as_ptr().add(OUTPUT_TILE * first + at + it))))
            };
            let ([a, b], [c, d]) = (pair(0), pair(OUTPUT_TILE));
            let all = [a, b, c, d];
            for (to, component) in places.iter().zip(if OUTPUT_TILES { gradient(all) } else { input_tile(all) }) {
                component.store(to.add(first));
            }
        }
    }
}

/// Implements [`Forward::down`] for input tiles, or for output tiles of a gradient.
///
/// # Safety
/// `to` has room for whole vectors of input tiles, and the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn down<V: Vector, const OUTPUT_TILES: bool>(halves: &Halves, rows: usize, to: TileLayout) {
    for (vector, first) in (0..rows * halves.input_tiles).step_by(V::LANES).enumerate() {
        for column in 0..INPUT_TILE {
            // SAFETY: the halves have one row more than `rows`, and `LANES` elements after it. `to` has room for whole
            // vectors by this function's contract.
            unsafe {
                let row = |row: usize| V::load(halves.room.as_ptr().add(halves.index(row, column) + first));
                let all = [row(0), row(1), row(2), row(3)];
                let components = if OUTPUT_TILES { gradient(all) } else { input_tile(all) };
                for (at, component) in components.into_iter().enumerate() {
                    component.store(to.first.add(vector * to.vector + (INPUT_TILE * at + column) * to.component));
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
unsafe fn copy<V: Vector>(from: TileLayout, vectors: usize, to: TileLayout) {
    for component in 0..COMPONENTS {
        for vector in 0..vectors {
            let index = |of: TileLayout| of.first.wrapping_add(component * of.component + vector * of.vector);
            // SAFETY: `component < COMPONENTS` and `vector < vectors`, so `from` has the vector and `to` has room for
            // it.
            unsafe { V::load(index(from)).store(index(to)) };
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
    for first in (0..columns).step_by(OUTPUT_TILE * V::LANES) {
        // SAFETY: the sums of whole vectors exist by this function's contract. Stores go to `to` only if a whole pair
        // of vectors is left, otherwise to `both`.
        unsafe {
            let sum = |at: usize| V::load(sums.add(at * component + first / OUTPUT_TILE));
            let column =
                |j: usize| output_tile([sum(j), sum(INPUT_TILE + j), sum(2 * INPUT_TILE + j), sum(3 * INPUT_TILE + j)]);
            let [a, b, c, d] = [column(0), column(1), column(2), column(3)];
            for (row, to) in [&mut *upper, &mut *lower].into_iter().enumerate().filter(|it| !it.1.is_empty()) {
                let [left, right] = V::join(output_tile([a[row], b[row], c[row], d[row]]));
                let to = &mut to[first..];
                if to.len() >= OUTPUT_TILE * V::LANES {
                    left.store(to.as_mut_ptr());
                    right.store(to.as_mut_ptr().add(V::LANES));
                } else {
                    let mut both = [0.0; OUTPUT_TILE * LANES];
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
unsafe fn filter<V: Vector>([a, b, c]: [V; KERNEL]) -> [V; INPUT_TILE] {
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
                for row in 0..INPUT_TILE {
                    for (number, it) in filter([a[row], b[row], c[row]]).into_iter().enumerate() {
                        it.store(to.add((INPUT_TILE * row + number) * component + at + first));
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
unsafe fn weight<V: Vector>([a, b, c, d]: [V; INPUT_TILE]) -> [V; KERNEL] {
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
            let mut rows = [[all[0]; INPUT_TILE]; KERNEL];
            for column in 0..INPUT_TILE {
                let down =
                    [all[column], all[INPUT_TILE + column], all[2 * INPUT_TILE + column], all[3 * INPUT_TILE + column]];
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
pub fn rotated(component: usize) -> usize {
    let rotated = |at: usize| if at.is_multiple_of(INPUT_TILE - 1) { INPUT_TILE - 1 - at } else { at };
    INPUT_TILE * rotated(component / INPUT_TILE) + rotated(component % INPUT_TILE)
}

/// Instantiates the transforms for a vector type and its target features.
macro_rules! transforms {
    ($($name:ident $vector:ty, $(#[$features:meta])?;)*) => {$(
        mod $name {
            use super::{Forward, Halves, TileLayout, TAPS, Transforms};

            pub const TRANSFORMS: Transforms = Transforms {
                input_tiles: Forward { across: across::<false>, down: down::<false> },
                output_tiles: Forward { across: across::<true>, down: down::<true> },
                copy,
                windows,
                filters,
                weights,
            };

            $(#[$features])?
            unsafe fn across<const OUTPUT_TILES: bool>(elements: &[f32], row: usize, to: &mut Halves) {
                // SAFETY: the processor has the features by the contract of `Forward::across`.
                unsafe { super::across::<$vector, OUTPUT_TILES>(elements, row, to) }
            }

            $(#[$features])?
            unsafe fn down<const OUTPUT_TILES: bool>(halves: &Halves, rows: usize, to: TileLayout) {
                // SAFETY: `to` has room, and the processor has the features, by the contract of `Forward::down`.
                unsafe { super::down::<$vector, OUTPUT_TILES>(halves, rows, to) }
            }

            $(#[$features])?
            unsafe fn copy(from: TileLayout, vectors: usize, to: TileLayout) {
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

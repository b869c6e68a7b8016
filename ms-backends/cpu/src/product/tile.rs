//! Products of a tile of rows and a tile of columns: a chain of fused multiply-adds for each element of
//! the result, on every instruction set.

use super::Matrix;
use super::dot::{self, Chains};
use super::format::{Format, Operand};
use super::pack::{self, Turn};
use crate::isa::Isa;
use half::{bf16, f16};
use ms_core::tensor::DType;

/// The kernels of an instruction set for tiles of an element type.
#[derive(Clone, Copy)]
pub struct Tile<W> {
    /// Maximum number of rows of a tile.
    pub rows: usize,
    /// Number of columns of a tile.
    pub columns: usize,
    /// Multiplies tiles.
    pub run: Run<W>,
    /// Multiplies a row and [several](ROW_TILES) tiles of columns.
    pub row: Row<W>,
    /// Multiplies lines in lanes.
    pub line: Line<W>,
    /// Packs lines.
    pub turn: Turn<W>,
    /// Multiplies long vectors.
    pub chains: Chains<W>,
}

/// Sets `to[i][j]` to the chain of `a[i][p] * b[p][j]` over all `p` below `depth` in order, each step
/// rounded once, from +0, or from its value if it `resumes`. `a` has the given strides between rows and between steps,
/// [those of packed ones](packed) or others; `b` and `to` are matrices of [`Tile::columns`] columns with the given
/// strides between rows.
///
/// # Safety
/// The operands and `to` have that many elements, there are 1 to [`Tile::rows`] rows, and the CPU has
/// the instruction set. If it resumes, `to` is initialised.
pub type Run<W> =
    unsafe fn(sizes: [usize; 2], resumes: bool, a: Matrix<*const W>, b: (*const W, isize), to: (*mut W, isize));

/// Number of tiles of columns that one row is multiplied with at once: so many chains hide the latency of a sum.
pub const ROW_TILES: usize = 4;

/// [`Run`] of one row and [`ROW_TILES`] tiles of columns, from +0. `a` and `b` have the given strides between steps, and
/// tiles of `b` the last one; those of `to` are contiguous.
///
/// # Safety
/// As [`Run`].
pub type Row<W> = unsafe fn(depth: usize, a: (*const W, isize), b: (*const W, [isize; 2]), to: *mut W);

/// The sum of `a[p] * b[p]` over all `p` below `depth`, in an order that depends on the instruction set: terms are dealt
/// to lanes.
///
/// # Safety
/// The operands have that many elements, and the CPU has the instruction set.
pub type Line<W> = unsafe fn(depth: usize, a: *const W, b: *const W) -> W;

/// The strides of packed rows: contiguous elements for each step.
pub fn packed(rows: usize) -> [isize; 2] {
    [1, rows as isize]
}

impl<W> Tile<W> {
    /// The rows of each tile of so many: about equal heights.
    pub fn height(&self, rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(self.rows).max(1)).max(1)
    }
}

/// Maximum number of elements of a tile.
pub const TILE: usize = 14 * 32;

/// An element type of accumulators.
pub trait Wide: Operand<Wide = Self> + Default + std::ops::Add<Output = Self> {
    /// The tiles of an instruction set.
    fn tile(isa: Isa) -> Tile<Self>;

    /// How elements of a dtype are accessed with an instruction set; `None` for one that has accumulators of another
    /// type.
    fn format(isa: Isa, dtype: DType) -> Option<Format<Self>>;

    /// `self * b + c`, rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
}

macro_rules! wide {
    ($($ty:ident, $wide:ident, $narrow:ident: $($dtype:ident $element:ty),*;)*) => {$(
        impl Operand for $ty {
            type Wide = Self;
            const IS_WIDE: bool = true;

            fn widen(self) -> Self {
                self
            }

            fn narrow(sum: Self) -> Self {
                sum
            }
        }

        impl Wide for $ty {
            fn tile(isa: Isa) -> Tile<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => $wide::TILE,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => $narrow::TILE,
                    _ => Tile {
                        rows: 4,
                        columns: 8,
                        run: scalar::<Self>,
                        row: scalar_row::<Self>,
                        line: scalar_line::<Self>,
                        turn: pack::plain::<Self>,
                        chains: dot::plain::<Self>,
                    },
                }
            }

            fn format(isa: Isa, dtype: DType) -> Option<Format<Self>> {
                match dtype {
                    $(DType::$dtype => Some(Format::of::<$element>(isa)),)*
                    _ => None,
                }
            }

            #[inline(always)]
            fn fused(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
        }
    )*};
}

wide! {
    f32, f32_avx512, f32_avx2: F32 f32, F16 f16, BF16 bf16;
    f64, f64_avx512, f64_avx2: F64 f64;
}

/// [`Run`] for every CPU.
unsafe fn scalar<W: Wide>(
    [rows, depth]: [usize; 2],
    resumes: bool,
    a: Matrix<*const W>,
    b: (*const W, isize),
    to: (*mut W, isize),
) {
    let mut sums = [[W::default(); 8]; 4];
    for (i, sums) in sums[..rows].iter_mut().enumerate().filter(|_| resumes) {
        // SAFETY: by the caller's contract.
        unsafe { sums.as_mut_ptr().copy_from_nonoverlapping(to.0.wrapping_offset(i as isize * to.1), 8) };
    }
    for p in 0..depth {
        let b = b.0.wrapping_offset(p as isize * b.1);
        for (i, sums) in sums[..rows].iter_mut().enumerate() {
            // SAFETY: `a` has an element for each row and step, and `b` one for each column.
            let factor = unsafe { *a.skip(i, p).first };
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                *sum = factor.fused(unsafe { *b.add(j) }, *sum);
            }
        }
    }
    for (i, sums) in sums[..rows].iter().enumerate() {
        // SAFETY: `to` has room for the rows.
        unsafe { to.0.wrapping_offset(i as isize * to.1).copy_from_nonoverlapping(sums.as_ptr(), 8) };
    }
}

/// [`Row`] for every CPU.
unsafe fn scalar_row<W: Wide>(
    depth: usize,
    a: (*const W, isize),
    (b, [step, across]): (*const W, [isize; 2]),
    to: *mut W,
) {
    for tile in 0..ROW_TILES {
        let (a, b) = (Matrix { first: a.0, steps: [0, a.1] }, b.wrapping_offset(tile as isize * across));
        // SAFETY: the caller's contract is the same, for each tile.
        unsafe { scalar([1, depth], false, a, (b, step), (to.wrapping_add(tile * 8), 8)) };
    }
}

/// [`Line`] for every CPU.
unsafe fn scalar_line<W: Wide>(depth: usize, a: *const W, b: *const W) -> W {
    // SAFETY: by the caller's contract.
    let [a, b] = [a, b].map(|it| unsafe { std::slice::from_raw_parts(it, depth) });
    let mut lanes = [W::default(); 8];
    for (p, (&a, &b)) in a.iter().zip(b).enumerate() {
        lanes[p % 8] = a.fused(b, lanes[p % 8]);
    }
    sum_of(&mut lanes)
}

/// The sum of so many lanes, which are a power of two.
fn sum_of<W: Wide>(mut lanes: &mut [W]) -> W {
    while lanes.len() > 1 {
        let (low, high) = lanes.split_at_mut(lanes.len() / 2);
        low.iter_mut().zip(high).for_each(|(low, &mut high)| *low = *low + high);
        lanes = low;
    }
    lanes[0]
}

/// [`Tile`]s of two registers of columns, with a function for each number of rows, so that all sums of a
/// tile are in registers.
#[cfg(target_arch = "x86_64")]
macro_rules! vector_tiles {
    ($($name:ident, $feature:literal, $ty:ident, $lanes:literal,
        $zero:ident $all:ident $load:ident $store:ident $fused:ident, [$($rows:literal)*] $most:literal;)*) => {$(
        mod $name {
            use super::{Matrix, ROW_TILES, Tile, packed, sum_of};
            use crate::product::dot;
            use crate::product::pack::{LINES, avx2};
            use std::arch::asm;
            use std::arch::x86_64::{$all, $fused, $load, $store, $zero};

            pub const TILE: Tile<$ty> =
                Tile { rows: $most, columns: 2 * $lanes, run, row, line, turn: avx2::$ty, chains };

            #[target_feature(enable = $feature)]
            unsafe fn chains(a: *const $ty, b: *const $ty) -> [$ty; LINES] {
                // SAFETY: the caller's contract is the same.
                unsafe { dot::plain(a, b) }
            }

            #[target_feature(enable = $feature)]
            unsafe fn row(
                depth: usize,
                (mut a, along): (*const $ty, isize),
                (mut b, [step, across]): (*const $ty, [isize; 2]),
                to: *mut $ty,
            ) {
                let mut sums = [[$zero(); 2]; ROW_TILES];
                for _ in 0..depth {
                    // SAFETY: `a` has an element for each step, and each tile of `b` two registers of columns.
                    unsafe {
                        let factor = $all(*a);
                        for (i, sums) in sums.iter_mut().enumerate() {
                            let b = b.offset(i as isize * across);
                            sums[0] = $fused(factor, $load(b), sums[0]);
                            sums[1] = $fused(factor, $load(b.add($lanes)), sums[1]);
                        }
                    }
                    a = a.wrapping_offset(along);
                    b = b.wrapping_offset(step);
                }
                for (i, &sum) in sums.as_flattened().iter().enumerate() {
                    // SAFETY: `to` has room for the tiles.
                    unsafe { $store(to.add(i * $lanes), sum) };
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn line(depth: usize, a: *const $ty, b: *const $ty) -> $ty {
                const LANES: usize = 4 * $lanes;
                let mut sums = [$zero(); 4];
                let whole = depth / LANES * LANES;
                for p in (0..whole).step_by(LANES) {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let at = p + i * $lanes;
                        // SAFETY: the operands have so many elements.
                        *sum = unsafe { $fused($load(a.add(at)), $load(b.add(at)), *sum) };
                    }
                }
                let mut lanes = [$ty::default(); LANES];
                for (i, &sum) in sums.iter().enumerate() {
                    // SAFETY: there are so many lanes.
                    unsafe { $store(lanes.as_mut_ptr().add(i * $lanes), sum) };
                }
                for (lane, p) in (whole..depth).enumerate() {
                    // SAFETY: as above.
                    lanes[lane] = unsafe { *a.add(p) }.mul_add(unsafe { *b.add(p) }, lanes[lane]);
                }
                sum_of(&mut lanes)
            }

            unsafe fn run(
                [rows, depth]: [usize; 2],
                resumes: bool,
                a: Matrix<*const $ty>,
                b: (*const $ty, isize),
                to: (*mut $ty, isize),
            ) {
                let is_packed = a.steps == packed(rows);
                // SAFETY: the caller's contract is the same.
                unsafe {
                    match rows {
                        $($rows if is_packed => rows_of::<$rows, true>(depth, resumes, a, b, to),
                        $rows => rows_of::<$rows, false>(depth, resumes, a, b, to),)*
                        _ if is_packed => rows_of::<$most, true>(depth, resumes, a, b, to),
                        _ => rows_of::<$most, false>(depth, resumes, a, b, to),
                    }
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn rows_of<const ROWS: usize, const PACKED: bool>(
                depth: usize,
                resumes: bool,
                a: Matrix<*const $ty>,
                (mut b, step): (*const $ty, isize),
                (to, to_step): (*mut $ty, isize),
            ) {
                // Constants, for fewer registers in the loop.
                let [across, along] = if PACKED { packed(ROWS) } else { a.steps };
                let mut a = a.first;
                let mut sums = [[$zero(); 2]; ROWS];
                if resumes {
                    for (i, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: `to` has the rows, and is initialised.
                        *sums = unsafe {
                            let to = to.offset(i as isize * to_step);
                            [$load(to), $load(to.add($lanes))]
                        };
                    }
                }
                // The loop begins at a line of the cache of instructions, wherever the function is: one that reaches
                // into one more takes a tenth longer. The compiler puts the rest of a line before it.
                // SAFETY: padding has no effect.
                unsafe {
                    asm!(
                        ".p2align 6",
                        ".nops {rest}",
                        rest = const if PACKED { 32 } else { 16 },
                        options(nomem, nostack, preserves_flags),
                    );
                }
                for _ in 0..depth {
                    // SAFETY: `b` has two registers of columns for each step, and `a` an element for each row.
                    unsafe {
                        let columns = [$load(b), $load(b.add($lanes))];
                        for (i, sums) in sums.iter_mut().enumerate() {
                            let factor = $all(*a.offset(i as isize * across));
                            sums[0] = $fused(factor, columns[0], sums[0]);
                            sums[1] = $fused(factor, columns[1], sums[1]);
                        }
                    }
                    a = a.wrapping_offset(along);
                    b = b.wrapping_offset(step);
                }
                for (i, sums) in sums.iter().enumerate() {
                    // SAFETY: `to` has room for the rows.
                    unsafe {
                        let to = to.offset(i as isize * to_step);
                        $store(to, sums[0]);
                        $store(to.add($lanes), sums[1]);
                    }
                }
            }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
vector_tiles! {
    f32_avx512, "avx512f,avx2,fma", f32, 16,
        _mm512_setzero_ps _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps,
        [1 2 3 4 5 6 7 8 9 10 11 12 13] 14;
    f64_avx512, "avx512f,avx2,fma", f64, 8,
        _mm512_setzero_pd _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd,
        [1 2 3 4 5 6 7 8 9 10 11 12 13] 14;
    f32_avx2, "avx2,fma", f32, 8,
        _mm256_setzero_ps _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps,
        [1 2 3 4 5] 6;
    f64_avx2, "avx2,fma", f64, 4,
        _mm256_setzero_pd _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd,
        [1 2 3 4 5] 6;
}

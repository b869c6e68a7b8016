//! Vector micro-kernels: each multiplies a tile of rows by a tile of columns. Every element of the result is one chain
//! of fused multiply-adds, on every instruction set.

use super::Matrix;
use super::dot;
use super::element::{Accumulator, Format, OperandElement, ROW_TILES, Tile};
use super::pack;
use crate::isa::{Isa, Vectors};
use half::{bf16, f16};
use ms_ir::data::DType;

/// Returns the strides of packed rows: the elements of each step are contiguous.
pub fn packed(rows: usize) -> [isize; 2] {
    [1, rows as isize]
}

macro_rules! wide {
    ($($ty:ident, $wide:ident, $narrow:ident: $($dtype:ident $element:ty),*;)*) => {$(
        impl OperandElement for $ty {
            type Accumulator = Self;
            const IS_ACCUMULATOR: bool = true;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(sum: Self) -> Self {
                sum
            }
        }

        impl Accumulator for $ty {
            fn tile(isa: Isa) -> Tile<Self> {
                match isa.vectors() {
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx512 => $wide::TILE,
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx2 => $narrow::TILE,
                    _ => Tile {
                        rows: 4,
                        columns: 8,
                        run: scalar::<Self>,
                        row: scalar_row::<Self>,
                        vector_dot: scalar_vector_dot::<Self>,
                        transpose: pack::plain::<Self>,
                        chains: dot::plain::<Self>,
                    },
                }
            }

            fn format(isa: Isa, dtype: DType) -> Option<Format<Self>> {
                match dtype {
                    $(DType::$dtype => Some(Format::new::<$element>(isa)),)*
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
unsafe fn scalar<W: Accumulator>(
    [rows, depth]: [usize; 2],
    resumes: bool,
    a: Matrix<*const W>,
    b: (*const W, isize),
    to: (*mut W, isize),
) {
    let mut sums = [[W::default(); 8]; 4];
    for (i, sums) in sums[..rows].iter_mut().enumerate().filter(|_| resumes) {
        // SAFETY: a tile has 8 columns, and the first `rows` rows of `to` are initialised if it resumes, by the
        // contract of `Run`.
        unsafe { sums.as_mut_ptr().copy_from_nonoverlapping(to.0.wrapping_offset(i as isize * to.1), 8) };
    }
    for p in 0..depth {
        let b = b.0.wrapping_offset(p as isize * b.1);
        for (i, sums) in sums[..rows].iter_mut().enumerate() {
            // SAFETY: `i < rows` and `p < depth`, so `a` has this element.
            let factor = unsafe { *a.skip(i, p).first };
            for (j, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `j` is below 8, the number of columns of `b` at every step.
                *sum = factor.fused(unsafe { *b.add(j) }, *sum);
            }
        }
    }
    for (i, sums) in sums[..rows].iter().enumerate() {
        // SAFETY: `to` has room for `rows` rows of 8 columns.
        unsafe { to.0.wrapping_offset(i as isize * to.1).copy_from_nonoverlapping(sums.as_ptr(), 8) };
    }
}

/// [`Row`] for every CPU.
unsafe fn scalar_row<W: Accumulator>(
    depth: usize,
    a: (*const W, isize),
    (b, [step, across]): (*const W, [isize; 2]),
    to: *mut W,
) {
    for tile in 0..ROW_TILES {
        let (a, b) = (Matrix { first: a.0, steps: [0, a.1] }, b.wrapping_offset(tile as isize * across));
        // SAFETY: `tile < ROW_TILES`: `a` has `depth` elements, `b` has the tile, and `to` has room for it.
        unsafe { scalar([1, depth], false, a, (b, step), (to.wrapping_add(tile * 8), 8)) };
    }
}

/// [`VectorDot`] for every CPU.
unsafe fn scalar_vector_dot<W: Accumulator>(depth: usize, a: *const W, b: *const W) -> W {
    // SAFETY: both operands have `depth` elements by the contract of `VectorDot`.
    let [a, b] = [a, b].map(|it| unsafe { std::slice::from_raw_parts(it, depth) });
    let mut lanes = [W::default(); 8];
    for (p, (&a, &b)) in a.iter().zip(b).enumerate() {
        lanes[p % 8] = a.fused(b, lanes[p % 8]);
    }
    sum_of(&mut lanes)
}

/// Sums a power-of-two number of lanes by halving.
fn sum_of<W: Accumulator>(mut lanes: &mut [W]) -> W {
    while lanes.len() > 1 {
        let (low, high) = lanes.split_at_mut(lanes.len() / 2);
        low.iter_mut().zip(high).for_each(|(low, &mut high)| *low = *low + high);
        lanes = low;
    }
    lanes[0]
}

/// [`Tile`]s of two registers of columns. Each number of rows has its own function, so that all sums of a tile stay in
/// registers.
#[cfg(target_arch = "x86_64")]
macro_rules! vector_tiles {
    ($($name:ident, $feature:literal, $ty:ident, $lanes:literal,
        $zero:ident $all:ident $load:ident $store:ident $fused:ident, [$($rows:literal)*] $most:literal;)*) => {$(
        mod $name {
            use super::{packed, sum_of};
            use crate::gemm::element::{PACK_WIDTH, ROW_TILES, Tile};
            use crate::gemm::pack::avx2;
            use crate::gemm::{Matrix, dot};
            use std::arch::asm;
            use std::arch::x86_64::{$all, $fused, $load, $store, $zero};

            pub const TILE: Tile<$ty> =
                Tile { rows: $most, columns: 2 * $lanes, run, row, vector_dot, transpose: avx2::$ty, chains };

            #[target_feature(enable = $feature)]
            unsafe fn chains(a: *const $ty, b: *const $ty) -> [$ty; PACK_WIDTH] {
                // SAFETY: the operands have `PACK_WIDTH * CHUNK` elements by the contract of `Chains`.
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
                    // SAFETY: `a` has an element for each of `depth` steps, and each tile of `b` has two registers of
                    // columns.
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
                    // SAFETY: `i < 2 * ROW_TILES`, and `to` has room for `ROW_TILES` tiles of two registers.
                    unsafe { $store(to.add(i * $lanes), sum) };
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn vector_dot(depth: usize, a: *const $ty, b: *const $ty) -> $ty {
                const LANES: usize = 4 * $lanes;
                let mut sums = [$zero(); 4];
                let whole = depth / LANES * LANES;
                for p in (0..whole).step_by(LANES) {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let at = p + i * $lanes;
                        // SAFETY: `at + $lanes <= whole <= depth`, the length of both operands.
                        *sum = unsafe { $fused($load(a.add(at)), $load(b.add(at)), *sum) };
                    }
                }
                let mut lanes = [$ty::default(); LANES];
                for (i, &sum) in sums.iter().enumerate() {
                    // SAFETY: `i < 4`, and `lanes` has four registers of elements.
                    unsafe { $store(lanes.as_mut_ptr().add(i * $lanes), sum) };
                }
                for (lane, p) in (whole..depth).enumerate() {
                    // SAFETY: `p < depth`, the length of both operands.
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
                // SAFETY: `rows` is 1 to `$most`, the operands and `to` have these elements, and the CPU has
                // `$feature`, by the contract of `Run`.
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
                // Constant strides free registers in the loop.
                let [across, along] = if PACKED { packed(ROWS) } else { a.steps };
                let mut a = a.first;
                let mut sums = [[$zero(); 2]; ROWS];
                if resumes {
                    for (i, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: `i < ROWS`, and `to` has `ROWS` initialised rows of two registers, as it resumes.
                        *sums = unsafe {
                            let to = to.offset(i as isize * to_step);
                            [$load(to), $load(to.add($lanes))]
                        };
                    }
                }
                // The padding aligns the loop to a cache line of instructions wherever the function is placed. A loop
                // that reaches into one more line is slower. The compiler puts the rest of a line before the loop.
                // SAFETY: alignment and no-ops change neither registers nor memory.
                unsafe {
                    asm!(
                        ".p2align 6",
                        ".nops {rest}",
                        rest = const if PACKED { 32 } else { 16 },
                        options(nomem, nostack, preserves_flags),
                    );
                }
                for _ in 0..depth {
                    // SAFETY: `b` has two registers of columns for each of `depth` steps, and `a` an element for each
                    // row.
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
                    // SAFETY: `i < ROWS`, and `to` has room for `ROWS` rows of two registers.
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

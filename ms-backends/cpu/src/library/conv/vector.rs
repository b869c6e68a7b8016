//! The innermost loops of direct convolutions, for each instruction set.

use crate::isa::Isa;
use crate::product::Wide;

/// The maximum number of taps of [`Loops::windows`]: their sums are kept in registers.
pub const TAPS: usize = 9;

/// Elements after the last one that [`Loops::chains`] and [`Loops::sums`] read and write.
pub const SLACK: usize = 4 * 16;

/// The loops of one instruction set for one element type.
#[derive(Clone, Copy)]
pub struct Loops<W> {
    /// Elements of a vector.
    pub lanes: usize,
    /// `to[i]` becomes the chain of `grid[taps[t] + i] * weights[t]` over all `t` in order, each step
    /// rounded once, from +0, for `i` below `span`.
    ///
    /// # Safety
    /// `grid` has [`SLACK`] elements after the last one that this reads, `to` after `span`; the processor
    /// supports the instruction set.
    pub chains: unsafe fn(span: usize, grid: *const W, taps: &[usize], weights: &[W], to: *mut W),
    /// As [`chains`](Self::chains), for sums of products that are rounded before they are added.
    ///
    /// # Safety
    /// As for [`chains`](Self::chains).
    pub sums: unsafe fn(span: usize, grid: *const W, taps: &[usize], weights: &[W], to: *mut W),
    /// Continues the chains `sums[t * lanes + lane]` by the products of the elements
    /// `x[(taps[t] + p) * lanes + lane]` and `g.0[p * g.1 + lane]` for `p` below `count`, in order.
    ///
    /// # Safety
    /// The operands have these elements, there are at most [`TAPS`] taps, and the processor supports the
    /// instruction set.
    pub windows: Windows<W>,
    /// As [`windows`](Self::windows), with the element `x[taps[t] + p]` for all lanes.
    ///
    /// # Safety
    /// As for [`windows`](Self::windows).
    pub splat_windows: Windows<W>,
}

/// [`Loops::windows`].
pub type Windows<W> = unsafe fn(count: usize, x: *const W, taps: &[usize], g: (*const W, usize), sums: *mut W);

/// An element type that has such loops.
pub trait Direct: Wide {
    /// The loops of an instruction set.
    fn loops(isa: Isa) -> Loops<Self>;

    /// Returns whether this is neither infinite nor a nan.
    fn is_finite(self) -> bool;
}

macro_rules! direct {
    ($($ty:ident, $wide:ident, $narrow:ident;)*) => {$(
        impl Direct for $ty {
            fn loops(isa: Isa) -> Loops<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => $wide::LOOPS,
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => $narrow::LOOPS,
                    _ => Loops {
                        lanes: 1,
                        chains: scalar::chains,
                        sums: scalar::sums,
                        windows: scalar::windows,
                        splat_windows: scalar::windows,
                    },
                }
            }

            fn is_finite(self) -> bool {
                $ty::is_finite(self)
            }
        }
    )*};
}

direct! {
    f32, f32_avx512, f32_avx2;
    f64, f64_avx512, f64_avx2;
}

/// The loops for every processor.
mod scalar {
    use super::Wide;

    pub unsafe fn chains<W: Wide>(span: usize, grid: *const W, taps: &[usize], weights: &[W], to: *mut W) {
        for i in 0..span {
            // SAFETY: the element exists by the caller's contract.
            let term = |tap: usize| unsafe { *grid.add(tap + i) };
            let chain =
                taps.iter().zip(weights).fold(W::default(), |sum, (&tap, &weight)| term(tap).fused(weight, sum));
            // SAFETY: `to` has `span` elements.
            unsafe { *to.add(i) = chain };
        }
    }

    pub unsafe fn sums<W: Wide>(span: usize, grid: *const W, taps: &[usize], weights: &[W], to: *mut W) {
        for i in 0..span {
            // SAFETY: the element exists by the caller's contract.
            let term = |tap: usize| unsafe { *grid.add(tap + i) };
            let product = |(&tap, &weight): (&usize, &W)| term(tap).fused(weight, W::default());
            let sum = taps.iter().zip(weights).map(product).fold(W::default(), |sum, it| sum + it);
            // SAFETY: `to` has `span` elements.
            unsafe { *to.add(i) = sum };
        }
    }

    pub unsafe fn windows<W: Wide>(count: usize, x: *const W, taps: &[usize], g: (*const W, usize), sums: *mut W) {
        for (t, &tap) in taps.iter().enumerate() {
            // SAFETY: the operands have these elements by the caller's contract.
            unsafe {
                let sum = sums.add(t);
                (0..count).for_each(|p| *sum = (*x.add(tap + p)).fused(*g.0.add(p * g.1), *sum));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! vector_loops {
    ($($name:ident, $feature:literal, $ty:ident, $lanes:literal, $vector:ident,
        $zero:ident $all:ident $load:ident $store:ident $fused:ident $mul:ident $add:ident;)*) => {$(
        mod $name {
            use super::{Loops, TAPS};
            use std::arch::x86_64::{$add, $all, $fused, $load, $mul, $store, $vector, $zero};

            pub const LOOPS: Loops<$ty> = Loops {
                lanes: $lanes,
                chains,
                sums,
                windows: windows::<false>,
                splat_windows: windows::<true>,
            };

            /// Combines the elements under each tap with the tap's weight, four vectors at once.
            ///
            /// # Safety
            /// As for [`Loops::chains`].
            #[target_feature(enable = $feature)]
            unsafe fn over_taps(
                span: usize,
                grid: *const $ty,
                taps: &[usize],
                weights: &[$ty],
                to: *mut $ty,
                step: impl Fn($vector, $vector, $vector) -> $vector,
            ) {
                for first in (0..span).step_by(4 * $lanes) {
                    let mut sums = [$zero(); 4];
                    for (&tap, &weight) in taps.iter().zip(weights) {
                        let weight = $all(weight);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: a block starts below the span, and there is slack for its end.
                            let elements = unsafe { $load(grid.add(tap + first + i * $lanes)) };
                            *sum = step(elements, weight, *sum);
                        }
                    }
                    for (i, &sum) in sums.iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { $store(to.add(first + i * $lanes), sum) };
                    }
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn chains(span: usize, grid: *const $ty, taps: &[usize], weights: &[$ty], to: *mut $ty) {
                // SAFETY: the caller's contract is the same.
                unsafe { over_taps(span, grid, taps, weights, to, |x, weight, sum| $fused(x, weight, sum)) }
            }

            #[target_feature(enable = $feature)]
            unsafe fn sums(span: usize, grid: *const $ty, taps: &[usize], weights: &[$ty], to: *mut $ty) {
                // SAFETY: the caller's contract is the same.
                unsafe { over_taps(span, grid, taps, weights, to, |x, weight, sum| $add(sum, $mul(x, weight))) }
            }

            unsafe fn windows<const SPLAT: bool>(
                count: usize,
                x: *const $ty,
                taps: &[usize],
                g: (*const $ty, usize),
                sums: *mut $ty,
            ) {
                // SAFETY: the caller's contract is the same.
                unsafe {
                    match taps.len() {
                        1 => windows_of::<1, SPLAT>(count, x, taps, g, sums),
                        2 => windows_of::<2, SPLAT>(count, x, taps, g, sums),
                        3 => windows_of::<3, SPLAT>(count, x, taps, g, sums),
                        4 => windows_of::<4, SPLAT>(count, x, taps, g, sums),
                        5 => windows_of::<5, SPLAT>(count, x, taps, g, sums),
                        6 => windows_of::<6, SPLAT>(count, x, taps, g, sums),
                        7 => windows_of::<7, SPLAT>(count, x, taps, g, sums),
                        8 => windows_of::<8, SPLAT>(count, x, taps, g, sums),
                        _ => windows_of::<TAPS, SPLAT>(count, x, taps, g, sums),
                    }
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn windows_of<const N: usize, const SPLAT: bool>(
                count: usize,
                x: *const $ty,
                taps: &[usize],
                (g, g_step): (*const $ty, usize),
                to: *mut $ty,
            ) {
                let taps: &[usize; N] = taps.try_into().expect("the caller counted the taps");
                // SAFETY: there is a sum for each tap.
                let mut sums: [$vector; N] = std::array::from_fn(|t| unsafe { $load(to.add(t * $lanes)) });
                for p in 0..count {
                    // SAFETY: the operands have these elements by the caller's contract.
                    unsafe {
                        let g = $load(g.add(p * g_step));
                        for (sum, tap) in sums.iter_mut().zip(taps) {
                            let at = tap + p;
                            let x = if SPLAT { $all(*x.add(at)) } else { $load(x.add(at * $lanes)) };
                            *sum = $fused(x, g, *sum);
                        }
                    }
                }
                for (t, &sum) in sums.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { $store(to.add(t * $lanes), sum) };
                }
            }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
vector_loops! {
    f32_avx512, "avx512f,avx2,fma", f32, 16, __m512,
        _mm512_setzero_ps _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps _mm512_fmadd_ps _mm512_mul_ps _mm512_add_ps;
    f64_avx512, "avx512f,avx2,fma", f64, 8, __m512d,
        _mm512_setzero_pd _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd _mm512_fmadd_pd _mm512_mul_pd _mm512_add_pd;
    f32_avx2, "avx2,fma", f32, 8, __m256,
        _mm256_setzero_ps _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps _mm256_fmadd_ps _mm256_mul_ps _mm256_add_ps;
    f64_avx2, "avx2,fma", f64, 4, __m256d,
        _mm256_setzero_pd _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd _mm256_fmadd_pd _mm256_mul_pd _mm256_add_pd;
}

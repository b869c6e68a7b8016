//! Micro-kernels of direct convolution, for each instruction set.

use crate::library::scratch::{self, Scratch};
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};
use ms_x64::gemm::{Accumulator, EarlierSums};
use ms_x64::{Isa, Vectors, double_pumps_512};

/// Maximum number of taps of [`Loops::windows`], whose sums stay in registers.
pub const TAPS: usize = 9;

/// Number of elements after the last one that [`Loops::sums`] may read and write: more than a vector.
pub const SLACK: usize = 4 * 16;

/// Maximum number of outputs whose accumulation chains over one vector of elements stay in registers.
pub const OUTPUTS: usize = 12;

/// Accumulation chains over terms, vectorised, for several outputs.
///
/// For each `v` of `vectors`, each `i` below the number of lanes, and each `o` below `outputs`,
/// `to.0[o * to.1 + v[1] + i]` becomes a chain. It sums
/// `x[terms[t] + v[0] + i] * weights.0[o * weights.1[0] + t * weights.1[1]]` over all `t` in order, from +0. Each step
/// is rounded once.
#[derive(Clone, Copy)]
pub struct Chains<'a, W> {
    /// The index of each vector in `x`, and in `to`. Vectors that overlap in `to` have equal values there.
    pub vectors: &'a [[usize; 2]],
    /// The elements.
    pub x: *const W,
    /// The index of the first element of each term.
    pub terms: &'a [usize],
    /// The weights, and their strides between outputs and between terms.
    pub weights: (*const W, [usize; 2]),
    /// The number of outputs.
    pub outputs: usize,
    /// The results, and their stride between outputs.
    pub to: (*mut W, usize),
    /// Earlier sums that the chains are combined with; vectors must not overlap if there are any.
    pub earlier: EarlierSums,
}

impl<W: Accumulator> Chains<'_, W> {
    /// Computes the chains: chunks of terms, whose sums are combined [pairwise](PairwiseTree).
    ///
    /// # Safety
    /// The conditions of [`Loops::chains`] hold. If there are several [chunks](CHUNK), there are no earlier sums.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the sums of chunks.
    pub unsafe fn compute(self, loops: &Loops<W>) -> Result<()> {
        if self.terms.len() <= CHUNK {
            // SAFETY: the conditions hold by this function's contract.
            unsafe { (loops.chains)(self) };
            return Ok(());
        }
        debug_assert_eq!(self.earlier, EarlierSums::NONE);
        let (tree, step) = (PairwiseTree::of_terms(self.terms.len()), self.vectors.len() * loops.lanes);
        let distance = self.outputs * step;
        // The chains of a chunk write a slot before later chunks or the copies read it.
        let room = scratch::uninit::<W>(tree.slots() * distance)?;
        let slots = room.device_ptr().cast::<W>();
        // Vectors are stored one after another, so that none overlap.
        let mut vectors = Scratch::filled([0; 2], self.vectors.len())?;
        let own = self.vectors.iter().enumerate().map(|(at, &[from, _])| [from, at * loops.lanes]);
        vectors.iter_mut().zip(own).for_each(|(to, it)| *to = it);
        for (chunk, terms) in self.terms.chunks(CHUNK).enumerate() {
            let combined = tree.combined(chunk);
            let first = self.weights.0.wrapping_add(chunk * CHUNK * self.weights.1[1]);
            let chains = Chains {
                vectors: &vectors,
                x: self.x,
                terms,
                weights: (first, self.weights.1),
                outputs: self.outputs,
                to: (slots.wrapping_add(combined.start * distance), step),
                earlier: EarlierSums { count: combined.len(), distance },
            };
            // SAFETY: the chunk's terms and weights are some of the chains', and earlier chunks wrote the slots that it
            // is combined with.
            unsafe { (loops.chains)(chains) };
        }
        for (at, &[_, to]) in self.vectors.iter().enumerate() {
            for output in 0..self.outputs {
                // SAFETY: the first slot has the sums of every vector and output, for which the results have room.
                unsafe {
                    let from = slots.cast_const().add(output * step + at * loops.lanes);
                    self.to.0.add(output * self.to.1 + to).copy_from_nonoverlapping(from, loops.lanes);
                }
            }
        }
        Ok(())
    }
}

impl<W: Copy> Chains<'_, W> {
    /// Returns the chains without the first outputs.
    fn skip(self, outputs: usize) -> Self {
        let (weights, to) = (self.weights.0, self.to.0);
        Self {
            weights: (weights.wrapping_add(outputs * self.weights.1[0]), self.weights.1),
            outputs: self.outputs - outputs,
            to: (to.wrapping_add(outputs * self.to.1), self.to.1),
            ..self
        }
    }
}

/// The micro-kernels of an instruction set for an element type.
#[derive(Clone, Copy)]
pub struct Loops<W> {
    /// Number of elements of a vector.
    pub lanes: usize,
    /// Computes [`Chains`].
    ///
    /// # Safety
    /// All elements, weights and results exist, and the processor supports the instruction set. Earlier sums are
    /// initialised.
    pub chains: unsafe fn(chains: Chains<'_, W>),
    /// Sets `to[i]` to the sum of `grid[taps[t] + i] * weights[t]` over all `t` in order, from +0, for `i` below
    /// `span`. Products are rounded before they are added.
    ///
    /// # Safety
    /// `grid` has [`SLACK`] elements after the last one that this reads, and `to` after `span`. The processor supports
    /// the instruction set.
    pub sums: unsafe fn(span: usize, grid: *const W, taps: &[usize], weights: &[W], to: *mut W),
    /// Continues the chains `sums[t * lanes + lane]` by products of `x[(taps[t] + row + p) * lanes + lane]` and
    /// `g.0[i * g.1 + lane]`. The order is each `row` of `windows.0`, and `p` below `windows.1`; `i` numbers these
    /// steps.
    ///
    /// # Safety
    /// The operands have these elements, there are at most [`TAPS`] taps, and the processor supports the instruction
    /// set.
    pub windows: Windows<W>,
    /// Runs as [`windows`](Self::windows) does, with the element `x[taps[t] + row + p]` in all lanes.
    ///
    /// # Safety
    /// The operands have these elements, there are at most [`TAPS`] taps, and the processor supports the instruction
    /// set.
    pub splat_windows: Windows<W>,
}

/// The type of [`Loops::windows`].
pub type Windows<W> =
    unsafe fn(windows: (&[usize], usize), x: *const W, taps: &[usize], g: (*const W, usize), sums: *mut W);

/// An element type with micro-kernels for direct convolution.
pub trait Direct: Accumulator {
    /// Returns the micro-kernels of an instruction set.
    fn loops(isa: Isa) -> Loops<Self>;

    /// Whether the micro-kernels are vectorised. Scalar chains of several outputs share no loaded elements, so GEMM
    /// tiles are faster.
    fn has_vectors(isa: Isa) -> bool {
        Self::loops(isa).lanes > 1
    }

    /// Returns the micro-kernels with half of the longest vectors of an instruction set.
    fn half(isa: Isa) -> Loops<Self> {
        Self::loops(if isa.vectors() == Vectors::Avx512 { Isa::Avx2 } else { isa })
    }

    /// Returns the micro-kernels with the cheaper vectors, full- or half-width. `padded` returns how many elements
    /// vectors of a number of lanes compute.
    fn fitting(isa: Isa, padded: impl Fn(usize) -> usize) -> Loops<Self> {
        let (whole, half) = (Self::loops(isa), Self::half(isa));
        let [of_whole, of_half] = [whole, half].map(|it| Self::full_width_cost(isa, it.lanes, padded(it.lanes)));
        // Half-width vectors take more instructions, so they must save an eighth of the cost.
        if half.lanes < whole.lanes && 8 * of_half <= 7 * of_whole { half } else { whole }
    }

    /// Converts a number of elements in vectors of `lanes` to a cost in elements of full vectors.
    fn full_width_cost(isa: Isa, lanes: usize, elements: usize) -> usize {
        let is_half = lanes < Self::loops(isa).lanes && !double_pumps_512();
        if is_half { 2 * elements } else { elements }
    }

    /// Whether this is neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

macro_rules! direct {
    ($($ty:ident, $wide:ident, $narrow:ident;)*) => {$(
        impl Direct for $ty {
            fn loops(isa: Isa) -> Loops<Self> {
                match isa.vectors() {
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx512 => $wide::LOOPS,
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx2 => $narrow::LOOPS,
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

/// The micro-kernels for every processor.
mod scalar {
    use super::{Accumulator, Chains};

    pub unsafe fn chains<W: Accumulator>(it: Chains<'_, W>) {
        let (weights, [of_outputs, of_terms]) = it.weights;
        for output in 0..it.outputs {
            for [from, to] in it.vectors {
                // SAFETY: `t` is below the number of terms and `output` below `outputs`, whose elements exist by the
                // contract of `Loops::chains`.
                let term = |(t, term): (usize, &usize)| unsafe {
                    (*it.x.add(term + from), *weights.add(output * of_outputs + t * of_terms))
                };
                let terms = it.terms.iter().enumerate().map(term);
                let chain = terms.fold(W::default(), |sum, (x, weight)| x.fused(weight, sum));
                // SAFETY: the result of `output` and this vector exists, and the earlier sums are initialised, by the
                // contract of `Loops::chains`.
                unsafe {
                    let to = it.to.0.add(output * it.to.1 + to);
                    let earlier = (0..it.earlier.count).rev().map(|slot| *to.add(slot * it.earlier.distance));
                    *to = earlier.fold(chain, |sum, earlier| earlier + sum);
                }
            }
        }
    }

    pub unsafe fn sums<W: Accumulator>(span: usize, grid: *const W, taps: &[usize], weights: &[W], to: *mut W) {
        for i in 0..span {
            // SAFETY: `i < span`, so the element exists by the contract of `Loops::sums`.
            let term = |tap: usize| unsafe { *grid.add(tap + i) };
            let product = |(&tap, &weight): (&usize, &W)| term(tap).fused(weight, W::default());
            let sum = taps.iter().zip(weights).map(product).fold(W::default(), |sum, it| sum + it);
            // SAFETY: `i < span`, the number of elements of `to`.
            unsafe { *to.add(i) = sum };
        }
    }

    pub unsafe fn windows<W: Accumulator>(
        (rows, count): (&[usize], usize),
        x: *const W,
        taps: &[usize],
        g: (*const W, usize),
        sums: *mut W,
    ) {
        for (t, &tap) in taps.iter().enumerate() {
            let windows = rows.iter().flat_map(|row| row + tap..row + tap + count);
            // SAFETY: every `at` and `i` is an output position of the range, whose operands exist by the contract of
            // `Loops::windows`.
            unsafe {
                let sum = sums.add(t);
                windows.enumerate().for_each(|(i, at)| *sum = (*x.add(at)).fused(*g.0.add(i * g.1), *sum));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! vector_loops {
    ($($name:ident, $feature:literal, $ty:ident, $lanes:literal, $vector:ident,
        $zero:ident $all:ident $load:ident $store:ident $fused:ident $mul:ident $add:ident;)*) => {$(
        mod $name {
            use super::{Chains, Loops, OUTPUTS, TAPS};
            use std::arch::x86_64::{$add, $all, $fused, $load, $mul, $store, $vector, $zero};

            pub const LOOPS: Loops<$ty> = Loops {
                lanes: $lanes,
                chains,
                sums,
                windows: windows::<false>,
                splat_windows: windows::<true>,
            };

            unsafe fn chains(mut it: Chains<'_, $ty>) {
                // A single vector with few outputs has too few chains to hide the FMA latency.
                if let ([pairs @ .., last], 1) = (it.vectors, it.vectors.len() % 2)
                    && !pairs.is_empty()
                    && it.outputs > OUTPUTS / 2
                {
                    // SAFETY: the last vector is one of the chains', which are valid by the contract of
                    // `Loops::chains`.
                    unsafe { chains(Chains { vectors: std::slice::from_ref(last), ..it }) };
                    it.vectors = pairs;
                }
                // With more vectors, chains of fewer outputs fill the registers.
                let most = if it.vectors.len() == 1 { OUTPUTS } else { OUTPUTS / 2 };
                while it.outputs > 0 {
                    // Blocks have about equal numbers of outputs.
                    let count = match it.outputs <= most {
                        true => it.outputs,
                        false => it.outputs.div_ceil(it.outputs.div_ceil(most)),
                    };
                    // SAFETY: `count <= it.outputs`, and the chains are valid by the contract of `Loops::chains`.
                    unsafe {
                        match count {
                            1 => chains_of_one(&it),
                            2 => chains_of::<2>(&it),
                            3 => chains_of::<3>(&it),
                            4 => chains_of::<4>(&it),
                            5 => chains_of::<5>(&it),
                            6 => chains_of::<6>(&it),
                            7 => chains_of::<7>(&it),
                            8 => chains_of::<8>(&it),
                            9 => chains_of::<9>(&it),
                            10 => chains_of::<10>(&it),
                            11 => chains_of::<11>(&it),
                            _ => chains_of::<OUTPUTS>(&it),
                        }
                    }
                    it = it.skip(count);
                }
            }

            /// Computes the chains of one output. Its blocks are so short that calls would cost time.
            ///
            /// # Safety
            /// The conditions of [`Loops::chains`] hold.
            #[target_feature(enable = $feature)]
            unsafe fn chains_of_one(it: &Chains<'_, $ty>) {
                let (blocks, rest) = it.vectors.as_chunks::<4>();
                // SAFETY: each block has some of the vectors, which are valid by the contract of `Loops::chains`.
                unsafe {
                    blocks.iter().for_each(|some| block::<1, 4>(it, some));
                    rest.iter().for_each(|one| block::<1, 1>(it, std::array::from_ref(one)));
                }
            }

            /// Computes the chains of the first `N` outputs.
            ///
            /// # Safety
            /// The conditions of [`Loops::chains`] hold, and there are at least `N` outputs.
            unsafe fn chains_of<const N: usize>(it: &Chains<'_, $ty>) {
                let mut rest = it.vectors;
                // SAFETY: each block has some of the vectors, which are valid by the contract of `Loops::chains`.
                unsafe {
                    while N <= 3 && let Some((some, others)) = rest.split_first_chunk::<4>() {
                        block::<N, 4>(it, some);
                        rest = others;
                    }
                    while N <= OUTPUTS / 2 && let Some((some, others)) = rest.split_first_chunk::<2>() {
                        block::<N, 2>(it, some);
                        rest = others;
                    }
                    rest.iter().for_each(|one| block::<N, 1>(it, std::array::from_ref(one)));
                }
            }

            /// Computes the chains of the first `N` outputs over `V` vectors.
            ///
            /// # Safety
            /// The conditions of [`Loops::chains`] hold, and there are at least `N` outputs.
            #[target_feature(enable = $feature)]
            unsafe fn block<const N: usize, const V: usize>(it: &Chains<'_, $ty>, vectors: &[[usize; 2]; V]) {
                let mut sums = [[$zero(); V]; N];
                let from = vectors.map(|[from, _]| it.x.wrapping_add(from));
                let (weights, [of_outputs, of_terms]) = it.weights;
                // All rows share one offset, so that no address depends on another.
                let rows: [*const $ty; N] = std::array::from_fn(|output| weights.wrapping_add(output * of_outputs));
                let mut at = 0;
                for &term in it.terms {
                    // SAFETY: the vector's elements of this term exist by the contract of `Loops::chains`.
                    let x: [$vector; V] = std::array::from_fn(|v| unsafe { $load(from[v].add(term)) });
                    for (row, sums) in rows.iter().zip(&mut sums) {
                        // SAFETY: the weight of this output and term exists by the contract of `Loops::chains`.
                        let weight = $all(unsafe { *row.wrapping_add(at) });
                        sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = $fused(x, weight, *sum));
                    }
                    at += of_terms;
                }
                for (output, sums) in sums.iter().enumerate() {
                    for (&sum, [_, to]) in sums.iter().zip(vectors) {
                        // SAFETY: the results of this output and vector exist, and the earlier sums are initialised, by
                        // the contract of `Loops::chains`.
                        unsafe {
                            let to = it.to.0.add(output * it.to.1 + to);
                            let mut sum = sum;
                            for slot in (0..it.earlier.count).rev() {
                                sum = $add($load(to.add(slot * it.earlier.distance)), sum);
                            }
                            $store(to, sum);
                        }
                    }
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn sums(span: usize, grid: *const $ty, taps: &[usize], weights: &[$ty], to: *mut $ty) {
                for first in (0..span).step_by(4 * $lanes) {
                    let mut sums = [$zero(); 4];
                    for (&tap, &weight) in taps.iter().zip(weights) {
                        let weight = $all(weight);
                        for (i, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: a block starts below the span, and slack for its end follows the elements, by the
                            // contract of `Loops::sums`.
                            let elements = unsafe { $load(grid.add(tap + first + i * $lanes)) };
                            *sum = $add(*sum, $mul(elements, weight));
                        }
                    }
                    for (i, &sum) in sums.iter().enumerate() {
                        // SAFETY: a block starts below the span, and slack for its end follows `to`, by the contract of
                        // `Loops::sums`.
                        unsafe { $store(to.add(first + i * $lanes), sum) };
                    }
                }
            }

            unsafe fn windows<const SPLAT: bool>(
                windows: (&[usize], usize),
                x: *const $ty,
                taps: &[usize],
                g: (*const $ty, usize),
                sums: *mut $ty,
            ) {
                // SAFETY: `N` is the number of taps, and the operands exist by the contract of `Loops::windows`.
                unsafe {
                    match taps.len() {
                        1 => windows_of::<1, SPLAT>(windows, x, taps, g, sums),
                        2 => windows_of::<2, SPLAT>(windows, x, taps, g, sums),
                        3 => windows_of::<3, SPLAT>(windows, x, taps, g, sums),
                        4 => windows_of::<4, SPLAT>(windows, x, taps, g, sums),
                        5 => windows_of::<5, SPLAT>(windows, x, taps, g, sums),
                        6 => windows_of::<6, SPLAT>(windows, x, taps, g, sums),
                        7 => windows_of::<7, SPLAT>(windows, x, taps, g, sums),
                        8 => windows_of::<8, SPLAT>(windows, x, taps, g, sums),
                        _ => windows_of::<TAPS, SPLAT>(windows, x, taps, g, sums),
                    }
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn windows_of<const N: usize, const SPLAT: bool>(
                (rows, count): (&[usize], usize),
                x: *const $ty,
                taps: &[usize],
                (mut g, g_step): (*const $ty, usize),
                to: *mut $ty,
            ) {
                let taps: &[usize; N] = taps.try_into().expect("the caller counted the taps");
                // SAFETY: `t < N`, and `to` has `N` vectors of sums.
                let mut sums: [$vector; N] = std::array::from_fn(|t| unsafe { $load(to.add(t * $lanes)) });
                for row in rows {
                    for p in *row..row + count {
                        // SAFETY: the elements of this output position and the taps exist by the contract of
                        // `Loops::windows`.
                        unsafe {
                            let gradients = $load(g);
                            for (sum, tap) in sums.iter_mut().zip(taps) {
                                let at = tap + p;
                                let x = if SPLAT { $all(*x.add(at)) } else { $load(x.add(at * $lanes)) };
                                *sum = $fused(x, gradients, *sum);
                            }
                        }
                        g = g.wrapping_add(g_step);
                    }
                }
                for (t, &sum) in sums.iter().enumerate() {
                    // SAFETY: `t < N`, and `to` has `N` vectors of sums.
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

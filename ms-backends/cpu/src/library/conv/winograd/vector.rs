//! Defines the vectors that transform several input tiles at once.

/// A vector of f32. Its functions need its instruction set, and a whole vector at every pointer.
pub trait Vector: Copy {
    /// Number of elements.
    const LANES: usize;

    /// Loads a vector.
    ///
    /// # Safety
    /// The processor has the instruction set, and a whole vector is valid at the pointer; this holds for every function
    /// here.
    unsafe fn load(from: *const f32) -> Self;

    /// Stores a vector.
    unsafe fn store(self, to: *mut f32);

    /// Adds the elements.
    unsafe fn plus(self, other: Self) -> Self;

    /// Subtracts the elements.
    unsafe fn minus(self, other: Self) -> Self;

    /// Halves the elements.
    unsafe fn half(self) -> Self;

    /// Deinterleaves two consecutive vectors: into the elements with even and with odd indices.
    unsafe fn split(pair: [Self; 2]) -> [Self; 2];

    /// Interleaves two vectors, into two consecutive ones.
    unsafe fn join(pair: [Self; 2]) -> [Self; 2];
}

impl Vector for f32 {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: an element is valid for reads at `from` by the trait's contract.
        unsafe { *from }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: an element is valid for writes at `to` by the trait's contract.
        unsafe { *to = self }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        self - other
    }

    #[inline(always)]
    unsafe fn half(self) -> Self {
        self * 0.5
    }

    #[inline(always)]
    unsafe fn split(pair: [Self; 2]) -> [Self; 2] {
        pair
    }

    #[inline(always)]
    unsafe fn join(pair: [Self; 2]) -> [Self; 2] {
        pair
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    macro_rules! vector {
        ($vector:ty, $lanes:literal, $load:ident $store:ident $add:ident $sub:ident $mul:ident $set:ident,
            $split:expr, $join:expr) => {
            impl Vector for $vector {
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: a vector is valid for reads at `from`, and the processor has the instruction set, by the
                    // trait's contract.
                    unsafe { $load(from) }
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut f32) {
                    // SAFETY: a vector is valid for writes at `to`, and the processor has the instruction set, by the
                    // trait's contract.
                    unsafe { $store(to, self) }
                }

                #[inline(always)]
                unsafe fn plus(self, other: Self) -> Self {
                    // SAFETY: the processor has the instruction set by the trait's contract.
                    unsafe { $add(self, other) }
                }

                #[inline(always)]
                unsafe fn minus(self, other: Self) -> Self {
                    // SAFETY: the processor has the instruction set by the trait's contract.
                    unsafe { $sub(self, other) }
                }

                #[inline(always)]
                unsafe fn half(self) -> Self {
                    // SAFETY: the processor has the instruction set by the trait's contract.
                    unsafe { $mul(self, $set(0.5)) }
                }

                #[inline(always)]
                unsafe fn split([a, b]: [Self; 2]) -> [Self; 2] {
                    // SAFETY: the processor has the instruction set by the trait's contract.
                    unsafe { $split(a, b) }
                }

                #[inline(always)]
                unsafe fn join([a, b]: [Self; 2]) -> [Self; 2] {
                    // SAFETY: the processor has the instruction set by the trait's contract.
                    unsafe { $join(a, b) }
                }
            }
        };
    }

    vector!(
        __m512, 16, _mm512_loadu_ps _mm512_storeu_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_set1_ps,
        |a, b| {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            [_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b)]
        },
        |a, b| {
            let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            [_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b)]
        }
    );

    vector!(
        __m256, 8, _mm256_loadu_ps _mm256_storeu_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_set1_ps,
        |a, b| {
            // The shuffle stays within 128-bit lanes; the permutation then exchanges the middle quarters.
            let sort = |it| _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(it)));
            [sort(_mm256_shuffle_ps::<0b10_00_10_00>(a, b)), sort(_mm256_shuffle_ps::<0b11_01_11_01>(a, b))]
        },
        |a, b| {
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
        }
    );
}

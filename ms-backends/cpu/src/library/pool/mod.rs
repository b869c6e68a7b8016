//! Runs max pooling and its gradient.

mod best;
mod blocks;
mod largest;
mod pairs;
mod plan;
#[cfg(test)]
mod tests;

use self::largest::{Largest, Sink};
use self::pairs::Pairs;
use self::plan::{Loops, Pool};
use super::elements;
use ms_ir::data::{Attrs, Element, HostArray};
use ms_ir::error::Result;
use ms_x64::gemm::Shared;
use ms_x64::interp::Number;
use ms_x64::threads;
use ms_x64::{Isa, Vectors};
use std::ops::{AddAssign, Range};

/// Maximum number of tasks.
const MAX_CHUNKS: usize = 16;

/// Minimum number of channel planes of a task.
const MIN_PLANES: usize = 8;

/// Computes the largest element of each window of `x`.
pub fn max<T: Number + Element>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let pool = &Pool::new(attrs, inputs[0].shape(), shape);
    let (x, out) = (elements::<T>(&inputs[0]), Shared::new(out.as_mut_ptr()));
    match Pairs::<T, false>::new(pool, x, &[], &out) {
        Some(pairs) => run(isa, pool, &pairs),
        None => run(isa, pool, &Largest::<_, false> { pool, x, sink: &Max { pool, out: &out } }),
    }
}

/// Writes the largest elements.
struct Max<'a, T> {
    pool: &'a Pool,
    out: &'a Shared<*mut T>,
}

impl<T: Number + Element> Sink<T> for Max<'_, T> {
    fn maxima(&self, plane: usize) -> &mut [T] {
        let len = self.pool.output_len;
        // SAFETY: each plane has its own `output_len` elements of the result.
        unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) }
    }
}

/// Computes the gradient of [`max()`] for its input `x`, from inputs `x` and `g`. NaN is larger than all other
/// elements, and the first of equal elements takes the gradient.
pub fn max_grad<T: Number + Element + AddAssign>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let (x, g) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let pool = &Pool::new(attrs, shape, inputs[1].shape());
    let out = Shared::new(out.as_mut_ptr());
    match Pairs::<T, true>::new(pool, x, g, &out) {
        Some(pairs) => run(isa, pool, &pairs),
        None => run(isa, pool, &Largest::<_, true> { pool, x, sink: &Grad { pool, g, out: &out } }),
    }
}

/// Adds gradients at the indices of the largest elements, in the order of the windows.
struct Grad<'a, T> {
    pool: &'a Pool,
    g: &'a [T],
    out: &'a Shared<*mut T>,
}

impl<T: Number + Element + AddAssign> Sink<T> for Grad<'_, T> {
    fn indices(&self, plane: usize, indices: &[u32]) {
        let len = self.pool.input_len;
        // SAFETY: each plane has its own `input_len` elements of the result.
        let to = unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) };
        to.fill(T::ZERO);
        let g = &self.g[plane * self.pool.output_len..];
        for (&at, &g) in indices.iter().zip(g) {
            to[at as usize] += g;
        }
    }
}

/// Reads `h` at the indices of the largest elements of the windows of `x`; see [`max_grad`].
pub fn max_take<T: Number + Element>(
    isa: Isa,
    attrs: &Attrs,
    inputs: &[HostArray<'_>],
    out: &mut [T],
    shape: &[usize],
) -> Result<()> {
    let (x, h) = (elements::<T>(&inputs[0]), elements::<T>(&inputs[1]));
    let pool = &Pool::new(attrs, inputs[0].shape(), shape);
    let out = Shared::new(out.as_mut_ptr());
    run(isa, pool, &Largest::<_, true> { pool, x, sink: &Take { pool, h, out: &out } })
}

/// Reads elements at the indices of the largest ones.
struct Take<'a, T> {
    pool: &'a Pool,
    h: &'a [T],
    out: &'a Shared<*mut T>,
}

impl<T: Number + Element> Sink<T> for Take<'_, T> {
    fn indices(&self, plane: usize, indices: &[u32]) {
        let h = &self.h[plane * self.pool.input_len..][..self.pool.input_len];
        let len = self.pool.output_len;
        // SAFETY: each plane has its own `output_len` elements of the result.
        let to = unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) };
        to.iter_mut().zip(indices).for_each(|(to, &at)| *to = h[at as usize]);
    }
}

/// Runs loops over all planes, compiled for an instruction set.
fn run(isa: Isa, pool: &Pool, loops: &impl Loops) -> Result<()> {
    let per_chunk = pool.planes.div_ceil(MAX_CHUNKS).max(MIN_PLANES);
    threads::try_for_each(pool.planes.div_ceil(per_chunk), pool.nanos(), |chunk| {
        compiled(isa, loops, chunk * per_chunk..((chunk + 1) * per_chunk).min(pool.planes))
    })
}

/// Runs loops that are compiled for an instruction set of this processor.
fn compiled(isa: Isa, loops: &impl Loops, planes: Range<usize>) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn avx512(loops: &impl Loops, planes: Range<usize>) -> Result<()> {
        loops.run::<true>(planes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2(loops: &impl Loops, planes: Range<usize>) -> Result<()> {
        loops.run::<true>(planes)
    }

    match isa.vectors() {
        // SAFETY: `isa` is an instruction set of this processor, which has AVX-512.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => unsafe { avx512(loops, planes) },
        // SAFETY: `isa` is an instruction set of this processor, which has AVX2.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => unsafe { avx2(loops, planes) },
        _ => loops.run::<false>(planes),
    }
}

//! Epilogues of ops on images: kernels that read the elements of a result while these are in a cache.

use crate::product::Epilogue;
use crate::threads;
use smallvec::SmallVec;
use std::ops::Range;

/// Kernels that compute with the result of an op, images `[n, c, spatial..]`, and run on parts of it.
#[derive(Clone, Copy)]
pub struct Epilogues<'a> {
    list: &'a [Epilogue<'a>],
    /// Images, channels, and elements of a plane.
    sizes: [usize; 3],
}

/// A part of a result: images, channels, and elements of each plane.
pub type ImagePart = [Range<usize>; 3];

impl<'a> Epilogues<'a> {
    /// Those of a result of this shape, whose loops are its [axes](ms_core::lower::image_axes).
    pub fn new(list: &'a [Epilogue<'a>], shape: &[usize]) -> Self {
        let (leading, plane) = shape.split_at(shape.len().min(2));
        let size = |axis: usize| leading.get(axis).copied().unwrap_or(1);
        Self { list, sizes: [size(0), size(1), plane.iter().product()] }
    }

    /// Runs them on a part, on this thread if it computes a part of a task.
    ///
    /// # Safety
    /// The elements of the part are computed, and nothing but these kernels reads or writes them any more. The contract of
    /// the kernels' code for the whole result; they run on each element once.
    pub unsafe fn run(&self, part: ImagePart) {
        for epilogue in self.list {
            let mut block: SmallVec<[u64; 64]> = SmallVec::from_slice(epilogue.block);
            let several = self.sizes.iter().zip(&part).filter(|it| *it.0 != 1);
            for (axis, (_, range)) in several.enumerate() {
                epilogue.words.loops.restrict(&mut block, axis, range.start, range.len());
            }
            // On one thread, there may be faster code for long calls.
            let alone = if threads::is_several() { None } else { epilogue.code.alone(&block) };
            // SAFETY: the block is that of a part of the loops of the caller's contract.
            unsafe { alone.unwrap_or(epilogue.code).call(&block) };
        }
    }

    /// Runs them on the whole result.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    pub unsafe fn run_on_all(&self) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.run(self.sizes.map(|size| 0..size)) }
    }
}

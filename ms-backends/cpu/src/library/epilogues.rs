//! Runs epilogues of image ops: kernels that read elements of a result while these are in a cache.

use ms_x64::gemm::Epilogue;
use ms_x64::threads;
use smallvec::SmallVec;
use std::ops::Range;

/// Kernels that read the result of an op, which is NCHW, and run on parts of it.
#[derive(Clone, Copy)]
pub struct Epilogues<'a> {
    list: &'a [Epilogue<'a>],
    /// The sizes of the result: images, channels, and elements of a channel plane.
    sizes: [usize; 3],
}

/// A part of a result: ranges of images, of channels, and of elements of each channel plane.
pub type ImagePart = [Range<usize>; 3];

impl<'a> Epilogues<'a> {
    /// Returns the epilogues of a result of this shape, whose loops are its [axes](ms_compile::lower::image_axes).
    pub fn new(list: &'a [Epilogue<'a>], shape: &[usize]) -> Self {
        let (leading, plane) = shape.split_at(shape.len().min(2));
        let size = |axis: usize| leading.get(axis).copied().unwrap_or(1);
        Self { list, sizes: [size(0), size(1), plane.iter().product()] }
    }

    /// Runs the epilogues on a part of the result, on the calling thread if it is inside a task.
    ///
    /// # Safety
    /// The elements of the part are computed, and only these kernels access them from now on. The conditions of the
    /// kernels' code hold for the whole result, and each element is passed once.
    pub unsafe fn run(&self, part: ImagePart) {
        for epilogue in self.list {
            let mut arguments: SmallVec<[u64; 64]> = SmallVec::from_slice(epilogue.arguments);
            let several = self.sizes.iter().zip(&part).filter(|it| *it.0 != 1);
            for (axis, (_, range)) in several.enumerate() {
                epilogue.words.loops.restrict(&mut arguments, axis, range.start, range.len());
            }
            // On one thread, code with streaming stores may be faster.
            let code = if threads::is_several() { None } else { epilogue.code.single_threaded(&arguments) };
            // SAFETY: the argument block restricts the loops of the whole result, for which this function's contract
            // holds, to the part.
            unsafe { code.unwrap_or(epilogue.code).call(&arguments) };
        }
    }

    /// Runs the epilogues on the whole result.
    ///
    /// # Safety
    /// All elements are computed, and only these kernels access them from now on. The conditions of the kernels' code
    /// hold for the whole result.
    pub unsafe fn run_on_all(&self) {
        // SAFETY: the part is the whole result, whose elements are computed and not shared by this function's contract.
        unsafe { self.run(self.sizes.map(|size| 0..size)) }
    }
}

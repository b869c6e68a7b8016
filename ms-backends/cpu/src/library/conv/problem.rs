//! Describes the problems that convolutions solve, and what prepared code computes.

use super::grid::Grid;
use super::vector::Direct;
use crate::library::epilogues::{Epilogues, ImagePart};
use crate::library::implementation::{Declined, require};
use crate::library::scratch::Workspace;
use ms_ir::CHUNK;
use ms_ir::data::Attrs;
use ms_ir::error::Result;
use ms_ops::ops::{ConvAttrs, WindowAxis, Windows};
use ms_x64::gemm::{Arithmetic, Elements, Multiplier};
use ms_x64::threads;
use std::ops::Range;
use std::sync::Arc;

/// Maximum ratio of the size of a phase of a compact grid to the number of output positions.
const MAX_PADDING: usize = 4;

/// Minimum number of output positions that a task multiplies by the weights at once, if there are several tasks. With
/// fewer, reading the weights takes as long as multiplying.
pub const WINDOWS: usize = 64;

/// Maximum number of output positions for which rows of weights are read in place.
pub const SMALL_N: usize = 32;

/// Maximum number of tasks for the images of a convolution, each of which reuses one im2col buffer.
pub const MAX_TASKS: usize = 16;

/// Size in bytes of a task's im2col buffer if output positions are partitioned: about half of a core's cache.
const COLUMNS: usize = 256 << 10;

/// The sizes of a convolution. A group is an independent convolution of some channels.
pub struct Conv {
    pub batch: usize,
    pub groups: usize,
    /// Input channels of a group.
    pub channels: usize,
    /// Output channels of a group.
    pub outputs: usize,
    pub windows: Windows,
}

impl Conv {
    /// Returns the sizes for the shapes of input, weights and result.
    pub fn new(attrs: &Attrs, input: &[usize], weight: &[usize], output: &[usize]) -> Self {
        let at = ConvAttrs::of(attrs);
        let groups = at.groups();
        Self {
            batch: input[0],
            groups,
            channels: weight[1],
            outputs: weight[0] / groups,
            windows: Windows::new(&at.window(), &input[2..], &weight[2..], &output[2..]),
        }
    }

    /// Returns the number of rows of the im2col buffer: the length of one filter.
    pub fn filter_len(&self) -> usize {
        self.channels * self.windows.taps()
    }

    /// Returns the numbers of elements of one group of one image, in the input and in the result.
    pub fn image_lens(&self) -> (usize, usize) {
        (self.channels * self.windows.input_len(), self.outputs * self.windows.output_len())
    }

    /// Returns the number of elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch * self.groups * self.image_lens().0
    }

    /// Returns the number of elements of the result.
    pub fn result_len(&self) -> usize {
        self.batch * self.groups * self.image_lens().1
    }

    /// Returns the number of weights.
    pub fn weights_len(&self) -> usize {
        self.groups * self.outputs * self.filter_len()
    }

    /// Returns the weights of the group of an image, which is numbered `image * groups + group`.
    pub fn weights(&self, image: usize) -> Range<usize> {
        let len = self.outputs * self.filter_len();
        let first = image % self.groups * len;
        first..first + len
    }

    /// Returns the part of the result with some output channels of a group of an image, at some output positions.
    pub fn image_part(&self, image: usize, outputs: Range<usize>, windows: Range<usize>) -> ImagePart {
        let (whole, first) = (image / self.groups, image % self.groups * self.outputs);
        [whole..whole + 1, first + outputs.start..first + outputs.end, windows]
    }

    /// Whether the kernel is 1x1 with stride 1 and no padding, so that the input is the im2col buffer.
    pub fn is_pointwise(&self) -> bool {
        let is_whole = |it: &WindowAxis| (it.kernel, it.stride, it.before) == (1, 1, 0) && it.output == it.input;
        self.windows.axes().iter().all(is_whole)
    }

    /// Returns the number of output positions that a task of the convolution multiplies at once. They belong to one image,
    /// unless an image has few.
    pub fn windows_at_once(&self, size: usize) -> usize {
        let (points, tasks) = (self.windows.output_len(), self.tasks());
        let windows = self.batch * points * self.groups;
        if points < WINDOWS {
            let of_all = self.batch * points;
            return if windows < tasks * WINDOWS { of_all } else { WINDOWS };
        }
        let most = (COLUMNS / (self.filter_len() * size)).max(WINDOWS);
        let pieces = tasks.div_ceil(self.batch * self.groups);
        points.div_ceil(pieces).max(WINDOWS).min(most).next_multiple_of(WINDOWS / 2)
    }

    /// Returns the number of images that a task of backward-data multiplies at once.
    pub fn images_at_once(&self) -> usize {
        let (points, tasks) = (self.windows.output_len(), self.tasks());
        match self.batch * points * self.groups < tasks * WINDOWS {
            true => self.batch,
            false => WINDOWS.div_ceil(points).min(self.batch),
        }
    }

    /// Returns the number of tasks that keep all threads busy.
    pub fn tasks(&self) -> usize {
        const PER_THREAD: usize = 3;
        threads::count() * PER_THREAD
    }

    /// Estimates the nanoseconds of the whole convolution.
    pub fn nanos(&self) -> usize {
        let columns = self.batch * self.groups * self.filter_len() * self.windows.output_len();
        columns / 2 + columns * self.outputs / 64
    }
}

/// A convolution, its backward-data or its backward-weights, to be computed by products of one kind.
pub struct Problem {
    /// The sizes.
    pub conv: Arc<Conv>,
    /// The arithmetic.
    pub arithmetic: Arithmetic,
    /// The products, for elements in the range of the engine if there is one.
    pub multiplier: Multiplier,
    /// Whether packed weights may be cached.
    pub is_cached: bool,
    /// The grid, if it is compact.
    grid: Option<Arc<Grid>>,
}

impl Problem {
    /// Describes a convolution.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of the grid.
    pub fn new(conv: &Arc<Conv>, arithmetic: Arithmetic, multiplier: Multiplier, is_cached: bool) -> Result<Self> {
        let windows = &conv.windows;
        let phase_len = windows.axes().iter().fold(1usize, |len, it| {
            let reach = (it.kernel.saturating_sub(1)).saturating_mul(it.dilation) / it.stride;
            len.saturating_mul(it.output.saturating_add(reach))
        });
        let is_compact = conv.filter_len() > 0
            && windows.input_len().min(windows.output_len()) > 0
            && phase_len <= windows.output_len().saturating_mul(MAX_PADDING);
        let grid = is_compact.then(|| Grid::new(windows)).transpose()?.map(Arc::new);
        Ok(Self { conv: conv.clone(), arithmetic, multiplier, is_cached, grid })
    }

    /// Returns the grid.
    ///
    /// # Errors
    /// The reason for which it is not compact.
    pub fn compact_grid(&self) -> Result<&Arc<Grid>, Declined> {
        self.grid.as_ref().ok_or("a grid would be mostly padding".into())
    }

    /// Accepts filters whose sums are one chunk.
    pub fn has_one_chunk(&self) -> Result<(), Declined> {
        let len = self.conv.filter_len();
        require(len <= CHUNK, || format!("a filter has {len} weights, more than a chunk of {CHUNK}"))
    }

    /// Accepts problems for which no product of a matrix engine is as fast as vectors.
    pub fn prefers_vectors(&self) -> Result<(), Declined> {
        require(!self.multiplier.pays_for_im2col(), || "a matrix engine is faster")
    }

    /// Accepts problems of vectors that need an im2col buffer for GEMM.
    pub fn needs_no_columns(&self) -> Result<(), Declined> {
        require(!self.conv.is_pointwise(), || "the kernel is 1x1")?;
        self.prefers_vectors()
    }
}

/// The operands and the result of a call.
pub struct Call<'a, T> {
    /// The products that the elements of the operands permit.
    pub multiplier: Multiplier,
    /// The operands, in the order of the op.
    pub operands: [Elements<'a, T>; 2],
    /// The result.
    pub out: &'a mut [T],
    /// The epilogues, which run once on each element, and own its memory when it is computed.
    pub epilogues: Epilogues<'a>,
    /// The workspace, of the size of [`ConvCode::workspace`].
    pub workspace: Workspace<'a>,
}

/// A prepared convolution, backward-data or backward-weights.
pub trait ConvCode<T: Direct>: Send + Sync {
    /// Returns the size of the workspace in bytes.
    fn workspace(&self) -> usize {
        0
    }

    /// Computes the result. Returns `false` if it is invalid because of the elements of the operands. Then no epilogue
    /// has run.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no scratch memory.
    fn run(&self, call: Call<'_, T>) -> Result<bool>;
}

//! Channel-blocked convolution on a matrix engine, as batch-reduce GEMM without an im2col buffer.
//!
//! The activations of an image are split into bf16 components once. Each K block is one kernel tap of a block of
//! channels. [`super`] specifies the order of sums.

use super::direct::DirectConv;
use super::problem::{Call, ConvCode, Problem};
use super::vector::Direct;
use crate::library::epilogues::Epilogues;
use crate::library::implementation::{Declined, require};
use crate::library::scratch::{self, Scratch, bytes_of};
use ms_ir::data::{DType, try_room};
use ms_ir::error::Result;
use ms_x64::gemm::{BLOCK, Filters, Layout, Shared, TILE};
use ms_x64::threads;
use std::ops::Range;

/// Minimum number of output positions of all images that amortise packing filters which are not cached.
const MIN_WINDOWS: usize = 256;

/// Maximum size in bytes of the split activations of several images that are stored at once.
const MAX_BYTES: usize = 32 << 20;

/// Size in bytes of the columns that a task reads for each micro-panel of filters: a part of the L2 cache.
const COLUMNS: usize = 512 << 10;

/// Maximum number of tiles of columns of a task.
const MAX_TILES: usize = 16;

/// The split activations of a group of an image: channel blocks one after another.
#[derive(Clone, Copy)]
struct SplitActivations {
    layout: Layout,
    blocks: usize,
}

impl SplitActivations {
    /// Returns the number of words.
    fn len(self) -> usize {
        self.blocks * self.layout.block()
    }
}

/// A convolution by batch-reduce GEMM.
pub struct Brgemm {
    direct: DirectConv,
    activations: SplitActivations,
    /// The number of images that are split at once.
    at_once: usize,
    /// The word offset under the first output position for each K block.
    offsets: Vec<usize>,
}

impl Brgemm {
    /// Accepts f32 on a tile engine, with mostly full channel blocks and enough output positions.
    pub fn accepts<T: Direct>(problem: &Problem) -> Result<(), Declined> {
        let Problem { conv, multiplier, .. } = problem;
        require(multiplier.supports_blocked(), || "there is no tile engine for it")?;
        require(T::DTYPE == DType::F32, || "an engine multiplies f32")?;
        require(!conv.is_pointwise(), || "the kernel is 1x1")?;
        let (direct, windows) = (DirectConv::new(problem)?, conv.windows.output_len());
        let is_full = 8 * conv.channels >= 7 * conv.channels.next_multiple_of(BLOCK);
        require(is_full, || format!("{} channels do not fill blocks of {BLOCK}", conv.channels))?;
        let span = direct.grid.span().next_multiple_of(TILE);
        require(span <= 2 * windows, || format!("tiles compute {span} output positions, not {windows}"))?;
        let all = conv.batch * windows;
        let makes_up = problem.is_cached || all >= MIN_WINDOWS || multiplier.pays_for_im2col();
        require(makes_up, || format!("{all} output positions do not amortise packing filters"))?;
        let sizes = [conv.outputs, conv.channels];
        let is_packed = multiplier.packs_filters(conv.groups, sizes, conv.windows.taps());
        require(is_packed, || "packed filters would be too large")
    }

    /// Prepares a problem that was accepted.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the list of K blocks.
    pub fn new(problem: &Problem) -> Result<Self> {
        let direct = DirectConv::of_accepted(problem);
        let (conv, grid) = (&direct.conv, &direct.grid);
        let (layout, blocks) = (problem.multiplier.blocked_layout(grid.len()), conv.channels.div_ceil(BLOCK));
        let activations = SplitActivations { layout, blocks };
        let at_once = (MAX_BYTES / size_of::<u32>() / (conv.groups * activations.len())).clamp(1, conv.batch);
        let mut offsets = try_room(blocks * grid.taps.len())?;
        (0..blocks).for_each(|block| offsets.extend(grid.taps.iter().map(|tap| block * layout.block() + tap)));
        Ok(Self { direct, activations, at_once, offsets })
    }

    /// Returns the number of words of the split activations that are stored at once.
    fn words(&self) -> usize {
        self.at_once * self.direct.conv.groups * self.activations.len()
    }
}

impl<T: Direct> ConvCode<T> for Brgemm {
    fn workspace(&self) -> usize {
        bytes_of::<u32>(self.words())
    }

    fn run(&self, call: Call<'_, T>) -> Result<bool> {
        let Self { direct, activations, at_once, offsets } = self;
        let (conv, activations, at_once) = (&direct.conv, *activations, *at_once);
        let Call { multiplier, operands: [x, weights], out, epilogues, mut workspace } = call;
        let filters = multiplier.filters(weights, conv.groups, [conv.outputs, conv.channels], conv.windows.taps())?;
        let first = workspace.take::<u32>(self.words()).as_mut_ptr().cast::<u32>();
        for start in (0..conv.batch).step_by(at_once) {
            let images = start * conv.groups..conv.batch.min(start + at_once) * conv.groups;
            // SAFETY: the workspace has room for the split activations of `at_once` images, and `images` has no more.
            unsafe {
                direct.store((first, activations), images.clone(), x.all)?;
                direct.multiply(&filters, (first, activations), offsets, images, out, epilogues)?;
            }
        }
        Ok(true)
    }
}

impl DirectConv {
    /// Splits and stores the activations of some groups of images.
    ///
    /// # Safety
    /// `first` has room for the split activations of all of them, and `T` is f32.
    unsafe fn store<T: Direct>(
        &self,
        (first, activations): (*mut u32, SplitActivations),
        images: Range<usize>,
        x: &[T],
    ) -> Result<()> {
        const PAIRS: usize = BLOCK / 2;
        let (conv, grid, layout) = (&self.conv, &self.grid, activations.layout);
        let (input_len, plane_len) = (conv.image_lens().0, conv.windows.input_len());
        let of_image = activations.blocks * PAIRS;
        let pairs = images.len() * of_image;
        let parts = conv.tasks().min(pairs);
        let to = Shared::new(first);
        threads::try_for_each(parts, pairs * layout.row, |part| {
            // Padding elements stay zero, as `grid.store` writes none.
            let mut elements = Scratch::filled(T::default(), 2 * layout.row)?;
            for at in part * pairs / parts..(part + 1) * pairs / parts {
                let (image, pair) = (at / of_image, at % of_image);
                let channels = (conv.channels.saturating_sub(2 * pair)).min(2);
                let image_of_x = &x[(images.start + image) * input_len..][..input_len];
                let pair_of_x = image_of_x.chunks_exact(plane_len).skip(2 * pair);
                for (plane, to) in pair_of_x.zip(elements.chunks_exact_mut(layout.row)) {
                    grid.store(plane, to);
                }
                if channels == 1 {
                    elements[layout.row..].fill(T::default());
                }
                // SAFETY: `T` is f32, `first` has room for the block by this function's contract, and each task has its
                // own pairs of channels.
                unsafe {
                    let block = to.get().add((image * activations.blocks + pair / PAIRS) * layout.block());
                    match channels {
                        0 => layout.clear(pair % PAIRS, block),
                        _ => layout.split(elements.as_ptr().cast(), pair % PAIRS, block),
                    }
                }
            }
            Ok(())
        })
    }

    /// Multiplies some groups of images by the filters, with epilogues. `offsets` has the word offset under the first
    /// output position for each K block.
    ///
    /// # Safety
    /// The split activations of the images are stored at `first`.
    unsafe fn multiply<T: Direct>(
        &self,
        filters: &Filters,
        (first, activations): (*mut u32, SplitActivations),
        offsets: &[usize],
        images: Range<usize>,
        out: &mut [T],
        epilogues: Epilogues<'_>,
    ) -> Result<()> {
        let (conv, grid) = (&self.conv, &self.grid);
        let (groups, outputs, windows) = (conv.groups, conv.outputs, conv.windows.output_len());
        let of_image = grid.span().div_ceil(TILE);
        let [panels, tiles] = [outputs.div_ceil(TILE), images.len() / groups * of_image];
        let [of_panels, of_tiles] = self.partition(activations, [panels, tiles]);
        let is_dense = grid.span() == windows;
        let shared = Shared::new((first.cast_const(), out.as_mut_ptr().cast::<u32>()));
        threads::try_for_each(groups * of_panels * of_tiles, conv.nanos(), |task| {
            let part = |at: usize, of: usize, all: usize| at * all / of..(at + 1) * all / of;
            let group = task / (of_panels * of_tiles);
            let panels = part(task / of_tiles % of_panels, of_panels, panels);
            let tiles = part(task % of_tiles, of_tiles, tiles);
            let width = tiles.len() * TILE;
            // `filters.multiply` writes the sums before `put_windows` reads them.
            let room = scratch::uninit::<u32>(TILE * width)?;
            let sums = room.device_ptr().cast::<u32>();
            let (from, out) = shared.get();
            // Returns a run of tiles of one image: the image, the number of tiles, and their positions in the grid.
            let neighbours = |at: usize| {
                let (image, tile) = (at / of_image * groups + group, at % of_image);
                let count = (of_image - tile).min(tiles.end - at);
                (image, count, tile * TILE..(tile + count) * TILE)
            };
            for first in panels.clone().map(|it| it * TILE) {
                let rows = TILE.min(outputs - first);
                let mut at = tiles.start;
                while at < tiles.end {
                    let (image, count, span) = neighbours(at);
                    let is_direct = is_dense && rows == TILE && span.end <= windows;
                    // SAFETY: all K blocks and tiles lie in the stored image, whose rows end with a padding tile. Each
                    // task has its own elements of the result, or `sums` with room for whole tiles.
                    unsafe {
                        let from = from.add(image * activations.len() + span.start);
                        let out = out.add(((images.start + image) * outputs + first) * windows);
                        let to = if is_direct { (out.add(span.start), windows) } else { (sums, width) };
                        filters.multiply([group, first / TILE], activations.layout, (from, offsets), count, to);
                        if !is_direct {
                            self.put_windows(span, rows, (sums, width), out);
                        }
                    }
                    at += count;
                }
            }
            let outputs = panels.start * TILE..outputs.min(panels.end * TILE);
            let mut at = tiles.start;
            while at < tiles.end {
                let (image, count, span) = neighbours(at);
                let windows = grid.windows_before(span.start)..grid.windows_before(span.end);
                // SAFETY: this task has computed these elements, and nothing reads them after the epilogues.
                unsafe { epilogues.run(conv.image_part(images.start + image, outputs.clone(), windows)) };
                at += count;
            }
            Ok(())
        })
    }

    /// Copies the sums of output positions, which are some positions of the grid, to the result of an image. `sums` has
    /// `rows` rows that are `width` apart.
    ///
    /// # Safety
    /// `sums` has all positions of `span`, and `out` has all output positions of `rows` output channels.
    unsafe fn put_windows(&self, span: Range<usize>, rows: usize, (sums, width): (*const u32, usize), out: *mut u32) {
        let (grid, windows) = (&self.grid, self.conv.windows.output_len());
        let first = grid.rows.partition_point(|it| it + grid.columns <= span.start);
        let end = grid.rows.partition_point(|it| *it < span.end);
        for output in 0..rows {
            for (number, &row) in (first..).zip(&grid.rows[first..end]) {
                let [from, end] = [row, row + grid.columns].map(|it| it.clamp(span.start, span.end));
                // SAFETY: `from..end` lies in `span`, and `number` is a row of output positions, so both sides have
                // these elements.
                unsafe {
                    let to = out.add(output * windows + number * grid.columns + from - row);
                    to.copy_from_nonoverlapping(sums.add(output * width + from - span.start), end - from);
                }
            }
        }
    }

    /// Partitions the micro-panels of filters and the tiles of columns of a group, so that all threads are busy and
    /// tasks read little. Returns the numbers of parts.
    fn partition(&self, activations: SplitActivations, [panels, tiles]: [usize; 2]) -> [usize; 2] {
        let taps = self.grid.taps.len();
        let of_tile = activations.len() / activations.layout.row * TILE * size_of::<u32>();
        let most = (COLUMNS / of_tile).clamp(1, MAX_TILES);
        let desired = self.conv.tasks().div_ceil(self.conv.groups);
        let partitions = (1..=panels).map(|it| [it, desired.div_ceil(it).max(tiles.div_ceil(most)).min(tiles)]);
        // A tile of columns counts each word once; its taps overlap.
        let words = |it: &[usize; 2]| panels.div_ceil(it[0]) * taps + tiles.div_ceil(it[1]);
        partitions.min_by_key(words).expect("there is a panel")
    }
}

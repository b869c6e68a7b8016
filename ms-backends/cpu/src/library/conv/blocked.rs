//! Convolutions on tiles without a matrix of columns: sums over blocks of channels and their taps, of products of filters
//! and of an image that is stored once, in planes. The order of the sums is that of [`super`].

use super::direct::DirectConv;
use super::vector::Direct;
use crate::library::epilogues::Epilogues;
use crate::product::{BLOCK, Elements, Filters, Layout, Multiplier, Shared, TILE};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, DType, try_filled, try_room};
use std::ops::Range;

/// Minimum number of windows of all images that make up for packing filters which are not kept.
const MIN_WINDOWS: usize = 256;

/// Maximum size in bytes of the planes of images that are stored at once, if they are several.
const MOST_BYTES: usize = 32 << 20;

/// Size in bytes of the columns of a task, which it reads for each panel of filters: a part of a second-level cache.
const COLUMNS: usize = 512 << 10;

/// Maximum number of tiles of columns of a task.
const MOST_TILES: usize = 16;

/// The planes of a group of an image: blocks one after the other.
#[derive(Clone, Copy)]
struct Planes {
    layout: Layout,
    blocks: usize,
}

impl Planes {
    /// The number of words.
    fn len(self) -> usize {
        self.blocks * self.layout.block()
    }
}

impl DirectConv<'_> {
    /// The filters for [`forward_in_blocks`](Self::forward_in_blocks); `None` if that is not what takes least time: where
    /// channels leave much of their blocks empty, there are too few windows, or there are no tiles.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for packed filters.
    pub fn filters<T: Direct>(&self, multiplier: Multiplier, weights: Elements<'_, T>) -> Result<Option<Filters>> {
        let (conv, windows) = (self.conv, self.conv.windows.output_len());
        let is_full = 8 * conv.channels >= 7 * conv.channels.next_multiple_of(BLOCK)
            && self.grid.span().next_multiple_of(TILE) <= 2 * windows;
        let makes_up = weights.is_held() || conv.batch * windows >= MIN_WINDOWS || multiplier.pays_for_matrices();
        if !is_full || !makes_up {
            return Ok(None);
        }
        multiplier.filters(weights, conv.groups, [conv.outputs, conv.channels], conv.windows.taps())
    }

    /// The convolution of `x` and filters with epilogues, for an element type that the unit multiplies.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for planes.
    pub fn forward_in_blocks<T: Direct>(
        &self,
        filters: &Filters,
        x: &[T],
        out: &mut [T],
        epilogues: Epilogues<'_>,
    ) -> Result<()> {
        assert_eq!(T::DTYPE, DType::F32, "units multiply planes of f32");
        let (conv, grid) = (self.conv, &self.grid);
        let (layout, blocks) = (filters.layout(grid.len()), conv.channels.div_ceil(BLOCK));
        let planes = Planes { layout, blocks };
        let at_once = (MOST_BYTES / size_of::<u32>() / (conv.groups * planes.len())).clamp(1, conv.batch);
        // SAFETY: what is read below was written before.
        let room = unsafe { Array::uninit(&[at_once * conv.groups * planes.len()], DType::U32)? };
        let first = room.device_ptr().cast::<u32>();
        let mut places = try_room(blocks * grid.taps.len())?;
        (0..blocks).for_each(|block| places.extend(grid.taps.iter().map(|tap| block * layout.block() + tap)));
        for start in (0..conv.batch).step_by(at_once) {
            let images = start * conv.groups..conv.batch.min(start + at_once) * conv.groups;
            // SAFETY: there is room for the images.
            unsafe {
                self.store((first, planes), images.clone(), x)?;
                self.multiply(filters, (first, planes), &places, images, out, epilogues)?;
            }
        }
        Ok(())
    }

    /// Stores the planes of some groups of images.
    ///
    /// # Safety
    /// There is room for them.
    unsafe fn store<T: Direct>(
        &self,
        (first, planes): (*mut u32, Planes),
        images: Range<usize>,
        x: &[T],
    ) -> Result<()> {
        const PAIRS: usize = BLOCK / 2;
        let (conv, grid, layout) = (self.conv, &self.grid, planes.layout);
        let (input_len, plane_len) = (conv.image_lens().0, conv.windows.input_len());
        let of_image = planes.blocks * PAIRS;
        let pairs = images.len() * of_image;
        let parts = conv.tasks().min(pairs);
        let to = Shared::new(first);
        threads::try_for_each(parts, pairs * layout.row, |part| {
            // All elements under padding stay zero.
            let mut elements = try_filled(T::default(), 2 * layout.row)?;
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
                // SAFETY: there is room by the caller's contract; each task has its own pairs of channels, and elements are
                // f32.
                unsafe {
                    let block = to.get().add((image * planes.blocks + pair / PAIRS) * layout.block());
                    match channels {
                        0 => layout.clear(pair % PAIRS, block),
                        _ => layout.split(elements.as_ptr().cast(), pair % PAIRS, block),
                    }
                }
            }
            Ok(())
        })
    }

    /// Computes the results of some groups of images, with epilogues. `places` says where the words under the first window are, for each
    /// group of terms.
    ///
    /// # Safety
    /// The planes of the images are stored.
    unsafe fn multiply<T: Direct>(
        &self,
        filters: &Filters,
        (first, planes): (*mut u32, Planes),
        places: &[usize],
        images: Range<usize>,
        out: &mut [T],
        epilogues: Epilogues<'_>,
    ) -> Result<()> {
        let (conv, grid) = (self.conv, &self.grid);
        let (groups, outputs, windows) = (conv.groups, conv.outputs, conv.windows.output_len());
        let of_image = grid.span().div_ceil(TILE);
        let [panels, tiles] = [outputs.div_ceil(TILE), images.len() / groups * of_image];
        let [of_panels, of_tiles] = self.cut(planes, [panels, tiles]);
        let is_dense = grid.span() == windows;
        let shared = Shared::new((first.cast_const(), out.as_mut_ptr().cast::<u32>()));
        threads::try_for_each(groups * of_panels * of_tiles, conv.nanos(), |task| {
            let part = |at: usize, of: usize, all: usize| at * all / of..(at + 1) * all / of;
            let group = task / (of_panels * of_tiles);
            let panels = part(task / of_tiles % of_panels, of_panels, panels);
            let tiles = part(task % of_tiles, of_tiles, tiles);
            let width = tiles.len() * TILE;
            // SAFETY: what is read below was written before.
            let room = unsafe { Array::uninit(&[TILE * width], DType::U32)? };
            let sums = room.device_ptr().cast::<u32>();
            let (from, out) = shared.get();
            // Neighbouring tiles of an image.
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
                    // SAFETY: the places of all groups and tiles are in the image, which is stored; each task has its own
                    // elements of the result, or sums with room for whole tiles.
                    unsafe {
                        let from = from.add(image * planes.len() + span.start);
                        let out = out.add(((images.start + image) * outputs + first) * windows);
                        let to = if is_direct { (out.add(span.start), windows) } else { (sums, width) };
                        filters.multiply([group, first / TILE], planes.layout, (from, places), count, to);
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
                // SAFETY: these elements are computed, and read no more.
                unsafe { epilogues.run(conv.image_part(images.start + image, outputs.clone(), windows)) };
                at += count;
            }
            Ok(())
        })
    }

    /// Copies the sums of windows, which are some places of the grid, to the results of an image. There are so many rows of
    /// sums, `width` apart.
    ///
    /// # Safety
    /// There are sums of all these places, and results of all windows.
    unsafe fn put_windows(&self, span: Range<usize>, rows: usize, (sums, width): (*const u32, usize), out: *mut u32) {
        let (grid, windows) = (&self.grid, self.conv.windows.output_len());
        let first = grid.rows.partition_point(|it| it + grid.columns <= span.start);
        let end = grid.rows.partition_point(|it| *it < span.end);
        for output in 0..rows {
            for (number, &row) in (first..).zip(&grid.rows[first..end]) {
                let [from, end] = [row, row + grid.columns].map(|it| it.clamp(span.start, span.end));
                // SAFETY: by the caller's contract.
                unsafe {
                    let to = out.add(output * windows + number * grid.columns + from - row);
                    to.copy_from_nonoverlapping(sums.add(output * width + from - span.start), end - from);
                }
            }
        }
    }

    /// How many parts panels of filters and tiles of columns of a group are divided into, so that all threads are busy, and
    /// tasks read little.
    fn cut(&self, planes: Planes, [panels, tiles]: [usize; 2]) -> [usize; 2] {
        let taps = self.grid.taps.len();
        let of_tile = planes.len() / planes.layout.row * TILE * size_of::<u32>();
        let most = (COLUMNS / of_tile).clamp(1, MOST_TILES);
        let wanted = self.conv.tasks().div_ceil(self.conv.groups);
        let cuts = (1..=panels).map(|it| [it, wanted.div_ceil(it).max(tiles.div_ceil(most)).min(tiles)]);
        // The columns of a tile have the words of a tap once.
        let words = |it: &[usize; 2]| panels.div_ceil(it[0]) * taps + tiles.div_ceil(it[1]);
        cuts.min_by_key(words).expect("there is a panel")
    }
}

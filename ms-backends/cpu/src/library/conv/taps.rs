//! Gradients for weights tap by tap, without a matrix of columns: products of gradients and of images in blocks of channels,
//! which are next to each other. The order of the sums is that of [`super`].

use super::direct::DirectConv;
use super::vector::Direct;
use crate::product::{ALIASED, CHUNK, Matrix, Ordered, Shared, pack};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, try_filled};

/// Maximum size in bytes of the copies of both operands of a group.
const MOST_BYTES: usize = 64 << 20;

/// Minimum number of output channels of a task, which share packed elements.
const MIN_OUTPUTS: usize = 64;

impl DirectConv<'_> {
    /// Whether the channels of a group fill the columns of tiles, and copies of the operands take little memory.
    pub fn has_full_tiles<T: Direct>(&self) -> bool {
        let (conv, columns) = (self.conv, T::tile(self.isa).columns);
        let of_image = self.grid.len() * conv.channels + conv.windows.output_len() * conv.outputs;
        T::has_vectors(self.isa)
            && 8 * conv.channels >= 7 * conv.channels.next_multiple_of(columns)
            && conv.batch.saturating_mul(of_image).saturating_mul(size_of::<T>()) <= MOST_BYTES
    }

    /// The gradient for the weights, of `x` and `g`.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for copies of operands.
    pub fn weight_grad_by_taps<T: Direct>(&self, x: &[T], g: &[T], out: &mut [T]) -> Result<()> {
        let (conv, grid, tile) = (self.conv, &self.grid, T::tile(self.isa));
        let (channels, outputs, taps) = (conv.channels, conv.outputs, conv.windows.taps());
        let (input_len, windows) = (conv.image_lens().0, conv.windows.output_len());
        let (plane_len, terms) = (conv.windows.input_len(), conv.batch * windows);
        let places = conv.batch.saturating_mul(grid.len());
        let mut images = try_filled(T::default(), places.saturating_mul(channels))?;
        // Rows that are in the same set of a cache would be packed for each product.
        let step = if (terms * size_of::<T>()).is_multiple_of(ALIASED) { terms + tile.columns } else { terms };
        let mut gradients = try_filled(T::default(), outputs.saturating_mul(step))?;
        let blocks = channels.div_ceil(tile.columns);
        let parts = conv.tasks().div_ceil(blocks * taps).min(outputs.div_ceil(MIN_OUTPUTS));
        for group in 0..conv.groups {
            let to = Shared::new(images.as_mut_ptr());
            threads::for_each(blocks * conv.batch, places * channels, |task| {
                let (first, image) = (task / conv.batch * tile.columns, task % conv.batch);
                let width = tile.columns.min(channels - first);
                let planes = &x[(image * conv.groups + group) * input_len + first * plane_len..];
                for line in &grid.lines {
                    let steps = [plane_len, grid.step].map(|it| it as isize);
                    let from = Matrix { first: planes[line.element..].as_ptr(), steps };
                    let at = first * places + (image * grid.len() + line.at) * width;
                    // SAFETY: the line is in the plane of each channel of the block, which has a grid for each image.
                    unsafe { pack(tile.turn, from, width, line.len, to.get().add(at)) };
                }
            });
            conv.get_rows(group, 0..terms, g, (&mut gradients, step));
            let out = Shared::new(out[conv.weights(group)].as_mut_ptr());
            // Taps of a block of channels read the same elements, which stay in the cache.
            threads::try_for_each(blocks * taps * parts, conv.nanos() / conv.groups, |task| {
                let (first, tap) = (task / parts / taps * tile.columns, task / parts % taps);
                let width = tile.columns.min(channels - first);
                let [start, end] = [task % parts, task % parts + 1].map(|it| it * outputs / parts);
                // SAFETY: what is read below was written before.
                let (packed, sums) = unsafe {
                    let [packed, sums] =
                        [CHUNK.min(terms), end - start].map(|it| Array::uninit(&[it, width], T::DTYPE));
                    (packed?, sums?)
                };
                let [packed, sums] = [&packed, &sums].map(|it| it.device_ptr().cast::<T>());
                for chunk in (0..terms).step_by(CHUNK) {
                    let depth = CHUNK.min(terms - chunk);
                    let mut at = 0;
                    while at < depth {
                        let (image, window) = ((chunk + at) / windows, (chunk + at) % windows);
                        let (row, column) = (window / grid.columns, window % grid.columns);
                        let count = (depth - at).min(grid.columns - column);
                        let place = image * grid.len() + grid.taps[tap] + grid.rows[row] + column;
                        let from = &images[first * places + place * width..][..count * width];
                        // SAFETY: there is room for all terms.
                        unsafe { packed.add(at * width).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                        at += count;
                    }
                    let sizes = [end - start, depth, width];
                    let product = Ordered { isa: self.isa, sizes, accumulate: chunk > 0, in_lanes: false };
                    let left = Matrix::dense(gradients[start * step + chunk..].as_ptr(), step);
                    let (right, to) = (Matrix::dense(packed.cast_const(), width), Matrix::dense(sums, width));
                    // SAFETY: the operands have these sizes, and the sums of the first chunk are written before others are
                    // added.
                    unsafe { product.run(1, |_| [0; 3], left, right, to)? };
                }
                for (at, output) in (start..end).enumerate() {
                    for channel in 0..width {
                        // SAFETY: the sums are written; each task has its own weights.
                        unsafe {
                            let to = out.get().add((output * channels + first + channel) * taps + tap);
                            *to = *sums.add(at * width + channel);
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

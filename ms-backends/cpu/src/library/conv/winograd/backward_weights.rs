//! Winograd backward-weights: F(3x3, 2x2), with output tiles of the gradient as filters.
//!
//! The contributions of all output tiles are summed in the transform domain, and transformed once at the end. Each
//! component is a GEMM of the output tiles of all output channels and the input tiles of all input channels.

use super::planes::Planes;
use super::transforms::{COMPONENTS, Forward, LANES, TileLayout, Transforms};
use super::{Axis, TAPS, TileRows, Winograd};
use crate::library::conv::vector::Direct;
use crate::library::scratch;
use ms_ir::data::Storage;
use ms_ir::error::Result;
use ms_ir::{CHUNK, PairwiseTree};
use ms_x64::gemm::{EarlierSums, Matrix, Ordered, Shared};
use ms_x64::threads;
use std::ops::Range;

/// Cost of reading and writing a sum of products once more, in products.
const SUM_COST: usize = 4;

impl Winograd {
    /// Whether Winograd is faster than the other algorithms for backward-weights.
    pub fn is_profitable_for_weights(&self) -> bool {
        let windows = self.batch * self.rows.output * self.columns.output;
        self.is_faster(self.parts() * COMPONENTS * SUM_COST, TAPS * windows)
    }

    /// Returns the number of parts of all rows of input tiles, each of which is one accumulation chain.
    fn parts(&self) -> usize {
        let tile_rows = self.batch * self.rows.input_tiles();
        tile_rows.div_ceil((CHUNK / self.columns.input_tiles()).max(1))
    }

    /// Computes backward-weights of `x` and the gradient `g`.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for transformed input tiles and sums.
    pub fn compute_backward_weights(&self, x: &[f32], g: &[f32], out: &mut [f32]) -> Result<()> {
        let Self { channels, outputs, .. } = *self;
        let transforms = Transforms::with_lanes(f32::loops(self.isa).lanes);
        let (tile_rows, parts) = (self.batch * self.rows.input_tiles(), self.parts());
        let row = row(tile_rows.div_ceil(parts) * self.columns.input_tiles());
        let windows = |axis: Axis| Axis { input: axis.output, output: axis.output, before: 0 };
        let [of_x, of_g] = [
            Operand::new(self, x, [self.rows, self.columns], transforms.input_tiles, channels, row)?,
            Operand::new(self, g, [self.rows, self.columns].map(windows), transforms.output_tiles, outputs, row)?,
        ];
        let component = outputs * channels + LANES;
        let (tree, distance) = (PairwiseTree::new(parts), COMPONENTS * component);
        // The product of a part writes a slot before later parts or the transform read it.
        let sums = scratch::uninit::<f32>(tree.slots() * distance)?;
        let sums = Shared::new(sums.device_ptr().cast::<f32>());
        let out = out.as_chunks_mut::<TAPS>().0;
        let nanos = self.nanos() / parts;
        for (group, out) in out.chunks_exact_mut(outputs * channels).enumerate() {
            for part in 0..parts {
                let tile_rows = part * tile_rows / parts..(part + 1) * tile_rows / parts;
                let tasks = [channels, outputs].map(|it| it.div_ceil(LANES));
                threads::try_for_each(tasks[0] + tasks[1], nanos / 8, |task| {
                    let (operand, task) = if task < tasks[0] { (&of_x, task) } else { (&of_g, task - tasks[0]) };
                    // SAFETY: each task has its own channel planes, and the processor has the micro-kernels'
                    // instruction set.
                    unsafe { operand.transform(self, group, &tile_rows, task * LANES..(task + 1) * LANES) }
                })?;
                let sizes = [outputs, tile_rows.len() * self.columns.input_tiles(), channels];
                let combined = tree.combined(part);
                let earlier = EarlierSums { count: combined.len(), distance };
                let product = Ordered { isa: self.isa, sizes, earlier, vectorised_sums: false };
                let to = Matrix::dense(sums.get().wrapping_add(combined.start * distance), channels);
                let places = |it: usize| [of_g.component, of_x.component, component].map(|step| (it * step) as isize);
                let [a, b] = [&of_g, &of_x].map(|it| Matrix::dense(it.first().cast_const(), row));
                // SAFETY: both operands are transformed for these rows of input tiles, and each component of a slot has
                // `outputs * channels` elements.
                unsafe { product.run(COMPONENTS, places, a, b.transposed(), to)? };
            }
            for number in 0..COMPONENTS {
                // SAFETY: each component of `sums` has `LANES` elements after its last sum.
                unsafe { sums.get().add(number * component + outputs * channels).write_bytes(0, LANES) };
            }
            let out = Shared::new(out.as_mut_ptr());
            threads::for_each(outputs, 8 * outputs * channels, |output| {
                // SAFETY: each task has its own filters. Other sums or zeros follow the sums, so whole vectors are
                // readable. The processor has the micro-kernels' instruction set.
                unsafe {
                    let to = std::slice::from_raw_parts_mut(out.get().add(output * channels), channels);
                    (transforms.weights)(sums.get().add(output * channels), component, to);
                }
            });
        }
        Ok(())
    }
}

/// Returns the row stride for `input_tiles` input tiles and a vector after them. It is an odd number of cache lines, so
/// that rows fall into different cache sets.
fn row(input_tiles: usize) -> usize {
    ((input_tiles.div_ceil(LANES) + 1) | 1) * LANES
}

/// An operand of the GEMMs: the transformed input tiles of some rows, by component and channel plane of a group.
struct Operand<'a> {
    elements: &'a [f32],
    axes: [Axis; 2],
    forward: Forward,
    /// The number of channel planes of a group.
    planes: usize,
    row: usize,
    /// The distance between components in elements, which puts them into different cache sets.
    component: usize,
    room: Storage,
}

impl<'a> Operand<'a> {
    fn new(
        of: &Winograd,
        elements: &'a [f32],
        axes: [Axis; 2],
        forward: Forward,
        planes: usize,
        row: usize,
    ) -> Result<Self> {
        debug_assert_eq!(elements.len(), of.batch * of.groups * planes * axes[0].input * axes[1].input);
        let component = planes * row + LANES;
        let room = scratch::uninit::<f32>(COMPONENTS * component)?;
        Ok(Self { elements, axes, forward, planes, row, component, room })
    }

    fn first(&self) -> *mut f32 {
        self.room.device_ptr().cast()
    }

    /// Transforms some rows of input tiles of some channel planes of a group.
    ///
    /// # Safety
    /// Nothing else accesses the rows of these planes, and the processor has the instruction set of the transforms.
    unsafe fn transform(&self, of: &Winograd, group: usize, tile_rows: &TileRows, planes: Range<usize>) -> Result<()> {
        let Self { axes: [rows, columns], component, .. } = *self;
        let len = rows.input * columns.input;
        let mut scratch = Planes::new(self.axes, self.forward, LANES, tile_rows.len())?;
        let lanes = f32::loops(of.isa).lanes;
        for plane in planes.start..planes.end.min(self.planes) {
            let to = self.first().wrapping_add(plane * self.row);
            let mut at = 0;
            for (image, some) in of.images(tile_rows) {
                let to = TileLayout { first: to.wrapping_add(at), component, vector: lanes };
                at += some.len() * columns.input_tiles();
                let plane = (image * of.groups + group) * self.planes + plane;
                // SAFETY: a row has room for its input tiles and a vector after them.
                unsafe { scratch.transform(&self.elements[plane * len..][..len], some, to) };
            }
        }
        Ok(())
    }
}

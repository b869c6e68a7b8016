//! Transforms channel planes by rows of input tiles or of output tiles.

use super::transforms::{Forward, Halves, TileLayout};
use super::{Axis, KERNEL, OUTPUT_TILE};
use crate::library::scratch::Scratch;
use ms_ir::error::Result;
use std::ops::Range;

/// A transform of channel planes of one size, with buffers for a plane.
pub struct Planes {
    rows: Axis,
    columns: Axis,
    forward: Forward,
    /// Rows of elements that input tiles cover; rows outside the plane are padding.
    under: Scratch<f32>,
    /// The number of elements of such a row.
    len: usize,
    halves: Halves,
}

impl Planes {
    /// Allocates buffers for at most `max_rows` rows of input tiles at a time, in vectors of `lanes` elements.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for a plane.
    pub fn new([rows, columns]: [Axis; 2], forward: Forward, lanes: usize, max_rows: usize) -> Result<Self> {
        let max_rows = max_rows.min(rows.input_tiles());
        // A row of input tiles, rounded up to whole vectors.
        let len = OUTPUT_TILE * columns.input_tiles().next_multiple_of(lanes) + KERNEL;
        let len = len.max(columns.before + columns.input);
        let under = Scratch::filled(0f32, OUTPUT_TILE * (max_rows + 1) * len)?;
        Ok(Self { rows, columns, forward, under, len, halves: Halves::new(max_rows, columns.input_tiles())? })
    }

    /// Transforms some rows of input tiles of a plane.
    ///
    /// # Safety
    /// `to` has room for whole vectors of input tiles, and the processor has the instruction set of the transforms.
    pub unsafe fn transform(&mut self, plane: &[f32], some: Range<usize>, to: TileLayout) {
        let Self { rows, columns, len, .. } = *self;
        let row =
            |number: usize| (OUTPUT_TILE * some.start + number).checked_sub(rows.before).filter(|it| *it < rows.input);
        let under = &mut self.under[..OUTPUT_TILE * (some.len() + 1) * len];
        // All rows are copied before any is read: a vector load right after narrower stores would stall.
        for (number, to) in under.chunks_exact_mut(len).enumerate() {
            if let Some(row) = row(number) {
                to[columns.before..][..columns.input].copy_from_slice(&plane[row * columns.input..][..columns.input]);
            }
        }
        for (number, line) in under.chunks_exact(len).enumerate() {
            match row(number) {
                // SAFETY: each row has `len` elements, which cover whole vectors of input tiles, and the processor has
                // the instruction set.
                Some(_) => unsafe { (self.forward.across)(line, number, &mut self.halves) },
                None => self.halves.clear(number),
            }
        }
        // SAFETY: `to` has room for whole vectors of input tiles, and the processor has the instruction set, by this
        // function's contract.
        unsafe { (self.forward.down)(&self.halves, some.len(), to) };
    }
}

//! Transforms channel planes by rows of patches or of squares.

use super::transforms::{Forward, Halves, Places};
use super::{Axis, KERNEL, SIDE};
use ms_core::error::Result;
use ms_core::tensor::try_filled;
use std::ops::Range;

/// A transform of channel planes of one size, with buffers for a plane.
pub struct Planes {
    rows: Axis,
    columns: Axis,
    forward: Forward,
    /// Rows of elements that patches cover; rows outside the plane are padding.
    under: Vec<f32>,
    /// The number of elements of such a row.
    len: usize,
    halves: Halves,
}

impl Planes {
    /// Allocates buffers for at most `most_rows` rows of patches at a time, in vectors of `lanes` elements.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for a plane.
    pub fn new([rows, columns]: [Axis; 2], forward: Forward, lanes: usize, most_rows: usize) -> Result<Self> {
        let most_rows = most_rows.min(rows.patches());
        // A row of patches, rounded up to whole vectors.
        let len = SIDE * columns.patches().next_multiple_of(lanes) + KERNEL;
        let len = len.max(columns.before + columns.input);
        let under = try_filled(0f32, SIDE * (most_rows + 1) * len)?;
        Ok(Self { rows, columns, forward, under, len, halves: Halves::new(most_rows, columns.patches())? })
    }

    /// Transforms some rows of patches of a plane.
    ///
    /// # Safety
    /// `to` has room for whole vectors of patches, and the processor has the instruction set of the transforms.
    pub unsafe fn transform(&mut self, plane: &[f32], some: Range<usize>, to: Places) {
        let Self { rows, columns, len, .. } = *self;
        let row = |number: usize| (SIDE * some.start + number).checked_sub(rows.before).filter(|it| *it < rows.input);
        let under = &mut self.under[..SIDE * (some.len() + 1) * len];
        // All rows are copied before any is read: a vector load right after narrower stores would stall.
        for (number, to) in under.chunks_exact_mut(len).enumerate() {
            if let Some(row) = row(number) {
                to[columns.before..][..columns.input].copy_from_slice(&plane[row * columns.input..][..columns.input]);
            }
        }
        for (number, line) in under.chunks_exact(len).enumerate() {
            match row(number) {
                // SAFETY: each row has `len` elements, which cover whole vectors of patches, and the processor has the
                // instruction set.
                Some(_) => unsafe { (self.forward.across)(line, number, &mut self.halves) },
                None => self.halves.clear(number),
            }
        }
        // SAFETY: `to` has room for whole vectors of patches, and the processor has the instruction set, by this
        // function's contract.
        unsafe { (self.forward.down)(&self.halves, some.len(), to) };
    }
}

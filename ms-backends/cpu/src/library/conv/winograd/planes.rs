//! Planes of elements, transformed by rows of patches or squares.

use super::transforms::{Forward, Halves, Places};
use super::{Axis, KERNEL, SIDE};
use ms_core::error::Result;
use ms_core::tensor::try_filled;
use std::ops::Range;

/// What transforms planes of some size, with room for a plane at a time.
pub struct Planes {
    rows: Axis,
    columns: Axis,
    forward: Forward,
    /// Rows of elements under the patches, of which those outside of a plane are padding.
    under: Vec<f32>,
    /// Elements of such a row.
    len: usize,
    halves: Halves,
}

impl Planes {
    /// For at most so many rows of patches at a time, in vectors of so many lanes.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for a plane.
    pub fn new([rows, columns]: [Axis; 2], forward: Forward, lanes: usize, most_rows: usize) -> Result<Self> {
        let most_rows = most_rows.min(rows.patches());
        // Under the patches of a row and the rest of a vector of them.
        let len = SIDE * columns.patches().next_multiple_of(lanes) + KERNEL;
        let len = len.max(columns.before + columns.input);
        let under = try_filled(0f32, SIDE * (most_rows + 1) * len)?;
        Ok(Self { rows, columns, forward, under, len, halves: Halves::new(most_rows, columns.patches())? })
    }

    /// Transforms some rows of patches of a plane.
    ///
    /// # Safety
    /// There is room for whole vectors of patches; the processor has the instruction set of the transforms.
    pub unsafe fn transform(&mut self, plane: &[f32], some: Range<usize>, to: Places) {
        let Self { rows, columns, len, .. } = *self;
        let row = |number: usize| (SIDE * some.start + number).checked_sub(rows.before).filter(|it| *it < rows.input);
        let under = &mut self.under[..SIDE * (some.len() + 1) * len];
        // What was written just now would be read in vectors that wait for it.
        for (number, to) in under.chunks_exact_mut(len).enumerate() {
            if let Some(row) = row(number) {
                to[columns.before..][..columns.input].copy_from_slice(&plane[row * columns.input..][..columns.input]);
            }
        }
        for (number, line) in under.chunks_exact(len).enumerate() {
            match row(number) {
                // SAFETY: the processor has the loops.
                Some(_) => unsafe { (self.forward.across)(line, number, &mut self.halves) },
                None => self.halves.clear(number),
            }
        }
        // SAFETY: as the caller's.
        unsafe { (self.forward.down)(&self.halves, some.len(), to) };
    }
}

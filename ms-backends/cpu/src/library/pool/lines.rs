//! The lines of planes, and the windows along them.

use super::blocks::{Blocks, in_blocks};
use crate::interp::number::Number;
use ms_core::ops::WindowAxis;
use smallvec::SmallVec;

/// The elements of lines by their class, which is their position modulo the stride of the windows: those of a class
/// are adjacent, so that each tap of adjacent windows is on adjacent ones. Between lines is room for the padding.
pub struct Lines {
    axis: WindowAxis,
    /// The taps of a window in order.
    taps: SmallVec<[Tap; 8]>,
    /// Distance of lines, in elements of a class and in windows.
    pub pitch: usize,
    /// Padding before the first line, in elements of a class.
    before: usize,
}

/// A tap of the windows along a line.
struct Tap {
    /// The class that it is on.
    class: usize,
    /// The element of the class under the first window, after padding.
    first: usize,
    /// Where it is in a line, relative to the product of the window's number and the stride; modulo 2^32.
    place: u32,
}

impl Lines {
    /// From the windows along the last axis.
    pub fn new(axis: WindowAxis) -> Self {
        let WindowAxis { input, kernel, output, stride, dilation, before: padding } = axis;
        let before = padding.div_ceil(stride);
        let tap = |tap: usize| {
            let at = before * stride + tap * dilation - padding;
            let place = ((tap * dilation) as u32).wrapping_sub(padding as u32);
            Tap { class: at % stride, first: at / stride, place }
        };
        let taps: SmallVec<[Tap; 8]> = (0..kernel).map(tap).collect();
        let last = taps.iter().map(|it| it.first).max().unwrap_or(0);
        let pitch = output.max(input.div_ceil(stride) + before).max((last + output).saturating_sub(before));
        Self { axis, taps, pitch, before }
    }

    /// Room for the elements of a class of this many lines, with `more` windows after the last line.
    pub fn class_len(&self, lines: usize, more: usize) -> usize {
        let last = self.taps.iter().map(|it| it.first).max().unwrap_or(0);
        lines * self.pitch + self.before + last + more
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.axis.stride
    }

    /// For each tap in order, where its element under the first window is among classes of this length, and its place.
    pub fn taps(&self, class_len: usize) -> SmallVec<[(usize, u32); 8]> {
        self.taps.iter().map(|it| (it.class * class_len + it.first, it.place)).collect()
    }

    /// The place of the first tap on an element of the window with this number; of the first one, if there is none.
    pub fn first(&self, window: usize) -> u32 {
        let is_inside = |tap: &&Tap| {
            let at = (window * self.axis.stride) as i64 + i64::from(tap.place as i32);
            (0..self.axis.input as i64).contains(&at)
        };
        self.taps.iter().find(is_inside).unwrap_or(&self.taps[0]).place
    }

    /// Brings lines into classes of this length, where padding is not written.
    #[inline(always)]
    pub fn split<T: Number>(&self, from: &[T], to: &mut [T], class_len: usize) {
        let WindowAxis { input, stride, .. } = self.axis;
        // Lines without padding between them are one line.
        let line = if input == self.pitch * stride { from.len() } else { input };
        for (number, from) in from.chunks_exact(line.max(1)).enumerate() {
            let to = &mut to[self.before + number * self.pitch..];
            let count = line / stride;
            match stride {
                1 => in_blocks(count, &mut Split::<T, 1> { from, to, class_len }),
                2 => in_blocks(count, &mut Split::<T, 2> { from, to, class_len }),
                3 => in_blocks(count, &mut Split::<T, 3> { from, to, class_len }),
                _ => {
                    for class in 0..stride {
                        let to = to[class * class_len..][..count].iter_mut();
                        to.zip(from.chunks_exact(stride)).for_each(|(to, from)| *to = from[class]);
                    }
                }
            }
            for (class, &element) in from[count * stride..].iter().enumerate() {
                to[class * class_len + count] = element;
            }
        }
    }
}

/// Brings the elements of a line into their classes, with a constant stride.
struct Split<'a, T, const STRIDE: usize> {
    from: &'a [T],
    to: &'a mut [T],
    class_len: usize,
}

impl<T: Number, const STRIDE: usize> Blocks for Split<'_, T, STRIDE> {
    #[inline(always)]
    fn block<const COUNT: usize>(&mut self, at: usize) {
        let from = &self.from[at * STRIDE..][..COUNT * STRIDE].as_chunks::<STRIDE>().0[..COUNT];
        for class in 0..STRIDE {
            let mut elements = [T::ZERO; COUNT];
            elements.iter_mut().zip(from).for_each(|(to, from)| *to = from[class]);
            self.to[class * self.class_len + at..][..COUNT].copy_from_slice(&elements);
        }
    }
}

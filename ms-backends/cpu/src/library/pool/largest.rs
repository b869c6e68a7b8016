//! The largest elements of windows: along lines first, which windows below each other share, then those of the lines
//! of each window. Ties go to the first element in row-major order either way.

use super::Loops;
use super::best::{Best, is_nan};
use super::blocks::{Blocks, MOST, in_blocks};
use super::plan::Pool;
use crate::interp::number::Number;
use ms_core::error::Result;
use ms_core::tensor::{Element, try_filled};
use smallvec::SmallVec;
use std::ops::Range;

/// Number of windows along lines whose elements are brought into classes at once: these stay in the cache.
const BAND: usize = 512;

/// Number of windows along lines of planes that are worked on at once.
const GROUP: usize = 1024;

/// What is done with the largest elements of windows.
pub trait Sink<T>: Sync {
    /// Whether their places are needed.
    const PLACES: bool;

    /// The largest elements of adjacent windows of a plane, from one on.
    #[inline(always)]
    fn tops<const COUNT: usize>(&self, _plane: usize, _window: usize, _tops: &[T; COUNT]) {}

    /// The places of the largest elements of all windows of a plane, as positions in it.
    #[inline(always)]
    fn places(&self, _plane: usize, _places: &[u32]) {}
}

/// The loops over planes.
pub struct Largest<'a, T, S> {
    pub pool: &'a Pool,
    pub x: &'a [T],
    pub sink: S,
}

impl<T: Number + Element, S: Sink<T>> Loops for Largest<'_, T, S> {
    #[inline(always)]
    fn run(&self, planes: Range<usize>) -> Result<()> {
        if S::PLACES { self.find::<true>(planes) } else { self.find::<false>(planes) }
    }
}

impl<T: Number + Element, S: Sink<T>> Largest<'_, T, S> {
    #[inline(always)]
    fn find<const PLACES: bool>(&self, planes: Range<usize>) -> Result<()> {
        let pool = self.pool;
        let group = (GROUP / (pool.height() * pool.lines.pitch)).clamp(1, planes.len());
        let band = (BAND / pool.lines.pitch).clamp(1, group * pool.height());
        let mut scratch = Scratch::<T, PLACES>::new(pool, group, band)?;
        let mut places = try_filled(0, if PLACES { pool.output_len } else { 0 })?;
        for first in planes.clone().step_by(group) {
            let count = group.min(planes.end - first);
            let x = &self.x[first * pool.input_len..][..count * pool.input_len];
            let mut nans = false;
            for (number, x) in x.chunks(band * pool.input).enumerate() {
                // Comparisons with nan take time, and are rarely needed.
                let some = x.iter().fold(false, |some, &it| some | is_nan(it));
                let lines = number * band..number * band + x.len() / pool.input;
                pool.lines.split(x, &mut scratch.classes, scratch.class_len);
                match some {
                    true => scratch.across::<true>(pool, lines),
                    false => scratch.across::<false>(pool, lines),
                }
                nans |= some;
            }
            for number in 0..count {
                match nans {
                    true => self.down::<PLACES, true>(&scratch, number, first + number, &mut places),
                    false => self.down::<PLACES, false>(&scratch, number, first + number, &mut places),
                }
                if PLACES {
                    self.sink.places(first + number, &places);
                }
            }
        }
        Ok(())
    }

    /// Finds the largest elements of the windows of a plane among those along lines; it is the plane with this number
    /// of those in `scratch`.
    #[inline(always)]
    fn down<const PLACES: bool, const NANS: bool>(
        &self,
        scratch: &Scratch<T, PLACES>,
        number: usize,
        plane: usize,
        places: &mut [u32],
    ) {
        let (pool, sink) = (self.pool, &self.sink);
        let first = number * pool.height();
        for (row, lines) in pool.rows().enumerate() {
            let window = row * pool.output;
            let places = &mut *places;
            let mut blocks = Down::<T, S, PLACES, NANS> { pool, scratch, sink, first, lines, plane, window, places };
            in_blocks(pool.output, &mut blocks);
        }
    }
}

/// The largest elements along the lines of some planes, with `PLACES` also where they are.
struct Scratch<T, const PLACES: bool> {
    /// The elements of some lines by class.
    classes: Vec<T>,
    class_len: usize,
    /// Where the elements under the taps of the first window are in `classes`, and the places of the taps.
    taps: SmallVec<[(usize, u32); 8]>,
    /// The place of the first tap on an element: the largest one is there if all are the lowest number.
    firsts: Vec<u32>,
    /// The largest elements of the windows along lines.
    tops: Vec<T>,
    places: Vec<u32>,
}

impl<T: Number + Element, const PLACES: bool> Scratch<T, PLACES> {
    /// For so many planes, of which so many lines are brought into classes at once.
    fn new(pool: &Pool, planes: usize, lines: usize) -> Result<Self> {
        let pitch = pool.lines.pitch;
        let (class_len, windows) = (pool.lines.class_len(lines, MOST), planes * pool.height() * pitch + MOST);
        let mut firsts = try_filled(0, if PLACES { lines * pitch + MOST } else { 0 })?;
        for line in firsts.chunks_mut(pitch) {
            line.iter_mut().enumerate().for_each(|(window, first)| *first = pool.lines.first(window));
        }
        Ok(Self {
            classes: try_filled(T::LOWEST, pool.lines.classes() * class_len)?,
            class_len,
            taps: pool.lines.taps(class_len),
            firsts,
            tops: try_filled(T::LOWEST, windows)?,
            places: try_filled(0, if PLACES { windows } else { 0 })?,
        })
    }

    /// Finds the largest elements of the windows along lines, those in `classes`.
    #[inline(always)]
    fn across<const NANS: bool>(&mut self, pool: &Pool, lines: Range<usize>) {
        match self.taps.len() {
            1 => self.across_taps::<NANS, 1>(pool, lines),
            2 => self.across_taps::<NANS, 2>(pool, lines),
            3 => self.across_taps::<NANS, 3>(pool, lines),
            _ => self.across_taps::<NANS, 0>(pool, lines),
        }
    }

    /// [`Self::across`] for a constant number of taps, or with zero for any number.
    #[inline(always)]
    fn across_taps<const NANS: bool, const TAPS: usize>(&mut self, pool: &Pool, lines: Range<usize>) {
        let mut some = [(0, 0); TAPS];
        some.copy_from_slice(&self.taps[..TAPS]);
        let taps = if TAPS == 0 { &self.taps[..] } else { &some[..] };
        let pitch = pool.lines.pitch;
        // Line by line, or as one line, whose windows on two lines are of no use.
        let is_apart = pool.output.next_multiple_of(MOST) < pitch;
        let (parts, len) = if is_apart { (lines.len(), pool.output) } else { (1, lines.len() * pitch) };
        for part in 0..parts {
            for at in (part * pitch..part * pitch + len).step_by(MOST) {
                let mut best = Best::<T, MOST, PLACES, NANS> { tops: [T::LOWEST; MOST], places: [0; MOST] };
                if PLACES {
                    best.places = *block(&self.firsts, at);
                }
                for &(start, place) in taps {
                    best.or(block(&self.classes, start + at), |_| place);
                }
                let to = lines.start * pitch + at;
                self.tops[to..][..MOST].copy_from_slice(&best.tops);
                if PLACES {
                    self.places[to..][..MOST].copy_from_slice(&best.places);
                }
            }
        }
    }
}

/// The loop over a row of windows.
struct Down<'a, T, S, const PLACES: bool, const NANS: bool> {
    pool: &'a Pool,
    scratch: &'a Scratch<T, PLACES>,
    sink: &'a S,
    /// The first line of the plane, among those in `scratch`.
    first: usize,
    /// The lines of the windows, in the plane.
    lines: &'a [usize],
    plane: usize,
    /// The number of the first window.
    window: usize,
    places: &'a mut [u32],
}

impl<T: Number, S: Sink<T>, const PLACES: bool, const NANS: bool> Blocks for Down<'_, T, S, PLACES, NANS> {
    #[inline(always)]
    fn block<const COUNT: usize>(&mut self, at: usize) {
        let pool = self.pool;
        let mut best = Best::<T, COUNT, PLACES, NANS> { tops: [T::LOWEST; COUNT], places: [0; COUNT] };
        for (number, &line) in self.lines.iter().enumerate() {
            let from = (self.first + line) * pool.lines.pitch + at;
            let (tops, mut places) = (block(&self.scratch.tops, from), [0; COUNT]);
            if PLACES {
                let start = (line * pool.input) as u32;
                places = block::<u32, COUNT>(&self.scratch.places, from).map(|it| it.wrapping_add(start));
            }
            if number == 0 {
                best = Best { tops: *tops, places };
            } else {
                best.or(tops, |at| places[at]);
            }
        }
        self.sink.tops(self.plane, self.window + at, &best.tops);
        if PLACES {
            for (number, place) in best.places.iter_mut().enumerate() {
                *place = place.wrapping_add(((at + number) * pool.stride) as u32);
            }
            self.places[self.window + at..][..COUNT].copy_from_slice(&best.places);
        }
    }
}

/// A constant number of elements from one on.
#[inline(always)]
fn block<T, const COUNT: usize>(of: &[T], at: usize) -> &[T; COUNT] {
    of[at..].first_chunk().expect("there is room after the last line")
}

//! Tracks the largest elements of adjacent windows.

use crate::interp::number::Number;
use std::hint::select_unpredictable;

/// The largest elements of some windows, with their indices if `PLACES`. Without `NANS` no element may be NaN. Without
/// `PLACES` none may be -0, as the first of equal elements is not known.
#[derive(Clone, Copy)]
pub struct Best<T, const COUNT: usize, const PLACES: bool, const NANS: bool> {
    /// The elements.
    pub tops: [T; COUNT],
    /// Their indices.
    pub places: [u32; COUNT],
}

impl<T: Number, const COUNT: usize, const PLACES: bool, const NANS: bool> Best<T, COUNT, PLACES, NANS> {
    /// Takes elements that come after all earlier ones, where they are larger. NaN is larger than all numbers; the
    /// `last` NaN wins, or the first one. The first of equal elements wins.
    #[inline(always)]
    pub fn or_later(&mut self, tops: &[T; COUNT], places: &[u32; COUNT], last: bool) {
        for at in 0..COUNT {
            let (top, value) = (self.tops[at], tops[at]);
            let above = (value > top) | (NANS & is_nan(value) & (last | !is_nan(top)));
            self.take(at, above, value, places[at]);
        }
    }

    /// Takes elements in any order, by the rules of [`or_later`](Self::or_later).
    #[inline(always)]
    pub fn or(&mut self, tops: &[T; COUNT], places: &[u32; COUNT], last: bool) {
        for at in 0..COUNT {
            let (top, value) = (self.tops[at], tops[at]);
            let is_first = places[at] < self.places[at];
            let above = (value > top)
                | (PLACES & (value == top) & is_first)
                | (NANS & is_nan(value) & (!is_nan(top) | (is_first ^ last)));
            self.take(at, above, value, places[at]);
        }
    }

    /// Takes an element if it is `above`.
    #[inline(always)]
    fn take(&mut self, at: usize, above: bool, value: T, place: u32) {
        self.tops[at] = if above { value } else { self.tops[at] };
        if PLACES {
            self.places[at] = select_unpredictable(above, place, self.places[at]);
        }
    }
}

/// Whether a number is NaN, which integers never are.
pub fn is_nan<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

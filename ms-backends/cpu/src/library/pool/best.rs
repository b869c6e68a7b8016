//! The largest elements of adjacent windows.

use crate::interp::number::Number;
use std::hint::select_unpredictable;

/// The largest elements of some windows, and with `PLACES` where they are. Without `NANS` no element may be nan; without
/// `PLACES` none may be -0, as it is not known which of equal elements is the first one.
#[derive(Clone, Copy)]
pub struct Best<T, const COUNT: usize, const PLACES: bool, const NANS: bool> {
    /// The elements.
    pub tops: [T; COUNT],
    /// Their places.
    pub places: [u32; COUNT],
}

impl<T: Number, const COUNT: usize, const PLACES: bool, const NANS: bool> Best<T, COUNT, PLACES, NANS> {
    /// Takes further elements of the windows, which are after all those before, where they are larger. Nan is larger than
    /// all others, and the `last` one stays or the first; of equal elements the first one stays.
    #[inline(always)]
    pub fn or_later(&mut self, tops: &[T; COUNT], places: &[u32; COUNT], last: bool) {
        for at in 0..COUNT {
            let (top, value) = (self.tops[at], tops[at]);
            let above = (value > top) | (NANS & is_nan(value) & (last | !is_nan(top)));
            self.take(at, above, value, places[at]);
        }
    }

    /// As [`or_later`](Self::or_later), for elements in any order.
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

    /// Takes an element where it is above.
    #[inline(always)]
    fn take(&mut self, at: usize, above: bool, value: T, place: u32) {
        self.tops[at] = if above { value } else { self.tops[at] };
        if PLACES {
            self.places[at] = select_unpredictable(above, place, self.places[at]);
        }
    }
}

/// Returns whether a number is nan, which integers never are.
pub fn is_nan<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

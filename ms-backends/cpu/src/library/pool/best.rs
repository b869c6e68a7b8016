//! The largest elements of adjacent windows.

use crate::interp::number::Number;
use std::hint::select_unpredictable;

/// The largest elements of some windows, and with `PLACES` where they are. Without `NANS` no element may be nan.
#[derive(Clone, Copy)]
pub struct Best<T, const COUNT: usize, const PLACES: bool, const NANS: bool> {
    /// The elements.
    pub tops: [T; COUNT],
    /// Their places.
    pub places: [u32; COUNT],
}

impl<T: Number, const COUNT: usize, const PLACES: bool, const NANS: bool> Best<T, COUNT, PLACES, NANS> {
    /// Takes further elements of the windows where they are larger, and their places. Nan is larger than all others;
    /// of equal elements the first one stays.
    #[inline(always)]
    pub fn or(&mut self, tops: &[T; COUNT], places: impl Fn(usize) -> u32) {
        for (at, &value) in tops.iter().enumerate() {
            let top = self.tops[at];
            // Of nans, places are those of the first.
            let above = (value > top) | (NANS & is_nan(value) & !(PLACES & is_nan(top)));
            self.tops[at] = if above { value } else { top };
            if PLACES {
                self.places[at] = select_unpredictable(above, places(at), self.places[at]);
            }
        }
    }
}

/// Returns whether a number is nan, which integers never are.
pub fn is_nan<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

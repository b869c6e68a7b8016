//! Tracks the largest elements of adjacent windows.

use ms_x64::interp::Number;
use std::hint::select_unpredictable;

/// The largest elements of some windows, with their indices if `INDICES`. Without `NANS` no element may be NaN. Without
/// `INDICES` none may be -0, as the first of equal elements is not known.
#[derive(Clone, Copy)]
pub struct Best<T, const COUNT: usize, const INDICES: bool, const NANS: bool> {
    /// The elements.
    pub maxima: [T; COUNT],
    /// Their indices.
    pub indices: [u32; COUNT],
}

impl<T: Number, const COUNT: usize, const INDICES: bool, const NANS: bool> Best<T, COUNT, INDICES, NANS> {
    /// Takes elements that come after all earlier ones, where they are larger. NaN is larger than all numbers; the
    /// `last` NaN wins, or the first one. The first of equal elements wins.
    #[inline(always)]
    pub fn or_later(&mut self, maxima: &[T; COUNT], indices: &[u32; COUNT], last: bool) {
        for at in 0..COUNT {
            let (maximum, value) = (self.maxima[at], maxima[at]);
            let above = (value > maximum) | (NANS & is_nan(value) & (last | !is_nan(maximum)));
            self.take(at, above, value, indices[at]);
        }
    }

    /// Takes elements in any order, by the rules of [`or_later`](Self::or_later).
    #[inline(always)]
    pub fn or(&mut self, maxima: &[T; COUNT], indices: &[u32; COUNT], last: bool) {
        for at in 0..COUNT {
            let (maximum, value) = (self.maxima[at], maxima[at]);
            let is_first = indices[at] < self.indices[at];
            let above = (value > maximum)
                | (INDICES & (value == maximum) & is_first)
                | (NANS & is_nan(value) & (!is_nan(maximum) | (is_first ^ last)));
            self.take(at, above, value, indices[at]);
        }
    }

    /// Takes an element if it is `above`.
    #[inline(always)]
    fn take(&mut self, at: usize, above: bool, value: T, index: u32) {
        self.maxima[at] = if above { value } else { self.maxima[at] };
        if INDICES {
            self.indices[at] = select_unpredictable(above, index, self.indices[at]);
        }
    }
}

/// Whether a number is NaN, which integers never are.
pub fn is_nan<T: PartialOrd>(value: T) -> bool {
    value.partial_cmp(&value).is_none()
}

//! Copies elements between strided arrays.

use super::array::Array;
use super::element::with_word;
use super::host_array::HostArray;
use super::layout::{Layout, Shape, Strides};
use crate::error::OrExhausted;

impl HostArray<'_> {
    /// Copies the elements to a new row-major array.
    ///
    /// # Panics
    /// Raises [`Code::Memory`](crate::Code::Memory) when the system has no memory for it.
    #[track_caller]
    pub fn duplicate(&self) -> Array {
        // SAFETY: the copy writes every element.
        let out = unsafe { Array::uninit(self.shape(), self.dtype()) }.or_exhausted();
        // SAFETY: `out.layout()` covers exactly the fresh array, which has no other reference and the dtype of `self`.
        unsafe { copy(out.device_ptr(), out.layout(), self) };
        out
    }
}

impl Array {
    /// Writes the elements of `from` to the elements of `layout`, a view of this array's memory with the shape of
    /// `from`.
    ///
    /// # Panics
    /// Panics when the shapes or dtypes differ, or an element is outside this array. Also panics when its memory is
    /// shared or not the host's.
    pub fn assign(&mut self, layout: &Layout, from: &HostArray<'_>) {
        assert_eq!(layout.shape(), from.shape(), "source and target have one shape");
        assert_eq!(from.dtype(), self.dtype(), "source and target have one dtype");
        assert!(layout.fits(self.numel()), "every place lies inside the target");
        // SAFETY: the assertions have checked that the elements of `layout` are inside the unshared target, and that
        // both have one dtype.
        unsafe { copy(self.bytes_mut().as_mut_ptr(), layout, from) };
    }
}

/// Writes the elements of `source` to a target of its shape and dtype.
///
/// # Safety
/// The elements of `to`, relative to `target`, are valid for writes, and nothing reads them meanwhile. They do not
/// overlap `source`.
unsafe fn copy(target: *mut u8, to: &Layout, source: &HostArray<'_>) {
    // SAFETY: `T` has the size of an element, and the alignment of both blocks is at least its own. The rest is this
    // function's contract.
    with_word!(source.dtype().size(), T => unsafe { copy_words::<T>(target.cast(), to, source) });
}

/// Writes elements like [`copy`], as words of their size.
///
/// # Safety
/// The contract of [`copy`] holds, and `T` has the size of an element.
unsafe fn copy_words<T: Copy>(target: *mut T, to: &Layout, source: &HostArray<'_>) {
    if source.numel() == 0 {
        return;
    }
    let from = source.layout();
    let source = source.storage().device_ptr().cast::<T>();
    let (outer_to, size, step_to) = split_rows(to);
    let (outer_from, _, step_from) = split_rows(from);
    for (to, from) in outer_to.offsets().zip(outer_from.offsets()) {
        if step_to == 1 && step_from == 1 {
            // SAFETY: `from` and the `size` elements from it belong to the source's layout, which is inside its
            // storage. `to` and the elements from it belong to the target's layout and are valid for writes by this
            // function's contract.
            unsafe { target.add(to).copy_from_nonoverlapping(source.add(from), size) };
            continue;
        }
        let (mut to, mut from) = (to as isize, from as isize);
        for _ in 0..size {
            // SAFETY: `from` belongs to the source's layout, which is inside its storage. `to` belongs to the target's
            // layout and is valid for writes by this function's contract.
            unsafe { target.offset(to).write(*source.offset(from)) };
            to += step_to;
            from += step_from;
        }
    }
}

/// Splits off the innermost axis: returns the outer layout, and the axis' size and stride.
fn split_rows(layout: &Layout) -> (Layout, usize, isize) {
    match layout.rank() {
        0 => (layout.clone(), 1, 1),
        rank => {
            let shape: Shape = layout.shape()[..rank - 1].into();
            let strides: Strides = layout.strides()[..rank - 1].into();
            let outer = Layout::new(shape, strides, layout.offset());
            (outer, layout.shape()[rank - 1], layout.strides()[rank - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_views_are_copied_and_written_in_order() {
        let host = |it: Array| it.into_host().expect("it is there");
        let base = host(Array::from_slice(&[2, 3], &[0i32, 1, 2, 3, 4, 5]));
        let transposed = host(base.with_layout(base.layout().permute(&[1, 0])));
        assert_eq!(host(transposed.duplicate()).as_slice::<i32>().expect("dense"), [0, 3, 1, 4, 2, 5]);

        let mut target = Array::zeros(&[2, 4], crate::DType::I32);
        let backwards = target.layout().slice(1, 3, 3, -1);
        target.assign(&backwards, &base);
        assert_eq!(host(target).as_slice::<i32>().expect("dense"), [0, 2, 1, 0, 0, 5, 4, 3]);
    }
}

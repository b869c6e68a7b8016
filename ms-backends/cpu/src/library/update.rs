//! Runs ops that update some elements of an array, in place if the result shares its memory.

use super::elements;
use super::output::{begin, written};
use ms_ir::data::{Array, Attrs, Element, Layout, Op};
use ms_ir::error::Result;
use ms_ir::with_element;
use ms_ops::ops::ADD_SLICES;
use ms_ops::ops::host::{self, dense, plus};
use ms_x64::gemm::Shared;
use ms_x64::threads;

/// Runs an op of this module and writes its row-major output; `None` for other ops.
///
/// # Safety
/// The conditions of [`run`](super::run) hold; the op has one output.
pub unsafe fn run(op: Op, attrs: &Attrs, inputs: &[&Array], out: &Array) -> Option<Result<()>> {
    (op == ADD_SLICES.op()).then(|| add_slices(attrs, inputs, out))
}

/// Adds values at evenly spaced indices.
fn add_slices(attrs: &Attrs, inputs: &[&Array], out: &Array) -> Result<()> {
    // SAFETY: `out` has the first operand's type, and its memory is exclusive or the operand's, by the contract of
    // `run`.
    unsafe { begin(inputs[0], out)? };
    let values = &inputs[1..];
    let places = host::slices(attrs, out.shape(), values.iter().map(|it| it.shape()));
    with_element!(out.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T`, and the first operand, which may share its memory, is not read
        // again.
        let to: &mut [T] = unsafe { written(out) };
        for (place, value) in places.iter().zip(values) {
            let value = dense(value)?;
            each(to, place, elements::<T>(&value), |to, it| *to = plus(*to, it));
        }
    });
    Ok(())
}

/// Visits the elements of a layout, each with its value. Threads share long runs of contiguous elements.
fn each<T: Element>(to: &mut [T], place: &Layout, values: &[T], visit: impl Fn(&mut T, T) + Sync) {
    /// Minimum number of contiguous elements that amortise computing their offset.
    const RUN: usize = 1 << 10;
    /// Maximum number of elements of a task.
    const PIECE: usize = 1 << 14;
    if values.is_empty() {
        return;
    }
    let shape = place.shape();
    // Axes from `first` on are contiguous.
    let (mut first, mut run) = (shape.len(), 1);
    while first > 0 && (shape[first - 1] == 1 || place.strides()[first - 1] == run as isize) {
        first -= 1;
        run *= shape[first];
    }
    let (shape, strides) = (&shape[..first], &place.strides()[..first]);
    if run < RUN {
        let outer = Layout::new(shape.into(), strides.into(), place.offset());
        for (at, values) in outer.offsets().zip(values.chunks_exact(run)) {
            to[at..at + run].iter_mut().zip(values).for_each(|(to, &it)| visit(to, it));
        }
        return;
    }
    let pieces = run.div_ceil(PIECE);
    let (shared, len) = (Shared::new(to.as_mut_ptr()), to.len());
    threads::for_each(values.len() / run * pieces, values.len() / 2, |task| {
        let (line, start) = (task / pieces, task % pieces * PIECE);
        let (mut at, mut rest) = (place.offset() as isize, line);
        for (size, stride) in shape.iter().zip(strides).rev() {
            at += (rest % size) as isize * stride;
            rest /= size;
        }
        let (at, count) = (at as usize + start, PIECE.min(run - start));
        assert!(at + count <= len, "a slice is inside the array");
        // SAFETY: the elements lie in the array by the assertion. A slice has no element twice, so no other task has
        // them.
        let to = unsafe { std::slice::from_raw_parts_mut(shared.get().add(at), count) };
        let values = &values[line * run + start..][..count];
        to.iter_mut().zip(values).for_each(|(to, &it)| visit(to, it));
    });
}

#[cfg(test)]
mod tests {
    use super::each;
    use ms_ir::data::Layout;

    /// Adds values to the elements of a layout, and compares with its offsets.
    fn check(shape: &[usize], strides: &[isize], offset: usize, len: usize) {
        let place = Layout::new(shape.into(), strides.into(), offset);
        let values: Vec<i64> = (1..).take(place.numel()).collect();
        let (mut got, mut want) = (vec![0; len], vec![0; len]);
        each(&mut got, &place, &values, |to, it| *to += it);
        place.offsets().zip(&values).for_each(|(at, &it)| want[at] += it);
        assert!(got == want, "{shape:?}, {strides:?}");
    }

    #[test]
    fn every_element_is_visited_with_its_value() {
        check(&[3, 5], &[10, 2], 1, 40);
        check(&[3, 1, 5], &[10, 7, 1], 2, 40);
        check(&[2, 3, 2000], &[9000, -2500, 1], 5000, 20_000);
        check(&[2, 50, 1000], &[60_000, 1000, 1], 3000, 120_000);
        check(&[40_000], &[1], 0, 40_000);
        check(&[4, 40_000], &[-40_000, 1], 120_000, 160_000);
        check(&[0, 4], &[4, 1], 0, 0);
    }
}

//! Ops that change some elements of an array, in place if the result shares its memory.

use super::elements;
use super::index::written;
use ms_core::error::Result;
use ms_core::ops::ADD_SLICES;
use ms_core::ops::host::{self, dense, plus};
use ms_core::tensor::{Array, Attrs, Element, Layout, Op};
use ms_core::with_element;
use smallvec::SmallVec;

/// Runs an op of this kind, writing its row-major output; `None` for other ops.
///
/// # Safety
/// As [`run`](super::run), of one output.
pub unsafe fn run(op: Op, attrs: &Attrs, inputs: &[&Array], out: &Array) -> Option<Result<()>> {
    (op == ADD_SLICES.op()).then(|| add_slices(attrs, inputs, out))
}

/// Copies the first operand to the output, unless they share their memory.
///
/// # Safety
/// The output is a row-major array of the operand's type, whose memory nobody else accesses, or is that
/// of the operand.
///
/// # Errors
/// As [`Array::on_host`].
pub unsafe fn begin(x: &Array, out: &Array) -> Result<()> {
    if x.device_ptr() == out.device_ptr() && x.layout().is_contiguous() {
        return Ok(());
    }
    let x = x.on_host()?;
    with_element!(out.dtype(), T => {
        // SAFETY: by the caller's contract; they do not share memory.
        let to: &mut [T] = unsafe { written(out) };
        match x.layout().strides().iter().all(|&it| it == 0) {
            true => to.fill(x.iter::<T>().next().unwrap_or_default()),
            false => to.copy_from_slice(elements(&dense(&x)?)),
        }
    });
    Ok(())
}

/// Values added at evenly spaced positions.
fn add_slices(attrs: &Attrs, inputs: &[&Array], out: &Array) -> Result<()> {
    // SAFETY: the caller of `run` vouches for the output.
    unsafe { begin(inputs[0], out)? };
    let values = &inputs[1..];
    let places = host::slices(attrs, out.shape(), values.iter().map(|it| it.shape()));
    with_element!(out.dtype(), T => {
        // SAFETY: as above, and the first operand is not read again.
        let to: &mut [T] = unsafe { written(out) };
        for (place, value) in places.iter().zip(values) {
            let value = dense(value)?;
            each(to, place, elements::<T>(&value), |to, it| *to = plus(*to, it));
        }
    });
    Ok(())
}

/// Visits the elements of a layout, each with the corresponding value.
fn each<T: Element>(to: &mut [T], place: &Layout, values: &[T], visit: impl Fn(&mut T, T)) {
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
    let outer = (shape[..first].into(), place.strides()[..first].iter().copied().collect::<SmallVec<_>>());
    let outer = Layout::new(outer.0, outer.1, place.offset());
    for (at, values) in outer.offsets().zip(values.chunks_exact(run)) {
        to[at..at + run].iter_mut().zip(values).for_each(|(to, &it)| visit(to, it));
    }
}

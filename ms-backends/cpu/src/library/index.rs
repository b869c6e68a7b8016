//! Runs reads and writes at indices, of whole slices or of single elements along an axis, and concatenation.

use super::output::{begin, written};
use ms_ir::data::{Array, Attrs, Element, Op};
use ms_ir::error::Result;
use ms_ir::with_element;
use ms_ops::ops::host::{Axis, ScatterReduction, dense, elements, parts, plus, positions, rows, visit_indexed};
use ms_ops::ops::{self, AxisAttrs, OpDef};
use ms_x64::gemm::Shared;
use ms_x64::threads;

/// An implementation: computes a row-major output from attributes and operands.
type Run = fn(&Attrs, &[&Array], &Array) -> Result<()>;

/// The ops of this module.
static OPS: [(&OpDef, Run); 12] = [
    (&ops::CONCAT, concat),
    (&ops::DEPEND, |_, inputs, out| copy(inputs[0], out)),
    (&ops::DYNAMIC_UPDATE_SLICE, dynamic_update_slice),
    (&ops::GATHER_ND, |_, inputs, out| gather_nd(inputs, out)),
    (&ops::INDEX_ADD, index_add),
    (&ops::TAKE_ALONG_AXIS, take_along_axis),
    (&ops::SCATTER, |attrs, inputs, out| scatter(attrs, inputs, out, ScatterReduction::Write)),
    (&ops::SCATTER_ADD, |attrs, inputs, out| scatter(attrs, inputs, out, ScatterReduction::Add)),
    (&ops::SCATTER_MAX, |attrs, inputs, out| scatter(attrs, inputs, out, ScatterReduction::Max)),
    (&ops::SCATTER_MIN, |attrs, inputs, out| scatter(attrs, inputs, out, ScatterReduction::Min)),
    (&ops::SCATTER_MUL, |attrs, inputs, out| scatter(attrs, inputs, out, ScatterReduction::Mul)),
    (&ops::SCATTER_ND_ADD, |_, inputs, out| scatter_nd_add(inputs, out)),
];

/// Runs an op of this module and writes its row-major output; `None` for other ops. An index outside its axis is an
/// error before anything is written.
///
/// # Safety
/// The conditions of [`run`](super::run) hold; the op has one output.
pub unsafe fn run(op: Op, attrs: &Attrs, inputs: &[&Array], out: &Array) -> Option<Result<()>> {
    let &(_, run) = OPS.iter().find(|it| it.0.op() == op)?;
    Some(run(attrs, inputs, out))
}

/// Copies the rows of each operand to its columns of the output.
fn concat(attrs: &Attrs, inputs: &[&Array], out: &Array) -> Result<()> {
    let whole = Axis::of(out.shape(), AxisAttrs::of(attrs).axis());
    let row = whole.size * whole.inner;
    if out.numel() == 0 {
        return Ok(());
    }
    let columns = inputs.iter().scan(0, |end, it| {
        *end += it.numel() / whole.outer;
        Some(*end)
    });
    let ends: Vec<usize> = columns.collect();
    with_element!(out.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T` that nothing else accesses, by the contract of `run`.
        let to = Shared::new(unsafe { written::<T>(out) }.as_mut_ptr());
        threads::try_for_each(inputs.len(), out.numel() / 2, |at| {
            let from = dense(inputs[at])?;
            let width = from.numel() / whole.outer;
            if width != 0 {
                for (outer, from) in elements::<T>(&from).chunks_exact(width).enumerate() {
                    // SAFETY: the operand's `width` columns end at `ends[at]` within a row of the output.
                    let to = unsafe { to.get().add(outer * row + ends[at] - width) };
                    // SAFETY: the `width` elements lie in the output, and no other task accesses these columns.
                    unsafe { std::slice::from_raw_parts_mut(to, width) }.copy_from_slice(from);
                }
            }
            Ok(())
        })?;
    });
    Ok(())
}

fn index_add(attrs: &Attrs, inputs: &[&Array], out: &Array) -> Result<()> {
    let (source, axis) = (dense(inputs[2])?, AxisAttrs::of(attrs).axis());
    let index = positions(inputs[1], axis, out.shape())?;
    let whole = Axis::of(out.shape(), axis);
    // SAFETY: `out` has the first operand's type, and its memory is exclusive or the operand's, by the contract of
    // `run`.
    unsafe { begin(inputs[0], out)? };
    with_element!(out.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T`, and the first operand, which may share its memory, is not read
        // again.
        add_slices(elements::<T>(&source), &index, whole, unsafe { written(out) });
    });
    Ok(())
}

/// Copies all elements of an operand.
fn copy(x: &Array, out: &Array) -> Result<()> {
    let x = dense(x)?;
    let bytes = x.bytes();
    // SAFETY: both are row-major and of one type, and nothing else accesses the output, by the contract of `run`.
    unsafe { out.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

fn dynamic_update_slice(attrs: &Attrs, inputs: &[&Array], out: &Array) -> Result<()> {
    let (value, axis) = (dense(inputs[1])?, AxisAttrs::of(attrs).axis());
    let (firsts, length) = parts(inputs[2], axis, out.shape(), value.shape()[axis])?;
    // SAFETY: `out` has the first operand's type, and its memory is exclusive or the operand's, by the contract of
    // `run`.
    unsafe { begin(inputs[0], out)? };
    with_element!(out.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T`, and the first operand, which may share its memory, is not read
        // again.
        let (from, to) = (elements::<T>(&value), unsafe { written::<T>(out) });
        let of_part = |(from, &first): (&[T], &usize)| to[first..first + length].copy_from_slice(from);
        from.chunks_exact(length.max(1)).zip(&firsts).for_each(of_part);
    });
    Ok(())
}

fn gather_nd(inputs: &[&Array], out: &Array) -> Result<()> {
    let x = dense(inputs[0])?;
    let (rows, inner) = rows(inputs[1], x.shape())?;
    if inner == 0 {
        return Ok(());
    }
    with_element!(x.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T` that nothing else accesses, by the contract of `run`.
        let (from, to) = (elements::<T>(&x), unsafe { written::<T>(out) });
        let of_row = |(to, &row): (&mut [T], &usize)| to.copy_from_slice(&from[row * inner..][..inner]);
        to.chunks_exact_mut(inner).zip(&rows).for_each(of_row);
    });
    Ok(())
}

fn scatter_nd_add(inputs: &[&Array], out: &Array) -> Result<()> {
    let source = dense(inputs[2])?;
    let (rows, inner) = rows(inputs[1], out.shape())?;
    // SAFETY: `out` has the first operand's type, and its memory is exclusive or the operand's, by the contract of
    // `run`.
    unsafe { begin(inputs[0], out)? };
    let whole = Axis { outer: 1, size: out.numel() / inner.max(1), inner };
    with_element!(out.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T`, and the first operand, which may share its memory, is not read
        // again.
        add_slices(elements::<T>(&source), &rows, whole, unsafe { written(out) });
    });
    Ok(())
}

/// Adds slices in the order of the index, whatever the number of threads: a task has some columns of all slices.
fn add_slices<T: Element>(source: &[T], index: &[usize], axis: Axis, out: &mut [T]) {
    if source.is_empty() {
        return;
    }
    const COLUMNS: usize = 64;
    let blocks = axis.inner.div_ceil(COLUMNS);
    let nanos = source.len() / 2;
    let out = Shared::new(out.as_mut_ptr());
    threads::for_each(axis.outer * blocks, nanos, |chunk| {
        let (outer, first) = (chunk / blocks, chunk % blocks * COLUMNS);
        let columns = COLUMNS.min(axis.inner - first);
        for (slice, &at) in index.iter().enumerate() {
            let from = (outer * index.len() + slice) * axis.inner + first;
            let to = (outer * axis.size + at) * axis.inner + first;
            // SAFETY: `at` is inside the axis, so the columns lie in the output, and no other task accesses them.
            let to = unsafe { std::slice::from_raw_parts_mut(out.get().add(to), columns) };
            to.iter_mut().zip(&source[from..from + columns]).for_each(|(to, &it)| *to = plus(*to, it));
        }
    });
}

fn take_along_axis(attrs: &Attrs, inputs: &[&Array], out: &Array) -> Result<()> {
    let (x, axis) = (dense(inputs[0])?, AxisAttrs::of(attrs).axis());
    let index = positions(inputs[1], axis, x.shape())?;
    with_element!(x.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T` that nothing else accesses, by the contract of `run`.
        let (from, to) = (elements::<T>(&x), unsafe { written::<T>(out) });
        visit_indexed(x.shape(), axis, inputs[1].shape(), &index, |at, named| to[at] = from[named]);
    });
    Ok(())
}

fn scatter(attrs: &Attrs, inputs: &[&Array], out: &Array, by: ScatterReduction) -> Result<()> {
    let (source, axis) = (dense(inputs[2])?, AxisAttrs::of(attrs).axis());
    let index = positions(inputs[1], axis, out.shape())?;
    // SAFETY: `out` has the first operand's type, and its memory is exclusive or the operand's, by the contract of
    // `run`.
    unsafe { begin(inputs[0], out)? };
    with_element!(out.dtype(), T => {
        // SAFETY: `out` is a row-major array of `T`, and the first operand, which may share its memory, is not read
        // again.
        let (from, to) = (elements::<T>(&source), unsafe { written::<T>(out) });
        visit_indexed(out.shape(), axis, inputs[1].shape(), &index, |at, named| {
            to[named] = by.of(to[named], from[at]);
        });
    });
    Ok(())
}

//! Exports slices and slice updates.

use super::elements;
use super::message::Attribute;
use super::translator::{Applied, Translator};
use ms_ir::Result;
use ms_ops::tensor::{Array, Dim};

/// A strided slice.
struct StridedSlice<'a> {
    starts: &'a [Dim],
    sizes: &'a [Dim],
    steps: &'a [i64],
}

impl StridedSlice<'_> {
    /// Returns whether the slice covers the whole axis.
    fn is_whole(&self, axis: usize, dims: &[Dim]) -> bool {
        self.steps[axis] == 1 && self.starts[axis] == 0 && self.sizes[axis] == dims[axis]
    }
}

/// Concatenates values along an axis.
fn joined(to: &mut Translator<'_>, all: &[String], axis: usize) -> String {
    match all {
        [one] => one.clone(),
        all => {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            to.with("Concat", &all, &[("axis", Attribute::Int(axis as i64))])
        }
    }
}

/// Slices a value of these sizes.
fn part(
    to: &mut Translator<'_>,
    node: &Applied<'_>,
    value: &str,
    dims: &[Dim],
    place: &StridedSlice<'_>,
) -> Result<String> {
    let (mut first, mut last, mut axes, mut step) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (axis, &by) in place.steps.iter().enumerate() {
        if place.is_whole(axis, dims) {
            continue;
        }
        let (start, size) = (place.starts[axis], place.sizes[axis]);
        // `Slice` excludes the end. ONNX counts negative ends from the back, so an end before position zero is
        // `i64::MIN`.
        let end = match (by, start.as_const(), size.as_const()) {
            (1, _, _) if start + size == dims[axis] => to.list(&[i64::MAX])?,
            (1, _, _) => to.size(start + size)?,
            (_, Some(start), Some(size)) => {
                let end = start as i64 + size as i64 * by;
                to.list(&[if end < 0 { i64::MIN } else { end }])?
            }
            _ => return node.refused(" in steps along an axis of symbolic size"),
        };
        first.push(to.size(start)?);
        last.push(end);
        axes.push(axis as i64);
        step.push(by);
    }
    if axes.is_empty() {
        return Ok(to.apply("Identity", &[value]));
    }
    let (first, last) = (joined(to, &first, 0), joined(to, &last, 0));
    let (axes, step) = (to.list(&axes)?, to.list(&step)?);
    Ok(to.apply("Slice", &[value, &first, &last, &axes, &step]))
}

/// Exports a slice of an operand.
pub fn slice(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let place = StridedSlice { starts: &node.dims("starts"), sizes: &node.dims("sizes"), steps: node.ints("steps") };
    part(to, node, node.operands[0], &node.operand(0).dims, &place)
}

/// Replaces a slice of a value by `other`. Recurses over `axes`: along the first axis, the rows of the slice are
/// replaced, after they have been updated along the remaining axes.
fn update(
    to: &mut Translator<'_>,
    node: &Applied<'_>,
    (value, dims): (&str, &[Dim]),
    (other, place): (&str, &StridedSlice<'_>),
    axes: &[usize],
) -> Result<String> {
    let [axis, rest @ ..] = axes else { return Ok(other.to_owned()) };
    let axis = *axis;
    let (start, size, step) = (place.starts[axis], place.sizes[axis], place.steps[axis]);
    let rows = |to: &mut Translator<'_>, start: Dim, size: Dim, step: i64| {
        let (mut starts, mut sizes, mut steps) = (vec![Dim::new(0); dims.len()], dims.to_vec(), vec![1; dims.len()]);
        (starts[axis], sizes[axis], steps[axis]) = (start, size, step);
        part(to, node, value, dims, &StridedSlice { starts: &starts, sizes: &sizes, steps: &steps })
    };
    let other = if rest.is_empty() {
        other.to_owned()
    } else {
        let changed = rows(to, start, size, step)?;
        let mut inner = dims.to_vec();
        inner[axis] = size;
        update(to, node, (&changed, &inner), (other, place), rest)?
    };
    if step == 1 {
        let end = start + size;
        let mut all = Vec::new();
        if start != 0 {
            all.push(rows(to, Dim::new(0), start, 1)?);
        }
        all.push(other);
        if end != dims[axis] {
            all.push(rows(to, end, dims[axis] - end, 1)?);
        }
        return Ok(joined(to, &all, axis));
    }
    let (Some(length), Some(start), Some(size)) = (dims[axis].as_const(), start.as_const(), size.as_const()) else {
        return node.refused(" in steps along an axis of symbolic size");
    };
    let mut positions: Vec<i64> = (0..length as i64).collect();
    for at in 0..size {
        positions[(start as i64 + at as i64 * step) as usize] = (length + at) as i64;
    }
    let positions = to.list(&positions)?;
    let both = joined(to, &[value.to_owned(), other], axis);
    Ok(to.with("Gather", &[&both, &positions], &[("axis", Attribute::Int(axis as i64))]))
}

/// Exports slice updates of the first operand: slices are replaced by the other operands, or these are added.
pub fn slice_update(to: &mut Translator<'_>, node: &Applied<'_>, adds: bool) -> Result<String> {
    let (ty, starts, steps) = (node.operand(0), node.dims("starts"), node.ints("steps"));
    let (dims, rank) = (&ty.dims, ty.rank());
    let mut result = node.operands[0].to_owned();
    for (at, &other) in node.operands[1..].iter().enumerate() {
        let own = at * rank..(at + 1) * rank;
        let place =
            StridedSlice { starts: &starts[own.clone()], sizes: &node.operand(1 + at).dims, steps: &steps[own] };
        let axes: Vec<usize> = (0..rank).filter(|&axis| !place.is_whole(axis, dims)).collect();
        let mut other = other.to_owned();
        if adds {
            let old = part(to, node, &result, dims, &place)?;
            other = elements::apply(to, node, "add", &[&old, &other], ty.dtype, ty.dtype)?;
        }
        result = update(to, node, (&result, dims), (&other, &place), &axes)?;
    }
    Ok(result)
}

/// Exports sliding windows as a `Gather` along each windowed axis.
pub fn windows(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let [kernel, stride, dilation] = ["kernel", "stride", "dilation"].map(|it| node.ints(it));
    let (first, rank) = (node.int("axis") as usize, node.operand(0).rank());
    let mut result = node.operands[0].to_owned();
    for at in 0..kernel.len() {
        let Some(count) = node.result().dims[first + at].as_const() else {
            return node.refused(" along axes of symbolic size");
        };
        let taps = |window: i64| (0..kernel[at]).map(move |tap| window * stride[at] + tap * dilation[at]);
        let positions: Vec<i64> = (0..count as i64).flat_map(taps).collect();
        let positions = Array::from_slice(&[count, kernel[at] as usize], &positions).into_host()?;
        let positions = to.constant(&positions);
        // Every previous windowed axis has been split in two.
        result = to.with("Gather", &[&result, &positions], &[("axis", Attribute::Int((first + 2 * at) as i64))]);
    }
    let end = first + 2 * kernel.len();
    let kept = (0..first).chain((first..end).step_by(2)).chain(end..rank + kernel.len());
    let order: Vec<i64> = kept.chain((first + 1..end).step_by(2)).map(|it| it as i64).collect();
    Ok(to.permuted(&result, &order))
}

//! Imports scatter operators, and max pooling with indices.

use super::Applied;
use super::images::pooling;
use ms_ops::ops::{Control, Segment, TransformNode, normalize_axis};
use ms_ops::tensor::{DType, Dim, Dims, Scalar};
use ms_ops::{Result, Tensor, ops};
use ms_trace::trace::{Tracer, build};
use std::panic::Location;
use std::sync::Arc;

/// Imports an operator on indices; returns `None` for any other operator.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for an unsupported form of the operator.
pub fn apply(node: &Applied<'_>) -> Result<Option<Vec<Tensor>>> {
    let operands = || Ok((node.tensor(0)?, node.tensor(1)?, node.tensor(2)?));
    let reduction = || node.text("reduction", "none");
    let axis = || node.int("axis", 0).map(|it| it as isize);
    Ok(Some(match node.node.operator.as_str() {
        "ScatterElements" => {
            let (x, at, values) = operands()?;
            match reduction()?.as_str() {
                "none" => vec![ops::wrapping::scatter(x, at, values, axis()?)],
                other => {
                    let size = x.dims().get(normalize_axis(axis()?, x.rank())?).copied();
                    let at = from_the_start(&at, size.as_slice());
                    vec![ops::scatter_reduce(x, at, values, axis()?, reduced(node, other)?)]
                }
            }
        }
        "ScatterND" => {
            let (x, at, values) = operands()?;
            match reduction()?.as_str() {
                "none" => vec![written(node, &x, &at, &values)?],
                "add" => vec![ops::wrapping::scatter_nd_add(x, at, values)],
                other => {
                    let depth = at.dims().last().and_then(|it| it.as_const()).unwrap_or(0).min(x.rank());
                    let at = from_the_start(&at, &x.dims()[..depth]);
                    vec![ops::scatter_nd_reduce(x, at, values, reduced(node, other)?)]
                }
            }
        }
        "MaxPool" if node.node.outputs.len() == 2 => largest(node)?,
        _ => return Ok(None),
    }))
}

/// Returns the reduction of a scatter operator by name.
fn reduced(node: &Applied<'_>, name: &str) -> Result<Segment> {
    Ok(match name {
        "add" => Segment::Sum,
        "mul" => Segment::Prod,
        "max" => Segment::Max,
        "min" => Segment::Min,
        _ => return Err(node.unsupported("with this reduction")),
    })
}

/// Converts negative indices, which count from the end. `at` holds indices along one axis, or index rows over several.
fn from_the_start(at: &Tensor, sizes: &[Dim]) -> Tensor {
    let at = at.cast(DType::I64);
    let sizes: Vec<Tensor> = sizes.iter().map(|&it| ops::size(it, DType::I64)).collect();
    let size = match &sizes[..] {
        [] => return at,
        [one] => one.clone(),
        several => ops::stack(several, 0),
    };
    ops::select(ops::less(&at, 0), &at + size, &at)
}

/// Replaces slices of `x` at the index rows in `at`, as rows of a matrix.
fn written(node: &Applied<'_>, x: &Tensor, at: &Tensor, values: &Tensor) -> Result<Tensor> {
    let depth = at.dims().last().and_then(|it| it.as_const()).filter(|&it| it <= x.rank());
    let Some(depth) = depth.filter(|&it| it > 0) else {
        return Err(node.unsupported("with positions of another length"));
    };
    let product = |dims: &[Dim]| dims.iter().copied().product::<Dim>();
    let (outer, width) = (&x.dims()[..depth], product(&x.dims()[depth..]));
    let (mut row, at) = (None, at.cast(DType::I64));
    for (axis, &size) in outer.iter().enumerate() {
        let size = ops::size(size, DType::I64);
        let position = ops::split(&at, depth, -1)[axis].clone();
        let position = ops::select(ops::less(&position, 0), &position + &size, &position);
        row = Some(match row {
            Some(row) => row * size + position,
            None => position,
        });
    }
    let row = row.expect("there is an axis");
    let count = product(row.dims().as_slice());
    let rows: Dims = [count, width].into_iter().collect();
    let positions = ops::broadcast_to(ops::reshape(&row, (count, 1)), rows.clone());
    let matrix = ops::reshape(x, (product(outer), width));
    let changed = ops::scatter(matrix, positions, ops::reshape(values, rows), 0);
    Ok(ops::reshape(&changed, x.dims()))
}

/// Imports `MaxPool` with indices. The indices are a JVP: the derivative of max pooling along a tensor of flat indices.
fn largest(node: &Applied<'_>) -> Result<Vec<Tensor>> {
    let x = node.tensor(0)?;
    let (padded, options) = pooling(node, x.clone(), Scalar::Float(f64::NEG_INFINITY))?;
    if padded.dims() != x.dims() || node.int("storage_order", 0)? != 0 {
        return Err(node.unsupported("with positions in an image with more padding on one side, or by columns"));
    }
    let count: Dims = [x.dims().iter().copied().product::<Dim>()].into_iter().collect();
    let positions = ops::reshape(&ops::iota(count, 0, DType::F64), x.dims());
    let wide = x.cast(DType::F64);
    let pool = build("max_pool", &[wide.ty()], |inputs| Ok(vec![ops::max_pool(&inputs[0], &options)]))?;
    let jvp = Control::TransformNode(TransformNode::Jvp { wrt: vec![0], results: 1 });
    // Without a tracer, the importer folds constants. The trace imports the node again.
    let tracer = Tracer::current().ok_or_else(|| node.unsupported("outside of a trace"))?;
    let results = tracer.control(&jvp, [Arc::new(pool)].into(), &[wide, positions], Location::caller())?;
    Ok(vec![ops::max_pool(&x, &options), results[1].cast(DType::I64)])
}

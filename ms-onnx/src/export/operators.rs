//! Exports ops as ONNX operators (<https://onnx.ai/onnx/operators/>).

use super::message::Attribute;
use super::translator::{Applied, Translator};
use super::{convolution, elements, formula, pooling, quantized, regions, slices};
use ms_ir::Result;
use ms_ops::ops;
use ms_ops::tensor::{Array, DType, Dim};

/// The maximum number of elements of a folded constant. Larger values are computed when the model runs.
const LARGEST_CONSTANT: usize = 64;

/// Exports a node without regions.
///
/// # Errors
/// [`Code::Export`](ms_ir::Code::Export) for an op without a counterpart.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<Vec<String>> {
    match node.node.op.name() {
        "sort" => first(to, node, node.operand(0).dims[node.int("axis") as usize]),
        "topk" => first(to, node, Dim::new(node.int("count") as usize)),
        name => one(to, node, name).map(|it| vec![it]),
    }
}

/// Exports a node with a single result.
fn one(to: &mut Translator<'_>, node: &Applied<'_>, name: &str) -> Result<String> {
    for some in [elements::translate, quantized::translate] {
        if let Some(result) = some(to, node, name)? {
            return Ok(result);
        }
    }
    let operands = &node.operands[..];
    if operands.is_empty()
        && let Some(value) = constant(node)?
    {
        return Ok(to.constant(&value.on_host()?));
    }
    let axis = || ("axis", Attribute::Int(node.int("axis")));
    Ok(match name {
        "cast" => to.cast(operands[0], node.result().dtype),
        "argmax" | "argmin" => {
            let operator = if name == "argmax" { "ArgMax" } else { "ArgMin" };
            to.with(operator, operands, &[axis(), ("keepdims", Attribute::Int(0))])
        }
        "softmax" | "log_softmax" => {
            let operator = if name == "softmax" { "Softmax" } else { "LogSoftmax" };
            to.with(operator, operands, &[axis()])
        }
        "sum" => reduce(to, node, "ReduceSum", operands[0])?,
        "prod" => reduce(to, node, "ReduceProd", operands[0])?,
        "max" => reduce(to, node, "ReduceMax", operands[0])?,
        "min" => reduce(to, node, "ReduceMin", operands[0])?,
        "all" | "any" => {
            let numbers = to.cast(operands[0], DType::I32);
            let operator = if name == "all" { "ReduceMin" } else { "ReduceMax" };
            let reduced = reduce(to, node, operator, &numbers)?;
            to.cast(&reduced, DType::Bool)
        }
        "matmul" => to.apply("MatMul", operands),
        "contract" => contract(to, node)?,
        "concat" => to.with("Concat", operands, &[axis()]),
        "permute" => to.with("Transpose", operands, &[("perm", Attribute::Ints(node.ints("axes")))]),
        "reshape" => to.reshape(operands[0], &node.dims("shape"))?,
        "broadcast_to" => {
            let shape = to.shape(&node.dims("shape"))?;
            to.apply("Expand", &[operands[0], &shape])
        }
        "slice" => slices::slice(to, node)?,
        "slice_update" => slices::slice_update(to, node, false)?,
        "add_slices" => slices::slice_update(to, node, true)?,
        "windows" => slices::windows(to, node)?,
        "formula" => formula::translate(to, node)?,
        "depend" | "possible_classes" => to.apply("Identity", &operands[..1]),
        "full" => {
            let shape = to.shape(&node.dims("shape"))?;
            let value = node.literal("value").to_array().into_host()?;
            let value = Array::from_bytes(&[1], value.dtype(), &value.to_bytes()).into_host()?;
            let value = super::message::tensor("", &value);
            to.with("ConstantOfShape", &[&shape], &[("value", Attribute::Tensor(value))])
        }
        "iota" => iota(to, node)?,
        "size" => {
            let size = to.size(node.dim("size"))?;
            let scalar = to.reshape(&size, &[])?;
            to.cast(&scalar, node.result().dtype)
        }
        "gather" => {
            let at = positions(to, node, 1);
            to.with("Gather", &[operands[0], &at], &[axis()])
        }
        "take_along_axis" => {
            let at = positions(to, node, 1);
            to.with("GatherElements", &[operands[0], &at], &[axis()])
        }
        "gather_nd" => {
            let at = to.cast(operands[1], DType::I64);
            to.apply("GatherND", &[operands[0], &at])
        }
        "scatter" | "scatter_add" | "scatter_max" | "scatter_min" | "scatter_mul" => {
            let at = positions(to, node, 1);
            let mut attributes = vec![axis()];
            if let Some(reduction) = name.strip_prefix("scatter_") {
                attributes.push(("reduction", Attribute::Text(reduction)));
            }
            to.with("ScatterElements", &[operands[0], &at, operands[2]], &attributes)
        }
        "scatter_nd_add" => {
            let at = to.cast(operands[1], DType::I64);
            to.with("ScatterND", &[operands[0], &at, operands[2]], &[("reduction", Attribute::Text("add"))])
        }
        "index_add" => index_add(to, node)?,
        "cumprod" => regions::running_product(to, node)?,
        "cumsum" => {
            let along = to.scalar(node.int("axis"), DType::I64)?;
            let flag = |name: &str| Attribute::Int(node.flag(name).into());
            let attributes = [("exclusive", flag("exclusive")), ("reverse", flag("reverse"))];
            to.with("CumSum", &[operands[0], &along], &attributes)
        }
        "conv" => convolution::convolution(to, node),
        "conv_input_grad" => convolution::transposed_convolution(to, node)?,
        "conv_weight_grad" => convolution::weight_gradient(to, node)?,
        "max_pool" => pooling::max_pool(to, node)?,
        "max_pool_grad" => pooling::max_pool_gradient(to, node)?,
        "max_pool_take" => pooling::max_pool_take(to, node)?,
        "avg_pool" => pooling::average_pool(to, node)?,
        "adaptive_avg_pool" => pooling::adaptive_average_pool(to, node)?,
        "avg_pool_grad" | "adaptive_avg_pool_grad" => pooling::average_gradient(to, node, name)?,
        _ => return node.refused(""),
    })
}

/// Evaluates a node without operands and with constant sizes, if the result is small or the op has no operator.
fn constant(node: &Applied<'_>) -> Result<Option<Array>> {
    let has_operator = !["constant", "eye", "linspace"].contains(&node.node.op.name());
    let is_known = !node.node.attrs.is_symbolic();
    if !is_known || node.result().numel().is_none_or(|it| has_operator && it > LARGEST_CONSTANT) {
        return Ok(None);
    }
    let mut values = (ops::definition(node.node.op).eval)(&node.node.attrs, &[])?;
    Ok(values.pop())
}

fn reduce(to: &mut Translator<'_>, node: &Applied<'_>, operator: &str, operand: &str) -> Result<String> {
    let axes = node.ints("axes");
    if axes.is_empty() {
        return Ok(to.apply("Identity", &[operand]));
    }
    let axes = to.list(axes)?;
    let attributes = [("keepdims", Attribute::Int(node.flag("keepdims").into()))];
    let small = [DType::I8, DType::I16, DType::U8, DType::U16].contains(&node.operand(0).dtype);
    if !small {
        return Ok(to.with(operator, &[operand, &axes], &attributes));
    }
    let wide = to.cast(operand, DType::I64);
    let reduced = to.with(operator, &[&wide, &axes], &attributes);
    Ok(to.cast(&reduced, node.result().dtype))
}

/// Exports a contraction over any number of axes as a `MatMul` between reshapes.
fn contract(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let (batch, summed) = (node.int("batch") as usize, node.int("summed") as usize);
    let (a, b) = (&node.operand(0).dims, &node.operand(1).dims);
    let product = |dims: &[Dim]| dims.iter().copied().product::<Dim>();
    let rows = a.len() - summed;
    let (m, k, n) = (product(&a[batch..rows]), product(&a[rows..]), product(&b[batch + summed..]));
    let matrix = |to: &mut Translator<'_>, value: &str, of: &[Dim], sizes: [Dim; 2], is_matrix: bool| match is_matrix {
        true => Ok(value.to_owned()),
        false => to.reshape(value, &[&of[..batch], &sizes[..]].concat()),
    };
    let left = matrix(to, node.operands[0], a, [m, k], rows == batch + 1 && summed == 1)?;
    let columns = b.len() - batch - summed;
    let right = matrix(to, node.operands[1], b, [k, n], columns == 1 && summed == 1)?;
    let result = to.apply("MatMul", &[&left, &right]);
    match rows == batch + 1 && columns == 1 {
        true => Ok(result),
        false => to.reshape(&result, &node.result().dims),
    }
}

/// Exports an iota: `start + i step` along an axis.
fn iota(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let (shape, axis, dtype) = (node.dims("shape"), node.int("axis") as usize, node.result().dtype);
    let wide = if dtype.is_float() { DType::F64 } else { DType::I64 };
    let size = to.size(shape[axis])?;
    let size = to.reshape(&size, &[])?;
    let (zero, one) = (to.scalar(0, DType::I64)?, to.scalar(1, DType::I64)?);
    let positions = to.apply("Range", &[&zero, &size, &one]);
    let positions = to.cast(&positions, wide);
    let (start, step) = (to.scalar(node.number("start"), wide)?, to.scalar(node.number("step"), wide)?);
    let scaled = to.apply("Mul", &[&positions, &step]);
    let values = to.apply("Add", &[&scaled, &start]);
    let values = to.cast(&values, dtype);
    let mut along = vec![1i64; shape.len()];
    along[axis] = -1;
    let along = to.list(&along)?;
    let values = to.apply("Reshape", &[&values, &along]);
    let shape = to.shape(&shape)?;
    Ok(to.apply("Expand", &[&values, &shape]))
}

/// Returns an operand as indices, for which ONNX has only i32 and i64.
fn positions(to: &mut Translator<'_>, node: &Applied<'_>, at: usize) -> String {
    match node.operand(at).dtype {
        DType::I32 | DType::I64 => node.operands[at].to_owned(),
        _ => to.cast(node.operands[at], DType::I64),
    }
}

/// Exports `index_add` as `ScatterND`, with the indexed axis moved to the front.
fn index_add(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let (axis, rank) = (node.int("axis"), node.operand(0).rank() as i64);
    let front: Vec<i64> = std::iter::once(axis).chain((0..rank).filter(|&it| it != axis)).collect();
    let back: Vec<i64> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
    let column = to.list(&[-1, 1])?;
    let at = to.cast(node.operands[1], DType::I64);
    let at = to.apply("Reshape", &[&at, &column]);
    let [x, source] = [node.operands[0], node.operands[2]].map(|it| to.permuted(it, &front));
    let sum = to.with("ScatterND", &[&x, &at, &source], &[("reduction", Attribute::Text("add"))]);
    Ok(to.permuted(&sum, &back))
}

/// Exports the first `count` elements in sorted order along an axis, and their indices, as `TopK`.
fn first(to: &mut Translator<'_>, node: &Applied<'_>, count: Dim) -> Result<Vec<String>> {
    let axis = node.int("axis");
    let count = to.size(count)?;
    let results = [to.fresh(), to.fresh()];
    let attributes = [
        ("axis", Attribute::Int(axis)),
        ("largest", Attribute::Int(node.flag("descending").into())),
        ("sorted", Attribute::Int(1)),
    ];
    to.add("TopK", &[node.operands[0], &count], &[&results[0], &results[1]], &attributes);
    Ok(results.into())
}

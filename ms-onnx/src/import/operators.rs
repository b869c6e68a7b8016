//! Imports ONNX operators (<https://onnx.ai/onnx/operators/>) as ops.

use super::model::{Attribute, Graph};
use super::value::{Form, Value, number};
use super::{Applied, elements, images, positions, quantized, recurrent, regions, sizes, unsupported};
use crate::dtype;
use ms_ops::tensor::{DType, Dim, Dims, Index, Scalar};
use ms_ops::{Error, Result, Tensor, ops};

impl Applied<'_> {
    /// Creates the error for an unsupported form of the operator.
    pub fn unsupported(&self, what: &str) -> Error {
        let space = if what.is_empty() { "" } else { " " };
        unsupported(format!("the operator `{}`{space}{what} is not supported", self.node.operator))
    }

    /// Returns an operand.
    pub fn value(&self, at: usize) -> Result<&Value> {
        self.operands.get(at).and_then(Option::as_ref).ok_or_else(|| self.unsupported(&format!("without operand {at}")))
    }

    /// Returns an operand as a tensor.
    pub fn tensor(&self, at: usize) -> Result<Tensor> {
        self.value(at).map(Value::tensor)
    }

    /// Returns all operands from a position on.
    pub fn tensors(&self, from: usize) -> Result<Vec<Tensor>> {
        (from..self.operands.len()).map(|at| self.tensor(at)).collect()
    }

    /// Returns an optional operand.
    pub fn optional(&self, at: usize) -> Option<Tensor> {
        self.operands.get(at)?.as_ref().map(Value::tensor)
    }

    /// Returns an operand of sizes, or of other integers that the trace knows.
    fn sizes(&self, at: usize) -> Result<Vec<Dim>> {
        let sizes = self.value(at)?.sizes();
        Ok(sizes.ok_or_else(|| self.unsupported(&format!("whose operand {at} depends on data")))?.0)
    }

    /// Returns the single size in an operand.
    fn size(&self, at: usize) -> Result<Dim> {
        match self.sizes(at)?[..] {
            [size] => Ok(size),
            _ => Err(self.unsupported(&format!("whose operand {at} is not one number"))),
        }
    }

    /// Returns the position of an axis, which may count from the end.
    fn axis_of(&self, x: &Tensor, axis: isize) -> Result<usize> {
        let axis = positive(axis, x);
        let axis = usize::try_from(axis).ok().filter(|&it| it < x.rank());
        axis.ok_or_else(|| self.unsupported("along an axis that is not there"))
    }

    /// Returns integers that do not vary between calls, from an operand or, in older opsets, from an attribute.
    pub fn list(&self, at: usize, name: &str) -> Result<Option<Vec<i64>>> {
        if let Some(Some(value)) = self.operands.get(at) {
            let list = value.integers();
            return list.map(Some).ok_or_else(|| self.unsupported(&format!("whose operand {at} depends on data")));
        }
        self.ints(name)
    }

    fn wrong(&self, name: &str) -> Error {
        self.unsupported(&format!("with this attribute `{name}`"))
    }

    /// Returns an attribute that is a list of integers.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(it)) => Ok(Some(it.clone())),
            Some(_) => Err(self.wrong(name)),
        }
    }

    /// Returns an integer attribute.
    pub fn int(&self, name: &str, otherwise: i64) -> Result<i64> {
        match self.attribute(name) {
            None => Ok(otherwise),
            Some(Attribute::Int(it)) => Ok(*it),
            Some(_) => Err(self.wrong(name)),
        }
    }

    /// Returns a float attribute.
    pub fn float(&self, name: &str, otherwise: f64) -> Result<f64> {
        match self.attribute(name) {
            None => Ok(otherwise),
            // Parsing the decimal form gives the f64 that the author wrote, such as 0.1.
            Some(Attribute::Float(it)) => Ok(it.to_string().parse().expect("a float is a number")),
            Some(_) => Err(self.wrong(name)),
        }
    }

    /// Returns a graph attribute.
    pub fn graph(&self, name: &str) -> Result<&Graph> {
        match self.attribute(name) {
            Some(Attribute::Graph(it)) => Ok(it),
            _ => Err(self.wrong(name)),
        }
    }

    /// Returns an attribute that is a list of texts.
    pub fn texts(&self, name: &str) -> Result<Option<&[String]>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Texts(it)) => Ok(Some(it)),
            Some(_) => Err(self.wrong(name)),
        }
    }

    /// Returns a text attribute.
    pub fn text(&self, name: &str, otherwise: &str) -> Result<String> {
        match self.attribute(name) {
            None => Ok(otherwise.to_owned()),
            Some(Attribute::Text(it)) => Ok(it.clone()),
            Some(_) => Err(self.wrong(name)),
        }
    }
}

/// Imports a node and returns its results.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for an unsupported operator.
pub fn apply(node: &Applied<'_>) -> Result<Vec<Value>> {
    if let Some(value) = sizes::apply(node)? {
        return Ok(vec![value]);
    }
    if let Some(tensor) = elements::apply(node)? {
        return Ok(vec![Value::Tensor(tensor)]);
    }
    if let Some(tensor) = images::apply(node)? {
        return Ok(vec![Value::Tensor(tensor)]);
    }
    for several in [regions::apply, recurrent::apply, quantized::apply, positions::apply] {
        if let Some(tensors) = several(node)? {
            return Ok(tensors.into_iter().map(Value::Tensor).collect());
        }
    }
    let axis = |otherwise: i64| node.int("axis", otherwise).map(|it| it as isize);
    let x = || node.tensor(0);
    let tensor = match node.node.operator.as_str() {
        // Passes the value itself, so that known sizes remain known to the trace.
        "Identity" => return Ok(vec![node.value(0)?.clone()]),
        "Dropout" => match node.operands.get(2) {
            None | Some(None) => x()?,
            Some(Some(training)) if training.scalar() == Some(Scalar::Bool(false)) => x()?,
            _ => return Err(node.unsupported("in training mode")),
        },
        "Constant" => return constant(node).map(|it| vec![Value::Constant(it)]),
        "Cast" => ops::cast(x()?, cast_to(node)?),
        "CastLike" => ops::cast(x()?, node.tensor(1)?.dtype()),
        "Reshape" => reshape(node)?,
        "Flatten" => flatten(node, &x()?)?,
        "Transpose" => {
            let x = x()?;
            let order = node.ints("perm")?.unwrap_or_else(|| (0..x.rank() as i64).rev().collect());
            ops::permute(&x, order.iter().map(|&it| it as isize).collect::<Vec<_>>())
        }
        "Squeeze" => {
            let x = x()?;
            let ones = || (0..x.rank() as i64).filter(|&it| x.dims()[it as usize] == 1).collect();
            let axes = node.list(1, "axes")?.unwrap_or_else(ones);
            ops::squeeze(&x, axes.iter().map(|&it| it as isize).collect::<Vec<_>>())
        }
        "Unsqueeze" => {
            let axes = node.list(1, "axes")?.ok_or_else(|| node.unsupported("without axes"))?;
            ops::expand_dims(x()?, axes.iter().map(|&it| it as isize).collect::<Vec<_>>())
        }
        "Concat" => ops::concat(&node.tensors(0)?, axis(0)?),
        "Split" => return split(node, &x()?, axis(0)?),
        "Slice" => slice(node, &x()?)?,
        "Gather" => ops::wrapping::gather(x()?, node.tensor(1)?, axis(0)?),
        "GatherElements" => elements_along(&x()?, &node.tensor(1)?, axis(0)?),
        "GatherND" if node.int("batch_dims", 0)? == 0 => ops::wrapping::gather_nd(x()?, node.tensor(1)?),
        "Expand" => expand(node, &x()?)?,
        "Tile" => {
            let times = node.list(1, "repeats")?.unwrap_or_default();
            ops::tile(x()?, &times.iter().map(|&it| it.max(0) as usize).collect::<Vec<_>>())
        }
        "ConstantOfShape" => {
            let value = match node.attribute("value") {
                Some(Attribute::Tensor(it)) => Tensor::from_array(it.clone()).reshape(()),
                None => Tensor::scalar(0.0f32),
                Some(_) => return Err(node.wrong("value")),
            };
            ops::broadcast_to(value, node.sizes(0)?.into_iter().collect::<Dims>())
        }
        "Range" => range(node)?,
        "Trilu" => {
            let k = node.list(1, "k")?.and_then(|it| it.first().copied()).unwrap_or(0) as isize;
            if node.int("upper", 1)? != 0 { ops::triu(x()?, k) } else { ops::tril(x()?, k) }
        }
        "CumSum" => {
            let axis = node.list(1, "axis")?.and_then(|it| it.first().copied()).unwrap_or(0) as isize;
            let x = x()?;
            let sums = ops::cumsum_of(&x, axis, node.int("exclusive", 0)? != 0, node.int("reverse", 0)? != 0);
            ops::cast(sums, x.dtype())
        }
        "TopK" => return top_k(node, &x()?, axis(-1)?),
        "ArgMax" | "ArgMin" if node.int("select_last_index", 0)? == 0 => {
            let (x, axis) = (x()?, axis(0)?);
            let at = if node.node.operator == "ArgMax" { ops::argmax(x, axis) } else { ops::argmin(x, axis) };
            if node.int("keepdims", 1)? != 0 {
                ops::expand_dims(at, node.axis_of(&node.tensor(0)?, axis)? as isize)
            } else {
                at
            }
        }
        "Softmax" => ops::softmax(x()?, axis(-1)?),
        "LogSoftmax" => ops::log_softmax(x()?, axis(-1)?),
        "MatMul" => ops::matmul(x()?, node.tensor(1)?),
        "Gemm" => gemm(node)?,
        "Einsum" => ops::einsum(&node.text("equation", "")?, &node.tensors(0)?),
        "LayerNormalization" if node.int("stash_type", 1)? == 1 => {
            let (scale, bias) = (node.tensor(1)?, node.optional(2));
            ops::layer_norm(x()?, Some(&scale), bias.as_ref(), axis(-1)?, node.float("epsilon", 1e-5)?)
        }
        name if name.starts_with("Reduce") => reduce(node, name, &x()?)?,
        _ => return Err(node.unsupported("")),
    };
    Ok(vec![Value::Tensor(tensor)])
}

fn positive(axis: isize, x: &Tensor) -> isize {
    if axis < 0 { axis + x.rank() as isize } else { axis }
}

fn cast_to(node: &Applied<'_>) -> Result<DType> {
    dtype(node.int("to", 0)? as u64).ok_or_else(|| node.unsupported("to this kind of elements"))
}

fn constant(node: &Applied<'_>) -> Result<Tensor> {
    let list = |all: &[i64]| Tensor::from_slice([all.len()], all);
    let mut names = node.node.attributes().map(|it| it.0);
    Ok(match names.next().and_then(|it| node.attribute(it)) {
        Some(Attribute::Tensor(it)) => Tensor::placed(it.clone())?,
        Some(Attribute::Int(it)) => Tensor::scalar(*it),
        Some(Attribute::Float(it)) => Tensor::scalar(*it),
        Some(Attribute::Ints(all)) => list(all),
        Some(Attribute::Floats(all)) => Tensor::from_slice([all.len()], all),
        _ => return Err(node.unsupported("of this kind of value")),
    })
}

/// Imports `Reshape`: zero copies the size of the operand, and -1 is inferred.
fn reshape(node: &Applied<'_>) -> Result<Tensor> {
    let x = node.tensor(0)?;
    let copies = node.int("allowzero", 0)? == 0;
    let mut sizes = node.sizes(1)?;
    for (at, size) in sizes.iter_mut().enumerate() {
        if copies && *size == 0 {
            *size = *x.dims().get(at).ok_or_else(|| node.unsupported("that copies a size that is not there"))?;
        }
    }
    Ok(ops::reshape(&x, sizes.into_iter().collect::<Dims>()))
}

fn flatten(node: &Applied<'_>, x: &Tensor) -> Result<Tensor> {
    let axis = positive(node.int("axis", 1)? as isize, x).clamp(0, x.rank() as isize) as usize;
    let product = |dims: &[Dim]| dims.iter().copied().product::<Dim>();
    Ok(ops::reshape(x, (product(&x.dims()[..axis]), product(&x.dims()[axis..]))))
}

fn expand(node: &Applied<'_>, x: &Tensor) -> Result<Tensor> {
    let mut sizes = node.sizes(1)?;
    let mut dims = x.dims().to_vec();
    let rank = sizes.len().max(dims.len());
    for all in [&mut sizes, &mut dims] {
        all.splice(..0, std::iter::repeat_n(Dim::new(1), rank - all.len()));
    }
    let wider = |(size, dim): (Dim, Dim)| if size == 1 { dim } else { size };
    Ok(ops::broadcast_to(x, sizes.into_iter().zip(dims).map(wider).collect::<Dims>()))
}

fn split(node: &Applied<'_>, x: &Tensor, axis: isize) -> Result<Vec<Value>> {
    let size = x.dims()[node.axis_of(x, axis)?].as_const();
    let count = node.int("num_outputs", node.node.outputs.len() as i64)?;
    if count != node.node.outputs.len() as i64 {
        return Err(node.unsupported("with another number of outputs than it says"));
    }
    let parts = match node.list(1, "split")? {
        Some(sizes) => sizes.iter().map(|&it| it.max(0) as usize).collect(),
        None => {
            let size = size.ok_or_else(|| node.unsupported("of an axis of symbolic size"))?;
            let part = size.div_ceil(node.node.outputs.len().max(1)).max(1);
            (0..size).step_by(part).map(|start| part.min(size - start)).collect::<Vec<_>>()
        }
    };
    Ok(ops::split_sizes(x, &parts, axis).into_iter().map(Value::Tensor).collect())
}

fn slice(node: &Applied<'_>, x: &Tensor) -> Result<Tensor> {
    let (starts, ends) = (node.sizes(1)?, node.sizes(2)?);
    let axes = node.list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = node.list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut result = x.clone();
    for (at, &axis) in axes.iter().enumerate() {
        let axis = node.axis_of(x, axis as isize)?;
        let (Some(&start), Some(&end), Some(&step), Some(&size)) =
            (starts.get(at), ends.get(at), steps.get(at), x.dims().get(axis))
        else {
            return Err(node.unsupported("with lists of different lengths"));
        };
        let whole = vec![Index::Slice { start: None, stop: None, step: 1 }; axis];
        let part = match (number(start), number(end), step) {
            (Some(start), Some(end), step) => {
                // The extreme integers mean an open bound.
                let bound = |it: i64, open: i64| (it != open).then_some(it as isize);
                let (start, stop) = match step > 0 {
                    true => (bound(start, i64::MIN), bound(end, i64::MAX)),
                    false => (bound(start, i64::MAX), bound(end, i64::MIN)),
                };
                // For a negative step, an end below `-size` lies before position zero.
                let reach = |it: isize| size.as_const().is_some_and(|size| it < -(size as isize));
                let stop = stop.filter(|&it| step > 0 || !reach(it));
                Index::Slice { start, stop, step: step as isize }
            }
            (Some(0), None, 1) if end == size => continue,
            (_, None, 1) | (None, _, 1) => {
                let from_front = |it: Dim| if number(it).is_some_and(|it| it < 0) { size + it } else { it };
                let start = from_front(start);
                let end = if number(end) == Some(i64::MAX) { size } else { from_front(end) };
                let length = end - start;
                let positions = ops::iota([length].into_iter().collect::<Dims>(), 0, DType::I64);
                Index::Positions(positions + Value::Sizes(vec![start], Form::Number).tensor())
            }
            _ => return Err(node.unsupported("in steps between symbolic positions")),
        };
        let indices: Vec<Index> = whole.into_iter().chain([part]).collect();
        result = result.i(&indices[..]);
    }
    Ok(result)
}

/// Gathers elements along an axis. Along the other axes, `positions` may be smaller than `x`.
fn elements_along(x: &Tensor, positions: &Tensor, axis: isize) -> Tensor {
    let mut part = x.clone();
    for (at, (&size, count)) in x.dims().iter().zip(positions.dims()).enumerate() {
        if at as isize != positive(axis, x) && size != count {
            let along = ops::iota([count].into_iter().collect::<Dims>(), 0, DType::I64);
            part = ops::wrapping::gather(&part, along, at as isize);
        }
    }
    ops::wrapping::take_along_axis(part, positions, axis)
}

fn range(node: &Applied<'_>) -> Result<Tensor> {
    let scalar = |at: usize| node.value(at).map(Value::scalar);
    let dtype = node.tensor(0)?.dtype();
    if let (Some(start), Some(stop), Some(step)) = (scalar(0)?, scalar(1)?, scalar(2)?) {
        return Ok(ops::arange_of(start, stop, step, dtype));
    }
    let step = scalar(2)?.filter(|it| matches!(it, Scalar::Int(1)));
    let (start, end) = (node.size(0)?, node.size(1)?);
    if step.is_none() {
        return Err(node.unsupported("in steps to a symbolic size"));
    }
    let positions = ops::iota([end - start].into_iter().collect::<Dims>(), 0, dtype);
    Ok(if start == 0 { positions } else { positions + Value::Sizes(vec![start], Form::Number).tensor() })
}

fn top_k(node: &Applied<'_>, x: &Tensor, axis: isize) -> Result<Vec<Value>> {
    let count = node.size(1)?;
    let largest = node.int("largest", 1)? != 0;
    let (values, positions) = match (count.as_const(), count == x.dims()[node.axis_of(x, axis)?]) {
        (_, true) => ops::sort(x, axis, largest),
        (Some(count), _) => ops::topk(x, count, axis, largest),
        (None, _) => return Err(node.unsupported("of a symbolic number")),
    };
    Ok(vec![Value::Tensor(values), Value::Tensor(positions)])
}

fn gemm(node: &Applied<'_>) -> Result<Tensor> {
    let matrix = |at: usize, name: &str| {
        let matrix = node.tensor(at)?;
        Ok(if node.int(name, 0)? != 0 { ops::transpose(&matrix, 0, 1) } else { matrix })
    };
    let mut product = ops::matmul(matrix(0, "transA")?, matrix(1, "transB")?);
    let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
    if alpha != 1.0 {
        product = product * alpha;
    }
    Ok(match node.optional(2) {
        Some(bias) if beta == 1.0 => product + bias,
        Some(bias) => product + bias * beta,
        None => product,
    })
}

fn reduce(node: &Applied<'_>, name: &str, x: &Tensor) -> Result<Tensor> {
    let keepdims = node.int("keepdims", 1)? != 0;
    let keeps_all = node.int("noop_with_empty_axes", 0)? != 0;
    // Squares and exponentials overflow in f16.
    let to = x.dtype();
    let x = &match to {
        DType::F16 | DType::BF16 => ops::cast(x, DType::F32),
        _ => x.clone(),
    };
    let axes: Vec<isize> = match node.list(1, "axes")? {
        Some(axes) if !axes.is_empty() => axes.iter().map(|&it| it as isize).collect(),
        // Without axes, no reduction takes place; only the elementwise part of the operator applies.
        _ if keeps_all => {
            let elements = match name {
                "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" | "ReduceProd" | "ReduceLogSumExp" => x.clone(),
                "ReduceL1" | "ReduceL2" => ops::abs(x),
                "ReduceSumSquare" => ops::square(x),
                "ReduceLogSum" => ops::log(x),
                _ => return Err(node.unsupported("")),
            };
            return Ok(ops::cast(elements, to));
        }
        _ => (0..x.rank() as isize).collect(),
    };
    let axes = ops::Keepdims::when(keepdims, axes.as_slice());
    let sum = |x: &Tensor| ops::cast(ops::sum(x, axes), x.dtype());
    let result = match name {
        "ReduceSum" => sum(x),
        "ReduceMean" => ops::mean(x, axes),
        "ReduceMax" => ops::max(x, axes),
        "ReduceMin" => ops::min(x, axes),
        "ReduceProd" => ops::prod(x, axes),
        "ReduceL1" => sum(&ops::abs(x)),
        "ReduceL2" => ops::sqrt(sum(&ops::square(x))),
        "ReduceSumSquare" => sum(&ops::square(x)),
        "ReduceLogSumExp" => ops::logsumexp(x, axes),
        "ReduceLogSum" => ops::log(sum(x)),
        _ => return Err(node.unsupported("")),
    };
    Ok(ops::cast(result, to))
}

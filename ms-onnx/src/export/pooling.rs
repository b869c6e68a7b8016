//! Exports pooling and its gradients.

use super::convolution::constants;
use super::message::Attribute;
use super::translator::{Applied, Translator};
use ms_ir::Result;
use ms_ops::tensor::{Array, DType, Dim};

/// Returns the attributes of `MaxPool`.
fn windows<'a>(node: &Applied<'a>, pads: &'a [i64]) -> [(&'static str, Attribute<'a>); 4] {
    [
        ("kernel_shape", Attribute::Ints(node.ints("kernel"))),
        ("strides", Attribute::Ints(node.ints("stride"))),
        ("dilations", Attribute::Ints(node.ints("dilation"))),
        ("pads", Attribute::Ints(pads)),
    ]
}

/// Returns the padding of `MaxPool`.
fn pads(node: &Applied<'_>) -> Result<Vec<i64>> {
    match constants(&node.dims("after")) {
        Some(after) => Ok([node.ints("before"), &after].concat()),
        None => node.refused(" in ceil mode along axes of symbolic size"),
    }
}

pub fn max_pool(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let pads = pads(node)?;
    Ok(to.with("MaxPool", &node.operands, &windows(node, &pads)))
}

/// Exports the flat indices of the maxima of all windows.
fn largest(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let pads = pads(node)?;
    let images = if node.operand(0).dtype == DType::BF16 {
        to.cast(node.operands[0], DType::F32)
    } else {
        node.operands[0].to_owned()
    };
    let (values, positions) = (to.fresh(), to.fresh());
    to.add("MaxPool", &[&images], &[&values, &positions], &windows(node, &pads));
    Ok(positions)
}

/// Exports the gradient of max pooling: values are added at the indices of the maxima.
pub fn max_pool_gradient(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let (ty, positions) = (node.operand(0), largest(to, node)?);
    let all = to.list(&[-1])?;
    let [positions, values] = [&positions, node.operands[1]].map(|it| to.apply("Reshape", &[it, &all]));
    let count = to.apply("Size", &node.operands[..1]);
    let count = to.apply("Reshape", &[&count, &all]);
    let zero = super::message::tensor("", &Array::full(&[1], 0.into(), ty.dtype).into_host()?);
    let zeros = to.with("ConstantOfShape", &[&count], &[("value", Attribute::Tensor(zero))]);
    let attributes = [("axis", Attribute::Int(0)), ("reduction", Attribute::Text("add"))];
    let sums = to.with("ScatterElements", &[&zeros, &positions, &values], &attributes);
    to.reshape(&sums, &ty.dims)
}

/// Exports the elements of the second operand at the maxima of the first.
pub fn max_pool_take(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let positions = largest(to, node)?;
    let all = to.list(&[-1])?;
    let values = to.apply("Reshape", &[node.operands[1], &all]);
    Ok(to.with("Gather", &[&values, &positions], &[("axis", Attribute::Int(0))]))
}

pub fn average_pool(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let [kernel, stride, before, after] = ["kernel", "stride", "before", "after"].map(|it| node.ints(it));
    let (dims, count) = (&node.operand(0).dims[2..], node.dims("count"));
    let number = |it: i64| Dim::signed(it);
    let size = |at: usize| dims[at] + number(before[at]) + number(after[at]) - number(kernel[at]);
    let fits = |at: usize| size(at) / number(stride[at]) + 1 == count[at];
    if !(0..kernel.len()).all(fits) {
        return AveragePool::of_windows(node)?.forward(to, node);
    }
    let pads = [before, after].concat();
    let attributes = [
        ("kernel_shape", Attribute::Ints(kernel)),
        ("strides", Attribute::Ints(stride)),
        ("pads", Attribute::Ints(&pads)),
        ("count_include_pad", Attribute::Int(node.flag("count_pad").into())),
    ];
    Ok(to.with("AveragePool", &node.operands, &attributes))
}

pub fn adaptive_average_pool(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let Some(count) = constants(&node.dims("count")) else {
        return node.refused(" where the sizes of images are symbolic");
    };
    if count.iter().all(|&it| it == 1) {
        return Ok(to.apply("GlobalAveragePool", &node.operands));
    }
    let sizes = node.operand(0).dims[2..].iter().zip(&count);
    let kernel = sizes.map(|(size, &count)| {
        let size = size.as_const()? as i64;
        (count > 0 && size % count == 0).then(|| size / count)
    });
    match kernel.collect::<Option<Vec<i64>>>() {
        Some(kernel) => {
            let attributes = [("kernel_shape", Attribute::Ints(&kernel)), ("strides", Attribute::Ints(&kernel))];
            Ok(to.with("AveragePool", &node.operands, &attributes))
        }
        None => AveragePool::adaptive(node)?.forward(to, node),
    }
}

/// Exports the gradient of average pooling.
pub fn average_gradient(to: &mut Translator<'_>, node: &Applied<'_>, name: &str) -> Result<String> {
    let means = if name == "avg_pool_grad" { AveragePool::of_windows(node) } else { AveragePool::adaptive(node) };
    means?.backward(to, node)
}

/// Average pooling without a matching operator: sums over index lists, followed by a division.
struct AveragePool {
    /// The spatial sizes of the input.
    sizes: Vec<usize>,
    /// The input range of each window along each spatial axis, and its factor of the divisor.
    axes: Vec<Vec<(std::ops::Range<usize>, usize)>>,
}

impl AveragePool {
    /// Returns the spatial sizes of the input, which a gradient has as an attribute.
    fn sizes(node: &Applied<'_>) -> Result<Vec<usize>> {
        let dims = match node.has("sizes") {
            true => node.dims("sizes"),
            false => node.operand(0).dims[2..].to_vec(),
        };
        match dims.iter().map(|it| it.as_const()).collect() {
            Some(sizes) => Ok(sizes),
            None => node.refused(" where the sizes of images are symbolic"),
        }
    }

    /// Computes the windows of average pooling, clipped at the end of the padding.
    fn of_windows(node: &Applied<'_>) -> Result<Self> {
        let sizes = Self::sizes(node)?;
        let [kernel, stride, before, after] = ["kernel", "stride", "before", "after"].map(|it| node.ints(it));
        let Some(count) = constants(&node.dims("count")) else {
            return node.refused(" where the sizes of images are symbolic");
        };
        let window = |axis: usize, at: i64| {
            let size = sizes[axis] as i64;
            let start = at * stride[axis] - before[axis];
            let end = (start + kernel[axis]).min(size + after[axis]);
            let inside = start.clamp(0, size) as usize..end.clamp(0, size) as usize;
            let divisor = if node.flag("count_pad") { (end - start).max(1) as usize } else { inside.len() };
            (inside, divisor)
        };
        let axes = (0..sizes.len()).map(|axis| (0..count[axis]).map(|at| window(axis, at)).collect()).collect();
        Ok(Self { sizes, axes })
    }

    /// Computes the windows of adaptive pooling, which cover the input evenly.
    fn adaptive(node: &Applied<'_>) -> Result<Self> {
        let sizes = Self::sizes(node)?;
        let Some(counts) = constants(&node.dims("count")) else {
            return node.refused(" where the sizes of images are symbolic");
        };
        let windows = |(&size, &count): (&usize, &i64)| {
            let count = count as usize;
            let window = |at: usize| {
                let inside = at * size / count..((at + 1) * size).div_ceil(count);
                (inside.clone(), inside.len())
            };
            (0..count).map(window).collect()
        };
        let axes = sizes.iter().zip(&counts).map(windows).collect();
        Ok(Self { sizes, axes })
    }

    fn forward(&self, to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
        let positions = self.axes.iter().map(|all| all.iter().map(|it| it.0.clone().collect()).collect());
        let (value, dtype) = wide(to, node);
        let sums = sums(to, &value, node.operand(0).rank(), &self.sizes, &positions.collect::<Vec<_>>())?;
        let means = self.divided(to, &sums, dtype)?;
        Ok(narrow(to, node, means))
    }

    fn backward(&self, to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
        let windows_at = |all: &Vec<(std::ops::Range<usize>, usize)>, at: usize| {
            all.iter().enumerate().filter(|it| it.1.0.contains(&at)).map(|it| it.0).collect::<Vec<_>>()
        };
        let windows =
            self.axes.iter().zip(&self.sizes).map(|(all, &size)| (0..size).map(|at| windows_at(all, at)).collect());
        let (value, dtype) = wide(to, node);
        let parts = self.divided(to, &value, dtype)?;
        let counts: Vec<usize> = self.axes.iter().map(Vec::len).collect();
        let sums = sums(to, &parts, node.operand(0).rank(), &counts, &windows.collect::<Vec<_>>())?;
        Ok(narrow(to, node, sums))
    }

    /// Divides a value with one number for each window by the divisors.
    fn divided(&self, to: &mut Translator<'_>, value: &str, dtype: DType) -> Result<String> {
        let mut divisors = vec![1.0];
        for axis in &self.axes {
            divisors = divisors.iter().flat_map(|it| axis.iter().map(move |window| it * window.1 as f64)).collect();
        }
        let divisors = match divisors.split_first() {
            Some((first, rest)) if rest.iter().all(|it| it == first) => to.scalar(*first, dtype)?,
            _ => {
                let counts: Vec<usize> = self.axes.iter().map(Vec::len).collect();
                let divisors = Array::from_slice(&counts, &divisors).into_host()?;
                let divisors = to.constant(&divisors);
                to.cast(&divisors, dtype)
            }
        };
        Ok(to.apply("Div", &[value, &divisors]))
    }
}

/// Returns the first operand, cast to the dtype in which means are computed.
fn wide(to: &mut Translator<'_>, node: &Applied<'_>) -> (String, DType) {
    let dtype = node.operand(0).dtype;
    match dtype.is_narrow_float() {
        true => (to.cast(node.operands[0], DType::F32), DType::F32),
        false => (node.operands[0].to_owned(), dtype),
    }
}

/// Casts a value to the dtype of the result.
fn narrow(to: &mut Translator<'_>, node: &Applied<'_>, value: String) -> String {
    let dtype = node.result().dtype;
    if dtype.is_narrow_float() { to.cast(&value, dtype) } else { value }
}

/// Sums over index lists along the last axes of these sizes: one list for each position of the result.
fn sums(
    to: &mut Translator<'_>,
    value: &str,
    rank: usize,
    sizes: &[usize],
    lists: &[Vec<Vec<usize>>],
) -> Result<String> {
    let mut result = value.to_owned();
    for (at, (lists, &size)) in lists.iter().zip(sizes).enumerate() {
        let axis = rank - sizes.len() + at;
        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
        if lists.iter().any(|it| it.len() < longest) {
            // Shorter lists are filled with the index of a zero after the last element.
            let mut pads = vec![0; 2 * rank];
            pads[rank + axis] = 1;
            let pads = to.list(&pads)?;
            result = to.apply("Pad", &[&result, &pads]);
        }
        let filled = |list: &Vec<usize>| {
            let rest = std::iter::repeat_n(size, longest - list.len());
            list.iter().copied().chain(rest).map(|it| it as i64).collect::<Vec<_>>()
        };
        let positions: Vec<i64> = lists.iter().flat_map(filled).collect();
        let positions = to.constant(&Array::from_slice(&[lists.len(), longest], &positions).into_host()?);
        let axes = to.list(&[axis as i64 + 1])?;
        let terms = to.with("Gather", &[&result, &positions], &[("axis", Attribute::Int(axis as i64))]);
        result = to.with("ReduceSum", &[&terms, &axes], &[("keepdims", Attribute::Int(0))]);
    }
    Ok(result)
}

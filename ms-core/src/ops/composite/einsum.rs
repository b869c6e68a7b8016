//! `einsum`: sums of products of tensors by labels of their axes.

use super::triangle::diagonal;
use crate::error::{Code, Error, OrRaise, Result};
use crate::ops::{broadcast_to, cast, matmul, permute, reshape, sum_axes};
use crate::tensor::{AsTensor, Dim, Dims, Tensor, promote};
use std::collections::BTreeMap;

/// Labels of the axes of one operand; those of an ellipsis are digits, counted from its end.
type Labels = Vec<char>;

/// A tensor with a label for each axis.
struct Term {
    labels: Labels,
    tensor: Tensor,
}

/// The sum of products of `equation`, as in NumPy's `einsum`: `"bij,bjk->bik"`. Labels that the
/// result does not have are summed over, a label that an operand has twice is its diagonal, and
/// `...` stands for axes that broadcast. Without `->` the result has the labels that occur once, in
/// alphabetical order. Operands are multiplied from left to right.
///
/// # Panics
/// Raises [`Code::Argument`] for an equation that does not fit the operands, [`Code::Shape`]
/// when sizes under one label differ and neither is one.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::einsum("ij,j->i", &[tensor![[1., 2.], [3., 4.]], tensor![1., 10.]]).to_vec::<f32>(), [21., 43.]);
/// ```
#[track_caller]
pub fn einsum<T: AsTensor>(equation: &str, operands: &[T]) -> Tensor {
    let tensors: Vec<Tensor> = operands.iter().map(|it| it.as_tensor().into_owned()).collect();
    contract(equation, &tensors)
        .map_err(|it| crate::ops::axis::named("einsum", &tensors.iter().collect::<Vec<_>>(), it))
        .or_raise()
}

#[track_caller]
fn contract(equation: &str, tensors: &[Tensor]) -> Result<Tensor> {
    let (inputs, output) = parse(equation, tensors)?;
    let sizes = sizes(&inputs, tensors)?;
    let Some(dtype) = tensors.iter().map(Tensor::dtype).reduce(promote) else {
        return Err(Error::new(Code::Argument, "at least one operand is needed"));
    };
    let terms = inputs.into_iter().zip(tensors);
    let mut terms: Vec<Term> =
        terms.map(|(labels, it)| with_distinct_labels(labels, &cast(it, dtype), &sizes)).collect();
    let mut result = terms.remove(0);
    while !terms.is_empty() {
        let next = terms.remove(0);
        let later = |label: &char| output.contains(label) || terms.iter().any(|it| it.labels.contains(label));
        let (left, right) = (result.labels.clone(), next.labels.clone());
        result = sum_out(result, |label| right.contains(label) || later(label));
        let next = sum_out(next, |label| left.contains(label) || later(label));
        result = product(result, next, later);
    }
    let result = sum_out(result, |label| output.contains(label));
    Ok(ordered(&result, &output))
}

/// The labels of each operand, and those of the result.
fn parse(equation: &str, tensors: &[Tensor]) -> Result<(Vec<Labels>, Labels)> {
    let refuse = |message: String| Err(Error::new(Code::Argument, format!("{message} in equation {equation:?}")));
    let compact: String = equation.chars().filter(|it| !it.is_whitespace()).collect();
    let (left, right) = match compact.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&*compact, None),
    };
    let parts: Vec<&str> = left.split(',').collect();
    if parts.len() != tensors.len() {
        return refuse(format!("{} terms for {} operands", parts.len(), tensors.len()));
    }
    let mut inputs = Vec::new();
    let mut widest = 0;
    for (part, tensor) in parts.into_iter().zip(tensors) {
        let named = part.replacen("...", "", 1);
        let hidden = tensor.rank().checked_sub(named.chars().count());
        match hidden {
            Some(count) if count == 0 || named != *part => {
                inputs.push(expand(part, count));
                widest = widest.max(count);
            }
            _ => return refuse(format!("{part:?} does not label the {} axes of {}", tensor.rank(), tensor.ty())),
        }
    }
    let every = || inputs.iter().flatten().filter(|it| it.is_alphabetic());
    let output = match right {
        Some(right) => expand(right, widest),
        None => {
            let mut once: Labels =
                every().filter(|it| every().filter(|other| other == it).count() == 1).copied().collect();
            once.sort();
            expand("...", widest).into_iter().chain(once).collect()
        }
    };
    if let Some(label) = inputs.iter().flatten().chain(&output).find(|it| !it.is_alphanumeric()) {
        return refuse(format!("{label:?} is no label"));
    }
    for (at, label) in output.iter().enumerate() {
        if !inputs.iter().any(|it| it.contains(label)) || output[..at].contains(label) {
            return refuse(format!("the result's {label:?} is not the label of one operand's axis, or is there twice"));
        }
    }
    Ok((inputs, output))
}

/// Labels with the ellipsis written out as `count` digits that end in 0.
fn expand(part: &str, count: usize) -> Labels {
    let hidden = || (0..count).rev().filter_map(|it| char::from_digit(it as u32, 10));
    match part.split_once("...") {
        Some((before, after)) => before.chars().chain(hidden()).chain(after.chars()).collect(),
        None => part.chars().collect(),
    }
}

/// The size under each label.
fn sizes(inputs: &[Labels], tensors: &[Tensor]) -> Result<BTreeMap<char, Dim>> {
    let mut sizes = BTreeMap::new();
    for (labels, tensor) in inputs.iter().zip(tensors) {
        for (&label, size) in labels.iter().zip(tensor.dims()) {
            let known = sizes.entry(label).or_insert(size);
            if *known == 1 {
                *known = size;
            } else if size != 1 && !known.may_equal(size) {
                let message = format!("label {label:?} has sizes {known} and {size}");
                return Err(Error::new(Code::Shape, message));
            }
        }
    }
    Ok(sizes)
}

/// An operand with repeated labels replaced by diagonals, broadcast to the sizes of its labels.
#[track_caller]
fn with_distinct_labels(mut labels: Labels, tensor: &Tensor, sizes: &BTreeMap<char, Dim>) -> Term {
    let shape: Dims = labels.iter().map(|it| sizes[it]).collect();
    let mut tensor = broadcast_to(tensor, shape);
    while let Some((first, second)) = repeated(&labels) {
        let label = labels.remove(second);
        labels.remove(first);
        let mut axes: Vec<usize> = (0..tensor.rank()).filter(|&it| it != first && it != second).collect();
        axes.extend([first, second]);
        tensor = diagonal(&permute(&tensor, axes), [sizes[&label]; 2], 0);
        labels.push(label);
    }
    Term { labels, tensor }
}

/// Two positions of one label.
fn repeated(labels: &[char]) -> Option<(usize, usize)> {
    let place = |label: &char| labels.iter().position(|it| it == label);
    labels.iter().enumerate().find_map(|(at, label)| place(label).filter(|&first| first < at).map(|first| (first, at)))
}

/// The sum over the labels that are not kept.
#[track_caller]
fn sum_out(term: Term, kept: impl Fn(&char) -> bool) -> Term {
    let axes: Vec<usize> = (0..term.labels.len()).filter(|&axis| !kept(&term.labels[axis])).collect();
    if axes.is_empty() {
        return term;
    }
    Term { tensor: sum_axes(&term.tensor, &axes, false), labels: term.labels.into_iter().filter(kept).collect() }
}

/// A term's tensor with its axes in the order of `labels`.
#[track_caller]
fn ordered(term: &Term, labels: &[char]) -> Tensor {
    let place = |label: &char| term.labels.iter().position(|it| it == label).expect("the term has the label");
    permute(&term.tensor, labels.iter().map(place).collect::<Vec<_>>())
}

/// The product of two terms, summed over the labels of both that are not used later: one
/// product of stacks of matrices.
#[track_caller]
fn product(a: Term, b: Term, later: impl Fn(&char) -> bool) -> Term {
    let of =
        |it: &Term, wanted: &dyn Fn(&char) -> bool| -> Labels { it.labels.iter().copied().filter(wanted).collect() };
    let stack = of(&a, &|it| b.labels.contains(it) && later(it));
    let summed = of(&a, &|it| b.labels.contains(it) && !later(it));
    let rows = of(&a, &|it| !b.labels.contains(it));
    let columns = of(&b, &|it| !a.labels.contains(it));
    let left = ordered(&a, &[&stack[..], &rows, &summed].concat());
    let right = ordered(&b, &[&stack[..], &summed, &columns].concat());
    let (left_shape, right_shape) = (left.dims(), right.dims());
    let (s, r) = (stack.len(), rows.len());
    let size = |sizes: &[Dim]| sizes.iter().copied().product::<Dim>();
    let batch = size(&left_shape[..s]);
    let (m, k, n) = (size(&left_shape[s..s + r]), size(&left_shape[s + r..]), size(&right_shape[s + summed.len()..]));
    let shape: Dims = left_shape[..s + r].iter().chain(&right_shape[s + summed.len()..]).copied().collect();
    let tensor = matmul(reshape(&left, [batch, m, k]), reshape(&right, [batch, k, n]));
    Term { labels: [stack, rows, columns].concat(), tensor: reshape(tensor, shape) }
}

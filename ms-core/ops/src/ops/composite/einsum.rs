//! Einsum: sums of products of tensors by labels of their axes.

use super::triangle::diagonal;
use crate::ops::core::rules::broadcast_dims;
use crate::ops::primitive::contract::contract;
use crate::ops::{broadcast_to, cast, mul, permute, reshape, sum_axes};
use crate::tensor::{AsTensor, Dim, Dims, Tensor, promote};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result, called};
use std::collections::{BTreeMap, BTreeSet};

/// Labels of the axes of one operand. Digits stand for the axes of an ellipsis, counted from its end.
type Labels = Vec<char>;

/// A tensor with a label for each axis.
struct Term {
    labels: Labels,
    tensor: Tensor,
}

/// Returns the sum of products of `equation`, as in NumPy's `einsum`: `"bij,bjk->bik"`.
///
/// Labels that are not in the result are summed over. A label that an operand has twice takes its diagonal, and `...`
/// stands for axes that broadcast. Without `->` the result has the labels that occur once, in alphabetical order. More
/// than two operands are multiplied in pairs, in the order with the fewest multiplications; a symbolic size counts as
/// 64.
///
/// Every pair is one contraction of views of its operands, without copies. If no label is summed over, it is an
/// elementwise product.
///
/// # Panics
/// Raises [`Code::Argument`] for an equation that does not match the operands, and [`Code::Shape`] when sizes under one
/// label differ and neither is 1.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::einsum("ij,j->i", &[tensor![[1., 2.], [3., 4.]], tensor![1., 10.]]).to_vec::<f32>(), [21., 43.]);
/// ```
#[track_caller]
pub fn einsum<T: AsTensor>(equation: &str, operands: &[T]) -> Tensor {
    let _called = called("einsum");
    let tensors: Vec<Tensor> = operands.map_vec(|it| it.as_tensor().into_owned());
    multiplied(equation, &tensors)
        .map_err(|it| crate::ops::axis::named("einsum", &tensors.iter().collect::<Vec<_>>(), it))
        .or_raise()
}

#[track_caller]
fn multiplied(equation: &str, tensors: &[Tensor]) -> Result<Tensor> {
    let (inputs, output) = parse(equation, tensors)?;
    let sizes = sizes(&inputs, tensors)?;
    let Some(dtype) = tensors.iter().map(Tensor::dtype).reduce(promote) else {
        return Err(Error::new(Code::Argument, "at least one operand is needed"));
    };
    let order = path(&inputs, &output, &sizes);
    let terms = inputs.into_iter().zip(tensors);
    let mut terms: Vec<Option<Term>> =
        terms.map(|(labels, it)| Some(with_distinct_labels(labels, &cast(it, dtype), &sizes))).collect();
    for [left, right] in order {
        let mut take = |at: usize| terms[at].take().expect("a path takes each term once");
        let (left, right) = (take(left), take(right));
        let others = || terms.iter().flatten();
        let later = |label: &char| output.contains(label) || others().any(|it| it.labels.contains(label));
        let (a, b) = (left.labels.clone(), right.labels.clone());
        let left = sum_out(left, |label| b.contains(label) || later(label));
        let right = sum_out(right, |label| a.contains(label) || later(label));
        let made = product(&left, &right, later);
        terms.push(Some(made));
    }
    let result = terms.pop().flatten().expect("the last term is the product of all");
    let result = sum_out(result, |label| output.contains(label));
    Ok(ordered(&result, &output))
}

/// Parses the labels of each operand and of the result.
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

/// Expands the ellipsis in labels to `count` digits that end in 0.
fn expand(part: &str, count: usize) -> Labels {
    let hidden = || (0..count).rev().filter_map(|it| char::from_digit(it as u32, 10));
    match part.split_once("...") {
        Some((before, after)) => before.chars().chain(hidden()).chain(after.chars()).collect(),
        None => part.chars().collect(),
    }
}

/// Returns the size under each label.
fn sizes(inputs: &[Labels], tensors: &[Tensor]) -> Result<BTreeMap<char, Dim>> {
    let mut sizes = BTreeMap::new();
    for (labels, tensor) in inputs.iter().zip(tensors) {
        for (&label, size) in labels.iter().zip(tensor.dims()) {
            let known = sizes.entry(label).or_insert(size);
            *known = broadcast_dims(&[*known], &[size]).map_err(|_| {
                let message = format!("label {label:?} has sizes {known} and {size}");
                Error::new(Code::Shape, message)
            })?[0];
        }
    }
    Ok(sizes)
}

/// Takes the diagonals of repeated labels, and broadcasts an operand to the sizes of its labels.
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

/// Finds two positions of one label.
fn repeated(labels: &[char]) -> Option<(usize, usize)> {
    let place = |label: &char| labels.iter().position(|it| it == label);
    labels.iter().enumerate().find_map(|(at, label)| place(label).filter(|&first| first < at).map(|first| (first, at)))
}

/// Sums over the labels for which `kept` is false.
#[track_caller]
fn sum_out(term: Term, kept: impl Fn(&char) -> bool) -> Term {
    let axes: Vec<usize> = (0..term.labels.len()).filter(|&axis| !kept(&term.labels[axis])).collect();
    if axes.is_empty() {
        return term;
    }
    Term { tensor: sum_axes(&term.tensor, &axes, false), labels: term.labels.into_iter().filter(kept).collect() }
}

/// Permutes the axes of a term to the order of `labels`.
#[track_caller]
fn ordered(term: &Term, labels: &[char]) -> Tensor {
    let place = |label: &char| term.labels.iter().position(|it| it == label).expect("the term has the label");
    permute(&term.tensor, labels.map_vec(place))
}

/// Multiplies two terms, and sums over their common labels that are not used later.
#[track_caller]
fn product(a: &Term, b: &Term, later: impl Fn(&char) -> bool) -> Term {
    let of =
        |it: &Term, wanted: &dyn Fn(&char) -> bool| -> Labels { it.labels.iter().copied().filter(wanted).collect() };
    let stack = of(a, &|it| b.labels.contains(it) && later(it));
    let summed = of(a, &|it| b.labels.contains(it) && !later(it));
    let rows = of(a, &|it| !b.labels.contains(it));
    let columns = of(b, &|it| !a.labels.contains(it));
    let labels = [&stack[..], &rows, &columns].concat();
    let left = ordered(a, &[&stack[..], &rows, &summed].concat());
    let right = ordered(b, &[&stack[..], &summed, &columns].concat());
    if !summed.is_empty() {
        return Term { labels, tensor: contract(&left, &right, stack.len(), summed.len()) };
    }
    let one = || std::iter::repeat(Dim::new(1));
    let (left_dims, right_dims) = (left.dims(), right.dims());
    let (shared, own) = right_dims.split_at(stack.len());
    let left: Tensor = reshape(&left, left_dims.iter().copied().chain(one().take(columns.len())).collect::<Dims>());
    let shape = shared.iter().copied().chain(one().take(rows.len())).chain(own.iter().copied());
    Term { labels, tensor: mul(&left, reshape(&right, shape.collect::<Dims>())) }
}

/// The maximum number of terms for which all paths are searched.
const SEARCHED: usize = 8;

/// The assumed value of a symbolic size.
const UNKNOWN: usize = 64;

/// Returns the pairs of terms to multiply, in order, such that the total number of multiplications is smallest. Terms
/// are numbered; the product of a pair gets the next number.
fn path(inputs: &[Labels], output: &[char], sizes: &BTreeMap<char, Dim>) -> Vec<[usize; 2]> {
    let numbers: Vec<char> = sizes.keys().copied().collect();
    let set = |labels: &[char]| -> Set {
        let number = |it: &char| numbers.binary_search(it).expect("all labels have a size");
        labels.iter().map(number).collect()
    };
    let size = |it: usize| sizes[&numbers[it]].as_const().unwrap_or(UNKNOWN) as f64;
    let path = Path { terms: inputs.map_vec(|it| set(it)), output: set(output), size: &size };
    if inputs.len() <= SEARCHED { path.best() } else { path.greedy() }
}

/// A set of labels, by their indices.
type Set = BTreeSet<usize>;

/// The search for a path.
struct Path<'a> {
    terms: Vec<Set>,
    output: Set,
    size: &'a dyn Fn(usize) -> f64,
}

impl Path<'_> {
    /// Counts the multiplications of a product of terms with these labels.
    fn cost(&self, a: &Set, b: &Set) -> f64 {
        a.union(b).map(|&it| (self.size)(it)).product()
    }

    /// Returns the best of all paths; the left-to-right path wins ties.
    fn best(&self) -> Vec<[usize; 2]> {
        let all = (1usize << self.terms.len()) - 1;
        let of = |terms: usize| (0..self.terms.len()).filter(move |it| terms >> it & 1 == 1);
        let labels = |terms: usize| of(terms).flat_map(|it| self.terms[it].iter().copied()).collect::<Set>();
        // Entries by set of terms: the labels of its product, its cost, and the set of the left operand.
        let mut known: Vec<(Set, f64, usize)> = Vec::with_capacity(all + 1);
        for terms in 0..=all {
            let others = labels(all & !terms);
            let kept = labels(terms).into_iter().filter(|it| self.output.contains(it) || others.contains(it)).collect();
            if terms.count_ones() < 2 {
                known.push((kept, 0.0, 0));
                continue;
            }
            let last = 1 << terms.ilog2();
            let first = terms & terms.wrapping_neg();
            let mut best = (f64::INFINITY, 0);
            let mut consider = |left: usize| {
                let (a, b) = (&known[left], &known[terms & !left]);
                let cost = a.1 + b.1 + self.cost(&a.0, &b.0);
                if left & first != 0 && cost < best.0 {
                    best = (cost, left);
                }
            };
            // The left-to-right split comes first, so that it wins ties.
            consider(terms & !last);
            let mut left = terms;
            while let Some(next) = Some((left - 1) & terms).filter(|it| *it > 0) {
                consider(next);
                left = next;
            }
            known.push((kept, best.0, best.1));
        }
        let mut path = Vec::new();
        let mut made = self.terms.len();
        // Pending sets of terms, whose parts are multiplied first, and the numbers of their products.
        let mut pending = vec![all];
        let mut numbers: BTreeMap<usize, usize> = (0..self.terms.len()).map(|it| (1 << it, it)).collect();
        while let Some(&terms) = pending.last() {
            if numbers.contains_key(&terms) {
                pending.pop();
                continue;
            }
            let parts = [known[terms].2, terms & !known[terms].2];
            match parts.map(|it| numbers.get(&it).copied()) {
                [Some(left), Some(right)] => {
                    path.push([left, right]);
                    numbers.insert(terms, made);
                    made += 1;
                }
                known => pending.extend(parts.into_iter().zip(known).filter(|it| it.1.is_none()).map(|it| it.0)),
            }
        }
        path
    }

    /// Multiplies the cheapest pair at each step.
    fn greedy(self) -> Vec<[usize; 2]> {
        let mut terms: Vec<(usize, Set)> = self.terms.iter().cloned().enumerate().collect();
        let mut path = Vec::new();
        for made in self.terms.len()..2 * self.terms.len() - 1 {
            let pairs = (0..terms.len()).flat_map(|right| (0..right).map(move |left| (left, right)));
            let cost = |it: &(usize, usize)| self.cost(&terms[it.0].1, &terms[it.1].1);
            let cheapest = pairs.min_by(|a, b| cost(a).total_cmp(&cost(b)));
            let (left, right) = cheapest.expect("there are two terms at least");
            let ((second, b), (first, a)) = (terms.remove(right), terms.remove(left));
            let is_kept = |it: &usize| self.output.contains(it) || terms.iter().any(|term| term.1.contains(it));
            let kept = a.union(&b).copied().filter(is_kept).collect();
            path.push([first, second]);
            terms.push((made, kept));
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(equation: &str, sizes: &[(char, usize)], want: &[[usize; 2]]) {
        let (left, right) = equation.split_once("->").expect("an equation has a result");
        let inputs: Vec<Labels> = left.split(',').map(|it| it.chars().collect()).collect();
        let sizes = sizes.iter().map(|&(label, size)| (label, Dim::new(size))).collect();
        assert_eq!(path(&inputs, &right.chars().collect::<Vec<_>>(), &sizes), want, "{equation}");
    }

    #[test]
    fn paths_take_the_fewest_multiplications() {
        let sizes = [('a', 100), ('b', 3), ('c', 100), ('d', 2), ('e', 50)];
        check("ab->ba", &sizes, &[]);
        check("ab,bc->ac", &sizes, &[[0, 1]]);
        // Starting from the vector at the end makes all products small.
        check("ab,bc,cd->ad", &sizes, &[[1, 2], [0, 3]]);
        check("ab,bc,cd,de->e", &sizes, &[[0, 1], [4, 2], [5, 3]]);
        check("ac,ca,d->d", &sizes, &[[0, 1], [3, 2]]);
        // Equal costs are multiplied from left to right.
        let equal = [('a', 7), ('b', 7), ('c', 7), ('d', 7)];
        check("ab,bc,cd->ad", &equal, &[[0, 1], [3, 2]]);
    }

    #[test]
    fn long_chains_are_multiplied_from_their_short_end() {
        let labels = "abcdefghij";
        let pairs: Vec<String> =
            labels.as_bytes().windows(2).map(|it| String::from_utf8_lossy(it).into_owned()).collect();
        let equation = format!("{},j->a", pairs.join(","));
        let sizes: Vec<(char, usize)> = labels.chars().map(|it| (it, 10)).collect();
        let want: Vec<[usize; 2]> = std::iter::once([8, 9]).chain((0..8).rev().map(|it| [it, 17 - it])).collect();
        check(&equation, &sizes, &want);
    }
}

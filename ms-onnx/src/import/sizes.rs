//! Evaluates operators on sizes symbolically, such as the computation of a target shape.

use super::Applied;
use super::model::Attribute;
use super::value::{Form, Value, number};
use crate::element_type;
use ms_ops::tensor::{DType, Dim};
use ms_ops::{Result, Tensor};

/// The maximum length of a list of sizes.
const LONGEST: usize = 64;

/// Evaluates an operator on sizes; returns `None` unless the trace knows all its operands as sizes.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for attributes of a wrong kind.
pub fn apply(node: &Applied<'_>) -> Result<Option<Value>> {
    let name = node.node.operator.as_str();
    if let "Shape" | "Size" = name {
        return Ok(Some(measured(node, name)?));
    }
    if let ("Where", [Some(Value::Flags(flags, form)), Some(then), Some(other)]) = (name, &node.operands[..]) {
        let (Some(then), Some(other)) = (then.sizes(), other.sizes()) else { return Ok(None) };
        let chosen = |at: [usize; 3]| Some(if flags[at[0]] { then.0[at[1]] } else { other.0[at[2]] });
        let chosen = broadcast([(flags.len(), *form), (then.0.len(), then.1), (other.0.len(), other.1)], chosen);
        return Ok(chosen.map(|(sizes, form)| Value::Sizes(sizes, form)));
    }
    let known = |it: &Option<Value>| match it.as_ref()? {
        // Sizes are i64, as is everything that is computed from them.
        Value::Constant(it) if it.dtype() != DType::I64 => None,
        it => it.sizes().filter(|it| it.0.len() <= LONGEST),
    };
    let all: Option<Vec<(Vec<Dim>, Form)>> = node.operands.iter().map(known).collect();
    let Some(all) = all.filter(|it| !it.is_empty()) else { return Ok(None) };
    let (first, form) = (&all[0].0, all[0].1);
    let list = |sizes: Vec<Dim>| Ok(Some(Value::Sizes(sizes, Form::List)));
    match (name, &all[..]) {
        ("Cast", _) if node.int("to", 0)? != element_type(DType::I64) as i64 => Ok(None),
        ("Identity" | "Cast", _) => Ok(Some(Value::Sizes(first.clone(), form))),
        ("Concat", all) if [0, -1].contains(&node.int("axis", 0)?) => {
            list(all.iter().flat_map(|it| it.0.clone()).collect())
        }
        ("ReduceProd", _) if !is_whole(node)? => Ok(None),
        ("Squeeze" | "ReduceProd", _) if name == "ReduceProd" || first.len() == 1 => {
            let keeps = name == "ReduceProd" && node.int("keepdims", 1)? != 0;
            let form = if keeps { Form::List } else { Form::Number };
            Ok(Some(Value::Sizes(vec![first.iter().copied().product()], form)))
        }
        ("Unsqueeze", [_, (axes, _)]) if form == Form::Number && axes.len() == 1 => list(first.clone()),
        // A zero in the shape copies a size only for operands with that axis; a list has none to copy.
        ("Reshape", [_, (shape, _)]) if node.int("allowzero", 0)? == 0 => Ok(match shape.len() {
            0 => Some(Value::Sizes(first.clone(), Form::Number)),
            1 => Some(Value::Sizes(first.clone(), Form::List)),
            _ => None,
        }),
        ("Gather", [_, (at, form)]) if node.int("axis", 0)? == 0 => {
            let element = |&at: &Dim| {
                let at = number(at)?;
                first.get(usize::try_from(if at < 0 { at + first.len() as i64 } else { at }).ok()?).copied()
            };
            Ok(at.iter().map(element).collect::<Option<_>>().map(|sizes| Value::Sizes(sizes, *form)))
        }
        ("Slice", [_, rest @ ..]) => Ok(slice(first, rest)),
        ("ConstantOfShape", [(shape, Form::List)]) => Ok(filled(node, shape)),
        ("Equal", [(a, of), (b, by)]) => {
            let flags = broadcast([(a.len(), *of), (b.len(), *by)], |at| equal(a[at[0]], b[at[1]]));
            Ok(flags.map(|(flags, form)| Value::Flags(flags, form)))
        }
        ("Add" | "Sub" | "Mul" | "Div" | "Max" | "Min", [(a, of), (b, by)]) => {
            let sizes = broadcast([(a.len(), *of), (b.len(), *by)], |at| combined(name, a[at[0]], b[at[1]]));
            Ok(sizes.map(|(sizes, form)| Value::Sizes(sizes, form)))
        }
        _ => Ok(None),
    }
}

/// Returns whether a reduction of a list covers all elements.
fn is_whole(node: &Applied<'_>) -> Result<bool> {
    let axes = node.list(1, "axes")?.unwrap_or_default();
    let none_is_all = node.int("noop_with_empty_axes", 0)? == 0;
    Ok(matches!(axes[..], [0 | -1]) || axes.is_empty() && none_is_all)
}

/// Broadcasts lists of these lengths and forms, and computes each element from the positions in the lists. Returns
/// `None` if the lists do not broadcast, or an element is unknown.
fn broadcast<const N: usize, T>(
    of: [(usize, Form); N],
    element: impl Fn([usize; N]) -> Option<T>,
) -> Option<(Vec<T>, Form)> {
    let length = of.iter().map(|it| it.0).find(|&it| it != 1).unwrap_or(1);
    if !of.iter().all(|it| [1, length].contains(&it.0)) {
        return None;
    }
    let form = if of.iter().all(|it| it.1 == Form::Number) { Form::Number } else { Form::List };
    let elements = (0..length).map(|at| element(of.map(|it| if it.0 == 1 { 0 } else { at })));
    Some((elements.collect::<Option<_>>()?, form))
}

/// Returns whether two sizes are equal, if that is known.
fn equal(a: Dim, b: Dim) -> Option<bool> {
    // A symbolic size cannot equal a negative number.
    let differ = |a: Dim, b: Dim| a.is_symbolic() && number(b).is_some_and(|it| it < 0);
    let is_known = a == b || number(a).is_some() && number(b).is_some() || differ(a, b) || differ(b, a);
    is_known.then_some(a == b)
}

/// Evaluates `ConstantOfShape` for a short list of one integer.
fn filled(node: &Applied<'_>, shape: &[Dim]) -> Option<Value> {
    let &[length] = shape else { return None };
    let length = length.as_const().filter(|&it| it <= LONGEST)?;
    let Some(Attribute::Tensor(value)) = node.attribute("value") else { return None };
    let (sizes, _) = Value::Constant(Tensor::from_array(value.clone())).sizes()?;
    let &[size] = &sizes[..] else { return None };
    (value.dtype() == DType::I64).then(|| Value::Sizes(vec![size; length], Form::List))
}

fn measured(node: &Applied<'_>, name: &str) -> Result<Value> {
    let x = node.tensor(0)?;
    let dims = x.dims();
    if name == "Size" {
        return Ok(Value::Sizes(vec![dims.iter().copied().product()], Form::Number));
    }
    let rank = dims.len() as i64;
    let position = |it: i64| if it < 0 { it + rank } else { it }.clamp(0, rank) as usize;
    let (start, end) = (position(node.int("start", 0)?), position(node.int("end", rank)?));
    Ok(Value::Sizes(dims[start..end.max(start)].to_vec(), Form::List))
}

fn combined(name: &str, a: Dim, b: Dim) -> Option<Dim> {
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        let value = match name {
            "Add" => a.checked_add(b),
            "Sub" => a.checked_sub(b),
            "Mul" => a.checked_mul(b),
            "Div" => a.checked_div(b),
            "Min" => Some(a.min(b)),
            _ => Some(a.max(b)),
        };
        return value.map(Dim::signed);
    }
    match name {
        "Add" => Some(a + b),
        "Sub" => Some(a - b),
        "Mul" => Some(a * b),
        "Min" => Some(a.smaller(b)),
        "Max" => Some(a + b - a.smaller(b)),
        // Sizes are not negative, so rounding down equals truncation.
        "Div" if number(b).is_some_and(|it| it > 0) => Some(a / b),
        _ => None,
    }
}

/// Slices a list.
fn slice(of: &[Dim], operands: &[(Vec<Dim>, Form)]) -> Option<Value> {
    let numbers = |at: usize, otherwise: i64| match operands.get(at) {
        Some((all, _)) => all.first().copied().and_then(number),
        None => Some(otherwise),
    };
    let (start, end, axis, step) = (numbers(0, 0)?, numbers(1, i64::MAX)?, numbers(2, 0)?, numbers(3, 1)?);
    if ![0, -1].contains(&axis) || step != 1 {
        return None;
    }
    let length = of.len() as i64;
    let position = |it: i64| (if it < 0 { it.saturating_add(length) } else { it }).clamp(0, length) as usize;
    let (start, end) = (position(start), position(end));
    Some(Value::Sizes(of[start..end.max(start)].to_vec(), Form::List))
}

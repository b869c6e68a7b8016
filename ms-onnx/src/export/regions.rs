//! Exports branches and loops.

use super::elements;
use super::message::{self, Attribute};
use super::translator::{Applied, Translator};
use ms_ir::Graph;
use ms_ir::Result;
use ms_ops::ops::{Control, Loop, TripCount};
use ms_ops::tensor::{Array, DType, Dim, Type};

/// Exports a node with regions.
///
/// # Errors
/// [`Code::Export`](ms_ir::Code::Export) for a node without a counterpart.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>, control: &Control) -> Result<Vec<String>> {
    let operands: Vec<String> = node.operands.iter().map(|&it| it.to_owned()).collect();
    let graphs = &node.node.regions;
    match control {
        Control::Call { .. } | Control::Recompute => to.region(&graphs[0], &operands),
        Control::Branch => branch(to, [&graphs[0], &graphs[1]], &operands),
        Control::Loop(form) => match form.trips {
            TripCount::While => repeat(to, form, (None, Some(&graphs[0])), &graphs[1], &operands),
            _ if form.sequences > 0 => scan(to, form, &graphs[0], &operands[form.first_carry()..]),
            TripCount::Fixed { reverse, .. } | TripCount::Counted { reverse }
                if reverse && has_rows(form, &graphs[0]) =>
            {
                node.refused(", as a loop backwards that reads no sequence")
            }
            TripCount::Fixed { count, .. } => {
                let count = to.scalar(count as i64, DType::I64)?;
                repeat(to, form, (Some(count), None), &graphs[0], &operands)
            }
            TripCount::Counted { .. } => {
                repeat(to, form, (Some(operands[0].clone()), None), &graphs[0], &operands[1..])
            }
        },
        Control::CustomVjp(_) | Control::TransformNode(_) => node.refused(""),
    }
}

/// Returns whether a loop stacks values of all iterations.
fn has_rows(form: &Loop, graph: &Graph) -> bool {
    graph.outputs().len() > form.carries
}

/// An input of a loop body.
struct Input {
    name: String,
    ty: Type,
}

/// Encodes a graph attribute with these inputs. `write` adds its nodes and returns its outputs with their types.
fn body(
    to: &mut Translator<'_>,
    name: &str,
    inputs: &[Input],
    write: impl FnOnce(&mut Translator<'_>) -> Result<Vec<(String, Type)>>,
) -> Result<Attribute<'static>> {
    let mut inner = to.inner();
    let mut outputs = Vec::new();
    for (value, ty) in write(&mut inner)? {
        // ONNX requires outputs to be values of the body itself, not of an outer graph.
        let output = inner.apply("Identity", &[&value]);
        outputs.push(message::value(&output, &ty));
    }
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|it| message::value(&it.name, &it.ty)).collect();
    Ok(Attribute::Graph(message::graph(name, &inner.into_nodes(), &[], &inputs, &outputs)))
}

/// Exports a graph inline, and returns its results with their types.
fn typed(to: &mut Translator<'_>, graph: &Graph, inputs: &[String]) -> Result<Vec<(String, Type)>> {
    let results = to.region(graph, inputs)?;
    Ok(results.into_iter().zip(graph.outputs().iter().map(|&it| graph.ty(it).clone())).collect())
}

/// Creates inputs of a body like the first `count` inputs of a graph.
fn inputs_like(to: &mut Translator<'_>, graph: &Graph, count: usize) -> Vec<Input> {
    let inputs = graph.inputs().iter().take(count);
    inputs.map(|&it| Input { name: to.fresh(), ty: graph.ty(it).clone() }).collect()
}

fn names(inputs: &[Input]) -> impl Iterator<Item = String> {
    inputs.iter().map(|it| it.name.clone())
}

/// Adds a node with several results.
fn added(
    to: &mut Translator<'_>,
    operator: &str,
    operands: &[String],
    results: usize,
    attributes: &[(&str, Attribute<'_>)],
) -> Vec<String> {
    let results: Vec<String> = (0..results).map(|_| to.fresh()).collect();
    let [inputs, outputs] = [operands, &results].map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
    to.add(operator, &inputs, &outputs, attributes);
    results
}

fn branch(to: &mut Translator<'_>, graphs: [&Graph; 2], operands: &[String]) -> Result<Vec<String>> {
    let [yes, no] = graphs.map(|graph| body(to, graph.name(), &[], |inner| typed(inner, graph, &operands[1..])));
    let attributes = [("then_branch", yes?), ("else_branch", no?)];
    Ok(added(to, "If", &operands[..1], graphs[0].outputs().len(), &attributes))
}

/// Exports a loop without sequences, which runs `count` times or while a condition holds. A loop with a condition that
/// stacks values also returns the number of iterations, as an additional carry.
fn repeat(
    to: &mut Translator<'_>,
    form: &Loop,
    (count, condition): (Option<String>, Option<&Graph>),
    graph: &Graph,
    operands: &[String],
) -> Result<Vec<String>> {
    let (initial, invariants) = operands.split_at(form.carries);
    let begins = match condition {
        Some(condition) => to.region(condition, operands)?.swap_remove(0),
        None => String::new(),
    };
    let counts = condition.is_some() && has_rows(form, graph);
    let carries = inputs_like(to, graph, form.carries);
    let values: Vec<String> = names(&carries).chain(invariants.iter().cloned()).collect();
    let integer = Type::of(DType::I64, &[]);
    let head = [integer.clone(), Type::of(DType::Bool, &[])].map(|ty| Input { name: to.fresh(), ty });
    let (goes_on, counter) = (head[1].name.clone(), Input { name: to.fresh(), ty: integer.clone() });
    let counted = counter.name.clone();
    let inputs: Vec<Input> = head.into_iter().chain(carries).chain(counts.then_some(counter)).collect();
    let body = body(to, graph.name(), &inputs, |inner| {
        let mut results = typed(inner, graph, &values)?;
        let mut outputs = match condition {
            Some(condition) => {
                let next = results[..form.carries].iter().map(|it| it.0.clone());
                typed(inner, condition, &next.chain(invariants.iter().cloned()).collect::<Vec<_>>())?
            }
            None => vec![(goes_on, Type::of(DType::Bool, &[]))],
        };
        if counts {
            let one = inner.scalar(1, DType::I64)?;
            results.insert(form.carries, (inner.apply("Add", &[&counted, &one]), integer));
        }
        outputs.extend(results);
        Ok(outputs)
    })?;
    let mut operands: Vec<String> =
        [count.unwrap_or_default(), begins].into_iter().chain(initial.iter().cloned()).collect();
    if counts {
        operands.push(to.scalar(0, DType::I64)?);
    }
    Ok(added(to, "Loop", &operands, graph.outputs().len() + usize::from(counts), &[("body", body)]))
}

/// Exports a loop over sequences as `Scan`.
fn scan(to: &mut Translator<'_>, form: &Loop, graph: &Graph, operands: &[String]) -> Result<Vec<String>> {
    let inputs = inputs_like(to, graph, form.invariants());
    let values: Vec<String> = names(&inputs).chain(operands[form.invariants()..].iter().cloned()).collect();
    let body = body(to, graph.name(), &inputs, |inner| typed(inner, graph, &values))?;
    let direction = i64::from(form.reverse());
    let stacks = graph.outputs().len() - form.carries;
    let (read, written) = (vec![direction; form.sequences], vec![direction; stacks]);
    let mut attributes = vec![
        ("body", body),
        ("num_scan_inputs", Attribute::Int(form.sequences as i64)),
        ("scan_input_directions", Attribute::Ints(&read)),
    ];
    if stacks > 0 {
        attributes.push(("scan_output_directions", Attribute::Ints(&written)));
    }
    Ok(added(to, "Scan", &operands[..form.invariants()], graph.outputs().len(), &attributes))
}

/// Exports a cumulative product as `Scan`, with the axis moved to the front.
pub fn running_product(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let (axis, ty) = (node.int("axis"), node.result());
    let rank = ty.rank() as i64;
    let front: Vec<i64> = std::iter::once(axis).chain((0..rank).filter(|&it| it != axis)).collect();
    let back: Vec<i64> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
    let rest: Vec<Dim> = front[1..].iter().map(|&it| ty.dims[it as usize]).collect();
    let shape = to.shape(&rest)?;
    let one = message::tensor("", &Array::full(&[1], 1.into(), ty.dtype).into_host()?);
    let ones = to.with("ConstantOfShape", &[&shape], &[("value", Attribute::Tensor(one))]);
    let sequence = to.permuted(node.operands[0], &front);
    let of = Type::new(ty.dtype, rest.into_iter().collect());
    let inputs = [of.clone(), of.clone()].map(|ty| Input { name: to.fresh(), ty });
    let body = body(to, "product", &inputs, |inner| {
        let next = elements::apply(inner, node, "mul", &[&inputs[0].name, &inputs[1].name], of.dtype, of.dtype)?;
        let row = if node.flag("exclusive") { inputs[0].name.clone() } else { next.clone() };
        Ok(vec![(next, of.clone()), (row, of.clone())])
    })?;
    let direction = [i64::from(node.flag("reverse"))];
    let attributes = [
        ("body", body),
        ("num_scan_inputs", Attribute::Int(1)),
        ("scan_input_directions", Attribute::Ints(&direction)),
        ("scan_output_directions", Attribute::Ints(&direction)),
    ];
    let products = added(to, "Scan", &[ones, sequence], 2, &attributes).swap_remove(1);
    Ok(to.permuted(&products, &back))
}

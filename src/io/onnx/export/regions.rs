//! Nodes that run graphs: branches and loops.

use super::message::{self, Attribute};
use super::translator::{Applied, Translator};
use ms_core::Result;
use ms_core::ir::Graph;
use ms_core::ops::{Control, Loop, Trips};
use ms_core::tensor::{DType, Type};

/// The results of a node with graphs.
///
/// # Errors
/// [`Code::Export`](ms_core::Code::Export) for one without a counterpart.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>, control: &Control) -> Result<Vec<String>> {
    let operands: Vec<String> = node.operands.iter().map(|&it| it.to_owned()).collect();
    let graphs = &node.node.regions;
    match control {
        Control::Call { .. } | Control::Recompute => to.region(&graphs[0], &operands),
        Control::Branch => branch(to, [&graphs[0], &graphs[1]], &operands),
        Control::Loop(form) => match form.trips {
            Trips::While if graphs[1].outputs().len() == form.carries => {
                repeat(to, form, (None, Some(&graphs[0])), &graphs[1], &operands)
            }
            Trips::Times { .. } if form.sequences > 0 => scan(to, form, &graphs[0], &operands),
            Trips::Times { count, reverse } if !reverse || graphs[0].outputs().len() == form.carries => {
                repeat(to, form, (Some(count), None), &graphs[0], &operands)
            }
            _ => node.refused(", as a loop that fills stacks while a condition holds, or backwards"),
        },
        Control::CustomVjp(_) | Control::TransformNode(_) => node.refused(""),
    }
}

/// An input of a body.
struct Input {
    name: String,
    ty: Type,
}

/// A graph of these inputs as an attribute, whose outputs `write` returns with their types.
fn body(
    to: &mut Translator<'_>,
    name: &str,
    inputs: &[Input],
    write: impl FnOnce(&mut Translator<'_>) -> Result<Vec<(String, Type)>>,
) -> Result<Attribute<'static>> {
    let mut inner = to.inner();
    let mut outputs = Vec::new();
    for (value, ty) in write(&mut inner)? {
        // A value of the graph around the body is no output of it.
        let output = inner.apply("Identity", &[&value]);
        outputs.push(message::value(&output, &ty));
    }
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|it| message::value(&it.name, &it.ty)).collect();
    Ok(Attribute::Graph(message::graph(name, &inner.into_nodes(), &[], &inputs, &outputs)))
}

/// The results of a graph with their types.
fn typed(to: &mut Translator<'_>, graph: &Graph, inputs: &[String]) -> Result<Vec<(String, Type)>> {
    let results = to.region(graph, inputs)?;
    Ok(results.into_iter().zip(graph.outputs().iter().map(|&it| graph.ty(it).clone())).collect())
}

/// Inputs of a body like the first ones of a graph.
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

/// A loop without sequences, `count` times or while a condition holds.
fn repeat(
    to: &mut Translator<'_>,
    form: &Loop,
    (count, condition): (Option<usize>, Option<&Graph>),
    graph: &Graph,
    operands: &[String],
) -> Result<Vec<String>> {
    let (initial, invariants) = operands.split_at(form.carries);
    let limit = match count {
        Some(count) => to.scalar(count as i64, DType::I64)?,
        None => String::new(),
    };
    let begins = match condition {
        Some(condition) => to.region(condition, operands)?.swap_remove(0),
        None => String::new(),
    };
    let carries = inputs_like(to, graph, form.carries);
    let values: Vec<String> = names(&carries).chain(invariants.iter().cloned()).collect();
    let head = [DType::I64, DType::Bool].map(|dtype| Input { name: to.fresh(), ty: Type::of(dtype, &[]) });
    let goes_on = head[1].name.clone();
    let inputs: Vec<Input> = head.into_iter().chain(carries).collect();
    let body = body(to, graph.name(), &inputs, |inner| {
        let results = typed(inner, graph, &values)?;
        let mut outputs = match condition {
            Some(condition) => {
                let next = results[..form.carries].iter().map(|it| it.0.clone());
                typed(inner, condition, &next.chain(invariants.iter().cloned()).collect::<Vec<_>>())?
            }
            None => vec![(goes_on, Type::of(DType::Bool, &[]))],
        };
        outputs.extend(results);
        Ok(outputs)
    })?;
    let operands: Vec<String> = [limit, begins].into_iter().chain(initial.iter().cloned()).collect();
    Ok(added(to, "Loop", &operands, graph.outputs().len(), &[("body", body)]))
}

/// A loop over sequences.
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

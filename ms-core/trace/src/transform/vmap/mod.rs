//! Implements `vmap`: batches a graph over many lanes.
//!
//! Every value of the graph becomes one value for all lanes, or one for each along a new axis. That is the first axis,
//! or the second one if the first is that of a stack, whose size is known only at run time.

mod control;
mod guard;
mod masked;
#[cfg(test)]
mod tests;

use super::composite::{expanded_alone, transformable};
use crate::trace::{self, Tracer};
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Node};
use ms_ops::ops::{self, BatchedCall, Batching, Control, Effects, Lane, OpDef};
use ms_ops::tensor::{Dim, Dims, Tensor, Type, apply};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// The composites that are batched by the ops of their bodies, whichever operands have lanes.
const IN_PARTS: fn(&OpDef) -> bool = |it| matches!(ops::transform_rules(it).batching, Batching::Derived);

/// Returns the graph that computes for all lanes what `graph` computes for one. `operands` and `results` flag the
/// mapped ones. `graph` contains no transforms.
///
/// # Errors
/// [`Code::Mapped`] for a result that is shared but differs between lanes, and errors of ops.
pub fn vmap(
    graph: &Graph,
    size: Dim,
    operands: &[Lane],
    results: &[Lane],
    location: Option<&'static Location<'static>>,
) -> Result<Graph> {
    let graph = &*transformable(graph, IN_PARTS)?;
    let batcher = Batcher { size, regions: RefCell::default() };
    let mapped: Vec<bool> = operands.iter().map(|&it| it == Lane::Mapped).collect();
    let types: Vec<Type> =
        graph.inputs().iter().zip(&mapped).map(|(&it, &mapped)| batcher.ty(graph.ty(it), mapped)).collect();
    trace::build_like(graph, &types, |inputs| {
        let inputs = inputs.iter().cloned().zip(mapped.iter().copied()).map(Value::new).collect();
        let outputs = batcher.replay(graph, inputs)?;
        let given = outputs.into_iter().zip(results).enumerate();
        given
            .map(|(at, (value, lane))| match lane {
                Lane::Mapped => batcher.spread(&value),
                Lane::Max if value.mapped && batcher.has_lanes() => Ok(ops::max(&value.tensor, 0)),
                Lane::Shared if value.mapped => Err(differs(graph, at, location)),
                _ => Ok(value.tensor),
            })
            .collect()
    })
}

fn differs(graph: &Graph, result: usize, location: Option<&'static Location<'static>>) -> Error {
    let ty = graph.ty(graph.outputs()[result]);
    let message = format!("result {result}, a `{ty}` in each lane, differs between lanes, but one value is wanted");
    let help = "give it an axis in `out_axes`; what is assigned to a parameter that the lanes share is the same for \
                all of them: map the parameter, too, or reduce the value outside";
    let error = Error::new(Code::Mapped, message).with_op("vmap").help(help);
    match location {
        Some(location) => error.at(location),
        None => error,
    }
}

/// A value of a batched graph.
#[derive(Clone)]
struct Value {
    tensor: Tensor,
    /// Whether it is mapped: each lane has a separate value.
    mapped: bool,
    /// The results of both arms, for a stack that is the result of a branch for which each lane takes an arm. Stacks of
    /// different sizes cannot be selected, so the branch that takes this one takes the same arms. Row counts have them
    /// too: the lanes that do not take an arm then have a count that is valid for its stacks.
    sides: Option<Rc<Sides>>,
}

/// The results of both arms of a branch.
struct Sides {
    /// The lanes that take the first arm.
    mask: Tensor,
    each: [Value; 2],
}

/// A batched region: its graph, and which outputs are mapped.
#[derive(Clone)]
struct Batched {
    graph: Arc<Graph>,
    mapped: Vec<bool>,
}

/// The key of a batched region: the region, which inputs are mapped, which outputs must be.
type Key = (*const Graph, Vec<bool>, Vec<bool>);

/// Batches graphs over `size` lanes.
struct Batcher {
    size: Dim,
    /// The batched regions. Regions with several uses are transformed once. The graphs live as long as the one that
    /// contains them.
    regions: RefCell<FxHashMap<Key, Batched>>,
}

/// Returns whether a type is a stack's.
fn is_stack(ty: &Type) -> bool {
    ty.dims.first() == Some(&Dim::DYNAMIC)
}

fn tensors(values: &[Value]) -> Vec<Tensor> {
    values.iter().map(|it| it.tensor.clone()).collect()
}

fn flags(values: &[Value]) -> Vec<bool> {
    values.iter().map(|it| it.mapped).collect()
}

impl Value {
    fn new((tensor, mapped): (Tensor, bool)) -> Self {
        Self { tensor, mapped, sides: None }
    }

    /// Returns the arms of a stack that has two.
    fn split(&self) -> Option<&Rc<Sides>> {
        self.sides.as_ref().filter(|_| is_stack(&self.tensor.ty()))
    }

    /// Calls `visit` with the value's tensors: one, or those of both arms and the lanes that take the first.
    fn visit(&self, visit: &mut impl FnMut(&Tensor)) {
        match self.split() {
            None => visit(&self.tensor),
            Some(sides) => {
                visit(&sides.mask);
                sides.each.iter().for_each(|it| it.visit(visit));
            }
        }
    }

    /// Returns this value with other tensors, as many as [`Value::visit`] visits.
    fn rebuilt(&self, next: &mut impl FnMut() -> Tensor) -> Self {
        let Some(sides) = self.split() else { return Self::new((next(), self.mapped)) };
        let mask = next();
        let each = [0, 1].map(|at| sides.each[at].rebuilt(next));
        Self { tensor: each[0].tensor.clone(), mapped: self.mapped, sides: Some(Rc::new(Sides { mask, each })) }
    }
}

/// Returns the tensors of values, of both arms if they have two.
fn parts(values: &[Value]) -> Vec<Tensor> {
    let mut parts = Vec::new();
    values.iter().for_each(|it| it.visit(&mut |it| parts.push(it.clone())));
    parts
}

/// Returns values like these, with other tensors.
fn rebuilt(values: &[Value], parts: &[Tensor]) -> Vec<Value> {
    let mut parts = parts.iter().cloned();
    let mut next = || parts.next().expect("as many tensors as the values have");
    values.iter().map(|it| it.rebuilt(&mut next)).collect()
}

impl Batcher {
    /// Returns whether there is a lane.
    fn has_lanes(&self) -> bool {
        self.size != Dim::new(0)
    }

    /// Returns the type for all lanes, given that for one.
    fn ty(&self, ty: &Type, mapped: bool) -> Type {
        let mut ty = ty.clone();
        if mapped {
            ty.dims.insert(usize::from(is_stack(&ty)), self.size);
        }
        ty
    }

    /// Returns a mapped value, broadcast if it is shared.
    fn spread(&self, value: &Value) -> Result<Tensor> {
        if value.mapped {
            return Ok(value.tensor.clone());
        }
        let ty = value.tensor.ty();
        if is_stack(&ty) {
            return Err(Error::new(Code::Verify, format!("{ty} cannot be repeated for every lane")).with_op("vmap"));
        }
        let dims: Dims = std::iter::once(self.size).chain(ty.dims).collect();
        Ok(ops::broadcast_to(&value.tensor, dims))
    }

    /// Returns the outputs of the batched `graph`, with its nodes added to the graph under construction.
    fn replay(&self, graph: &Graph, inputs: Vec<Value>) -> Result<Vec<Value>> {
        let tracer = tracer();
        let mut values: Vec<Option<Value>> = vec![None; graph.value_count()];
        for (id, input) in graph.inputs().iter().zip(inputs) {
            values[id.0 as usize] = Some(input);
        }
        let around = tracer.locate(None);
        for (_, node) in graph.nodes() {
            let operand = |id: &ms_ir::ValueId| values[id.0 as usize].clone().expect("operands are defined first");
            let operands: Vec<Value> = node.inputs.iter().map(operand).collect();
            tracer.locate(node.location);
            for (id, result) in node.outputs.iter().zip(self.node(node, &operands)?) {
                values[id.0 as usize] = Some(result);
            }
        }
        tracer.locate(around);
        Ok(graph.outputs().iter().map(|id| values[id.0 as usize].clone().expect("outputs are defined")).collect())
    }

    fn node(&self, node: &Node, operands: &[Value]) -> Result<Vec<Value>> {
        if let Some(control) = Control::of(node) {
            return self.control(node, &control, operands);
        }
        let (inputs, mapped) = (tensors(operands), flags(operands));
        if mapped.contains(&true) || ops::definition(node.op).effects.any_of(Effects::RANDOM) {
            let lanes =
                BatchedCall { op: node.op, attrs: &node.attrs, inputs: &inputs, mapped: &mapped, size: self.size };
            return match ops::batch(&lanes)? {
                Some(outputs) => Ok(outputs.into_iter().map(|it| Value::new((it, true))).collect()),
                None => {
                    let types: Vec<Type> =
                        (0..inputs.len()).map(|it| Type::new(inputs[it].dtype(), lanes.dims(it))).collect();
                    self.replay(&expanded_alone(node, &types, IN_PARTS)?, operands.to_vec())
                }
            };
        }
        let outputs = apply(node.op, &node.attrs, &inputs.iter().collect::<SmallVec<[&Tensor; 3]>>())?;
        Ok(outputs.into_iter().map(|it| Value::new((it, false))).collect())
    }

    /// Batches a region. `mapped` flags the mapped inputs, `spread` the outputs that must be mapped. Outputs after the
    /// end of `spread` must not.
    fn region(&self, region: &Arc<Graph>, mapped: &[bool], spread: &[bool]) -> Result<Batched> {
        let key = (Arc::as_ptr(region), mapped.to_vec(), spread.to_vec());
        if let Some(known) = self.regions.borrow().get(&key) {
            return Ok(known.clone());
        }
        let mut outputs = Vec::new();
        let types: Vec<Type> =
            region.inputs().iter().zip(mapped).map(|(&it, &mapped)| self.ty(region.ty(it), mapped)).collect();
        let graph = trace::build_like(region, &types, |inputs| {
            let inputs = inputs.iter().cloned().zip(mapped.iter().copied()).map(Value::new).collect();
            let results = self.replay(region, inputs)?;
            whole(&results)?;
            outputs = flags(&results);
            outputs.iter_mut().zip(spread).for_each(|(mapped, &spread)| *mapped |= spread);
            let given = results.iter().zip(&outputs);
            given.map(|(it, &mapped)| if mapped { self.spread(it) } else { Ok(it.tensor.clone()) }).collect()
        })?;
        let batched = Batched { graph: Arc::new(graph), mapped: outputs };
        self.regions.borrow_mut().insert(key, batched.clone());
        Ok(batched)
    }
}

/// Builds a graph with nodes attributed to the source location of `node`.
fn build(
    node: &Node,
    name: &str,
    types: &[Type],
    body: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Graph> {
    trace::build(name, types, |inputs| {
        tracer().locate(node.location);
        body(inputs)
    })
}

fn tracer() -> Rc<Tracer> {
    Tracer::current().expect("a graph over lanes is built by a tracer")
}

/// Checks that no value is a stack of two arms.
fn whole(values: &[Value]) -> Result<()> {
    match values.iter().find(|it| it.split().is_some()) {
        None => Ok(()),
        Some(value) => {
            let message = format!(
                "`{}`, which a loop in a branch keeps for its derivative, has another size on each side of the branch",
                value.tensor.ty()
            );
            let help = "lanes that decide for themselves reach the loop: put the branch into the loop";
            Err(Error::new(Code::NoGradient, message).with_op("vmap").help(help))
        }
    }
}

/// Adds a node with regions, attributed to the source location of `node`.
fn emit(node: &Node, control: &Control, regions: &[Arc<Graph>], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let location = node.location.unwrap_or_else(|| Location::caller());
    tracer().control(control, regions.into(), inputs, location)
}

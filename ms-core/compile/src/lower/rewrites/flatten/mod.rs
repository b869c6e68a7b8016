//! Lowers a graph to a [`Flat`]. Views become the layouts of operands, and nodes with regions become steps that run
//! routines.

mod checks;
mod regions;

use crate::lower::fusion::domain::Domain;
use crate::lower::fusion::gather::GatherWalk;
use crate::lower::plan::is_stack;
use crate::lower::plan::routines::Routines;
use crate::lower::rewrites::casts::{is_read_fast, sums_evenly};
use crate::lower::rewrites::flat::{Access, Accesses, Flat, FlatNode, Kind, Origin, Source, ValueIndex};
use crate::target::Target;
use ms_ir::data::{Attrs, DType, Layout, Literal, Scalar, Shape, Strides, Type};
use ms_ir::error::{Code, Error, Result};
use ms_ir::op::{Lowering, ReduceRule, definition, dialect};
use ms_ir::{ContractionRanks, Graph, Inst, KernelBuilder, LaneAxis, Node, Scope, Val, ValueId, run_multiple};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// The rule of a view op: maps an operand's layout to the result's.
type ViewRule = fn(&Attrs, &Layout) -> Option<Layout>;

/// The body emitter of a generated op.
type Generate = fn(&Attrs, &mut KernelBuilder, &[Val], DType) -> Val;

/// Returns the scalar that a generated op yields for all elements, if it does not depend on the index.
fn splat(node: &Node, rule: Generate, ty: &Type) -> Option<Scalar> {
    let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let position: SmallVec<[Val; 4]> = (0..ty.rank()).map(|axis| body.index(axis as u8)).collect();
    let result = rule(&node.attrs, &mut body, &position, ty.dtype);
    body.end_stage(Scope::Point);
    let kernel = body.finish();
    match kernel.insts[result.0 as usize] {
        Inst::Const(bits) => Some(Scalar::from_bits(bits, kernel.ty(result))),
        _ => None,
    }
}

/// Returns the elements of an operand, each broadcast to `shape`.
fn elements(operand: &Access, shape: &[usize]) -> Result<Accesses> {
    let element = |offset| Layout::new(Shape::new(), Strides::new(), offset).broadcast_to(shape);
    operand.layout.offsets().map(|offset| Ok(operand.with_layout(element(offset)?))).collect()
}

struct Flatten<'a> {
    pub flat: Flat,
    /// The values that are outputs.
    outputs: FxHashSet<ValueIndex>,
    /// Row-major copies, by copied access.
    copies: Vec<(Access, ValueIndex)>,
    /// Values of [`Origin::Position`], by number of elements.
    positions: FxHashMap<usize, ValueIndex>,
    pub routines: &'a Routines,
    target: &'a Target,
}

fn shape(ty: &Type) -> Result<Shape> {
    let symbolic = || Error::new(Code::Backend, format!("{ty} has symbolic dimensions, which cannot be lowered yet"));
    ty.shape().ok_or_else(symbolic)
}

/// Attaches a node's op and source location to an error.
pub(in crate::lower) fn located(error: Error, node: &Node) -> Error {
    let error = error.with_op(node.op.name());
    match node.location {
        Some(location) => error.at(location),
        None => error,
    }
}

/// Lowers the graph to one without views. Removes nodes on which no output depends, unless they have no results: such
/// nodes have effects. `routines` contains the routines of regions.
pub(in crate::lower) fn flatten(graph: &Graph, routines: &Routines, target: &Target) -> Result<Flat> {
    let mut flatten = Flatten::new(routines, target);
    flatten.flat.nodes.reserve(graph.len());
    flatten.flat.values.reserve(graph.value_count());
    let inputs = flatten.inputs(graph)?;
    for output in flatten.graph(graph, inputs)? {
        flatten.output(&output);
    }
    Ok(flatten.flat)
}

/// Lowers the condition (if there is one) and the body of a loop, on the same inputs, to one graph without outputs.
/// Returns it with the number of nodes of the condition and the outputs of both.
pub(in crate::lower) fn flatten_loop(
    condition: Option<&Graph>,
    body: &Graph,
    routines: &Routines,
    target: &Target,
) -> Result<(Flat, usize, Option<Access>, Accesses)> {
    let mut flatten = Flatten::new(routines, target);
    let inputs = flatten.inputs(body)?;
    let tests = condition.map(|it| flatten.graph(it, inputs.clone())).transpose()?;
    let tested = flatten.flat.nodes.len();
    let next = flatten.graph(body, inputs)?;
    Ok((flatten.flat, tested, tests.map(|mut it| it.swap_remove(0)), next))
}

/// Returns the nodes on which an output depends, and those without results.
pub(in crate::lower) fn live_nodes(graph: &Graph) -> impl Iterator<Item = &Node> {
    let mut live = vec![false; graph.value_count()];
    graph.outputs().iter().for_each(|it| live[it.0 as usize] = true);
    let is_live =
        |live: &[bool], node: &Node| node.outputs.is_empty() || node.outputs.iter().any(|it| live[it.0 as usize]);
    for (_, node) in graph.nodes().rev() {
        if is_live(&live, node) {
            node.inputs.iter().for_each(|it| live[it.0 as usize] = true);
        }
    }
    graph.nodes().map(|it| it.1).filter(move |node| is_live(&live, node))
}

impl<'a> Flatten<'a> {
    fn new(routines: &'a Routines, target: &'a Target) -> Self {
        Self {
            flat: Flat::default(),
            outputs: FxHashSet::default(),
            copies: Vec::new(),
            positions: FxHashMap::default(),
            routines,
            target,
        }
    }

    /// Adds the inputs of a graph, as the first values.
    fn inputs(&mut self, graph: &Graph) -> Result<Accesses> {
        let inputs = graph.inputs().iter().enumerate();
        inputs.map(|(i, &input)| self.value(graph.ty(input), Origin::Input(i as u32))).collect()
    }
}

impl Flatten<'_> {
    /// Adds a value of a type. The value of a stack is its handle.
    pub fn value(&mut self, ty: &Type, origin: Origin) -> Result<Access> {
        let (dtype, shape) = if is_stack(ty) { (DType::I64, Shape::new()) } else { (ty.dtype, shape(ty)?) };
        let access = Access::whole(self.flat.values.len(), dtype, &shape);
        self.flat.add_value(dtype, shape, origin);
        Ok(access)
    }

    /// Adds the nodes of a graph on these inputs and returns its outputs.
    pub fn graph(&mut self, graph: &Graph, inputs: Accesses) -> Result<Accesses> {
        let mut known: Vec<Option<Access>> = vec![None; graph.value_count()];
        for (id, access) in graph.inputs().iter().zip(inputs) {
            known[id.0 as usize] = Some(access);
        }
        for node in live_nodes(graph) {
            let inputs = node.inputs.iter().map(|it| known[it.0 as usize].clone().expect("operands come first"));
            let inputs = inputs.collect();
            let results = self.node(graph, node, inputs).map_err(|error| located(error, node))?;
            for (id, result) in node.outputs.iter().zip(results) {
                known[id.0 as usize] = Some(result);
            }
        }
        let known = |id: &ValueId| known[id.0 as usize].clone().expect("outputs are defined");
        Ok(graph.outputs().iter().map(known).collect())
    }

    /// Adds a node and returns its results.
    pub fn push(&mut self, graph: &Graph, node: &Node, kind: Kind, inputs: Accesses) -> Result<Accesses> {
        let origin = Origin::Node(self.flat.nodes.len());
        let results = node.outputs.iter().map(|&id| self.value(graph.ty(id), origin));
        let results = results.collect::<Result<Accesses>>()?;
        let outputs = results.iter().filter_map(Access::value).collect();
        self.flat.nodes.push(FlatNode { kind, attrs: node.attrs.clone(), inputs, outputs, location: node.location });
        Ok(results)
    }

    fn node(&mut self, graph: &Graph, node: &Node, inputs: Accesses) -> Result<Accesses> {
        let one = |access| Ok(smallvec![access]);
        let lowering = &definition(node.op).lowering;
        if !self.target.kernels && !matches!(lowering, Lowering::View(_) | Lowering::Constant(_) | Lowering::Regions(_))
        {
            return self.library(graph, node, inputs);
        }
        match lowering {
            Lowering::Map(_) => {
                let shape = shape(graph.ty(node.outputs[0]))?;
                let broadcast = |it: Access| Ok(it.with_layout(it.layout.broadcast_to(&shape)?));
                let inputs = inputs.into_iter().map(broadcast).collect::<Result<_>>()?;
                self.push(graph, node, Kind::Map(node.op), inputs)
            }
            Lowering::Generate(rule) => {
                let ty = graph.ty(node.outputs[0]);
                match splat(node, *rule, ty) {
                    Some(scalar) => {
                        let layout = Layout::contiguous(&shape(ty)?);
                        one(Access { source: Source::Splat(scalar), dtype: ty.dtype, layout })
                    }
                    None => self.push(graph, node, Kind::Generate(node.op), inputs),
                }
            }
            Lowering::Position(_) => {
                let shape = shape(graph.ty(node.outputs[0]))?;
                let mut operands: Accesses = smallvec![self.positions(&shape)];
                for input in &inputs {
                    operands.extend(elements(input, &shape)?);
                }
                self.push(graph, node, Kind::Map(node.op), operands)
            }
            Lowering::Reduce(rule) => {
                let inputs = inputs.iter().map(|it| self.reducible(it, rule, &(rule.axes)(&node.attrs))).collect();
                self.push(graph, node, Kind::Reduce(rule), inputs)
            }
            Lowering::Gather(axis) => self.gather(graph, node, axis(&node.attrs), inputs),
            Lowering::Check(_) => {
                self.check(graph, node, &inputs)?;
                self.flat.checked.extend(inputs[0].value());
                Ok(inputs.into_iter().take(1).collect())
            }
            Lowering::View(rule) => one(self.view(graph.ty(node.outputs[0]), &node.attrs, *rule, &inputs[0])?),
            Lowering::Constant(data) => one(self.constant(data(&node.attrs))),
            Lowering::Contraction(ranks) => {
                self.check_op(graph, node)?;
                let ranks = ranks(&node.attrs, inputs[0].layout.rank());
                self.contraction(graph, node, ranks, inputs)
            }
            Lowering::Slices(_) if !self.are_many_copies(&inputs) || self.check_op(graph, node).is_err() => {
                self.push(graph, node, Kind::Slices(node.op), inputs)
            }
            Lowering::Library
            | Lowering::Spatial(_)
            | Lowering::Update
            | Lowering::Slices(_)
            | Lowering::Composite(_) => self.library(graph, node, inputs),
            Lowering::Regions(_) => self.region(graph, node, inputs),
        }
    }

    /// Checks that the target runs the op of a node.
    fn check_op(&self, graph: &Graph, node: &Node) -> Result<()> {
        let types: SmallVec<[&Type; 4]> = node.inputs.iter().map(|&it| graph.ty(it)).collect();
        self.target.check_op(node.op, &types, self.routines.precision())
    }

    /// Adds a node as a step of the library.
    fn library(&mut self, graph: &Graph, node: &Node, inputs: Accesses) -> Result<Accesses> {
        self.check_op(graph, node)?;
        let inputs = inputs.into_iter().map(|it| self.in_memory(it)).collect::<Result<_>>()?;
        self.push(graph, node, Kind::Library(node.op), inputs)
    }

    /// Returns whether a result has more slices than `Budget::copies` and no kernel computes any of them. One step that
    /// copies all of them then compiles and runs faster than one kernel for each.
    fn are_many_copies(&self, slices: &[Access]) -> bool {
        let is_computed = |it: &Access| {
            it.value().is_none_or(|value| matches!(self.flat.values[value].origin, Origin::Node(_) | Origin::Position))
        };
        slices.len() > self.target.budget.copies && !slices.iter().any(is_computed)
    }

    /// Returns the row-major iota of a shape.
    fn positions(&mut self, shape: &[usize]) -> Access {
        let flat = &mut self.flat;
        let add = || flat.add_value(DType::I64, shape.into(), Origin::Position);
        let value = *self.positions.entry(shape.iter().product()).or_insert_with(add);
        Access::whole(value, DType::I64, shape)
    }

    /// Adds a gather, preceded by a check of its indices unless they are known to be valid.
    fn gather(&mut self, graph: &Graph, node: &Node, axis: usize, inputs: Accesses) -> Result<Accesses> {
        let operand = self.in_memory(inputs[0].clone())?;
        let check = self.check(graph, node, &inputs)?;
        let mut index = inputs[1].clone();
        if check.is_some() {
            index = self.in_memory(index)?;
        }
        let walk = GatherWalk::new(&operand.layout, &index.layout, axis);
        let inputs = smallvec![operand.with_layout(walk.operand), index.with_layout(walk.index)];
        self.push(graph, node, Kind::Gather { axis: walk.axis, check }, inputs)
    }

    fn constant(&mut self, literal: &Literal) -> Access {
        let (dtype, layout) = (literal.dtype(), Layout::contiguous(literal.shape()));
        match literal.splat() {
            Some(scalar) => Access { source: Source::Splat(scalar), dtype, layout },
            None => Access { source: Source::Value(self.constant_value(literal.clone())), dtype, layout },
        }
    }

    fn constant_value(&mut self, literal: Literal) -> ValueIndex {
        let (dtype, shape) = (literal.dtype(), literal.shape().into());
        let origin = Origin::Constant(self.flat.constants.len() as u32);
        self.flat.constants.push(literal);
        self.flat.add_value(dtype, shape, origin)
    }

    fn view(&mut self, ty: &Type, attrs: &Attrs, rule: ViewRule, input: &Access) -> Result<Access> {
        if input.value().is_none() {
            return Ok(input.with_layout(Layout::contiguous(&shape(ty)?)));
        }
        if let Some(layout) = rule(attrs, &input.layout) {
            return Ok(input.with_layout(layout));
        }
        let copy = self.copy(input);
        let refused = || Error::new(Code::Verify, "the view rule refuses a row-major operand");
        let layout = rule(attrs, &copy.layout).ok_or_else(refused)?;
        Ok(copy.with_layout(layout))
    }

    /// Adds a row-major copy of an access.
    fn copy(&mut self, access: &Access) -> Access {
        let shape = access.layout.shape();
        if let Some((_, value)) = self.copies.iter().rev().take(16).find(|(it, _)| it == access) {
            return Access::whole(*value, access.dtype, shape);
        }
        let value = self.fresh_copy(access);
        self.copies.push((access.clone(), value));
        Access::whole(value, access.dtype, access.layout.shape())
    }

    fn fresh_copy(&mut self, access: &Access) -> ValueIndex {
        let (mut access, mut kind, mut attrs) = (access.clone(), Kind::Copy, Attrs::none());
        if !self.target.kernels {
            let (op, own) = dialect().copy(access.dtype);
            access = self.in_memory(access).expect("a scalar is broadcast to every shape");
            (kind, attrs) = (Kind::Library(op), own);
        }
        let origin = Origin::Node(self.flat.nodes.len());
        let value = self.flat.add_value(access.dtype, access.layout.shape().into(), origin);
        let inputs = smallvec![access];
        let outputs = smallvec![value];
        self.flat.nodes.push(FlatNode { kind, attrs, inputs, outputs, location: None });
        value
    }

    /// Materialises a splat as a constant in memory.
    fn in_memory(&mut self, access: Access) -> Result<Access> {
        let Source::Splat(scalar) = access.source else { return Ok(access) };
        let source = Source::Value(self.constant_value(Literal::scalar(scalar, access.dtype)));
        let layout = Layout::contiguous(&[]).broadcast_to(access.layout.shape())?;
        Ok(Access { source, layout, ..access })
    }

    /// Makes the access row-major and contiguous.
    pub fn dense(&mut self, access: Access) -> Result<Access> {
        let access = self.in_memory(access)?;
        Ok(if access.layout.is_contiguous() { access } else { self.copy(&access) })
    }

    /// Returns the operand of a reduction, copied if its lanes could not preserve the order.
    fn reducible(&mut self, access: &Access, rule: &ReduceRule, reduced: &[usize]) -> Access {
        let domain = Domain::of_reduction(access.layout.shape(), reduced);
        let accumulators = run_multiple((rule.accumulate)(access.dtype));
        let fits = domain.run_fits(access.layout.strides(), accumulators);
        if fits || access.value().is_none() { access.clone() } else { self.copy(access) }
    }

    /// Adds a contraction of these operands.
    fn contraction(
        &mut self,
        graph: &Graph,
        node: &Node,
        ranks: ContractionRanks,
        inputs: Accesses,
    ) -> Result<Accesses> {
        let sizes = |at: usize| &inputs[at].layout.shape()[..ranks.batch];
        let batch: Shape = sizes(0).iter().zip(sizes(1)).map(|(&a, &b)| if a == 1 { b } else { a }).collect();
        let factors = (0..2).map(|at| self.factor(&inputs[at], ranks, at, &batch)).collect::<Result<_>>()?;
        self.push(graph, node, Kind::Contraction(ranks), factors)
    }

    /// Returns an operand of a contraction with its batch broadcast to the result's. Copies it if its strides do not
    /// allow fast reads.
    fn factor(&mut self, access: &Access, ranks: ContractionRanks, operand: usize, batch: &[usize]) -> Result<Access> {
        let mut access = self.in_memory(access.clone())?;
        if !is_read_fast(&access.layout, ranks)
            || !(self.target.strided_sums || sums_evenly(&access.layout, ranks, operand))
        {
            access = self.copy(&access);
        }
        let shape: Shape = batch.iter().chain(&access.layout.shape()[ranks.batch..]).copied().collect();
        Ok(access.with_layout(access.layout.broadcast_to(&shape)?))
    }

    /// Assigns an output a distinct value.
    fn output(&mut self, access: &Access) {
        let flat = &self.flat;
        let own = access
            .value()
            .filter(|&value| flat.is_whole(access) && flat.producer(value).is_some() && !self.outputs.contains(&value));
        let value = own.unwrap_or_else(|| self.fresh_copy(access));
        self.outputs.insert(value);
        self.flat.outputs.push(value);
    }
}

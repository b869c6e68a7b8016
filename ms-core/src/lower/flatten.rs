//! A graph without views: what is left are ops that compute, and accesses that say where their
//! operands lie in row-major values.

use super::domain::Domain;
use crate::error::{Code, Error, Result};
use crate::ir::{Graph, Inst, KernelBuilder, Lanes, Node, Scope, Val, ValueId, virtual_lanes};
use crate::ops::{Lowering, ReduceRule, definition};
use crate::tensor::{Attrs, DType, Layout, Literal, Op, Scalar, Shape, Type};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// A number of a [`FlatValue`].
pub(super) type ValueIndex = usize;

/// A number of a [`FlatNode`].
pub(super) type NodeIndex = usize;

/// A graph of ops that compute.
#[derive(Default)]
pub(super) struct Flat {
    pub values: Vec<FlatValue>,
    /// In running order.
    pub nodes: Vec<FlatNode>,
    /// The value that becomes each output; no value becomes two, none is an input or constant.
    pub outputs: Vec<ValueIndex>,
    pub constants: Vec<Literal>,
}

/// A value; where it is stored, it is row-major.
#[derive(Debug)]
pub(super) struct FlatValue {
    pub dtype: DType,
    pub shape: Shape,
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    Input(u32),
    Constant(u32),
    Node(NodeIndex),
}

/// An op, its operands and results.
pub(super) struct FlatNode {
    pub kind: Kind,
    pub attrs: Attrs,
    pub inputs: SmallVec<[Access; 3]>,
    pub outputs: SmallVec<[ValueIndex; 1]>,
}

/// What an op does.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// An elementwise op; its operands are broadcast already.
    Map(Op),
    /// A copy to row-major memory.
    Copy,
    /// A function of the position.
    Generate(Op),
    /// A fold.
    Reduce(&'static ReduceRule),
    /// A product of matrices.
    Product,
    /// An op that runs as a whole.
    Library(Op),
}

/// An operand: which elements of which value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Access {
    pub source: Source,
    pub dtype: DType,
    /// Where the elements lie in the row-major value.
    pub layout: Layout,
}

/// What an operand is made of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Source {
    /// A value.
    Value(ValueIndex),
    /// One number everywhere.
    Splat(Scalar),
}

impl Access {
    fn whole(value: ValueIndex, dtype: DType, shape: &[usize]) -> Self {
        Self { source: Source::Value(value), dtype, layout: Layout::contiguous(shape) }
    }

    fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..*self }
    }

    /// The value, unless this is a splat.
    pub fn value(&self) -> Option<ValueIndex> {
        match self.source {
            Source::Value(value) => Some(value),
            Source::Splat(_) => None,
        }
    }
}

impl Flat {
    /// The graph without views. Nodes on which no output depends are left out, unless they
    /// have no results: those are there for their effect.
    pub fn new(graph: &Graph) -> Result<Self> {
        let mut flatten = Flatten { graph, flat: Self::default(), accesses: FxHashMap::default(), copies: Vec::new() };
        let mut live = vec![false; graph.value_count()];
        graph.outputs().iter().for_each(|it| live[it.0 as usize] = true);
        let mut nodes = Vec::with_capacity(graph.len());
        for (_, node) in graph.nodes().rev() {
            if node.outputs.is_empty() || node.outputs.iter().any(|it| live[it.0 as usize]) {
                node.inputs.iter().for_each(|it| live[it.0 as usize] = true);
                nodes.push(node);
            }
        }
        for (i, &input) in graph.inputs().iter().enumerate() {
            let access = flatten.value(graph.ty(input), Origin::Input(i as u32))?;
            flatten.accesses.insert(input, access);
        }
        for node in nodes.into_iter().rev() {
            flatten.node(node).map_err(|error| match node.location {
                Some(location) => error.with_op(node.op.name()).at(location),
                None => error.with_op(node.op.name()),
            })?;
        }
        flatten.outputs();
        Ok(flatten.flat)
    }

    /// The node that computes a value.
    pub fn producer(&self, value: ValueIndex) -> Option<NodeIndex> {
        match self.values[value].origin {
            Origin::Node(node) => Some(node),
            Origin::Input(_) | Origin::Constant(_) => None,
        }
    }

    /// Number of elements of a value.
    pub fn numel(&self, value: ValueIndex) -> usize {
        self.values[value].shape.iter().product()
    }

    /// Whether an access names all elements of its value in row-major order.
    pub fn is_whole(&self, access: &Access) -> bool {
        let whole = |value| access.layout.numel() == self.numel(value) && access.layout.offset() == 0;
        access.layout.is_contiguous() && access.value().is_some_and(whole)
    }

    /// Adds a value.
    pub fn add_value(&mut self, dtype: DType, shape: Shape, origin: Origin) -> ValueIndex {
        self.values.push(FlatValue { dtype, shape, origin });
        self.values.len() - 1
    }
}

/// The body of a generated op.
type Generate = fn(&Attrs, &mut KernelBuilder, &[Val], &Type) -> Val;

/// The number that a generated op gives everywhere, if it does not depend on the position.
fn splat(node: &Node, rule: Generate, ty: &Type) -> Option<Scalar> {
    let mut body = KernelBuilder::new(0, 0, Lanes::Parallel);
    let position: SmallVec<[Val; 4]> = (0..ty.rank()).map(|axis| body.index(axis as u8)).collect();
    let result = rule(&node.attrs, &mut body, &position, ty);
    body.end_stage(Scope::Point);
    let kernel = body.finish();
    match kernel.insts[result.0 as usize] {
        Inst::Const(bits) => Some(Scalar::from_bits(bits, kernel.ty(result))),
        _ => None,
    }
}

struct Flatten<'a> {
    graph: &'a Graph,
    flat: Flat,
    accesses: FxHashMap<ValueId, Access>,
    /// Row-major copies that were made, by what they copy.
    copies: Vec<(Access, ValueIndex)>,
}

impl Flatten<'_> {
    fn value(&mut self, ty: &Type, origin: Origin) -> Result<Access> {
        let shape = ty.shape().ok_or_else(|| {
            Error::new(Code::Backend, format!("{ty} has symbolic dimensions, which cannot be lowered yet"))
        })?;
        let access = Access::whole(self.flat.values.len(), ty.dtype, &shape);
        self.flat.add_value(ty.dtype, shape, origin);
        Ok(access)
    }

    fn push(&mut self, node: &Node, kind: Kind, inputs: SmallVec<[Access; 3]>) -> Result<()> {
        let index = self.flat.nodes.len();
        let mut outputs = SmallVec::new();
        for &id in &node.outputs {
            outputs.push(self.flat.values.len());
            let access = self.value(self.graph.ty(id), Origin::Node(index))?;
            self.accesses.insert(id, access);
        }
        self.flat.nodes.push(FlatNode { kind, attrs: node.attrs.clone(), inputs, outputs });
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        if !node.regions.is_empty() {
            return Err(Error::new(Code::Backend, "ops with regions must be expanded before lowering"));
        }
        let inputs: SmallVec<[Access; 3]> = node.inputs.iter().map(|it| self.accesses[it].clone()).collect();
        match &definition(node.op).lowering {
            Lowering::Map(_) => {
                let shape = self.shape(node.outputs[0])?;
                let broadcast = |it: Access| Ok(it.with_layout(it.layout.broadcast_to(&shape)?));
                let inputs = inputs.into_iter().map(broadcast).collect::<Result<_>>()?;
                self.push(node, Kind::Map(node.op), inputs)
            }
            Lowering::Generate(rule) => match splat(node, *rule, self.graph.ty(node.outputs[0])) {
                Some(scalar) => {
                    let (dtype, shape) = (self.graph.ty(node.outputs[0]).dtype, self.shape(node.outputs[0])?);
                    let layout = Layout::contiguous(&shape);
                    self.accesses.insert(node.outputs[0], Access { source: Source::Splat(scalar), dtype, layout });
                    Ok(())
                }
                None => self.push(node, Kind::Generate(node.op), inputs),
            },
            Lowering::Reduce(rule) => {
                let inputs = inputs.iter().map(|it| self.foldable(it, rule, &node.attrs.sizes(0))).collect();
                self.push(node, Kind::Reduce(rule), inputs)
            }
            Lowering::View(rule) => {
                let view = self.view(node, *rule, &inputs[0])?;
                self.accesses.insert(node.outputs[0], view);
                Ok(())
            }
            Lowering::Constant => {
                let constant = self.constant(node.attrs.literal(0));
                self.accesses.insert(node.outputs[0], constant);
                Ok(())
            }
            Lowering::Product => {
                let out = self.shape(node.outputs[0])?;
                let batch = &out[..out.len() - 2];
                let inputs = inputs.iter().map(|it| self.matrix(it, batch)).collect::<Result<_>>()?;
                self.push(node, Kind::Product, inputs)
            }
            Lowering::Regions(_) => unreachable!("nodes with regions are refused above"),
            Lowering::Library => {
                let inputs = inputs.into_iter().map(|it| self.in_memory(it)).collect::<Result<_>>()?;
                self.push(node, Kind::Library(node.op), inputs)
            }
        }
    }

    fn shape(&self, id: ValueId) -> Result<Shape> {
        let ty = self.graph.ty(id);
        ty.shape().ok_or_else(|| Error::new(Code::Backend, format!("{ty} has symbolic dimensions")))
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

    fn view(&mut self, node: &Node, rule: fn(&Attrs, &Layout) -> Option<Layout>, input: &Access) -> Result<Access> {
        if input.value().is_none() {
            let shape = self.shape(node.outputs[0])?;
            return Ok(input.with_layout(Layout::contiguous(&shape)));
        }
        if let Some(layout) = rule(&node.attrs, &input.layout) {
            return Ok(input.with_layout(layout));
        }
        let copy = self.copy(input);
        let layout = rule(&node.attrs, &copy.layout)
            .ok_or_else(|| Error::new(Code::Verify, "the view rule refuses a row-major operand"))?;
        Ok(copy.with_layout(layout))
    }

    /// A row-major copy of an access.
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
        let origin = Origin::Node(self.flat.nodes.len());
        let value = self.flat.add_value(access.dtype, access.layout.shape().into(), origin);
        let inputs = smallvec![access.clone()];
        self.flat.nodes.push(FlatNode { kind: Kind::Copy, attrs: Attrs::none(), inputs, outputs: smallvec![value] });
        value
    }

    /// The access with splats turned into constants in memory.
    fn in_memory(&mut self, access: Access) -> Result<Access> {
        let Source::Splat(scalar) = access.source else { return Ok(access) };
        let source = Source::Value(self.constant_value(Literal::scalar(scalar, access.dtype)));
        let layout = Layout::contiguous(&[]).broadcast_to(access.layout.shape())?;
        Ok(Access { source, layout, ..access })
    }

    /// The operand of a fold, copied where its lanes could not keep their order.
    fn foldable(&mut self, access: &Access, rule: &ReduceRule, folded: &[usize]) -> Access {
        let domain = Domain::of_reduction(access.layout.shape(), folded);
        let accumulators = virtual_lanes((rule.accumulate)(access.dtype));
        let fits = domain.run_fits(access.layout.strides(), accumulators);
        if fits || access.value().is_none() { access.clone() } else { self.copy(access) }
    }

    /// The operand of a product: one of the strides of the matrix is one, the other at least
    /// its extent; batches repeat as the result asks.
    fn matrix(&mut self, access: &Access, batch: &[usize]) -> Result<Access> {
        let mut access = self.in_memory(access.clone())?;
        let rank = access.layout.rank();
        let (rows, columns) = (access.layout.shape()[rank - 2], access.layout.shape()[rank - 1]);
        let (down, right) = (access.layout.strides()[rank - 2], access.layout.strides()[rank - 1]);
        let dense = |inner: (usize, isize), outer: (usize, isize)| {
            (inner.0 == 1 || inner.1 == 1) && (outer.0 == 1 || outer.1 >= inner.0 as isize)
        };
        if !dense((columns, right), (rows, down)) && !dense((rows, down), (columns, right)) {
            access = self.copy(&access);
        }
        let shape: Shape = batch.iter().copied().chain([rows, columns]).collect();
        Ok(access.with_layout(access.layout.broadcast_to(&shape)?))
    }

    /// Gives every output a value of its own.
    fn outputs(&mut self) {
        for &id in self.graph.outputs() {
            let access = self.accesses[&id].clone();
            let own = access.value().filter(|&value| {
                self.flat.is_whole(&access)
                    && self.flat.producer(value).is_some()
                    && !self.flat.outputs.contains(&value)
            });
            let value = own.unwrap_or_else(|| self.fresh_copy(&access));
            self.flat.outputs.push(value);
        }
    }
}

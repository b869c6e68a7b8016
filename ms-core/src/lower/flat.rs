//! A graph of ops that compute, on operands that say where they lie in row-major values.

use super::gather::Positions;
use super::plan::{NextCarry, RoutineId};
use crate::ops::{Lowering, ReduceRule, Slices, definition};
use crate::tensor::{Attrs, DType, Layout, Literal, Op, Scalar, Shape, Type};
use smallvec::{SmallVec, smallvec};
use std::panic::Location;

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
    /// What nodes with graphs of their own do.
    pub regions: Vec<Region>,
    /// What positions are checked for.
    pub checks: Vec<Check>,
}

/// A gather whose positions are checked before.
pub(super) struct Check {
    pub op: Op,
    /// The type of the operand.
    pub of: Type,
    /// The axis of the positions.
    pub axis: usize,
    /// The node that checks them.
    pub node: NodeIndex,
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
    /// Nowhere: its elements, of i64, are their own positions.
    Position,
}

/// An op, its operands and results.
pub(super) struct FlatNode {
    pub kind: Kind,
    pub attrs: Attrs,
    pub inputs: SmallVec<[Access; 3]>,
    pub outputs: SmallVec<[ValueIndex; 1]>,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
}

/// What an op does.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// An elementwise op; its operands, with the positions that it may read, are broadcast already.
    Map(Op),
    /// A copy to row-major memory.
    Copy,
    /// A function of the position.
    Generate(Op),
    /// A reduction.
    Reduce(&'static ReduceRule),
    /// The elements of the first operand, which is in memory, at the positions along an axis of it that the
    /// second one has: both operands move along the axes of the result. Where `check` refuses positions,
    /// nothing is gathered.
    Gather { axis: Positions, check: Option<NodeIndex> },
    /// Refuses the positions of a gather.
    Check(usize),
    /// A product of matrices.
    Product,
    /// An op that runs as a whole.
    Library(Op),
    /// A result that consists of the operands. What computes them writes it, or copies of them do: it
    /// is no step ([`super::slices`]).
    Slices(Op),
    /// The region of that number.
    Region(usize),
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
    pub fn whole(value: ValueIndex, dtype: DType, shape: &[usize]) -> Self {
        Self { source: Source::Value(value), dtype, layout: Layout::contiguous(shape) }
    }

    pub fn with_layout(&self, layout: Layout) -> Self {
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
    /// The node that computes a value.
    pub fn producer(&self, value: ValueIndex) -> Option<NodeIndex> {
        match self.values[value].origin {
            Origin::Node(node) => Some(node),
            Origin::Input(_) | Origin::Constant(_) | Origin::Position => None,
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

    /// Where the operands of a [`Kind::Slices`] lie in its result.
    pub fn slices(&self, node: &FlatNode) -> Slices {
        let Kind::Slices(op) = node.kind else { unreachable!("other results do not consist of operands") };
        let Lowering::Slices(rule) = &definition(op).lowering else {
            unreachable!("the kind of a node follows from its op")
        };
        let shapes: SmallVec<[&[usize]; 4]> = node.inputs.iter().map(|it| it.layout.shape()).collect();
        rule(&node.attrs, &shapes, &Layout::contiguous(&self.values[node.outputs[0]].shape))
    }

    /// Results of a node that runs as a whole, each with an operand in whose memory it may lie, if
    /// nobody reads that later.
    pub fn updated(&self, node: &FlatNode) -> SmallVec<[(ValueIndex, ValueIndex); 1]> {
        let pairs = match node.kind {
            Kind::Library(op) if matches!(definition(op).lowering, Lowering::Update) => smallvec![(0, 0)],
            Kind::Region(number) => self.regions[number].updated(),
            _ => return SmallVec::new(),
        };
        let pair = |(result, operand): (usize, usize)| {
            let access = &node.inputs[operand];
            let value = access.value().filter(|_| self.is_whole(access))?;
            let reads = node.inputs.iter().filter(|it| it.value() == Some(value)).count();
            (reads == 1).then_some((node.outputs[result], value))
        };
        pairs.into_iter().filter_map(pair).collect()
    }

    /// Adds a value.
    pub fn add_value(&mut self, dtype: DType, shape: Shape, origin: Origin) -> ValueIndex {
        self.values.push(FlatValue { dtype, shape, origin });
        self.values.len() - 1
    }
}

/// Operands or results.
pub(super) type Accesses = SmallVec<[Access; 3]>;

/// Numbers of results, each with that of an operand in whose memory it may lie.
pub(super) type Updated = SmallVec<[(usize, usize); 1]>;

/// What a node with graphs does.
#[derive(Debug)]
pub(super) enum Region {
    /// Runs a routine on its operands.
    Call(RoutineId, Updated),
    /// Runs one of two routines on the operands behind the first, the condition.
    Branch([RoutineId; 2], Updated),
    /// Repeats a routine.
    Loop(RegionLoop),
}

/// A loop. Operands: the first condition or the number of iterations, where [`Trips`] has one,
/// then carries, sequences, and what stays the same. Results: carries, the number of iterations,
/// where it is wanted, series; then memory of the loop's own: for the next condition, and a
/// spare for each chain of carries.
#[derive(Debug)]
pub(super) struct RegionLoop {
    pub body: RoutineId,
    pub trips: Trips,
    pub next: Vec<NextCarry>,
    pub sequences: usize,
    pub series: usize,
}

impl Region {
    /// Numbers of results, each with that of an operand in whose memory it may lie: what routines
    /// update, and carries that iterations write over.
    pub fn updated(&self) -> Updated {
        match self {
            Self::Call(_, updated) | Self::Branch(_, updated) => updated.clone(),
            Self::Loop(it) => {
                let first = usize::from(!matches!(it.trips, Trips::Times { .. }));
                let carries = it.next.iter().enumerate().filter(|(_, next)| **next == NextCarry::Updated);
                carries.map(|(carry, _)| (carry, first + carry)).collect()
            }
        }
    }
}

/// How often a loop runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trips {
    While { counted: bool },
    Times { count: usize, reverse: bool },
    Counted { reverse: bool },
}

//! A graph of ops that compute, on operands that are views of row-major values.

use super::gather::Positions;
use super::plan::{NextCarry, RoutineId};
use crate::ir::{Contraction, ContractionRanks, ContractionTypes, Precision};
use crate::ops::{Lowering, ReduceRule, Slices, definition};
use crate::tensor::{Attrs, DType, Layout, Literal, Op, Scalar, Shape, Type};
use smallvec::{SmallVec, smallvec};
use std::panic::Location;
use std::rc::Rc;

/// The index of a [`FlatValue`].
pub(super) type ValueIndex = usize;

/// The index of a [`FlatNode`].
pub(super) type NodeIndex = usize;

/// The index of a [`Check`].
pub(super) type CheckIndex = usize;

/// A graph of ops that compute.
#[derive(Default)]
pub(super) struct Flat {
    pub values: Vec<FlatValue>,
    /// In execution order.
    pub nodes: Vec<FlatNode>,
    /// The value of each output; outputs are distinct values, none of which is an input or a constant.
    pub outputs: Vec<ValueIndex>,
    pub constants: Vec<Literal>,
    /// What nodes with regions do.
    pub regions: Vec<Region>,
    /// The checks of positions.
    pub checks: Vec<Check>,
}

/// A gather whose positions are checked before it.
pub(super) struct Check {
    pub op: Op,
    /// The type of the operand.
    pub of: Type,
    /// The axis that the positions refer to.
    pub axis: usize,
    /// The node that checks them.
    pub node: NodeIndex,
}

/// A value; if it is stored, it is row-major.
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
    /// No memory: its elements, of i64, are their own positions.
    Position,
}

/// An op, its operands and results.
pub(super) struct FlatNode {
    pub kind: Kind,
    pub attrs: Attrs,
    pub inputs: SmallVec<[Access; 3]>,
    pub outputs: SmallVec<[ValueIndex; 1]>,
    /// The source location in the user's program.
    pub location: Option<&'static Location<'static>>,
}

/// What an op does.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// An elementwise op; its operands, including positions, are broadcast already.
    Map(Op),
    /// A copy to row-major memory.
    Copy,
    /// A function of the position.
    Generate(Op),
    /// A reduction.
    Reduce(&'static ReduceRule),
    /// The elements of the first operand, which is in memory, at the positions along an axis of it that are
    /// in the second one: the layouts of both operands have the axes of the result. If `check` fails, nothing
    /// is gathered.
    Gather { axis: Positions, check: Option<CheckIndex> },
    /// Fails for invalid positions of a gather.
    Check(CheckIndex),
    /// A contraction.
    Contraction(ContractionRanks),
    /// An op that is a step of its own.
    Library(Op),
    /// A result that consists of the operands. It is written by the kernels that compute these, or by copies
    /// of them: it is not a step ([`super::slices`]).
    Slices(Op),
    /// The region with that index.
    Region(usize),
}

/// An operand: a value, and which elements of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Access {
    pub source: Source,
    pub dtype: DType,
    /// The positions of the elements in the row-major value.
    pub layout: Layout,
}

/// What an operand is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Source {
    /// A value.
    Value(ValueIndex),
    /// One number for all elements.
    Splat(Scalar),
}

impl Access {
    pub fn whole(value: ValueIndex, dtype: DType, shape: &[usize]) -> Self {
        Self { source: Source::Value(value), dtype, layout: Layout::contiguous(shape) }
    }

    pub fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..*self }
    }

    /// The value; `None` for a splat.
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

    /// By value, how often operands and outputs are it.
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.values.len()];
        let read = self.nodes.iter().flat_map(|it| &it.inputs).filter_map(Access::value);
        read.chain(self.outputs.iter().copied()).for_each(|it| uses[it] += 1);
        uses
    }

    /// Number of elements of a value.
    pub fn numel(&self, value: ValueIndex) -> usize {
        self.values[value].shape.iter().fold(1, |all: usize, &it| all.saturating_mul(it))
    }

    /// Returns whether an access is to all elements of its value in row-major order.
    pub fn is_whole(&self, access: &Access) -> bool {
        let whole = |value| access.layout.numel() == self.numel(value) && access.layout.offset() == 0;
        access.layout.is_contiguous() && access.value().is_some_and(whole)
    }

    /// A contraction, whose result is row-major.
    pub fn contraction(&self, node: &FlatNode, precision: Precision) -> Contraction {
        let (Kind::Contraction(ranks), [a, b]) = (node.kind, &node.inputs[..]) else {
            unreachable!("a contraction has two operands")
        };
        let dtype = self.values[node.outputs[0]].dtype;
        let types = ContractionTypes { a: a.dtype, b: b.dtype, accumulator: dtype.compute(), out: dtype };
        let (rows, columns) = (a.layout.rank() - ranks.k, &b.layout.shape()[ranks.batch + ranks.k..]);
        let shape: Shape = a.layout.shape()[..rows].iter().chain(columns).copied().collect();
        let layouts = [&a.layout, &b.layout, &Layout::contiguous(&shape)];
        Contraction::new(types, precision, ranks, layouts).expect("the type rule has accepted the operands")
    }

    /// The positions of the operands of a [`Kind::Slices`] in its result.
    pub fn slices(&self, node: &FlatNode) -> Slices {
        let Kind::Slices(op) = node.kind else { unreachable!("other results do not consist of operands") };
        let Lowering::Slices(rule) = &definition(op).lowering else {
            unreachable!("the kind of a node follows from its op")
        };
        let shapes: SmallVec<[&[usize]; 4]> = node.inputs.iter().map(|it| it.layout.shape()).collect();
        rule(&node.attrs, &shapes, &Layout::contiguous(&self.values[node.outputs[0]].shape))
    }

    /// Results of a node that is a step of its own, each with an operand whose memory it may reuse if that is
    /// not read later.
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

    /// Removes the nodes for which `keep` returns false; it is called in order.
    pub fn retain_nodes(&mut self, mut keep: impl FnMut(NodeIndex, &FlatNode) -> bool) {
        let mut next = 0..;
        self.nodes.retain(|it| keep(next.next().expect("the range has no end"), it));
        for (index, node) in self.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|&it| self.values[it].origin = Origin::Node(index));
            if let Kind::Check(check) = node.kind {
                self.checks[check].node = index;
            }
        }
    }

    /// Adds a value.
    pub fn add_value(&mut self, dtype: DType, shape: Shape, origin: Origin) -> ValueIndex {
        self.values.push(FlatValue { dtype, shape, origin });
        self.values.len() - 1
    }
}

/// Operands or results.
pub(super) type Accesses = SmallVec<[Access; 3]>;

/// Indices of results, each with that of an operand whose memory it may reuse.
pub(super) type Updated = SmallVec<[(usize, usize); 1]>;

/// What a node with regions does.
pub(super) enum Region {
    /// Runs a routine on its operands.
    Call(RoutineId, Updated),
    /// Runs one of two routines on all operands but the first, which is the condition.
    Branch([RoutineId; 2], Updated),
    /// Repeats a routine.
    Loop(RegionLoop),
    /// A loop that is a kernel; a scan has a number of iterations.
    Repeat(Rc<Repetition>, Option<usize>),
}

/// A loop. Operands: the first condition or the number of iterations, if [`Trips`] has one, then carries,
/// sequences and invariants. Results: carries, the number of iterations, if it is used, series; then scratch
/// memory of the loop: for the next condition, and a spare for each chain of carries.
#[derive(Debug)]
pub(super) struct RegionLoop {
    pub body: RoutineId,
    pub trips: Trips,
    pub next: Vec<NextCarry>,
    pub sequences: usize,
    pub series: usize,
}

impl Region {
    /// Indices of results, each with that of an operand whose memory it may reuse: those that routines
    /// update, and carries that iterations overwrite.
    pub fn updated(&self) -> Updated {
        match self {
            Self::Call(_, updated) | Self::Branch(_, updated) => updated.clone(),
            Self::Repeat(..) => Updated::new(),
            Self::Loop(it) => {
                let first = usize::from(!matches!(it.trips, Trips::Times { .. }));
                let carries = it.next.iter().enumerate().filter(|(_, next)| **next == NextCarry::Updated);
                carries.map(|(carry, _)| (carry, first + carry)).collect()
            }
        }
    }
}

/// A `while`, or a scan of a constant number of iterations without sequences and series, every value of which has one
/// element, or as many as all others that have several. The condition has one: it is the same for all elements, each of
/// which has iterations of its own.
pub(super) struct Repetition {
    /// The nodes of the condition, if there is one, then those of the body; its inputs are the carries, then the
    /// invariants.
    pub flat: Flat,
    /// The number of the nodes of the condition.
    pub tested: usize,
    /// `None` for a scan.
    pub condition: Option<Access>,
    /// The next values of the carries.
    pub next: Accesses,
    /// The number of elements of values with several.
    pub elements: usize,
}

/// The number of iterations of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trips {
    While { counted: bool },
    Times { count: usize, reverse: bool },
    Counted { reverse: bool },
}

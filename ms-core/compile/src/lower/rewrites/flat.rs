//! Defines a graph of computing ops whose operands are views of row-major values.

use crate::lower::fusion::gather::Positions;
use crate::lower::plan::{NextCarry, RoutineId};
use ms_ir::MapVec;
use ms_ir::data::{Attrs, DType, Layout, Literal, Op, Scalar, Shape, Type};
use ms_ir::op::{Effects, Lowering, ReduceRule, Slices, definition};
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, Precision};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::panic::Location;
use std::rc::Rc;

/// The index of a [`FlatValue`].
pub(in crate::lower) type ValueIndex = usize;

/// The index of a [`FlatNode`].
pub(in crate::lower) type NodeIndex = usize;

/// The index of a [`Check`].
pub(in crate::lower) type CheckIndex = usize;

/// A graph of computing ops.
#[derive(Default)]
pub(in crate::lower) struct Flat {
    pub values: Vec<FlatValue>,
    /// The nodes in execution order.
    pub nodes: Vec<FlatNode>,
    /// The value of each output; outputs are distinct values, none of which is an input or a constant.
    pub outputs: Vec<ValueIndex>,
    pub constants: Vec<Literal>,
    /// The regions of nodes that have them.
    pub regions: Vec<Region>,
    /// The checks of operands.
    pub checks: Vec<Check>,
    /// The values that ops of [`Lowering::Check`] return, and that later library ops rely on.
    pub checked: FxHashSet<ValueIndex>,
}

/// A check of an operand of an op.
pub(in crate::lower) struct Check {
    pub op: Op,
    /// The types of all operands of the op.
    pub operands: Vec<Type>,
    /// The node that fails if the check refuses an element. It has the attributes of the op.
    pub node: NodeIndex,
}

/// A value. A stored value is row-major.
#[derive(Debug)]
pub(in crate::lower) struct FlatValue {
    pub dtype: DType,
    pub shape: Shape,
    pub origin: Origin,
}

/// The origin of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lower) enum Origin {
    Input(u32),
    Constant(u32),
    Node(NodeIndex),
    /// An iota of i64 elements, which is not materialised.
    Position,
}

/// An op, its operands and results.
pub(in crate::lower) struct FlatNode {
    pub kind: Kind,
    pub attrs: Attrs,
    pub inputs: Accesses,
    pub outputs: Shape,
    /// The source location in the user's program.
    pub location: Option<&'static Location<'static>>,
}

/// The operation of a node.
#[derive(Clone, Copy)]
pub(in crate::lower) enum Kind {
    /// An elementwise op, or the terms of its check ([`OpDef::build_check`](ms_ir::op::OpDef::build_check)). Operands,
    /// including indices, are already broadcast.
    Map(Op),
    /// A copy to row-major memory.
    Copy,
    /// A function of the element's index.
    Generate(Op),
    /// A reduction.
    Reduce(&'static ReduceRule),
    /// Gathers elements of the first operand, which is in memory. The second operand contains the indices along an axis
    /// of the first. The layouts of both operands have the axes of the result. It runs after `check`.
    Gather { axis: Positions, check: Option<CheckIndex> },
    /// Fails if a check refuses an element. The operands are the record of the check, which a kernel writes, the
    /// checked operand, and those that the error shows.
    Check(CheckIndex),
    /// A contraction.
    Contraction(ContractionRanks),
    /// An op that is a separate step.
    Library(Op),
    /// A result that consists of the operands as slices. The kernels that compute the operands write it, or copies of
    /// them do, so it is not a step ([`crate::lower::fusion::slices`]).
    Slices(Op),
    /// The region with that index.
    Region(usize),
}

/// An operand: a view of a value.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::lower) struct Access {
    pub source: Source,
    pub dtype: DType,
    /// The positions of the elements in the row-major value.
    pub layout: Layout,
}

/// The source of an operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::lower) enum Source {
    /// A value.
    Value(ValueIndex),
    /// A scalar for all elements.
    Splat(Scalar),
}

impl Access {
    pub fn whole(value: ValueIndex, dtype: DType, shape: &[usize]) -> Self {
        Self { source: Source::Value(value), dtype, layout: Layout::contiguous(shape) }
    }

    pub fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..*self }
    }

    /// Returns the value; `None` for a splat.
    pub fn value(&self) -> Option<ValueIndex> {
        match self.source {
            Source::Value(value) => Some(value),
            Source::Splat(_) => None,
        }
    }
}

impl FlatNode {
    /// Returns the effects of an op that is a separate step. Other nodes have none that lowering depends on.
    pub fn effects(&self) -> Effects {
        match self.kind {
            Kind::Library(op) => definition(op).effects,
            _ => Effects::NONE,
        }
    }
}

impl Flat {
    /// Returns the node that computes a value.
    pub fn producer(&self, value: ValueIndex) -> Option<NodeIndex> {
        match self.values[value].origin {
            Origin::Node(node) => Some(node),
            Origin::Input(_) | Origin::Constant(_) | Origin::Position => None,
        }
    }

    /// Returns the number of uses of each value, by operands and outputs.
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.values.len()];
        let read = self.nodes.iter().flat_map(|it| &it.inputs).filter_map(Access::value);
        read.chain(self.outputs.iter().copied()).for_each(|it| uses[it] += 1);
        uses
    }

    /// Returns the number of elements of a value.
    pub fn numel(&self, value: ValueIndex) -> usize {
        self.values[value].shape.iter().fold(1, |all: usize, &it| all.saturating_mul(it))
    }

    /// Returns whether an access covers all elements of its value in row-major order.
    pub fn is_whole(&self, access: &Access) -> bool {
        let whole = |value| access.layout.numel() == self.numel(value) && access.layout.offset() == 0;
        access.layout.is_contiguous() && access.value().is_some_and(whole)
    }

    /// Returns the contraction of a node. Its result is row-major.
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

    /// Returns the positions of the operands of a [`Kind::Slices`] in its result.
    pub fn slices(&self, node: &FlatNode) -> Slices {
        let Kind::Slices(op) = node.kind else { unreachable!("other results do not consist of operands") };
        let Lowering::Slices(rule) = &definition(op).lowering else {
            unreachable!("the kind of a node follows from its op")
        };
        let shapes: Vec<&[usize]> = node.inputs.map_vec(|it| it.layout.shape());
        rule(&node.attrs, &shapes, &Layout::contiguous(&self.values[node.outputs[0]].shape))
    }

    /// Returns the results of a node that is a separate step, each with an operand whose memory it may reuse. No later
    /// step may read that operand.
    pub fn updated(&self, node: &FlatNode) -> Updated {
        let pairs = match node.kind {
            Kind::Library(op) if matches!(definition(op).lowering, Lowering::Update) => vec![(0, 0)],
            Kind::Region(number) => self.regions[number].updated(),
            _ => return Vec::new(),
        };
        let pair = |(result, operand): (usize, usize)| {
            let access = &node.inputs[operand];
            let value = access.value().filter(|_| self.is_whole(access))?;
            let reads = node.inputs.iter().filter(|it| it.value() == Some(value)).count();
            (reads == 1).then_some((node.outputs[result], value))
        };
        pairs.into_iter().filter_map(pair).collect()
    }

    /// Returns the operands of the start that a node ends. They are in use until then.
    pub fn pending<'a>(&'a self, node: &'a FlatNode) -> impl Iterator<Item = ValueIndex> + 'a {
        let inputs = if node.effects().any_of(Effects::DONE) { &node.inputs[..] } else { &[] };
        let producers = inputs.iter().filter_map(|it| self.producer(it.value()?)).map(|it| &self.nodes[it]);
        let starts = producers.filter(|it| it.effects().any_of(Effects::PENDING));
        starts.flat_map(|it| &it.inputs).filter_map(Access::value)
    }

    /// Removes the nodes for which `keep` returns false. `keep` is called in node order.
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
pub(in crate::lower) type Accesses = SmallVec<[Access; 3]>;

/// Pairs of a result index and the index of an operand whose memory the result may reuse.
pub(in crate::lower) type Updated = Vec<(usize, usize)>;

/// The semantics of a node with regions.
pub(in crate::lower) enum Region {
    /// Runs a routine on its operands.
    Call(RoutineId, Updated),
    /// Runs one of two routines on all operands but the first, which is the condition.
    Branch([RoutineId; 2], Updated),
    /// Repeats a routine.
    Loop(RegionLoop),
    /// A loop that is a kernel; the number of iterations is known for a scan.
    Repeat(Rc<Repetition>, Option<usize>),
}

/// A loop over regions.
///
/// Operands: the first condition or the number of iterations, if [`TripCount`] has one, then carries, sequences and
/// invariants. Results: carries, the number of iterations if it is used, and series. Scratch memory of the loop
/// follows: for the next condition, and one spare for each chain of carries.
#[derive(Debug)]
pub(in crate::lower) struct RegionLoop {
    pub body: RoutineId,
    pub trips: TripCount,
    pub next: Vec<NextCarry>,
    pub sequences: usize,
    pub series: usize,
}

impl Region {
    /// Returns pairs of a result and an operand whose memory it may reuse: results that routines update in place, and
    /// carries that iterations overwrite.
    pub fn updated(&self) -> Updated {
        match self {
            Self::Call(_, updated) | Self::Branch(_, updated) => updated.clone(),
            Self::Repeat(..) => Updated::new(),
            Self::Loop(it) => {
                let first = usize::from(!matches!(it.trips, TripCount::Fixed { .. }));
                let carries = it.next.iter().enumerate().filter(|(_, next)| **next == NextCarry::Updated);
                carries.map(|(carry, _)| (carry, first + carry)).collect()
            }
        }
    }
}

/// A loop that may be a kernel: a `while`, or a scan with a constant number of iterations and no sequences or series.
///
/// Every value has either one element or the common number of elements. The condition has one element, so all elements
/// have the same number of iterations.
pub(in crate::lower) struct Repetition {
    /// The nodes of the condition, if there is one, then those of the body. Its inputs are the carries, then the
    /// invariants.
    pub flat: Flat,
    /// The number of the nodes of the condition.
    pub tested: usize,
    /// The condition; `None` for a scan.
    pub condition: Option<Access>,
    /// The next values of the carries.
    pub next: Accesses,
    /// The number of elements of values with several.
    pub elements: usize,
}

/// The number of iterations of a loop.
#[derive(Clone, Copy, Debug)]
pub(in crate::lower) enum TripCount {
    While { counted: bool },
    Fixed { count: usize, reverse: bool },
    Counted { reverse: bool },
}

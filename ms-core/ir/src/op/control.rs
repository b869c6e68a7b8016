//! Control flow: how nodes run their regions.

use crate::data::{Dim, Type};
use std::ops::Range;

/// The way in which a node runs its regions, with the attributes of its op.
#[derive(Clone, PartialEq, Debug)]
pub enum Control {
    /// Runs region 0 on the operands, once. Its results are the results of the node.
    Call {
        /// Whether the nodes of the region may replace the call.
        inline: bool,
    },
    /// Runs region 0 as a call. Gradients recompute the values of the region.
    Recompute,
    /// Runs region 0 if operand 0 is true, otherwise region 1, on the remaining operands.
    Branch,
    /// Runs the last region any number of times.
    Loop(Loop),
    /// Runs region 0; region 1 computes its gradients.
    CustomVjp(CustomVjp),
    /// Transforms the function in region 0; the transform is expanded before execution.
    TransformNode(TransformNode),
}

/// The form of a loop. The last region is its body.
///
/// The inputs of the body are the carries, one element of each sequence, and the invariants. Its outputs are the
/// carries of the next iteration, then one row of each stack.
///
/// The operands from [`Loop::first_carry`] on are the initial carries, the sequences and the invariants. The results
/// are the last carries, then the number of iterations for a `while` with stacks, then the stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loop {
    /// The number of times that the body runs.
    pub trips: TripCount,
    /// The number of carries.
    pub carries: usize,
    /// The number of sequences.
    pub sequences: usize,
}

/// The number of times that the body of a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TripCount {
    /// Runs while the result of region 0, which has the same inputs, is true. Such a loop has no sequences.
    While,
    /// Runs a fixed number of times.
    Fixed {
        /// The number of iterations.
        count: usize,
        /// Whether sequences are read from the last element to the first.
        reverse: bool,
    },
    /// Runs as often as operand 0 says.
    Counted {
        /// Whether sequences are read from the last element to the first.
        reverse: bool,
    },
}

impl Control {
    /// Returns the loop, if there is one.
    pub fn as_loop(&self) -> Option<Loop> {
        match self {
            Self::Loop(at) => Some(*at),
            _ => None,
        }
    }

    /// Returns the operand that initialises an input of the regions: for a carry, its initial value.
    ///
    /// Returns `None` for an element of a sequence, and for every input of a custom VJP or a `vmap`.
    pub fn operand(&self, input: usize) -> Option<usize> {
        match self {
            Self::Call { .. } | Self::Recompute => Some(input),
            Self::Branch => Some(1 + input),
            Self::Loop(at) => (!at.elements().contains(&input)).then(|| at.first_carry() + input),
            Self::CustomVjp(_) => None,
            Self::TransformNode(it) => it.runs_region().then_some(input),
        }
    }

    /// Returns the result that an output of a region becomes: for a carry, its last value.
    ///
    /// Returns `None` for a condition, for a row of a stack, and for every output of a custom VJP or a `vmap`.
    pub fn result(&self, region: usize, output: usize) -> Option<usize> {
        match self {
            Self::Call { .. } | Self::Recompute | Self::Branch => Some(output),
            Self::Loop(at) => (region == at.body() && output < at.carries).then_some(output),
            Self::CustomVjp(_) => None,
            Self::TransformNode(it) => it.runs_region().then_some(output),
        }
    }
}

impl Loop {
    /// Creates a loop over sequences with `length` iterations, or a number given by operand 0.
    pub fn scan(length: Option<usize>, carries: usize, sequences: usize, reverse: bool) -> Self {
        let trips = match length {
            Some(count) => TripCount::Fixed { count, reverse },
            None => TripCount::Counted { reverse },
        };
        Self { trips, carries, sequences }
    }

    /// Creates a loop with a condition.
    pub fn repeat(carries: usize) -> Self {
        Self { trips: TripCount::While, carries, sequences: 0 }
    }

    /// Whether region 0 is a condition.
    pub fn is_while(&self) -> bool {
        self.trips == TripCount::While
    }

    /// Whether operand 0 is the number of iterations.
    pub fn is_counted(&self) -> bool {
        matches!(self.trips, TripCount::Counted { .. })
    }

    /// Returns the number of iterations, if it is fixed.
    pub fn length(&self) -> Option<usize> {
        match self.trips {
            TripCount::Fixed { count, .. } => Some(count),
            TripCount::While | TripCount::Counted { .. } => None,
        }
    }

    /// Whether sequences are read and stacks are filled from last to first.
    pub fn reverse(&self) -> bool {
        match self.trips {
            TripCount::While => false,
            TripCount::Fixed { reverse, .. } | TripCount::Counted { reverse } => reverse,
        }
    }

    /// Returns the index of the body among the regions.
    pub fn body(&self) -> usize {
        usize::from(self.is_while())
    }

    /// Returns the position of the first carry among the operands.
    pub fn first_carry(&self) -> usize {
        usize::from(self.is_counted())
    }

    /// Returns the inputs of the body that are elements of sequences.
    pub fn elements(&self) -> Range<usize> {
        self.carries..self.invariants()
    }

    /// Returns the position of the first invariant among the inputs of the body.
    pub fn invariants(&self) -> usize {
        self.carries + self.sequences
    }

    /// Returns the position of the first stack among the results.
    pub fn first_stack(&self) -> usize {
        self.carries + usize::from(self.is_while())
    }
}

/// A transform of a function, with the attributes of its op.
#[derive(Clone, PartialEq, Debug)]
pub enum TransformNode {
    /// Returns the outputs, and the gradients of the sum of the first `results` outputs, weighted if `seeded`.
    ValueAndGrad {
        /// The operands with respect to which gradients are taken.
        wrt: Vec<usize>,
        /// The number of outputs that are differentiated.
        results: usize,
        /// Whether the last operands are the weights of these outputs.
        seeded: bool,
    },
    /// Returns the outputs, and the tangents of the first `results` of them.
    Jvp {
        /// The operands with tangents; the tangents are the last operands.
        wrt: Vec<usize>,
        /// The number of outputs with tangents, if they are floats.
        results: usize,
    },
    /// Applies the function to each of `size` lanes.
    Vmap {
        /// The number of lanes.
        size: Dim,
        /// Whether each operand has a lane axis.
        operands: Vec<Lane>,
        /// Whether each result has a lane axis.
        results: Vec<Lane>,
    },
}

impl TransformNode {
    /// Whether the first operands are the inputs of the region, and the first results its outputs.
    fn runs_region(&self) -> bool {
        match self {
            Self::ValueAndGrad { .. } | Self::Jvp { .. } => true,
            Self::Vmap { .. } => false,
        }
    }
}

/// The partition of the operands and results of a node with a custom VJP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CustomVjp {
    /// The number of operands with gradients.
    pub targets: usize,
    /// The end of the operands of region 0.
    pub captured: usize,
    /// The number of results with gradients.
    pub results: usize,
    /// The number of backward slots that are threaded through.
    pub slots: usize,
}

impl CustomVjp {
    /// Returns the number of gradients that region 1 returns: one for each target and each slot.
    pub fn gradients(&self) -> usize {
        self.targets + self.slots
    }

    /// Returns the results that are backward slots.
    pub fn slot_results(&self) -> Range<usize> {
        self.results..self.results + self.slots
    }
}

/// Whether an operand or a result of a `vmap` has a lane axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// A value that all lanes share; a result that differs between lanes is an error.
    Shared,
    /// A value per lane, along the first axis.
    Mapped,
    /// A result that may differ between lanes, of which the largest element is returned: the state of a random
    /// generator.
    Max,
}

impl Lane {
    /// Encodes the variant as an attribute.
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// Decodes the variant of an attribute.
    pub const fn of(code: i64) -> Self {
        match code {
            0 => Self::Shared,
            1 => Self::Mapped,
            _ => Self::Max,
        }
    }

    /// Returns the type for all lanes from the type for one.
    pub fn spread(self, ty: &Type, lanes: Dim) -> Type {
        if self == Self::Mapped { ty.stacked(lanes) } else { ty.clone() }
    }
}

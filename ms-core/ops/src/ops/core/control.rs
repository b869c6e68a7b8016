//! Control flow: how nodes run their regions.

use super::Lowering;
use crate::ops::{
    CALL, CALL_NO_INLINE, CUSTOM_VJP, CustomVjp, IF, JVP, Lane, RECOMPUTE, SCAN, VALUE_AND_GRAD, VMAP, WHILE,
    definition,
};
use crate::ops::{jvp, scan, value_and_grad, vmap, while_loop};
use crate::tensor::{Attrs, Dim, Op};
use ms_ir::Node;
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
/// The operands from [`Loop::first`] on are the initial carries, the sequences and the invariants. The results are the
/// last carries, then the number of iterations for a `while` with stacks, then the stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loop {
    /// The number of times that the body runs.
    pub trips: Trips,
    /// The number of carries.
    pub carries: usize,
    /// The number of sequences.
    pub sequences: usize,
}

/// The number of times that the body of a loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trips {
    /// Runs while the result of region 0, which has the same inputs, is true. Such a loop has no sequences.
    While,
    /// Runs a fixed number of times.
    Times {
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
    /// Returns the control of a node; `None` if the node has no regions.
    #[inline]
    pub fn of(node: &Node) -> Option<Self> {
        if node.regions.is_empty() {
            return None;
        }
        match &definition(node.op).lowering {
            Lowering::Regions(rule) => Some((rule.control)(&node.attrs)),
            _ => None,
        }
    }

    /// Returns the op of such a node.
    pub fn op(&self) -> Op {
        match self {
            Self::Call { inline: true } => CALL.op(),
            Self::Call { inline: false } => CALL_NO_INLINE.op(),
            Self::Recompute => RECOMPUTE.op(),
            Self::Branch => IF.op(),
            Self::Loop(at) => at.op(),
            Self::CustomVjp(_) => CUSTOM_VJP.op(),
            Self::TransformNode(it) => it.op(),
        }
    }

    /// Returns the attributes of such a node.
    pub fn attrs(&self) -> Attrs {
        match self {
            Self::Call { .. } | Self::Recompute | Self::Branch => Attrs::none(),
            Self::Loop(at) => at.attrs(),
            Self::CustomVjp(at) => at.attrs(),
            Self::TransformNode(it) => it.attrs(),
        }
    }

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
            Self::Loop(at) => (!at.elements().contains(&input)).then(|| at.first() + input),
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
            Some(count) => Trips::Times { count, reverse },
            None => Trips::Counted { reverse },
        };
        Self { trips, carries, sequences }
    }

    /// Creates a loop with a condition.
    pub fn repeat(carries: usize) -> Self {
        Self { trips: Trips::While, carries, sequences: 0 }
    }

    /// Whether region 0 is a condition.
    pub fn is_while(&self) -> bool {
        self.trips == Trips::While
    }

    /// Whether operand 0 is the number of iterations.
    pub fn is_counted(&self) -> bool {
        matches!(self.trips, Trips::Counted { .. })
    }

    /// Returns the number of iterations, if it is fixed.
    pub fn length(&self) -> Option<usize> {
        match self.trips {
            Trips::Times { count, .. } => Some(count),
            Trips::While | Trips::Counted { .. } => None,
        }
    }

    /// Whether sequences are read and stacks are filled from last to first.
    pub fn reverse(&self) -> bool {
        match self.trips {
            Trips::While => false,
            Trips::Times { reverse, .. } | Trips::Counted { reverse } => reverse,
        }
    }

    /// Returns the index of the body among the regions.
    pub fn body(&self) -> usize {
        usize::from(self.is_while())
    }

    /// Returns the position of the first carry among the operands.
    pub fn first(&self) -> usize {
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
    pub fn stacked(&self) -> usize {
        self.carries + usize::from(self.is_while())
    }

    fn op(&self) -> Op {
        if self.is_while() { WHILE.op() } else { SCAN.op() }
    }

    fn attrs(&self) -> Attrs {
        if self.is_while() { while_loop::attrs(self) } else { scan::attrs(self) }
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

    fn op(&self) -> Op {
        match self {
            Self::ValueAndGrad { .. } => VALUE_AND_GRAD.op(),
            Self::Jvp { .. } => JVP.op(),
            Self::Vmap { .. } => VMAP.op(),
        }
    }

    fn attrs(&self) -> Attrs {
        match self {
            Self::ValueAndGrad { wrt, results, seeded } => {
                value_and_grad::ValueAndGradAttrs::attrs(&wrt[..], *results, *seeded)
            }
            Self::Jvp { wrt, results } => jvp::JvpAttrs::attrs(&wrt[..], *results),
            Self::Vmap { size, operands, results } => {
                let codes = |lanes: &[Lane]| lanes.iter().map(|it| it.code()).collect::<Vec<i64>>();
                vmap::VmapAttrs::attrs(*size, &codes(operands)[..], &codes(results)[..])
            }
        }
    }
}

//! What ops do besides computing their results.

use crate::ir::{Graph, subgraphs};
use crate::ops::definition;

/// What an op does besides computing its results from its operands, as a set.
///
/// Results depend on operands only, whatever the effects: random numbers are functions of a state, and values of
/// slots are values of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effects(u8);

impl Effects {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// It refuses some values of its operands: the run ends with an error.
    pub const REFUSES: Self = Self(1);
    /// It acts in program order with others: operand 0 is the token, and result 0 the next one.
    pub const ORDERED: Self = Self(1 << 1);
    /// Operand 0 becomes the value of the slot whose value is operand 1.
    pub const WRITES: Self = Self(1 << 2);
    /// It draws random numbers, which differ between lanes even if operands do not.
    pub const RANDOM: Self = Self(1 << 3);
    /// It starts or ends a watch on the results of the ops in between.
    pub const WATCHES: Self = Self(1 << 4);
    /// Those of the nodes in its regions; loops may not end.
    pub const REGIONS: Self = Self(1 << 5);
    /// It runs on the host, wherever its operands are: a function of the program.
    pub const HOST: Self = Self(1 << 6);

    /// These and those of `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of `others` is among these.
    #[inline]
    pub const fn any_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether an op with these effects may run where its results are not wanted, such as before a loop that may
    /// have no iterations.
    #[inline]
    pub const fn are_speculatable(self) -> bool {
        !self.any_of(Self::REFUSES.and(Self::ORDERED).and(Self::REGIONS))
    }

    /// Whether an op with these effects acts on the host, wherever its operands are: it prints, or is a function of
    /// the program.
    #[inline]
    pub const fn act_on_host(self) -> bool {
        self.any_of(Self::HOST) || self.any_of(Self::ORDERED) && !self.any_of(Self::REFUSES)
    }
}

/// Whether a node of a graph, or of any graph in it, has one of these effects.
pub fn has_effect(graph: &Graph, effects: Effects) -> bool {
    let has = |graph: &Graph| graph.nodes().any(|(_, node)| definition(node.op).effects.any_of(effects));
    has(graph) || subgraphs(graph).into_iter().any(|it| has(it))
}

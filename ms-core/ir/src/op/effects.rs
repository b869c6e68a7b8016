//! Side effects of ops.

/// The side effects of an op, as a set.
///
/// Results depend only on operands, whatever the effects: random numbers are functions of a state, and values of slots
/// are values of the graph. Results of a collective depend on the operands of all ranks.
///
/// All ranks run the same passes on the same graph. So a pass may remove or merge whole collectives, and starts
/// together with what ends them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effects(u16);

impl Effects {
    /// No effect.
    pub const NONE: Self = Self(0);
    /// Fails on some values of the operands: the run ends with an error.
    pub const MAY_FAIL: Self = Self(1);
    /// Acts in program order with other ops: operand 0 is the token, and result 0 the next one.
    pub const ORDERED: Self = Self(1 << 1);
    /// Writes operand 0 to the slot whose value is operand 1.
    pub const WRITES: Self = Self(1 << 2);
    /// Draws random numbers, which differ between lanes even if the operands do not.
    pub const RANDOM: Self = Self(1 << 3);
    /// Starts or ends the monitoring of the results of the ops in between.
    pub const MONITORS: Self = Self(1 << 4);
    /// Has the effects of the nodes in the regions; loops may not terminate.
    pub const REGIONS: Self = Self(1 << 5);
    /// Runs on the host, wherever the operands are: a host function.
    pub const HOST: Self = Self(1 << 6);
    /// Communicates: all ranks of a group run the op, in one order. Starts keep the order of the graph, in which all
    /// ranks agree.
    pub const COLLECTIVE: Self = Self(1 << 7);
    /// Starts work that another node ends. Until then, the operands are read and the results are written. So the memory
    /// of both is neither reused nor overwritten.
    ///
    /// Only one node reads the results, once: one with [`DONE`](Self::DONE). The [verifier](super::verify) checks that.
    pub const PENDING: Self = Self(1 << 8);
    /// Ends what the [`PENDING`](Self::PENDING) node started whose results it reads.
    pub const DONE: Self = Self(1 << 9);

    /// Returns the union with `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the two sets intersect.
    #[inline]
    pub const fn any_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether an op with these effects may run where its results are unused, such as before a loop that may have no
    /// iterations.
    #[inline]
    pub const fn are_speculatable(self) -> bool {
        self.are_local() && !self.any_of(Self::MAY_FAIL.and(Self::ORDERED).and(Self::REGIONS))
    }

    /// Whether an op with these effects computes its results from its operands alone, when it runs. Others communicate
    /// with other ranks, or start or end work.
    #[inline]
    pub const fn are_local(self) -> bool {
        !self.any_of(Self::COLLECTIVE.and(Self::PENDING).and(Self::DONE))
    }

    /// Whether an op with these effects acts on the host, wherever its operands are: it prints or is a host function.
    #[inline]
    pub const fn act_on_host(self) -> bool {
        self.any_of(Self::HOST) || self.any_of(Self::ORDERED) && !self.any_of(Self::MAY_FAIL)
    }
}

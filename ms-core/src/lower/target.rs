//! What lowering knows of the processor that a plan is for.

/// A processor, as far as it decides what graphs are lowered to. Lowering for equal targets gives
/// equal plans.
///
/// A target is part of the key of every stored plan, so it describes a kind of processor and not the
/// machine at hand: it has neither a number of threads nor the number of a device, and the sizes of
/// caches are those of a class of processors.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Bytes of the cache that every core has to itself. A row that several stages of a kernel go
    /// over stays in it; longer ones are better shared out among threads.
    pub cache_bytes: usize,
    /// A result of inputs alone with at most this many elements is computed before all else: it
    /// takes little memory until then, and every later group can read it.
    pub small_elements: usize,
    /// How much one kernel does at most.
    pub budget: Budget,
}

/// How much one kernel does at most. Costs are in instructions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// The cost of its body.
    pub cost: usize,
    /// The cost of the body of a kernel that folds 4-byte elements and touches 8-byte ones. These
    /// halve the number of lanes, which a long body pays for more than another kernel costs.
    pub wide_cost: usize,
    /// Buffers that it reads.
    pub inputs: usize,
    /// Stages with loops.
    pub loops: u32,
    /// What a loop may spend on computing a value again that an earlier loop had, instead of
    /// reading it from memory.
    pub recomputed_cost: usize,
    /// The cost of an op that may be computed for more elements than it has.
    pub repeated_cost: usize,
}

impl Target {
    /// A target of which nothing is known: no kernel is too large for it.
    pub const fn unbounded() -> Self {
        Self {
            cache_bytes: usize::MAX,
            small_elements: 0,
            budget: Budget {
                cost: usize::MAX,
                wide_cost: usize::MAX,
                inputs: usize::MAX,
                loops: u32::MAX,
                recomputed_cost: 0,
                repeated_cost: 0,
            },
        }
    }

    /// Elements of the longest row that several stages of a kernel go over, which are of four bytes
    /// as a rule.
    pub(super) fn longest_staged_row(&self) -> usize {
        self.cache_bytes / 4
    }
}

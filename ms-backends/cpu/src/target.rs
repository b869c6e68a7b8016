//! What kernels for the processor should be like.

use ms_core::lower::{Budget, Target};

/// The target of lowering, which is the same for all instruction sets: a plan, and with it the bits
/// of a result, does not depend on which of them runs it.
pub static TARGET: Target = Target {
    // The smallest second-level cache of the processors that have AVX2.
    cache_bytes: 256 << 10,
    small_elements: 1 << 10,
    // A function of its own would have other bits than the formula.
    functions: Vec::new(),
    budget: Budget { cost: 6000, wide_cost: 16, inputs: 48, loops: 8, recomputed_cost: 6, repeated_cost: 3 },
};

//! Defines the lowering targets of simulated devices.

use ms_compile::target::{Budget, Contracted, Images, Target};
use ms_ir::ReductionOrder;
use ms_ops::ops::AxisOrder;
use std::sync::LazyLock;

/// A device that runs kernels. It is like a GPU, and differs from a processor wherever a target permits. Relaxed
/// reductions have the order of blocks. Every convolution is a contraction of channels-last images (NHWC). Contractions
/// read operands of any strides. Kernels are small.
pub static KERNELS: Target = Target {
    // A warp.
    parallel_width: 32,
    // The shared memory of a thread block.
    fast_memory: 48 << 10,
    relaxed_order: ReductionOrder::Blocks,
    // Every kernel costs a launch.
    small_elements: 1 << 6,
    strided_sums: true,
    kernels: true,
    // Contractions are compiled apart from kernels.
    epilogues: &[],
    repeats: None,
    conditions: true,
    library: None,
    products: None,
    composites: &[],
    images: Images { contracted: Contracted::All, order: AxisOrder::ChannelsLast },
    // The interpreter has the instructions of formulas only.
    functions: Vec::new(),
    budget: Budget {
        cost: 1500,
        // Lanes are as many for 8-byte elements.
        wide_cost: 1500,
        inputs: 16,
        // The parameters of a kernel are at most 4,096 bytes.
        words: 512,
        loops: 4,
        recomputed_cost: 12,
        repeated_cost: 1,
        copies: 8,
    },
};

/// A device that runs ops only, as engines do that compile whole graphs of ops.
pub static OPS: LazyLock<Target> = LazyLock::new(|| Target { kernels: false, conditions: true, ..Target::unbounded() });

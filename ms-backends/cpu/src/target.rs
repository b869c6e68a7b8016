//! Defines the lowering target of the CPU.

use ms_compile::target::{Budget, Contracted, EpilogueSupport, Images, OpSupport, Producers, RepeatLimits, Target};
use ms_ir::ReductionOrder;
use ms_ir::data::DType;
use ms_ops::ops::{AxisOrder, BLOCKED_ATTENTION, BLOCKED_ATTENTION_GRAD, CONV, OpDef};

/// The composites with native loops. The order of their sums differs from that of their bodies.
static LEGAL_COMPOSITES: &[OpSupport] = &[legal(&BLOCKED_ATTENTION), legal(&BLOCKED_ATTENTION_GRAD)];

/// A smaller result stays in the cache of a core until the kernel that reads it runs.
const MIN_TILED: usize = 1 << 14;

/// The epilogues of products and of convolutions. If rows are longer, a tile of whole rows has few of them, and the GEMM
/// reads its right operand too often.
static EPILOGUES: &[EpilogueSupport] = &[
    EpilogueSupport { kernels: 1, elements: MIN_TILED, terms: 1, longest_row: 1024, ..EpilogueSupport::ALL },
    EpilogueSupport {
        producers: Producers::Library(&[CONV.op()]),
        kernels: 1,
        elements: MIN_TILED,
        ..EpilogueSupport::ELEMENTWISE
    },
];

const fn legal(def: &'static OpDef) -> OpSupport {
    OpSupport::new(def.op(), DType::F32, false)
}

/// The target of lowering. It is the same for all instruction sets, so plans and the bits of results do not depend on
/// the instruction set.
pub static TARGET: Target = Target {
    // The vectors of a loop that is unrolled.
    parallel_width: 64,
    // This is the smallest L2 cache of CPUs with AVX2.
    fast_memory: 256 << 10,
    relaxed_order: ReductionOrder::Lanes,
    small_elements: 1 << 10,
    // Copying such an operand is a kernel, which threads share.
    strided_sums: false,
    kernels: true,
    epilogues: EPILOGUES,
    // A vector of iterations takes as long as the latency of its instructions.
    repeats: Some(RepeatLimits { elements: 32, carries: 16, nodes: 64 }),
    conditions: false,
    composites: LEGAL_COMPOSITES,
    library: None,
    products: None,
    // The convolutions of the library do not materialise the im2col buffer of a whole batch.
    images: Images { contracted: Contracted::Patches, order: AxisOrder::ChannelsFirst },
    // A native function would give other bits than the expanded formula.
    functions: Vec::new(),
    budget: Budget {
        cost: 6000,
        wide_cost: 16,
        inputs: 48,
        // The host has no limit: blocks are in memory.
        words: usize::MAX,
        loops: 8,
        recomputed_cost: 6,
        repeated_cost: 3,
        copies: 64,
    },
};

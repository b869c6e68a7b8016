//! Plans: flat steps over buffers, without addresses.

use crate::ir::{Kernel, Type};
use crate::tensor::{Attrs, DType, Layout, Literal, Op};
use smallvec::SmallVec;

/// A kernel of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelId(pub u32);

/// A buffer of a [`Plan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);

/// What an executable runs: kernels, buffers, steps in order. Serialisable; knows no addresses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    /// The name in reports.
    pub name: String,
    /// Types of the inputs; input arrays are row-major.
    pub inputs: Vec<Type>,
    /// Types of the outputs; output arrays are row-major.
    pub outputs: Vec<Type>,
    /// Distinct kernels.
    pub kernels: Vec<Kernel>,
    /// Constant data.
    pub constants: Vec<Literal>,
    /// Where values live.
    pub buffers: Vec<Buffer>,
    /// Bytes of the arena that holds the intermediate values of one run.
    pub arena_bytes: usize,
    /// What happens, in order.
    pub steps: Vec<PlanStep>,
}

/// A run of bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// Its length in bytes.
    pub bytes: usize,
    /// Where it is.
    pub place: Place,
}

/// Where a buffer is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// The memory of an input.
    Input(u32),
    /// The memory of an output.
    Output(u32),
    /// Constant data of the plan.
    Constant(u32),
    /// The arena, from this byte on; a multiple of 64.
    Arena(usize),
}

/// A strided view of a buffer.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// Which buffer.
    pub buffer: BufferId,
    /// The element type.
    pub dtype: DType,
    /// Where the elements lie, in elements.
    pub layout: Layout,
}

/// A buffer as a kernel sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Argument {
    /// Which buffer.
    pub buffer: BufferId,
    /// The first element, in bytes.
    pub offset: usize,
    /// Bytes from one element to the next, by loop of the kernel.
    pub strides: SmallVec<[i64; 4]>,
}

/// One step of a [`Plan`].
#[derive(Clone, PartialEq, Debug)]
pub enum PlanStep {
    /// A generated kernel.
    Kernel {
        /// Which one.
        kernel: KernelId,
        /// Extents of its loops.
        extents: SmallVec<[usize; 4]>,
        /// Its params, in order.
        args: SmallVec<[Argument; 4]>,
    },
    /// A product of matrices, batched over leading dimensions of equal size: `out = a b`.
    Product {
        /// `[.., m, k]`
        a: View,
        /// `[.., k, n]`
        b: View,
        /// `[.., m, n]`, row-major.
        out: View,
    },
    /// An op that the backend's library, or the op's own `eval`, runs as a whole.
    Library {
        /// Which op.
        op: Op,
        /// Its attributes.
        attrs: Attrs,
        /// Its operands.
        inputs: Vec<View>,
        /// Its results, row-major.
        outputs: Vec<View>,
    },
}

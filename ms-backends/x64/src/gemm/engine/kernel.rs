//! The interface of micro-kernels, which multiply a micro-panel of rows and one of columns.

use crate::codegen;

/// Cache-line size in 32-bit words.
pub const LINE: usize = codegen::LINE / size_of::<u32>();

/// Number of rows of a tile register.
pub const ROWS: usize = 16;

/// Number of 32-bit words of a row of a tile register.
pub const WORDS: usize = 16;

/// Number of words of a tile register.
pub const REGISTER: usize = ROWS * WORDS;

/// Number of rows or columns of a micro-panel.
pub const PANEL_ROWS: usize = 2 * ROWS;

/// Number of words of a split component of a K block.
pub const COMPONENT_WORDS: usize = 2 * REGISTER;

/// The element kind of a product's operands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Split {
    /// Floats, split into this number of bf16 components in each operand.
    Floats([usize; 2]),
    /// 8-bit integers; the flags say which operands are signed.
    Bytes([bool; 2]),
}

impl Split {
    /// Returns the kind of the transposed product.
    pub fn transposed(self) -> Self {
        match self {
            Self::Floats([a, b]) => Self::Floats([b, a]),
            Self::Bytes([a, b]) => Self::Bytes([b, a]),
        }
    }

    /// Returns the number of split components of each operand.
    pub fn components(self) -> [usize; 2] {
        match self {
            Self::Floats(components) => components,
            Self::Bytes(_) => [1; 2],
        }
    }

    /// Returns the number of component products.
    pub fn component_products(self) -> usize {
        let [a, b] = self.components();
        // Products of two low components are left out.
        if a == b { a * (a + 1) / 2 } else { a * b }
    }

    /// Whether all component products of two f32 operands are computed: then packing takes a notable part of the time.
    pub fn is_full(self) -> bool {
        self == Self::Floats([3, 3])
    }
}

/// The words of [`PANEL_ROWS`] columns. Each K block has some split components, each of which is two tile registers.
/// Distances are in words.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// The address from which K blocks have their distances.
    pub first: *const u32,
    /// Distances of the K blocks.
    pub k_blocks: &'a [usize],
    /// Distance between the split components of a K block.
    pub component: usize,
    /// Distance between the two registers of a component.
    pub register: usize,
    /// Distance between the rows of a register.
    pub row: usize,
    pub prefetch: Prefetch,
}

/// A micro-panel to prefetch into L2 while this one is multiplied: `lines` cache lines for each K block.
#[derive(Clone, Copy)]
pub struct Prefetch {
    pub first: *const u32,
    pub lines: usize,
}

impl Prefetch {
    /// No prefetch.
    pub const NONE: Self = Self { first: std::ptr::null(), lines: 0 };
}

impl<'a> Columns<'a> {
    /// Returns the columns of a packed micro-panel.
    pub fn packed(first: *const u32, k_blocks: &'a [usize], prefetch: Prefetch) -> Self {
        Self { first, k_blocks, component: COMPONENT_WORDS, register: REGISTER, row: WORDS, prefetch }
    }
}

/// The micro-kernel: multiplies a packed micro-panel of rows and a micro-panel of columns over all K blocks.
///
/// Sets the [`PANEL_ROWS`] rows and columns of `to`, whose rows are `step` bytes apart, or accumulates into them unless
/// `is_first`.
///
/// # Safety
/// The micro-panel of rows has as many K blocks as the columns. All words are valid for reads, and `to` is valid for
/// reads and writes.
pub type Kernel<U> =
    unsafe fn(state: &mut U, rows: *const u32, columns: Columns<'_>, is_first: bool, to: *mut u32, step: isize);

/// The state of a matrix engine on one thread.
pub trait EngineState: Sized {
    /// Configures the engine for this thread.
    ///
    /// # Safety
    /// This machine has the engine, and no other value of this type is live on this thread.
    unsafe fn start() -> Self;

    /// Returns the micro-kernel for a split that the engine [supports](super::Engine::supports).
    fn kernel(split: Split) -> Kernel<Self>;
}

/// Returns the component products of a K block: pairs `[i, j]` of component indices, of which 0 is the highest.
///
/// Three components a side take the pairs with `i + j <= 2`, which are as exact as the operands. The order goes from
/// small to large products as far as consecutive pairs can share a loaded component.
pub const fn component_products(a: usize, b: usize) -> &'static [[usize; 2]] {
    match (a, b) {
        (3, 3) => &[[0, 2], [0, 1], [1, 1], [1, 0], [0, 0], [2, 0]],
        (2, 2) => &[[0, 1], [0, 0], [1, 0]],
        (3, 1) => &[[2, 0], [1, 0], [0, 0]],
        (1, 3) => &[[0, 2], [0, 1], [0, 0]],
        (2, 1) => &[[1, 0], [0, 0]],
        (1, 2) => &[[0, 1], [0, 0]],
        _ => &[[0, 0]],
    }
}

/// Unpacks a word into two bf16 elements, as engines read them.
pub fn pair(word: u32) -> [f32; 2] {
    [word << 16, word & 0xffff_0000].map(|it| flushed(f32::from_bits(it)))
}

/// Flushes a subnormal to a zero of its sign.
#[inline(always)]
pub fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

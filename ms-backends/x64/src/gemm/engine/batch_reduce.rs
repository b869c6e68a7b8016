//! Batch-reduce GEMM: each K block of the right operand has its own address (Georganas et al.: High-Performance Deep
//! Learning via a Single Building Block, 2020).
//!
//! The right operand is split into components once for all K blocks. For a convolution, each kernel tap of a block of
//! channels is a K block. Under one tap, neighbouring output positions have neighbouring elements, so columns are read
//! from the split activations without an im2col buffer.

use super::choice::{EngineChoice, PackedLeft};
use super::kernel::{Columns, EngineState, PANEL_ROWS, Prefetch, ROWS, Split, WORDS};
use super::split::{SplitPairs, split_pairs};
use super::{Engine, Implementation, dots, tiles};

/// Number of rows of a micro-panel of filters, and of columns that are multiplied at once.
pub const TILE: usize = PANEL_ROWS;

/// Number of channels of a K block.
pub const BLOCK: usize = 2 * ROWS;

/// Left operands of batch-reduce GEMM: every row has the weights of all kernel taps.
pub struct Filters {
    choice: EngineChoice,
    packed: PackedLeft,
}

/// Layout of split activations.
///
/// A [block](BLOCK) of channels stores its split components one after another. A component has one row of words for
/// each pair of channels, and a word has both channels' elements at one spatial position.
#[derive(Clone, Copy)]
pub struct Layout {
    components: usize,
    split_pairs: SplitPairs,
    /// The number of words of a row.
    pub row: usize,
}

impl Layout {
    /// Returns the number of words of a block.
    #[inline]
    pub fn block(self) -> usize {
        self.components * self.component()
    }

    /// Returns the number of words of a split component of a block.
    #[inline]
    fn component(self) -> usize {
        ROWS * self.row
    }

    /// Splits the elements of a pair of channels, which are two rows of `row` elements.
    ///
    /// # Safety
    /// The elements are valid for reads, and `block` has room for a block of channels with this pair.
    #[inline]
    pub unsafe fn split(self, elements: *const f32, pair: usize, block: *mut u32) {
        // SAFETY: `elements` has two rows of `row` elements, and `block` has room for this pair, by this function's
        // contract. `row` is a multiple of [`WORDS`], and the machine with this engine has the instruction set.
        unsafe {
            (self.split_pairs)(elements, self.row as isize, self.row, block.add(pair * self.row), self.component())
        };
    }

    /// Stores zeros for a pair of channels that pads the last block.
    ///
    /// # Safety
    /// `block` has room for a block of channels with this pair.
    #[inline]
    pub unsafe fn clear(self, pair: usize, block: *mut u32) {
        for component in 0..self.components {
            // SAFETY: `component < components` and `pair` is in the block, so these `row` words lie in `block` by this
            // function's contract.
            unsafe { block.add(component * self.component() + pair * self.row).write_bytes(0, self.row) };
        }
    }
}

impl EngineChoice {
    /// Returns the layout of channels with `places` spatial positions.
    pub fn blocked_layout(self, places: usize) -> Layout {
        let Self { isa, split, .. } = self;
        let components = split.components()[1];
        // Tiles read past the last position. Rows are an odd number of cache lines apart, so that the rows of a tile
        // register fall into different cache sets.
        let lines = (places + TILE).div_ceil(WORDS) | 1;
        Layout { components, split_pairs: split_pairs(isa, components), row: lines * WORDS }
    }
}

impl Filters {
    /// Wraps filters that were packed for an engine.
    pub fn new(choice: EngineChoice, packed: PackedLeft) -> Self {
        Self { choice, packed }
    }

    /// Multiplies a micro-panel of filters and `tiles` [tiles](TILE) of neighbouring columns.
    ///
    /// Sets [`TILE`] rows of `to`, which are `step` words apart. `k_blocks` are the word offsets of the first column in
    /// each K block. All kernel taps of a block of channels precede the next block.
    ///
    /// # Safety
    /// The operand and the micro-panel exist. `k_blocks` has as many K blocks as the micro-panel, whose words were
    /// stored in the layout. `to` has room for the sums.
    pub unsafe fn multiply(
        &self,
        [operand, panel]: [usize; 2],
        layout: Layout,
        (first, k_blocks): (*const u32, &[usize]),
        tiles: usize,
        (to, step): (*mut u32, usize),
    ) {
        let panels = self.packed.panels().expect("the range of the filters was allowed");
        let rows = panels.skip(operand, panel).panel(0, 0);
        let prefetch = Prefetch::NONE;
        let columns =
            Columns { first, k_blocks, component: layout.component(), register: WORDS, row: layout.row, prefetch };
        let split = self.choice.split;
        // SAFETY: the addresses are valid by this function's contract, and `EngineChoice::new` detected the engine or
        // was given it. No other engine is live on this thread, as it runs one product at a time.
        unsafe {
            match self.choice.engine {
                Engine::None => unreachable!("filters are packed for an engine"),
                #[cfg(any(test, feature = "emulation"))]
                Engine::Tiles(Implementation::Emulated) => {
                    run::<tiles::Emulated>(split, rows, columns, tiles, (to, step))
                }
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Engine::Tiles(Implementation::Native) => run::<tiles::Native>(split, rows, columns, tiles, (to, step)),
                #[cfg(any(test, feature = "emulation"))]
                Engine::Dots(Implementation::Emulated) => {
                    run::<dots::Emulated>(split, rows, columns, tiles, (to, step))
                }
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Engine::Dots(Implementation::Native) => run::<dots::Native>(split, rows, columns, tiles, (to, step)),
            }
        }
    }
}

/// Runs [`Filters::multiply`] on an engine.
///
/// # Safety
/// The conditions of [`Filters::multiply`] hold for `rows`, `columns` and `to`. This machine has the engine, and no
/// other value of `U` is live on this thread.
unsafe fn run<U: EngineState>(
    split: Split,
    rows: *const u32,
    columns: Columns<'_>,
    tiles: usize,
    (to, step): (*mut u32, usize),
) {
    // SAFETY: columns `at..at + TILE` of every K block are readable, and `to` has room for them, as
    // `at < tiles * TILE`.
    unsafe {
        let (mut state, kernel) = (U::start(), U::kernel(split));
        for at in (0..tiles).map(|it| it * TILE) {
            let columns = Columns { first: columns.first.add(at), ..columns };
            kernel(&mut state, rows, columns, true, to.add(at), (step * size_of::<u32>()) as isize);
        }
    }
}

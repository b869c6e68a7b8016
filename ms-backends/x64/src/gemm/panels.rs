//! Packs right operands into micro-panels: for one call, or cached with a parameter.

use super::element::{Accumulator, Stored, Tile};
use super::{Addresses, Matrix, Shared};
use crate::threads;
use ms_ir::CHUNK;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of bytes of packed operands that a process caches. Above it, every call packs its operands.
const MAX_BYTES: usize = 2 << 30;

/// The bytes of all cached packed operands.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The bytes of a cached packed operand, which its drop releases.
pub struct CacheBytes(usize);

impl Drop for CacheBytes {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Returns the cached form of a storage that `fits`, or caches the form of `bytes` bytes that `make` returns. `None` if
/// the storage caches no form yet, the cache is full, or there is no memory for the form.
pub fn cache<F: Any + Send + Sync>(
    block: &Storage,
    bytes: usize,
    fits: impl Fn(&F) -> bool,
    make: impl FnOnce(CacheBytes) -> Result<F>,
) -> Option<Arc<F>> {
    if BYTES.load(Ordering::Relaxed).saturating_add(bytes) > MAX_BYTES {
        return block.known_form(fits);
    }
    let make = || {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        make(CacheBytes(bytes))
    };
    block.form(fits, make).ok()?
}

/// The position, strides, sizes and dtype of a matrix in a storage, which identify its packed form.
#[derive(Clone, Copy, PartialEq)]
pub struct PackedKey {
    offset: usize,
    steps: [isize; 2],
    sizes: [usize; 2],
    dtype: DType,
}

impl PackedKey {
    /// Returns the identity of a matrix with these sizes.
    pub fn new(block: &Storage, matrix: Matrix<*const u8>, sizes: [usize; 2], dtype: DType) -> Self {
        let offset = matrix.first.addr().wrapping_sub(block.device_ptr().addr());
        Self { offset, steps: matrix.steps, sizes, dtype }
    }
}

/// A packed matrix: for each [`CHUNK`] of rows, one micro-panel after another, as wide as a tile.
pub struct CachedPanels {
    key: PackedKey,
    layout: PanelLayout,
    room: Storage,
    _bytes: CacheBytes,
}

/// The partition of columns into micro-panels.
#[derive(Clone, Copy, PartialEq)]
pub struct PanelLayout {
    /// The sizes of the matrix.
    pub sizes: [usize; 2],
    /// The number of columns of a micro-panel.
    pub width: usize,
}

impl PanelLayout {
    /// Returns the number of columns, rounded up to whole micro-panels.
    fn columns(&self) -> usize {
        self.sizes[1].next_multiple_of(self.width)
    }

    /// Returns the number of bytes of the micro-panels, for accumulators of type `W`.
    pub fn bytes<W>(&self) -> usize {
        self.elements().saturating_mul(size_of::<W>())
    }

    /// Returns the number of elements of the micro-panels, and of the padding after them: a tile reads whole registers
    /// of columns.
    fn elements(&self) -> usize {
        self.columns().saturating_mul(self.sizes[0]).saturating_add(self.width)
    }

    /// Packs a matrix.
    ///
    /// # Safety
    /// The elements are valid for reads, and the CPU has the tile's instruction set.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the micro-panels.
    pub unsafe fn pack<W: Accumulator>(self, tile: Tile<W>, matrix: Stored<*const u8, W>) -> Result<Storage> {
        let ([k, n], columns) = (self.sizes, self.columns());
        let room = Storage::uninit(self.bytes::<W>())?;
        let to = Shared::new((room.device_ptr().cast::<W>(), matrix.matrix));
        let panels = n.div_ceil(self.width);
        threads::for_each(panels * k.div_ceil(CHUNK), columns * k / 2, |at| {
            let (start, left) = (at / panels * CHUNK, at % panels * self.width);
            let (depth, width) = (CHUNK.min(k - start), self.width.min(n - left));
            let (to, from) = to.get();
            let to = to.wrapping_add(start * columns + left * depth);
            // SAFETY: the micro-panel and its padding lie in `room`, and no other iteration writes them. `depth` by
            // `width` elements are valid for reads by this function's contract.
            unsafe {
                (matrix.format.pack)(tile.transpose, from.transposed().skip(left, start), width, depth, to);
                if width < self.width {
                    to.add(width * depth).write_bytes(0, self.width);
                }
            }
        });
        Ok(room)
    }

    /// Returns the elements of a [packed](Self::pack) matrix, for accumulators of type `W`.
    pub fn elements_of<W: Accumulator>(&self, room: &Storage) -> Elements<W> {
        debug_assert!(room.len() >= self.bytes::<W>());
        Elements { first: room.device_ptr().cast_const().cast(), columns: self.columns() }
    }
}

/// The elements of a packed matrix, valid while its memory is.
#[derive(Clone, Copy)]
pub struct Elements<W> {
    first: *const W,
    /// The number of columns, rounded up to whole micro-panels.
    columns: usize,
}

impl<W: Copy> Addresses for Elements<W> {}

impl<W: Copy> Elements<W> {
    /// Returns the micro-panel of `depth` rows from `start`, which begins a chunk, and of the columns from `left`,
    /// which begins a micro-panel. Its row stride is its number of columns.
    pub fn panel(self, start: usize, depth: usize, left: usize) -> *const W {
        self.first.wrapping_add(start * self.columns + left * depth)
    }
}

impl CachedPanels {
    /// Returns the micro-panels of a matrix with sizes `[k, n]` in a storage: cached ones, or new ones. `None` if the
    /// storage caches no form yet, the cache is [full](MAX_BYTES), or there is no memory for them.
    ///
    /// # Safety
    /// The elements of the matrix lie in the storage and are valid for reads, and the CPU has the tile's instruction
    /// set.
    pub unsafe fn cached<W: Accumulator>(
        block: &Storage,
        tile: Tile<W>,
        matrix: Stored<*const u8, W>,
        sizes: [usize; 2],
    ) -> Option<Arc<Self>> {
        let key = PackedKey::new(block, matrix.matrix, sizes, matrix.format.dtype);
        let layout = PanelLayout { sizes, width: tile.columns };
        let make = |bytes| {
            // SAFETY: the matrix is readable and the CPU has the tile's instruction set, by this function's contract.
            Ok(Self { key, layout, room: unsafe { layout.pack(tile, matrix)? }, _bytes: bytes })
        };
        cache(block, layout.bytes::<W>(), |it: &Self| it.key == key && it.layout == layout, make)
    }

    /// Returns the elements, for accumulators of type `W`.
    pub fn elements<W: Accumulator>(&self) -> Elements<W> {
        self.layout.elements_of(&self.room)
    }
}

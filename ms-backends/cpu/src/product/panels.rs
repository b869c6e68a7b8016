//! Right operands of products, packed as tiles read them: for one call, or kept while slots hold them.

use super::ordered::{CHUNK, Stored};
use super::tile::{Tile, Wide};
use super::{Addresses, Matrix, Shared};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, DType, Storage};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of bytes of the packed operands that a process keeps: above that, operands are packed by every call.
const MAX_BYTES: usize = 2 << 30;

/// The bytes of all that are kept.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a packed operand that is kept.
pub struct Counted(usize);

impl Drop for Counted {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The packed operand of a block of memory that `fits`, or else the one of so many bytes that `make` makes, which is
/// kept. `None` if none are kept of this block, there are [too many](MAX_BYTES), or there is no memory for it.
pub fn keep<F: Any + Send + Sync>(
    block: &Storage,
    bytes: usize,
    fits: impl Fn(&F) -> bool,
    make: impl FnOnce(Counted) -> Result<F>,
) -> Option<Arc<F>> {
    if BYTES.load(Ordering::Relaxed).saturating_add(bytes) > MAX_BYTES {
        return block.known_form(fits);
    }
    let make = || {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        make(Counted(bytes))
    };
    block.form(fits, make).ok()?
}

/// Where a matrix is in a block of memory, and what it is.
#[derive(Clone, Copy, PartialEq)]
pub struct Place {
    offset: usize,
    steps: [isize; 2],
    sizes: [usize; 2],
    dtype: DType,
}

impl Place {
    /// That of a matrix with these sizes.
    pub fn of(block: &Storage, matrix: Matrix<*const u8>, sizes: [usize; 2], dtype: DType) -> Self {
        let offset = matrix.first.addr().wrapping_sub(block.device_ptr().addr());
        Self { offset, steps: matrix.steps, sizes, dtype }
    }
}

/// A packed matrix: for each [`CHUNK`] of rows, panels of as many columns as a tile has, one behind the other.
pub struct Panels {
    of: Place,
    cut: Cut,
    room: Array,
    _counted: Counted,
}

/// How columns are cut into panels.
#[derive(Clone, Copy, PartialEq)]
pub struct Cut {
    /// The sizes of the matrix.
    pub sizes: [usize; 2],
    /// The number of columns of a panel.
    pub width: usize,
}

impl Cut {
    /// The number of columns, rounded up to whole panels.
    fn columns(&self) -> usize {
        self.sizes[1].next_multiple_of(self.width)
    }

    /// The number of bytes of the panels, of accumulators' type `W`.
    pub fn bytes<W>(&self) -> usize {
        self.elements().saturating_mul(size_of::<W>())
    }

    /// The number of elements of the panels. A tile reads whole registers of columns; after the last ones there are
    /// others.
    fn elements(&self) -> usize {
        self.columns().saturating_mul(self.sizes[0]).saturating_add(self.width)
    }

    /// The packed matrix.
    ///
    /// # Safety
    /// The elements are valid for reads; the CPU has the tile's instruction set.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for it.
    pub unsafe fn pack<W: Wide>(self, tile: Tile<W>, matrix: Stored<*const u8, W>) -> Result<Array> {
        let ([k, n], columns) = (self.sizes, self.columns());
        // SAFETY: all that is read is written below.
        let room = unsafe { Array::uninit(&[self.elements()], W::DTYPE)? };
        let to = Shared::new((room.device_ptr().cast::<W>(), matrix.matrix));
        let panels = n.div_ceil(self.width);
        threads::for_each(panels * k.div_ceil(CHUNK), columns * k / 2, |at| {
            let (start, left) = (at / panels * CHUNK, at % panels * self.width);
            let (depth, width) = (CHUNK.min(k - start), self.width.min(n - left));
            let (to, from) = to.get();
            let to = to.wrapping_add(start * columns + left * depth);
            // SAFETY: there is room for the panel and for the columns behind the last one, which no other panel has;
            // elements are the caller's.
            unsafe {
                (matrix.format.pack)(tile.turn, from.transposed().skip(left, start), width, depth, to);
                if width < self.width {
                    to.add(width * depth).write_bytes(0, self.width);
                }
            }
        });
        Ok(room)
    }

    /// The elements of a matrix that was [packed](Self::pack), of the accumulators' type `W`.
    pub fn elements_of<W: Wide>(&self, room: &Array) -> Elements<W> {
        debug_assert_eq!(room.dtype(), W::DTYPE);
        Elements { first: room.device_ptr().cast_const().cast(), columns: self.columns() }
    }
}

/// The elements of a packed matrix, which are valid while its memory is.
#[derive(Clone, Copy)]
pub struct Elements<W> {
    first: *const W,
    /// The number of columns, rounded up to whole panels.
    columns: usize,
}

impl<W: Copy> Addresses for Elements<W> {}

impl<W: Copy> Elements<W> {
    /// The panel of `depth` rows from `start`, which begins a chunk, and the columns from `left`, which begins a panel;
    /// its rows are as long as it has columns.
    pub fn panel(self, start: usize, depth: usize, left: usize) -> *const W {
        self.first.wrapping_add(start * self.columns + left * depth)
    }
}

impl Panels {
    /// The panels of a matrix with sizes `[k, n]` in a block of memory: those that are kept, or else new ones. `None`
    /// if none are kept of this block, there are [too many](MAX_BYTES), or there is no memory for them.
    ///
    /// # Safety
    /// The elements of the matrix are in the block, and valid for reads; the CPU has the tile's instruction set.
    pub unsafe fn kept<W: Wide>(
        block: &Storage,
        tile: Tile<W>,
        matrix: Stored<*const u8, W>,
        sizes: [usize; 2],
    ) -> Option<Arc<Self>> {
        let of = Place::of(block, matrix.matrix, sizes, matrix.format.dtype);
        let cut = Cut { sizes, width: tile.columns };
        let make = |counted| {
            // SAFETY: as the caller's.
            Ok(Self { of, cut, room: unsafe { cut.pack(tile, matrix)? }, _counted: counted })
        };
        keep(block, cut.bytes::<W>(), |it: &Self| it.of == of && it.cut == cut, make)
    }

    /// The elements, of the accumulators' type `W`.
    pub fn elements<W: Wide>(&self) -> Elements<W> {
        self.cut.elements_of(&self.room)
    }
}

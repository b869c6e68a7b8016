//! Packs whole operands for a matrix engine: for one call, or cached with a parameter.

use super::kernel::PANEL_ROWS;
use super::range::Range;
use super::split::Packing;
use crate::gemm::panels::{CacheBytes, PackedKey, cache};
use crate::gemm::{Addresses, Matrix, Shared};
use crate::threads;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use std::sync::{Arc, Mutex};

/// An operand of a GEMM, with strides in bytes.
#[derive(Clone, Copy)]
pub struct Operand {
    pub matrix: Matrix<*const u8>,
    pub dtype: DType,
    pub packing: Packing,
}

impl Addresses for Operand {}

/// Packed matrices: the micro-panels of the columns of each, one after another. A left operand is packed as its
/// transpose.
pub struct Packed {
    room: Storage,
    /// The number of words of a micro-panel, and the numbers of matrices and of micro-panels of each.
    panel: usize,
    matrices: [usize; 2],
    /// The range of the elements; empty for integers.
    pub range: Range,
}

/// The micro-panels of a [`Packed`], valid while it lives.
#[derive(Clone, Copy)]
pub struct Panels {
    first: *const u32,
    /// The number of words of a micro-panel.
    panel: usize,
    /// The number of matrices, and the number of micro-panels of each.
    matrices: [usize; 2],
}

impl Addresses for Panels {}

impl Panels {
    /// Returns the micro-panels of matrix `number % count`, without the first `panels`.
    pub fn skip(self, number: usize, panels: usize) -> Self {
        let [matrices, of_each] = self.matrices;
        let first = self.first.wrapping_add((number % matrices * of_each + panels) * self.panel);
        Self { first, matrices: [1, of_each], ..self }
    }

    /// Returns the words of micro-panel `at` from `skipped` on.
    pub fn panel(self, at: usize, skipped: usize) -> *const u32 {
        self.first.wrapping_add(at * self.panel + skipped)
    }
}

impl Packed {
    /// Returns the number of bytes of `count` packed matrices with sizes `[k, n]`.
    pub fn bytes(packing: Packing, [k, n]: [usize; 2], count: usize) -> usize {
        count * n.div_ceil(PANEL_ROWS) * packing.panel_words(packing.k_blocks(k)) * size_of::<u32>()
    }

    /// Packs `count` matrices with sizes `[k, n]`, which are `k n` elements apart in memory.
    ///
    /// # Safety
    /// The elements are valid for reads, and the machine has the instruction set of the packing.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the micro-panels.
    pub unsafe fn new(side: Operand, [k, n]: [usize; 2], count: usize) -> Result<Self> {
        let (panels, panel) = (n.div_ceil(PANEL_ROWS), side.packing.panel_words(side.packing.k_blocks(k)));
        let step = k * n * side.dtype.size();
        let room = Storage::uninit((count * panels * panel).saturating_mul(size_of::<u32>()))?;
        let to = Shared::new((room.device_ptr().cast::<u32>(), side.matrix.transposed()));
        let range = Mutex::new(Range::EMPTY);
        threads::for_each(count * panels, count * n * k * side.packing.components / 4, |at| {
            let (to, columns) = to.get();
            let columns = columns.at((at / panels * step) as isize).skip(at % panels * PANEL_ROWS, 0);
            let lines = PANEL_ROWS.min(n - at % panels * PANEL_ROWS);
            // SAFETY: `at < count * panels`, so the micro-panel lies in `room`, and no other iteration writes it. Its
            // `lines` columns of `k` elements are valid for reads by this function's contract.
            let found = unsafe { side.packing.pack(columns, lines, k, to.add(at * panel)) };
            let mut range = range.lock().expect("no thread panics while it adds a range");
            *range = range.and(found);
        });
        let range = range.into_inner().expect("no thread panics while it adds a range");
        Ok(Self { room, panel, matrices: [count, panels], range })
    }

    /// Returns the micro-panels.
    pub fn panels(&self) -> Panels {
        let first = self.room.device_ptr().cast_const().cast();
        Panels { first, panel: self.panel, matrices: self.matrices }
    }
}

/// The packed form of an operand, cached with a parameter.
pub struct Cached {
    key: PackedKey,
    packing: (usize, bool, usize),
    /// The number of matrices.
    count: usize,
    /// The micro-panels, unless the range of the elements forbids the split.
    pub packed: Option<Packed>,
    _bytes: Option<CacheBytes>,
}

impl Cached {
    /// Returns the cached packed form of `count` matrices with sizes `[k, n]`, which are `k n` elements apart; packs it
    /// if needed. `None` if the storage caches no form yet, the cache is full, or there is no memory for it.
    ///
    /// # Safety
    /// The elements of the matrices lie in the storage and are valid for reads. The machine has the instruction set.
    pub unsafe fn get_or_pack(block: &Storage, side: Operand, sizes: [usize; 2], count: usize) -> Option<Arc<Self>> {
        let Operand { matrix, dtype, packing } = side;
        let key = PackedKey::new(block, matrix, sizes, dtype);
        let bytes = Packed::bytes(packing, sizes, count);
        let packing = packing.kind();
        cache(
            block,
            bytes,
            |it: &Self| (it.key, it.packing, it.count) == (key, packing, count),
            |bytes| {
                // SAFETY: the matrices' elements are valid for reads, and the packing's instruction set is available,
                // by this function's contract.
                let packed = Some(unsafe { Packed::new(side, sizes, count)? });
                let packed = packed.filter(|it| it.range.allows(side.packing.components));
                Ok(Self { key, packing, count, _bytes: packed.is_some().then_some(bytes), packed })
            },
        )
    }
}

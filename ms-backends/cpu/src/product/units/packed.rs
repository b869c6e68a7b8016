//! Operands that are packed as a whole: for one call, or right ones that are kept while slots hold them.

use super::block::Side;
use super::range::Range;
use super::split::{PANEL, Packing};
use crate::product::panels::{Counted, Place, keep};
use crate::product::{Addresses, Shared};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, DType, Storage};
use std::sync::{Arc, Mutex};

/// Packed matrices: the panels of the columns of each, one after the other. A left operand is packed as the transposed
/// matrix.
pub struct Packed {
    room: Array,
    /// As in [`Panels`].
    panel: usize,
    matrices: [usize; 2],
    /// The range of the elements, which is empty for integers.
    pub range: Range,
}

/// Panels of [`Packed`], which are valid while it lives.
#[derive(Clone, Copy)]
pub struct Panels {
    first: *const u32,
    /// The number of words of a panel.
    panel: usize,
    /// The number of matrices, and that of the panels of each.
    matrices: [usize; 2],
}

impl Addresses for Panels {}

impl Panels {
    /// The panels of matrix `number` modulo that of all without its first ones.
    pub fn skip(self, number: usize, panels: usize) -> Self {
        let [matrices, of_each] = self.matrices;
        let first = self.first.wrapping_add((number % matrices * of_each + panels) * self.panel);
        Self { first, matrices: [1, of_each], ..self }
    }

    /// The words of panel `at` from `skipped` on.
    pub fn panel(self, at: usize, skipped: usize) -> *const u32 {
        self.first.wrapping_add(at * self.panel + skipped)
    }
}

impl Packed {
    /// The number of bytes of packed matrices with sizes `[k, n]`.
    pub fn bytes(packing: Packing, [k, n]: [usize; 2], count: usize) -> usize {
        count * n.div_ceil(PANEL) * packing.panel(packing.groups(k)) * size_of::<u32>()
    }

    /// Packs matrices with sizes `[k, n]`, each of which begins where `k n` elements of the one before it end.
    ///
    /// # Safety
    /// The elements are valid for reads, and the machine has the instruction set of the packing.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for the panels.
    pub unsafe fn new(side: Side, [k, n]: [usize; 2], count: usize) -> Result<Self> {
        let (panels, panel) = (n.div_ceil(PANEL), side.packing.panel(side.packing.groups(k)));
        let step = k * n * side.dtype.size();
        // SAFETY: all panels are written below.
        let room = unsafe { Array::uninit(&[count * panels * panel], DType::U32)? };
        let to = Shared::new((room.device_ptr().cast::<u32>(), side.matrix.transposed()));
        let range = Mutex::new(Range::EMPTY);
        threads::for_each(count * panels, count * n * k * side.packing.planes / 4, |at| {
            let (to, columns) = to.get();
            let columns = columns.at((at / panels * step) as isize).skip(at % panels * PANEL, 0);
            let lines = PANEL.min(n - at % panels * PANEL);
            // SAFETY: there is room for the panel, which no other one has; elements are the caller's.
            let found = unsafe { side.packing.pack(columns, lines, k, to.add(at * panel)) };
            let mut range = range.lock().expect("no thread panics while it adds a range");
            *range = range.and(found);
        });
        let range = range.into_inner().expect("no thread panics while it adds a range");
        Ok(Self { room, panel, matrices: [count, panels], range })
    }

    /// The panels.
    pub fn panels(&self) -> Panels {
        let first = self.room.device_ptr().cast_const().cast();
        Panels { first, panel: self.panel, matrices: self.matrices }
    }
}

/// What is known of an operand while slots hold it.
pub struct Kept {
    of: Place,
    packing: (usize, bool, usize),
    /// The number of matrices.
    count: usize,
    /// Its panels, unless the range of its elements does not allow them.
    pub packed: Option<Packed>,
    _counted: Option<Counted>,
}

impl Kept {
    /// That of matrices with sizes `[k, n]` in a block of memory, each of which begins where `k n` elements of the one
    /// before it end; `None` if none is kept of this block, there are too many, or there is no memory for it.
    ///
    /// # Safety
    /// The elements of the matrices are in the block, and valid for reads; the machine has the instruction set.
    pub unsafe fn of(block: &Storage, side: Side, sizes: [usize; 2], count: usize) -> Option<Arc<Self>> {
        let Side { matrix, dtype, packing } = side;
        let of = Place::of(block, matrix, sizes, dtype);
        let bytes = Packed::bytes(packing, sizes, count);
        let packing = packing.kind();
        keep(
            block,
            bytes,
            |it: &Self| (it.of, it.packing, it.count) == (of, packing, count),
            |counted| {
                // SAFETY: as the caller's.
                let packed = Some(unsafe { Packed::new(side, sizes, count)? });
                let packed = packed.filter(|it| it.range.allows(side.packing.planes));
                Ok(Self { of, packing, count, _counted: packed.is_some().then_some(counted), packed })
            },
        )
    }
}

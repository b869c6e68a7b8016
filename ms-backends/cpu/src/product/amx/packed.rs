//! Right operands that are packed as a whole: for one call, or kept while slots hold them.

use super::block::Side;
use super::range::{Range, range_of};
use super::split::{PANEL, Packing};
use crate::isa::Isa;
use crate::product::panels::{Counted, Place, keep};
use crate::product::{Addresses, Shared};
use crate::threads;
use ms_core::error::Result;
use ms_core::tensor::{Array, DType, Storage};
use std::sync::Arc;

/// A packed matrix: its panels of columns, one after the other.
pub struct Packed {
    room: Array,
    /// The number of words of a panel.
    panel: usize,
}

/// The panels of [`Packed`], which are valid while it lives.
#[derive(Clone, Copy)]
pub struct Panels {
    first: *const u32,
    panel: usize,
}

impl Addresses for Panels {}

impl Panels {
    /// The words of panel `at` from `skipped` on.
    pub fn panel(self, at: usize, skipped: usize) -> *const u32 {
        self.first.wrapping_add(at * self.panel + skipped)
    }
}

impl Packed {
    /// The number of bytes of a packed matrix with sizes `[k, n]`.
    pub fn bytes(packing: Packing, [k, n]: [usize; 2]) -> usize {
        n.div_ceil(PANEL) * packing.panel(k.div_ceil(packing.group())) * size_of::<u32>()
    }

    /// Packs a matrix with sizes `[k, n]`.
    ///
    /// # Safety
    /// The elements are valid for reads, and the machine has the instruction set of the packing.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for the panels.
    pub unsafe fn new(side: Side, [k, n]: [usize; 2]) -> Result<Self> {
        let (panels, panel) = (n.div_ceil(PANEL), side.packing.panel(k.div_ceil(side.packing.group())));
        // SAFETY: all panels are written below.
        let room = unsafe { Array::uninit(&[panels * panel], DType::U32)? };
        let to = Shared::new((room.device_ptr().cast::<u32>(), side.matrix.transposed()));
        threads::for_each(panels, n * k * side.packing.planes / 4, |at| {
            let (to, columns) = to.get();
            let lines = PANEL.min(n - at * PANEL);
            // SAFETY: there is room for the panel, which no other one has; elements are the caller's.
            unsafe { side.packing.pack(columns.skip(at * PANEL, 0), lines, k, to.add(at * panel)) };
        });
        Ok(Self { room, panel })
    }

    /// The panels.
    pub fn panels(&self) -> Panels {
        Panels { first: self.room.device_ptr().cast_const().cast(), panel: self.panel }
    }
}

/// What is known of a right operand while slots hold it.
pub struct Kept {
    of: Place,
    /// The number of planes.
    planes: usize,
    /// The range of its elements.
    pub range: Range,
    /// Its panels, unless the range does not allow them.
    pub packed: Option<Packed>,
    _counted: Option<Counted>,
}

impl Kept {
    /// That of a matrix with sizes `[k, n]` in a block of memory; `None` if none is kept of this block, there are too
    /// many, or there is no memory for it.
    ///
    /// # Safety
    /// The elements of the matrix are in the block, and valid for reads; the machine has the instruction set.
    pub unsafe fn of(block: &Storage, isa: Isa, side: Side, sizes: [usize; 2]) -> Option<Arc<Self>> {
        let Side { matrix, dtype, packing } = side;
        let (of, planes) = (Place::of(block, matrix, sizes, dtype), packing.planes);
        let bytes = Packed::bytes(packing, sizes);
        keep(
            block,
            bytes,
            |it: &Self| it.of == of && it.planes == planes,
            |counted| {
                // Integers of any range may be multiplied.
                let mut range = Range::EMPTY;
                if dtype.is_float() {
                    // SAFETY: as the caller's.
                    range = unsafe { range_of(isa, dtype, matrix, sizes, 1, |_| 0) };
                }
                // SAFETY: as above.
                let packed = range.allows(planes).then(|| unsafe { Packed::new(side, sizes) }).transpose()?;
                Ok(Self { of, planes, range, _counted: packed.is_some().then_some(counted), packed })
            },
        )
    }
}

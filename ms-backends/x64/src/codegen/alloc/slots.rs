//! Assigns stack slots to spilled values.

use super::super::vinst::{Program, VReg};
use super::liveness::Liveness;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the offset of each spilled register's slot, and the size of all slots in bytes. Values of one width with
/// disjoint live ranges share slots.
pub fn assign(program: &Program, liveness: &Liveness, spilled: &[bool]) -> (Vec<Option<u32>>, u32) {
    let mut order: Vec<VReg> = (0..spilled.len()).filter(|&it| spilled[it]).map(|it| VReg(it as u32)).collect();
    order.sort_unstable_by_key(|&it| liveness.def(it));
    let mut slots = vec![None; spilled.len()];
    let mut slot_bytes = 0;
    // For each width: the slots in use with the ends of their values' live ranges, and the free slots.
    let mut busy: [BinaryHeap<Reverse<(usize, u32)>>; 4] = Default::default();
    let mut free: [Vec<u32>; 4] = Default::default();
    for reg in order {
        let width = program.info(reg).width;
        let kind = width as usize;
        while let Some(&Reverse((end, offset))) = busy[kind].peek()
            && end < liveness.def(reg)
        {
            busy[kind].pop();
            free[kind].push(offset);
        }
        let offset = free[kind].pop().unwrap_or_else(|| {
            let size = width.bytes() as u32;
            let offset = u32::next_multiple_of(slot_bytes, size);
            slot_bytes = offset + size;
            offset
        });
        slots[reg.0 as usize] = Some(offset);
        busy[kind].push(Reverse((liveness.end(reg), offset)));
    }
    (slots, slot_bytes)
}

//! The block interpreter of kernels: one loop per instruction over a block of lanes.
//!
//! It runs every kernel on every machine, and is the oracle of generated code: both have the bits that
//! [`ms_core::ir::Kernel`] specifies (except for nan payloads).

mod blocks;
mod evaluate;
mod frame;
mod memory;
pub(crate) mod number;
mod reduce;
mod repeat;
mod slots;
#[cfg(test)]
mod tests;

use crate::isa::Isa;
pub(crate) use reduce::{Second, second_level};

use crate::kernel::KernelCode;
use blocks::Blocks;
use frame::{Frame, Walk};
use ms_core::exec::KernelView;
use ms_core::ir::{Inst, Kernel, LaneAxis, Scope};
use slots::Slots;
use std::sync::Arc;

/// Number of lanes of a block, whose values fit in the first-level cache.
const BLOCK: usize = 512;

/// Runs a kernel with the block of a call.
///
/// # Safety
/// The contract of [`KernelCode::call`].
pub unsafe fn run(kernel: &Kernel, block: &[u64]) {
    // SAFETY: the caller's contract is the same.
    unsafe { Interpreted::new(kernel.clone()).call(block) }
}

/// A kernel that is prepared for interpretation.
pub struct Interpreted {
    kernel: Arc<Kernel>,
    slots: Slots,
    isa: Isa,
}

impl Interpreted {
    /// Prepares a kernel.
    pub fn new(kernel: impl Into<Arc<Kernel>>) -> Self {
        let kernel = kernel.into();
        Self { slots: Slots::assign(&kernel), kernel, isa: Isa::detect() }
    }
}

// SAFETY: the interpreter follows the kernel.
unsafe impl KernelCode for Interpreted {
    fn view(&self) -> Option<KernelView<'_>> {
        Some(KernelView { kernel: &self.kernel, code: None })
    }

    unsafe fn call(&self, block: &[u64]) {
        debug_assert_eq!(block.len(), self.kernel.call_words());
        let kernel = &*self.kernel;
        let par = kernel.par as usize;
        let extents = &block[..kernel.loops()];
        let points = &extents[..par];
        if points.contains(&0) || (kernel.lanes == LaneAxis::Parallel && extents[par] == 0) {
            return;
        }
        frame::with_scratch(self.slots.bytes(), |scratch| {
            let mut frame = Frame::new(kernel, &self.slots, scratch, block);
            frame.len = BLOCK.min(extents[par] as usize).max(1);
            // SAFETY: the scratch memory has a slot for every value.
            unsafe { self.fill_constants(&mut frame) };
            let mut walk = Walk::new(0..par);
            loop {
                match kernel.lanes {
                    // SAFETY: the caller's contract covers every address that the loops reach.
                    LaneAxis::Parallel => unsafe { self.lanes_of_result(&mut frame, extents[par] as usize) },
                    // SAFETY: as above.
                    LaneAxis::Reduced => unsafe { self.row(&mut frame, extents[par] as usize) },
                }
                if !walk.advance(&mut frame) {
                    break;
                }
            }
        });
    }
}

impl Interpreted {
    /// Writes the constants into their slots, where they remain for the whole call.
    unsafe fn fill_constants(&self, frame: &mut Frame<'_>) {
        for (i, inst) in self.kernel.insts.iter().enumerate() {
            if let Inst::Const(bits) = *inst {
                // SAFETY: as the caller's.
                unsafe { frame.splat_bits(i, bits) };
            }
        }
    }

    /// Runs all stages at one step of the parallel loops, with parallel lanes.
    unsafe fn lanes_of_result(&self, frame: &mut Frame<'_>, lanes: usize) {
        let mut first = 0;
        while first < lanes {
            let len = BLOCK.min(lanes - first);
            frame.enter_lanes(first, len);
            for (i, stage) in self.kernel.stages.iter().enumerate() {
                let range = self.kernel.stage_range(i);
                match stage.scope {
                    // SAFETY: as the caller's.
                    Scope::Point => unsafe { evaluate::run(self.isa, frame, range) },
                    // SAFETY: as the caller's.
                    Scope::Repeat => unsafe { repeat::run(self.isa, frame, range) },
                    Scope::Loop => {
                        let mut blocks = Blocks::of(frame);
                        // SAFETY: as the caller's.
                        unsafe { reduce::start(frame, range.clone(), &blocks) };
                        frame.for_reduced_loops(|frame| {
                            // SAFETY: as the caller's.
                            unsafe { evaluate::run(self.isa, frame, range.clone()) };
                            if let Some(block) = blocks.advance(1) {
                                // SAFETY: as the caller's.
                                unsafe { reduce::end_block(frame, range.clone(), block) };
                            }
                        });
                        // SAFETY: as the caller's.
                        unsafe { reduce::finish(frame, range.clone(), &blocks) };
                    }
                }
            }
            frame.leave_lanes(first);
            first += len;
        }
    }

    /// Runs all stages at one step of the parallel loops, with reduced lanes.
    unsafe fn row(&self, frame: &mut Frame<'_>, lanes: usize) {
        for (i, stage) in self.kernel.stages.iter().enumerate() {
            let range = self.kernel.stage_range(i);
            match stage.scope {
                Scope::Point => {
                    frame.len = 1;
                    // SAFETY: as the caller's.
                    unsafe { evaluate::run(self.isa, frame, range.clone()) };
                }
                Scope::Repeat => unreachable!("a kernel with a loop has parallel lanes"),
                Scope::Loop => {
                    let mut blocks = Blocks::of(frame);
                    // SAFETY: as the caller's.
                    unsafe { reduce::start(frame, range.clone(), &blocks) };
                    frame.for_reduced_loops(|frame| {
                        if frame.begins_row() {
                            frame.in_row = 0;
                        }
                        let mut first = 0;
                        while first < lanes {
                            let len = BLOCK.min(lanes - first).min(blocks.left());
                            frame.enter_lanes(first, len);
                            // SAFETY: as the caller's.
                            unsafe { evaluate::run(self.isa, frame, range.clone()) };
                            frame.leave_lanes(first);
                            (first, frame.in_row) = (first + len, frame.in_row + len);
                            if let Some(block) = blocks.advance(len) {
                                // SAFETY: as the caller's.
                                unsafe { reduce::end_block(frame, range.clone(), block) };
                            }
                        }
                    });
                    // SAFETY: as the caller's.
                    unsafe { reduce::finish(frame, range.clone(), &blocks) };
                }
            }
            // A scalar per row is read by the lanes of later stages.
            frame.len = BLOCK.min(lanes).max(1);
            for value in range.filter(|&value| self.slots.spread(value)) {
                // SAFETY: as the caller's.
                unsafe { frame.splat_first(value) };
            }
        }
    }
}

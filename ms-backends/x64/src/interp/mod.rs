//! Interprets kernels: each instruction runs as one loop over a block of lanes.
//!
//! The interpreter runs every kernel on every machine, and is the oracle for generated code. Both produce the bits that
//! [`ms_ir::Kernel`] specifies, except for NaN payloads.

mod blocks;
mod evaluate;
mod frame;
mod memory;
mod number;
mod reduce;
mod repeat;
mod slots;
#[cfg(test)]
mod tests;

use crate::isa::Isa;
pub use number::Number;
pub(crate) use reduce::{BlockReduction, reduce_blocks};

use crate::kernel::KernelCode;
use blocks::Blocks;
use frame::{Frame, Walk};
use ms_ir::KernelView;
use ms_ir::{Inst, Kernel, LaneAxis, Scope};
use slots::{BLOCK, Slots};
use std::sync::Arc;

/// Runs a kernel with the argument block of a call.
///
/// # Safety
/// The conditions of [`KernelCode::call`] hold for `block`.
pub unsafe fn run(kernel: &Kernel, block: &[u64]) {
    // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
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

// SAFETY: the interpreter accesses memory only as the instructions of the kernel say.
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
            // SAFETY: the scratch memory has a slot for every value, and no slice of a slot exists yet.
            unsafe { self.fill_constants(&mut frame) };
            let mut walk = Walk::new(0..par);
            loop {
                match kernel.lanes {
                    // SAFETY: the contract of `call` makes every address valid that the loops reach from `block`.
                    LaneAxis::Parallel => unsafe { self.lanes_of_result(&mut frame, extents[par] as usize) },
                    // SAFETY: the contract of `call` makes every address valid that the loops reach from `block`.
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
    /// Writes the constants into their slots, which they occupy during the whole call.
    unsafe fn fill_constants(&self, frame: &mut Frame<'_>) {
        for (i, inst) in self.kernel.insts.iter().enumerate() {
            if let Inst::Const(bits) = *inst {
                // SAFETY: no slice of the slots exists before the first instruction runs.
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
                    // SAFETY: `Isa::detect` chose `isa`. The addresses are valid at every step, and stages run in
                    // order.
                    Scope::Point => unsafe { evaluate::run(self.isa, frame, range) },
                    // SAFETY: `Isa::detect` chose `isa`. The addresses are valid at every step, and stages run in
                    // order.
                    Scope::Repeat => unsafe { repeat::run(self.isa, frame, range) },
                    Scope::Loop => {
                        let mut blocks = Blocks::new(frame);
                        // SAFETY: `range` is the stage that is about to run.
                        unsafe { reduce::start(frame, range.clone(), &blocks) };
                        frame.for_reduced_loops(|frame| {
                            // SAFETY: `Isa::detect` chose `isa`, the addresses are valid at every step, and
                            // `reduce::start` has run.
                            unsafe { evaluate::run(self.isa, frame, range.clone()) };
                            if let Some(block) = blocks.advance(1) {
                                // SAFETY: `range` is the running stage, and a block only ends if there are several.
                                unsafe { reduce::end_block(frame, range.clone(), block) };
                            }
                        });
                        // SAFETY: `range` is a stage whose loops have ended.
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
                    // SAFETY: `Isa::detect` chose `isa`. The addresses are valid at every step, and stages run in
                    // order.
                    unsafe { evaluate::run(self.isa, frame, range.clone()) };
                }
                Scope::Repeat => unreachable!("a kernel with a loop has parallel lanes"),
                Scope::Loop => {
                    let mut blocks = Blocks::new(frame);
                    // SAFETY: `range` is the stage that is about to run.
                    unsafe { reduce::start(frame, range.clone(), &blocks) };
                    frame.for_reduced_loops(|frame| {
                        if frame.begins_row() {
                            frame.in_row = 0;
                        }
                        let mut first = 0;
                        while first < lanes {
                            let len = BLOCK.min(lanes - first).min(blocks.left());
                            frame.enter_lanes(first, len);
                            // SAFETY: `Isa::detect` chose `isa`, the addresses are valid at every step, and
                            // `reduce::start` has run.
                            unsafe { evaluate::run(self.isa, frame, range.clone()) };
                            frame.leave_lanes(first);
                            (first, frame.in_row) = (first + len, frame.in_row + len);
                            if let Some(block) = blocks.advance(len) {
                                // SAFETY: `range` is the running stage, and a block only ends if there are several.
                                unsafe { reduce::end_block(frame, range.clone(), block) };
                            }
                        }
                    });
                    // SAFETY: `range` is a stage whose loops have ended.
                    unsafe { reduce::finish(frame, range.clone(), &blocks) };
                }
            }
            // The lanes of later stages read the scalar of a row.
            frame.len = BLOCK.min(lanes).max(1);
            for value in range.filter(|&value| self.slots.spread(value)) {
                // SAFETY: the stage has ended, so no slice of the value's lanes exists.
                unsafe { frame.splat_first(value) };
            }
        }
    }
}

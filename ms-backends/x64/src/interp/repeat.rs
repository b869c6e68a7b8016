//! Interprets loop stages.

use super::evaluate;
use super::frame::Frame;
use crate::isa::Isa;
use ms_ir::Inst;
use std::ops::Range;

/// Runs a loop stage on the current block of lanes.
///
/// # Safety
/// The conditions of [`evaluate::run`] hold for `range`.
pub unsafe fn run(isa: Isa, frame: &mut Frame<'_>, range: Range<usize>) {
    let kernel = frame.kernel;
    let mut test = None;
    for at in range.clone() {
        match kernel.insts[at] {
            // SAFETY: the initial value of a carry is live until the loop ends, and no slice of the carry exists.
            Inst::Carry(first) => unsafe { frame.copy(first.0 as usize, at) },
            Inst::While(condition) => test = Some((at, condition)),
            _ => {}
        }
    }
    let (at, condition) = test.expect("a loop has a condition");
    loop {
        // SAFETY: the conditions of `evaluate::run` hold by this function's contract, and all carries are initialised.
        unsafe { evaluate::run(isa, frame, range.start..at) };
        // SAFETY: the condition was computed above, so it is live. It is uniform across lanes.
        if unsafe { frame.value::<u8>(condition) }.first().is_none_or(|it| *it == 0) {
            return;
        }
        // SAFETY: the conditions of `evaluate::run` hold by this function's contract, and the instructions before `at`
        // have run.
        unsafe { evaluate::run(isa, frame, at..range.end) };
        for at in range.clone() {
            if let Inst::Next(carry, _) = kernel.insts[at] {
                // SAFETY: next values are live until all carries are assigned, and no slice of the carry exists.
                unsafe { frame.copy(at, carry.0 as usize) };
            }
        }
    }
}

//! Loops of a stage.

use super::evaluate;
use super::frame::Frame;
use crate::isa::Isa;
use ms_core::ir::Inst;
use std::ops::Range;

/// Runs a stage that is a loop on the current block of lanes.
///
/// # Safety
/// As for [`evaluate::run`].
pub unsafe fn run(isa: Isa, frame: &mut Frame<'_>, range: Range<usize>) {
    let kernel = frame.kernel;
    let mut test = None;
    for at in range.clone() {
        match kernel.insts[at] {
            // SAFETY: values of earlier stages that a loop reads are live until it ends.
            Inst::Carry(first) => unsafe { frame.copy(first.0 as usize, at) },
            Inst::While(condition) => test = Some((at, condition)),
            _ => {}
        }
    }
    let (at, condition) = test.expect("a loop has a condition");
    loop {
        // SAFETY: as the caller's; carries have values.
        unsafe { evaluate::run(isa, frame, range.start..at) };
        // SAFETY: the condition was computed, and is the same for all lanes.
        if unsafe { frame.value::<u8>(condition) }.first().is_none_or(|it| *it == 0) {
            return;
        }
        // SAFETY: as the caller's.
        unsafe { evaluate::run(isa, frame, at..range.end) };
        for at in range.clone() {
            if let Inst::Next(carry, _) = kernel.insts[at] {
                // SAFETY: next values are live until all are assigned.
                unsafe { frame.copy(at, carry.0 as usize) };
            }
        }
    }
}

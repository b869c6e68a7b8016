//! Detects copy kernels, which are skipped if their results share the memory of their operands.

use crate::lower::Argument;
use ms_ir::{Inst, Kernel, Role};
use smallvec::SmallVec;

/// Returns the params of each source and destination of a kernel that only copies elements. Both have equal strides.
pub(super) fn copied(kernel: &Kernel, args: &[Argument]) -> Option<SmallVec<[[usize; 2]; 1]>> {
    if !kernel.is_copy() {
        return None;
    }
    let mut pairs = SmallVec::new();
    for inst in &kernel.insts {
        let Inst::Store(to, value) = *inst else { continue };
        let Inst::Load(from) = kernel.insts[value.0 as usize] else { return None };
        let pair = [from.0 as usize, to.0 as usize];
        if kernel.params[pair[0]].role == Role::Iota {
            return None;
        }
        let [from, to] = pair.map(|it| (kernel.params[it].dtype, &args[it].strides));
        if from != to {
            return None;
        }
        pairs.push(pair);
    }
    Some(pairs)
}

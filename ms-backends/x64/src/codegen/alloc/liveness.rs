//! Computes live ranges and uses of virtual registers.

use super::super::vinst::{Program, VReg};

/// The next use of a register that has no further uses.
pub const NEVER: usize = usize::MAX;

/// The live range of one virtual register.
#[derive(Clone, Copy)]
struct Life {
    def: usize,
    /// The last position at which it is live.
    end: usize,
    /// The remaining uses, as the range `next..stop` of `Liveness::uses`.
    next: usize,
    stop: usize,
}

/// The live ranges of a program's registers, and the uses after the current instruction.
pub struct Liveness {
    lives: Vec<Life>,
    uses: Vec<usize>,
}

impl Liveness {
    /// Computes the live ranges, before the first instruction.
    pub fn new(program: &Program) -> Self {
        let fresh = Life { def: NEVER, end: 0, next: 0, stop: 0 };
        let mut lives = vec![fresh; program.regs.len()];
        let mut total = 0;
        for inst in &program.insts {
            for src in &inst.srcs {
                lives[src.0 as usize].stop += 1;
                total += 1;
            }
        }
        let mut start = 0;
        for life in &mut lives {
            let count = life.stop;
            (life.next, life.stop) = (start, start);
            start += count;
        }
        let mut uses = vec![0; total];
        for (at, inst) in program.insts.iter().enumerate() {
            for src in &inst.srcs {
                let life = &mut lives[src.0 as usize];
                uses[life.stop] = at;
                life.stop += 1;
                life.end = at;
            }
            if let Some(dst) = inst.dst {
                let life = &mut lives[dst.0 as usize];
                life.def = life.def.min(at);
                life.end = life.end.max(at);
            }
        }
        // A value from outside a loop is read again in the next iteration.
        let loops = program.blocks.iter().enumerate().filter(|it| it.1.when.is_loop());
        let loops = loops.map(|(i, _)| program.block_range(i));
        for range in loops.chain(program.register_ranges().map(|it| program.insts_of(&it))) {
            for inst in &program.insts[range.clone()] {
                for reg in inst.srcs.iter().chain(&inst.dst) {
                    let life = &mut lives[reg.0 as usize];
                    if life.def < range.start {
                        life.end = life.end.max(range.end);
                    }
                }
            }
        }
        Self { lives, uses }
    }

    /// Returns the position of the definition of `reg`.
    pub fn def(&self, reg: VReg) -> usize {
        self.lives[reg.0 as usize].def
    }

    /// Returns the last position at which `reg` is live.
    pub fn end(&self, reg: VReg) -> usize {
        self.lives[reg.0 as usize].end
    }

    /// Returns the position of the next use of `reg`, or [`NEVER`].
    pub fn next_use(&self, reg: VReg) -> usize {
        let life = &self.lives[reg.0 as usize];
        if life.next < life.stop { self.uses[life.next] } else { NEVER }
    }

    /// Advances past a use of `reg`.
    pub fn advance(&mut self, reg: VReg) {
        self.lives[reg.0 as usize].next += 1;
    }

    /// Returns whether `reg` has no use after position `at`.
    pub fn dies(&self, reg: VReg, at: usize) -> bool {
        let life = &self.lives[reg.0 as usize];
        life.next >= life.stop && life.end <= at
    }
}

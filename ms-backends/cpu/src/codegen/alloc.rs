//! Register allocation: a linear scan that evicts the value whose next use is furthest away.
//!
//! A value that is evicted once is stored where it is defined, so that its register can be
//! given up at any later point. Constants are never stored: they are made anew. Over the
//! reduced loops accumulators, and values from outside as far as there is room, keep their
//! registers; all other registers are free at the head of such a loop and dropped at its end.
//! Where reduced loops are cut, the same holds for all blocks in them, and each of these that can
//! be reached from several places begins with what is pinned alone.

use super::rows::Row;
use super::target::{Target, Width};
use super::vinst::{Constant, Machine, Op, Program, Span, Tie, VInst, VReg, When};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An operand after allocation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AllocatedOperand {
    /// The register of this number, of the width of the virtual one.
    Reg(VReg, u8),
    /// A constant in memory.
    Pool(VReg, Constant),
}

/// What is emitted, in order.
#[derive(Clone, Debug)]
pub enum AllocatedInst {
    /// A virtual instruction.
    Run {
        /// Its position in the program.
        inst: usize,
        /// The row, where allocation chose it (see [`Tie::Fma`]).
        row: Option<Row>,
        /// The register of the result.
        dst: Option<u8>,
        /// The operands, without the one that the result overwrites.
        srcs: SmallVec<[AllocatedOperand; 4]>,
    },
    /// Copies a register.
    Copy { reg: VReg, from: u8, to: u8 },
    /// Brings a value back from its slot, or makes a constant.
    Reload { reg: VReg, to: u8 },
}

/// The outcome.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// All steps, in order.
    pub steps: Vec<AllocatedInst>,
    /// For each block of the program, one past its last step.
    pub blocks: Vec<usize>,
    /// The offset of each virtual register's stack slot, where it has one.
    pub slots: Vec<Option<u32>>,
    /// Bytes of all slots.
    pub slot_bytes: u32,
    /// Number of values that have a slot.
    pub spills: usize,
}

/// Registers that allocation leaves to the emitter.
pub mod scratch {
    use super::{Target, Width};

    /// Vector registers that a gather uses, counted from the last.
    pub const fn gather_vectors(target: Target) -> u8 {
        match target {
            Target::Avx2 => 3,
            Target::Avx512 => 2,
        }
    }

    /// The mask of the lanes that exist in the last step of the lanes' loop.
    pub const TAIL_MASK: u8 = 1;

    /// The mask that a gather consumes.
    pub const GATHER_MASK: u8 = 7;

    /// The registers to allocate, as bits.
    pub const fn allocatable(target: Target, width: Width, gathers: bool) -> u32 {
        match width {
            Width::Mask if gathers => 0b0111_1100,
            Width::Mask => 0b1111_1100,
            _ => {
                let count = target.vector_registers() - if gathers { gather_vectors(target) } else { 0 };
                ((1_u64 << count) - 1) as u32
            }
        }
    }
}

/// Assigns registers and slots.
pub fn allocate(program: &Program, target: Target) -> Allocation {
    let mut scan = Scan::new(program, target);
    let mut blocks = Vec::with_capacity(program.blocks.len());
    for (i, block) in program.blocks.iter().enumerate() {
        let range = program.block_range(i);
        for held in program.held().filter(|it| it.start == i) {
            scan.enter_loop(program.insts_of(&held), &mut blocks);
        }
        // What comes from several places finds only what is pinned in registers.
        if !matches!(block.when, When::Once | When::After | When::Loop(Span::Whole(_))) && !scan.pinned.is_empty() {
            scan.forget();
        }
        if let When::Loop(_) = block.when {
            scan.enter_loop(range.clone(), &mut blocks);
        }
        for at in range {
            scan.instruction(at);
        }
        if let When::Loop(_) = block.when {
            scan.leave_loop();
        }
        blocks.push(scan.steps.len());
        for _ in program.held().filter(|it| it.end == i + 1) {
            scan.forget();
            scan.leave_loop();
        }
    }
    scan.finish(blocks)
}

/// The registers of one kind.
struct File {
    owner: [Option<VReg>; 32],
    allocatable: u32,
    free: u32,
    pinned: u32,
    /// Operands of the current instruction.
    locked: u32,
}

impl File {
    fn new(allocatable: u32) -> Self {
        Self { owner: [None; 32], allocatable, free: allocatable, pinned: 0, locked: 0 }
    }
}

const NEVER: usize = usize::MAX;

/// The life of one virtual register.
#[derive(Clone, Copy)]
struct Life {
    def: usize,
    /// The last position at which it must be held.
    end: usize,
    /// Its uses not passed yet, as a range of `Scan::uses`.
    next: usize,
    stop: usize,
    register: Option<u8>,
    spilled: bool,
}

struct Scan<'a> {
    program: &'a Program,
    steps: Vec<AllocatedInst>,
    lives: Vec<Life>,
    uses: Vec<usize>,
    vectors: File,
    masks: File,
    /// The registers that were pinned before each loop that is entered.
    pinned: Vec<u32>,
}

impl<'a> Scan<'a> {
    fn new(program: &'a Program, target: Target) -> Self {
        let gathers = program.insts.iter().any(|it| matches!(it.op, Op::Gather { .. }));
        let mut scan = Self {
            program,
            steps: Vec::with_capacity(program.insts.len() * 5 / 4),
            lives: Vec::new(),
            uses: Vec::new(),
            vectors: File::new(scratch::allocatable(target, Width::Xmm, gathers)),
            masks: File::new(scratch::allocatable(target, Width::Mask, gathers)),
            pinned: Vec::new(),
        };
        scan.collect_uses();
        scan
    }

    fn collect_uses(&mut self) {
        let fresh = Life { def: NEVER, end: 0, next: 0, stop: 0, register: None, spilled: false };
        self.lives = vec![fresh; self.program.regs.len()];
        let mut total = 0;
        for inst in &self.program.insts {
            for src in &inst.srcs {
                self.lives[src.0 as usize].stop += 1;
                total += 1;
            }
        }
        let mut start = 0;
        for life in &mut self.lives {
            let count = life.stop;
            (life.next, life.stop) = (start, start);
            start += count;
        }
        self.uses = vec![0; total];
        for (at, inst) in self.program.insts.iter().enumerate() {
            for src in &inst.srcs {
                let life = &mut self.lives[src.0 as usize];
                self.uses[life.stop] = at;
                life.stop += 1;
                life.end = at;
            }
            if let Some(dst) = inst.dst {
                let life = &mut self.lives[dst.0 as usize];
                life.def = life.def.min(at);
                life.end = life.end.max(at);
            }
        }
        // What a loop reads from outside is read again in its next step.
        let loops = self.program.blocks.iter().enumerate().filter(|it| matches!(it.1.when, When::Loop(_)));
        let loops = loops.map(|(i, _)| self.program.block_range(i));
        for range in loops.chain(self.program.held().map(|it| self.program.insts_of(&it))) {
            for inst in &self.program.insts[range.clone()] {
                for reg in inst.srcs.iter().chain(&inst.dst) {
                    let life = &mut self.lives[reg.0 as usize];
                    if life.def < range.start {
                        life.end = life.end.max(range.end);
                    }
                }
            }
        }
    }

    fn life(&mut self, reg: VReg) -> &mut Life {
        &mut self.lives[reg.0 as usize]
    }

    fn file(&mut self, reg: VReg) -> &mut File {
        match self.program.info(reg).width {
            Width::Mask => &mut self.masks,
            _ => &mut self.vectors,
        }
    }

    fn next_use(&self, reg: VReg) -> usize {
        let life = &self.lives[reg.0 as usize];
        if life.next < life.stop { self.uses[life.next] } else { NEVER }
    }

    fn release(&mut self, reg: VReg) {
        if let Some(register) = self.life(reg).register.take() {
            let file = self.file(reg);
            file.owner[register as usize] = None;
            file.free |= 1 << register;
        }
    }

    /// Gives up a register whose value is still needed.
    fn evict(&mut self, reg: VReg) {
        self.release(reg);
        if self.program.info(reg).constant.is_none() {
            self.life(reg).spilled = true;
        }
    }

    /// A register for `reg`, evicting another value if all are taken.
    fn take(&mut self, reg: VReg) -> u8 {
        let file = self.file(reg);
        if file.free == 0 {
            let (owner, candidates) = (file.owner, file.allocatable & !file.locked & !file.pinned);
            let victim = (0..32)
                .filter(|it| candidates >> it & 1 == 1)
                .filter_map(|it: usize| owner[it])
                .max_by_key(|&it| self.next_use(it))
                .expect("fewer operands and pinned values than registers");
            self.evict(victim);
        }
        let file = self.file(reg);
        let register = file.free.trailing_zeros() as u8;
        file.free &= !(1 << register);
        file.owner[register as usize] = Some(reg);
        self.life(reg).register = Some(register);
        register
    }

    fn lock(&mut self, reg: VReg, register: u8) {
        self.file(reg).locked |= 1 << register;
    }

    fn unlock(&mut self) {
        self.vectors.locked = 0;
        self.masks.locked = 0;
    }

    /// The register that holds `reg`, which is brought back if it is not in one.
    fn hold(&mut self, reg: VReg) -> u8 {
        let register = match self.life(reg).register {
            Some(register) => register,
            None => {
                let to = self.take(reg);
                self.steps.push(AllocatedInst::Reload { reg, to });
                to
            }
        };
        self.lock(reg, register);
        register
    }

    /// Whether `reg` has no use after position `at`.
    fn dies(&self, reg: VReg, at: usize) -> bool {
        let life = &self.lives[reg.0 as usize];
        life.next >= life.stop && life.end <= at
    }

    /// Whether `reg` is a constant that no register holds.
    fn loose_constant(&self, reg: VReg) -> Option<Constant> {
        match self.lives[reg.0 as usize].register {
            None => self.program.info(reg).constant,
            Some(_) => None,
        }
    }

    fn instruction(&mut self, at: usize) {
        let inst: &'a VInst = &self.program.insts[at];
        for &src in &inst.srcs {
            self.life(src).next += 1;
        }
        let machine = match &inst.op {
            Op::Machine(machine) => *machine,
            _ => Machine::new(super::rows::MOVE),
        };
        let (row, tied, order) = self.tied_order(&machine, inst, at);
        let folded = if machine.fold { order.len().checked_sub(1 + usize::from(machine.masked)) } else { None };
        let mut srcs = SmallVec::new();
        for (i, &src) in order.iter().enumerate() {
            srcs.push(match self.loose_constant(src) {
                Some(constant) if folded == Some(i) => AllocatedOperand::Pool(src, constant),
                _ => AllocatedOperand::Reg(src, self.hold(src)),
            });
        }
        let dst = match (inst.dst, tied) {
            (Some(dst), Some(tied)) => {
                let from = self.hold(tied);
                let to = if self.dies(tied, at) {
                    self.release(tied);
                    self.adopt(dst, from);
                    from
                } else {
                    let to = self.take(dst);
                    self.steps.push(AllocatedInst::Copy { reg: dst, from, to });
                    to
                };
                self.release_dead(inst, at);
                Some(to)
            }
            (Some(dst), None) => {
                self.release_dead(inst, at);
                Some(match self.life(dst).register {
                    Some(register) => register,
                    None => self.take(dst),
                })
            }
            (None, _) => {
                self.release_dead(inst, at);
                None
            }
        };
        self.unlock();
        self.steps.push(AllocatedInst::Run { inst: at, row, dst, srcs });
        if let Some(dst) = inst.dst
            && self.dies(dst, at)
        {
            self.release(dst);
        }
    }

    /// Gives the free register `register` to `reg`.
    fn adopt(&mut self, reg: VReg, register: u8) {
        let file = self.file(reg);
        file.free &= !(1 << register);
        file.owner[register as usize] = Some(reg);
        self.life(reg).register = Some(register);
    }

    fn release_dead(&mut self, inst: &VInst, at: usize) {
        for &src in &inst.srcs {
            if self.dies(src, at) {
                self.release(src);
            }
        }
    }

    /// The row, the source that is overwritten, and the other sources in the row's order.
    fn tied_order(
        &self,
        machine: &Machine,
        inst: &VInst,
        at: usize,
    ) -> (Option<Row>, Option<VReg>, SmallVec<[VReg; 4]>) {
        match machine.tie {
            Tie::Free => (None, None, inst.srcs.clone()),
            Tie::First => (None, Some(inst.srcs[0]), SmallVec::from_slice(&inst.srcs[1..])),
            Tie::Fma([form132, form213, form231]) => {
                let (a, b, c) = (inst.srcs[0], inst.srcs[1], inst.srcs[2]);
                let loose = |it| self.loose_constant(it).is_some();
                // A value that dies gives its register; a constant is read from memory.
                let cost = |it| if loose(it) { 2 } else { i32::from(!self.dies(it, at)) };
                let (row, tied, second, last) = if loose(c) {
                    if cost(a) <= cost(b) { (form213, a, b, c) } else { (form213, b, a, c) }
                } else if loose(a) || loose(b) {
                    let (factor, constant) = if loose(b) { (a, b) } else { (b, a) };
                    if cost(factor) < cost(c) { (form132, factor, c, constant) } else { (form231, c, factor, constant) }
                } else if cost(c) == 0 {
                    (form231, c, a, b)
                } else if cost(a) <= cost(b) {
                    (form213, a, b, c)
                } else {
                    (form213, b, a, c)
                };
                (Some(row), Some(tied), SmallVec::from_slice(&[second, last]))
            }
        }
    }

    /// Pins accumulators and what else has room; empties all other registers but those that are pinned
    /// already.
    fn enter_loop(&mut self, range: std::ops::Range<usize>, blocks: &mut [usize]) {
        let accumulators: SmallVec<[VReg; 4]> = (self.program.accumulators.iter().copied())
            .filter(|&it| self.lives[it.0 as usize].def < range.start && self.lives[it.0 as usize].end >= range.end)
            .collect();
        let pinned = self.pinned_values();
        self.pinned.push(self.vectors.pinned);
        let mut kept = accumulators.clone();
        kept.extend(pinned.into_iter().filter(|it| !accumulators.contains(it)));
        // Loops inside this one need registers for accumulators of their own.
        let inside =
            self.program.accumulators.iter().filter(|it| range.contains(&self.lives[it.0 as usize].def)).count();
        let mut room = (self.vectors.allocatable.count_ones() as usize / 2).saturating_sub(kept.len() + inside);
        for register in 0..32 {
            let Some(owner) = self.vectors.owner[register] else { continue };
            let used_inside = self.next_use(owner) < range.end;
            if used_inside && room > 0 && !kept.contains(&owner) && self.program.info(owner).constant.is_none() {
                kept.push(owner);
                room -= 1;
            }
        }
        self.drop_all_but(&kept);
        for &reg in &accumulators {
            self.hold(reg);
        }
        self.unlock();
        for &reg in &kept {
            let register = self.life(reg).register.expect("kept values are in registers");
            self.file(reg).pinned |= 1 << register;
        }
        // What was reloaded for the loop belongs before it.
        if let Some(end) = blocks.last_mut() {
            *end = self.steps.len();
        }
    }

    fn leave_loop(&mut self) {
        let kept = self.pinned_values();
        self.vectors.pinned = self.pinned.pop().expect("a loop that was entered");
        self.drop_all_but(&kept);
        let still = self.pinned_values();
        for reg in kept {
            if self.next_use(reg) == NEVER && !still.contains(&reg) {
                self.release(reg);
            }
        }
    }

    /// The values in pinned registers.
    fn pinned_values(&self) -> SmallVec<[VReg; 16]> {
        let pinned = self.vectors.pinned;
        (0..32).filter(|it| pinned >> it & 1 == 1).filter_map(|it| self.vectors.owner[it]).collect()
    }

    /// Empties all registers that are not pinned.
    fn forget(&mut self) {
        let kept = self.pinned_values();
        self.drop_all_but(&kept);
    }

    /// Empties all registers but those of `kept`; values still needed keep their slots.
    fn drop_all_but(&mut self, kept: &[VReg]) {
        let owners = self.vectors.owner.iter().chain(&self.masks.owner).flatten();
        let dropped: SmallVec<[VReg; 32]> = owners.copied().filter(|it| !kept.contains(it)).collect();
        for reg in dropped {
            if self.next_use(reg) != NEVER {
                self.evict(reg);
            } else {
                self.release(reg);
            }
        }
    }

    /// Gives slots to the spilled values; values that do not live together share them.
    fn finish(self, blocks: Vec<usize>) -> Allocation {
        let mut spilled: Vec<usize> = (0..self.lives.len()).filter(|&it| self.lives[it].spilled).collect();
        spilled.sort_unstable_by_key(|&it| self.lives[it].def);
        let mut slots = vec![None; self.lives.len()];
        let mut slot_bytes = 0;
        // By width: slots in use with the end of their value's life, and free ones.
        let mut busy: [BinaryHeap<Reverse<(usize, u32)>>; 4] = Default::default();
        let mut free: [Vec<u32>; 4] = Default::default();
        for &reg in &spilled {
            let width = self.program.regs[reg].width;
            let kind = width as usize;
            while let Some(&Reverse((end, offset))) = busy[kind].peek()
                && end < self.lives[reg].def
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
            slots[reg] = Some(offset);
            busy[kind].push(Reverse((self.lives[reg].end, offset)));
        }
        Allocation { steps: self.steps, blocks, slots, slot_bytes, spills: spilled.len() }
    }
}

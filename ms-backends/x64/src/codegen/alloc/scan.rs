//! Runs the linear scan over the instructions of a program.

use super::super::opcodes::{self, Opcode};
use super::super::target::{Target, Width};
use super::super::vinst::{Constant, Machine, Op, Program, Tie, VInst, VReg};
use super::liveness::{Liveness, NEVER};
use super::{AllocatedInst, AllocatedOperand, Allocation, scratch, slots};
use smallvec::SmallVec;

/// A register file: the physical registers of one kind, with bit sets of their states.
struct File {
    owner: [Option<VReg>; 32],
    allocatable: u32,
    free: u32,
    pinned: u32,
    /// The operands of the current instruction, which must not be evicted.
    locked: u32,
}

impl File {
    fn new(allocatable: u32) -> Self {
        Self { owner: [None; 32], allocatable, free: allocatable, pinned: 0, locked: 0 }
    }
}

/// The state of the scan: the contents of the registers before the current instruction.
pub struct Scan<'a> {
    program: &'a Program,
    steps: Vec<AllocatedInst>,
    liveness: Liveness,
    /// The physical register of each virtual register that is in one.
    registers: Vec<Option<u8>>,
    /// Whether each virtual register was evicted.
    spilled: Vec<bool>,
    vectors: File,
    masks: File,
    /// The pinned registers before each entered loop.
    pinned: Vec<u32>,
}

impl<'a> Scan<'a> {
    /// Returns the state before the first instruction.
    pub fn new(program: &'a Program, target: Target) -> Self {
        let gathers = program.insts.iter().any(|it| it.op.is_gather());
        Self {
            program,
            steps: Vec::with_capacity(program.insts.len() * 5 / 4),
            liveness: Liveness::new(program),
            registers: vec![None; program.regs.len()],
            spilled: vec![false; program.regs.len()],
            vectors: File::new(scratch::allocatable(target, Width::Xmm, gathers)),
            masks: File::new(scratch::allocatable(target, Width::Mask, gathers)),
            pinned: Vec::new(),
        }
    }

    /// Returns the number of allocated instructions so far.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether the scan is inside a loop with pinned registers.
    pub fn is_in_loop(&self) -> bool {
        !self.pinned.is_empty()
    }

    fn register(&mut self, reg: VReg) -> &mut Option<u8> {
        &mut self.registers[reg.0 as usize]
    }

    fn file(&mut self, reg: VReg) -> &mut File {
        match self.program.info(reg).width {
            Width::Mask => &mut self.masks,
            _ => &mut self.vectors,
        }
    }

    fn release(&mut self, reg: VReg) {
        if let Some(register) = self.register(reg).take() {
            let file = self.file(reg);
            file.owner[register as usize] = None;
            file.free |= 1 << register;
        }
    }

    /// Evicts a value that is still live. It is reloaded at its next use.
    fn evict(&mut self, reg: VReg) {
        self.release(reg);
        if self.program.info(reg).constant.is_none() {
            self.spilled[reg.0 as usize] = true;
        }
    }

    /// Allocates a register for `reg`, evicting another value if none is free.
    fn take(&mut self, reg: VReg) -> u8 {
        let file = self.file(reg);
        if file.free == 0 {
            let (owner, candidates) = (file.owner, file.allocatable & !file.locked & !file.pinned);
            let victim = (0..32)
                .filter(|it| candidates >> it & 1 == 1)
                .filter_map(|it: usize| owner[it])
                .max_by_key(|&it| self.liveness.next_use(it))
                .expect("fewer operands and pinned values than registers");
            self.evict(victim);
        }
        let file = self.file(reg);
        let register = file.free.trailing_zeros() as u8;
        file.free &= !(1 << register);
        file.owner[register as usize] = Some(reg);
        *self.register(reg) = Some(register);
        register
    }

    fn lock(&mut self, reg: VReg, register: u8) {
        self.file(reg).locked |= 1 << register;
    }

    fn unlock(&mut self) {
        self.vectors.locked = 0;
        self.masks.locked = 0;
    }

    /// Returns the register of `reg` and locks it. Reloads the value if it is not in a register.
    fn hold(&mut self, reg: VReg) -> u8 {
        let register = match *self.register(reg) {
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

    /// Returns the value of `reg` if it is a constant that is not in a register.
    fn loose_constant(&self, reg: VReg) -> Option<Constant> {
        match self.registers[reg.0 as usize] {
            None => self.program.info(reg).constant,
            Some(_) => None,
        }
    }

    /// Allocates the registers of instruction `at`.
    pub fn instruction(&mut self, at: usize) {
        let inst: &'a VInst = &self.program.insts[at];
        for &src in &inst.srcs {
            self.liveness.advance(src);
        }
        let machine = match &inst.op {
            Op::Machine(machine) => *machine,
            _ => Machine::new(opcodes::MOVE),
        };
        let (opcode, tied, order) = self.tied_order(&machine, inst, at);
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
                let to = if self.liveness.dies(tied, at) {
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
                Some(match *self.register(dst) {
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
        self.steps.push(AllocatedInst::Run { inst: at, opcode, dst, srcs });
        if let Some(dst) = inst.dst
            && self.liveness.dies(dst, at)
        {
            self.release(dst);
        }
    }

    /// Assigns the free register `register` to `reg`.
    fn adopt(&mut self, reg: VReg, register: u8) {
        let file = self.file(reg);
        file.free &= !(1 << register);
        file.owner[register as usize] = Some(reg);
        *self.register(reg) = Some(register);
    }

    fn release_dead(&mut self, inst: &VInst, at: usize) {
        for &src in &inst.srcs {
            if self.liveness.dies(src, at) {
                self.release(src);
            }
        }
    }

    /// Returns the chosen opcode, the source that is overwritten, and the other sources in the opcode's order.
    fn tied_order(
        &self,
        machine: &Machine,
        inst: &VInst,
        at: usize,
    ) -> (Option<Opcode>, Option<VReg>, SmallVec<[VReg; 4]>) {
        match machine.tie {
            Tie::Free => (None, None, inst.srcs.clone()),
            Tie::First => (None, Some(inst.srcs[0]), SmallVec::from_slice(&inst.srcs[1..])),
            Tie::Fma([form132, form213, form231]) => {
                let (a, b, c) = (inst.srcs[0], inst.srcs[1], inst.srcs[2]);
                let loose = |it| self.loose_constant(it).is_some();
                // Overwriting a value that dies is free. A constant is best read from memory.
                let cost = |it| if loose(it) { 2 } else { i32::from(!self.liveness.dies(it, at)) };
                let (opcode, tied, second, last) = if loose(c) {
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
                (Some(opcode), Some(tied), SmallVec::from_slice(&[second, last]))
            }
        }
    }

    /// Pins the accumulators, and other values used in the loop while registers suffice. Empties all other registers
    /// except those that are already pinned.
    pub fn enter_loop(&mut self, range: std::ops::Range<usize>, blocks: &mut [usize]) {
        let accumulators: SmallVec<[VReg; 4]> = (self.program.accumulators.iter().copied())
            .filter(|&it| self.liveness.def(it) < range.start && self.liveness.end(it) >= range.end)
            .collect();
        let pinned = self.pinned_values();
        self.pinned.push(self.vectors.pinned);
        let mut resident = accumulators.clone();
        resident.extend(pinned.into_iter().filter(|it| !accumulators.contains(it)));
        // Loops inside this one need registers for their accumulators.
        let inside = self.program.accumulators.iter().filter(|it| range.contains(&self.liveness.def(**it))).count();
        let mut room = (self.vectors.allocatable.count_ones() as usize / 2).saturating_sub(resident.len() + inside);
        for register in 0..32 {
            let Some(owner) = self.vectors.owner[register] else { continue };
            let used_inside = self.liveness.next_use(owner) < range.end;
            if used_inside && room > 0 && !resident.contains(&owner) && self.program.info(owner).constant.is_none() {
                resident.push(owner);
                room -= 1;
            }
        }
        self.drop_all_but(&resident);
        for &reg in &accumulators {
            self.hold(reg);
        }
        self.unlock();
        for &reg in &resident {
            let register = self.register(reg).expect("kept values are in registers");
            self.file(reg).pinned |= 1 << register;
        }
        // Reloads for the loop belong to the block before it.
        if let Some(end) = blocks.last_mut() {
            *end = self.steps.len();
        }
    }

    /// Restores the pins from before the loop. Empties all registers except those that the loop pinned.
    pub fn leave_loop(&mut self) {
        let resident = self.pinned_values();
        self.vectors.pinned = self.pinned.pop().expect("a loop that was entered");
        self.drop_all_but(&resident);
        let still = self.pinned_values();
        for reg in resident {
            if self.liveness.next_use(reg) == NEVER && !still.contains(&reg) {
                self.release(reg);
            }
        }
    }

    /// Returns the values in pinned registers.
    fn pinned_values(&self) -> SmallVec<[VReg; 16]> {
        let pinned = self.vectors.pinned;
        (0..32).filter(|it| pinned >> it & 1 == 1).filter_map(|it| self.vectors.owner[it]).collect()
    }

    /// Empties all registers that are not pinned.
    pub fn drop_unpinned(&mut self) {
        let resident = self.pinned_values();
        self.drop_all_but(&resident);
    }

    /// Empties all registers except those of `resident`. Values that are still live are evicted.
    fn drop_all_but(&mut self, resident: &[VReg]) {
        let owners = self.vectors.owner.iter().chain(&self.masks.owner).flatten();
        let dropped: SmallVec<[VReg; 32]> = owners.copied().filter(|it| !resident.contains(it)).collect();
        for reg in dropped {
            if self.liveness.next_use(reg) != NEVER {
                self.evict(reg);
            } else {
                self.release(reg);
            }
        }
    }

    /// Ends the scan and assigns spill slots.
    pub fn finish(self, blocks: Vec<usize>) -> Allocation {
        let (slots, slot_bytes) = slots::assign(self.program, &self.liveness, &self.spilled);
        let spills = self.spilled.iter().filter(|it| **it).count();
        Allocation { steps: self.steps, blocks, slots, slot_bytes, spills }
    }
}

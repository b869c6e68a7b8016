//! Selects loop stages: their carries and the carries' next values.

use super::super::Unsupported;
use super::super::opcodes;
use super::super::vinst::{AccArray, AccId, Machine, Op, VReg, When};
use super::Select;
use super::reduction::register_accumulators;
use ms_ir::data::DType;
use ms_ir::{Inst, Val};
use std::ops::Range;

/// The location of a carry.
#[derive(Clone, Copy)]
enum CarryLocation {
    Register(VReg),
    /// On the stack.
    Stack(AccId),
}

/// A carry. Bools have lanes of all ones or zeros, as masks cannot be pinned.
#[derive(Clone, Copy)]
struct Carry {
    /// The index of the instruction.
    at: usize,
    location: CarryLocation,
    /// The size of a lane in bytes.
    size: usize,
}

impl Select<'_> {
    /// Selects a loop stage.
    pub fn repeat(&mut self, range: Range<usize>) -> Result<(), Unsupported> {
        let mut carries = Vec::new();
        for at in range.clone() {
            let Inst::Carry(first) = self.kernel.insts[at] else { break };
            let carry = self.carry(at, carries.len());
            let first = self.in_vector(at, first);
            self.assign_carry(carry, first);
            carries.push(carry);
        }
        self.close(When::Once);
        carries.iter().for_each(|it| self.read_carry(*it));
        let inside = range.start + carries.len()..range.end - carries.len();
        let assigned = inside.end..range.end;
        self.body(0, inside, &[])?;
        let mut next: Vec<VReg> = Vec::with_capacity(carries.len());
        for (carry, at) in carries.iter().zip(assigned) {
            let Inst::Next(_, value) = self.kernel.insts[at] else { unreachable!("a loop ends with the next values") };
            let value = self.in_vector(carry.at, value);
            // Carries are assigned in parallel: a next value that is another carry's register is copied before it is
            // overwritten.
            let is_other =
                |it: &Carry| it.at != carry.at && matches!(it.location, CarryLocation::Register(reg) if reg == value);
            next.push(if carries.iter().any(is_other) {
                let copy = self.reg(self.program.info(value).width);
                self.machine(Machine::new(opcodes::MOVE), copy, &[value])
            } else {
                value
            });
        }
        for (carry, value) in carries.iter().zip(next) {
            self.assign_carry(*carry, value);
        }
        self.close(When::Repeat);
        carries.iter().for_each(|it| self.read_carry(*it));
        Ok(())
    }

    /// Allocates the carry after `before` others.
    fn carry(&mut self, at: usize, before: usize) -> Carry {
        let size = match self.kernel.types[at] {
            DType::Bool if self.avx512() => 4,
            dtype => self.size(dtype),
        };
        let location = if before < register_accumulators(self.target) {
            let register = self.vector(size);
            self.program.accumulators.push(register);
            CarryLocation::Register(register)
        } else {
            let id = AccId(self.program.arrays.len() as u32);
            self.program.arrays.push(AccArray { count: self.program.lanes, size });
            CarryLocation::Stack(id)
        };
        Carry { at, location, size }
    }

    /// Returns the lanes of a value in a vector register. It has the dtype of carry `at`.
    fn in_vector(&mut self, at: usize, value: Val) -> VReg {
        let value = self.value(value);
        let is_mask = self.kernel.types[at] == DType::Bool && self.avx512();
        if is_mask { self.op1(opcodes::M2D, 4, value) } else { value }
    }

    fn assign_carry(&mut self, carry: Carry, value: VReg) {
        match carry.location {
            CarryLocation::Register(register) if register == value => {}
            CarryLocation::Register(register) => {
                self.machine(Machine::new(opcodes::MOVE), register, &[value]);
            }
            CarryLocation::Stack(id) => self.push(Op::AccWrite(id, 0), None, &[value]),
        }
    }

    /// Defines the value of a carry's instruction as the current value of the carry.
    fn read_carry(&mut self, carry: Carry) {
        let vector = match carry.location {
            CarryLocation::Register(register) => register,
            CarryLocation::Stack(id) => {
                let vector = self.vector(carry.size);
                self.push(Op::AccRead(id, 0), Some(vector), &[]);
                vector
            }
        };
        let is_mask = self.kernel.types[carry.at] == DType::Bool && self.avx512();
        let value = if is_mask { self.mask_op(opcodes::D2M, &[vector]) } else { vector };
        self.values[0][carry.at] = Some(value);
    }
}

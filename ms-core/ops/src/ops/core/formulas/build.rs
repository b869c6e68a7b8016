//! Formulas under construction.

use super::{Binary, Formula, Instruction, Kind, Unary, ValueId, number};
use crate::tensor::Scalar;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A formula under construction: equal instructions are one, and those that cannot change a value are left out.
#[derive(Clone, Debug)]
pub struct Builder {
    operands: SmallVec<[Kind; 3]>,
    instructions: Vec<Instruction>,
    /// What each value is.
    kinds: Vec<Kind>,
    known: FxHashMap<Instruction, ValueId>,
}

impl Builder {
    /// Without instructions.
    pub fn new(operands: impl IntoIterator<Item = Kind>) -> Self {
        let operands: SmallVec<[Kind; 3]> = operands.into_iter().collect();
        let kinds = operands.to_vec();
        Self { operands, instructions: Vec::new(), kinds, known: FxHashMap::default() }
    }

    /// An operand.
    pub fn operand(&self, at: usize) -> ValueId {
        assert!(at < self.operands.len(), "the formula has that operand");
        ValueId(at as u32)
    }

    /// What a value is.
    pub fn kind(&self, value: ValueId) -> Kind {
        self.kinds[value.0 as usize]
    }

    /// A number.
    pub fn constant(&mut self, kind: Kind, value: impl Into<Scalar>) -> ValueId {
        self.push(Instruction::constant(kind, value.into()))
    }

    /// A float of the kind of another one.
    pub fn float_like(&mut self, value: f64, like: ValueId) -> ValueId {
        self.constant(self.kind(like), value)
    }

    /// A value as another kind.
    pub fn cast(&mut self, to: Kind, a: ValueId) -> ValueId {
        if self.kind(a) == to { a } else { self.push(Instruction::Cast(to, a)) }
    }

    /// A function of a value.
    pub fn unary(&mut self, op: Unary, a: ValueId) -> ValueId {
        self.push(Instruction::Unary(op, a))
    }

    /// A function of two values.
    pub fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.push(Instruction::Binary(op, a, b))
    }

    /// One of two values.
    pub fn select(&mut self, condition: ValueId, then: ValueId, other: ValueId) -> ValueId {
        if then == other { then } else { self.push(Instruction::Select(condition, then, other)) }
    }

    /// `a + b`.
    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(Binary::Add, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(Binary::Sub, a, b)
    }

    /// `a * b`; exactly `a` if `b` is one, and the other way around.
    pub fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        match (self.float(a), self.float(b)) {
            (Some(1.0), _) => b,
            (_, Some(1.0)) => a,
            _ => self.binary(Binary::Mul, a, b),
        }
    }

    /// `a / b`.
    pub fn div(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(Binary::Div, a, b)
    }

    /// `-a`.
    pub fn neg(&mut self, a: ValueId) -> ValueId {
        self.unary(Unary::Neg, a)
    }

    /// `a` times a number.
    pub fn scale(&mut self, a: ValueId, by: f64) -> ValueId {
        let by = self.float_like(by, a);
        self.mul(a, by)
    }

    /// The number that a float is; `None` if it depends on operands.
    pub fn float(&self, value: ValueId) -> Option<f64> {
        let at = (value.0 as usize).checked_sub(self.operands.len())?;
        match self.instructions[at] {
            Instruction::Constant(kind, bits) if kind.is_float() => Some(number(kind, bits).as_f64()),
            _ => None,
        }
    }

    fn push(&mut self, instruction: Instruction) -> ValueId {
        let next = ValueId((self.operands.len() + self.instructions.len()) as u32);
        let value = *self.known.entry(instruction).or_insert(next);
        if value == next {
            let kind = instruction.kind(&self.kinds).expect("functions of kernels and derivatives fit their operands");
            self.kinds.push(kind);
            self.instructions.push(instruction);
        }
        value
    }

    /// Appends the instructions of a formula on these operands; returns its values.
    pub(super) fn inline(&mut self, formula: &Formula, operands: &[ValueId]) -> Vec<ValueId> {
        let mut values = operands.to_vec();
        for instruction in &formula.instructions {
            let moved = instruction.map(|it| values[it.0 as usize]);
            values.push(self.push(moved));
        }
        values
    }

    /// The formula with this result, without the instructions that it does not need.
    pub fn finish(&self, result: ValueId) -> Formula {
        let first = self.operands.len();
        let mut needed = vec![false; first + self.instructions.len()];
        needed[result.0 as usize] = true;
        for (at, instruction) in self.instructions.iter().enumerate().rev() {
            if needed[first + at] {
                instruction.reads().iter().for_each(|it| needed[it.0 as usize] = true);
            }
        }
        let mut numbers: Vec<ValueId> = (0..first as u32).map(ValueId).collect();
        let mut instructions = Vec::new();
        for (at, instruction) in self.instructions.iter().enumerate() {
            numbers.push(ValueId((first + instructions.len()) as u32));
            if needed[first + at] {
                instructions.push(instruction.map(|it| numbers[it.0 as usize]));
            }
        }
        Formula { operands: self.operands.clone(), instructions, result: numbers[result.0 as usize] }
    }
}

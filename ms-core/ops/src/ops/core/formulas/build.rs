//! The builder of formulas.

use super::{Binary, Formula, Instruction, Kind, Unary, ValueId, number};
use crate::tensor::Scalar;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A formula under construction. Equal instructions are interned, and instructions that cannot change a value are
/// omitted.
#[derive(Clone, Debug)]
pub struct Builder {
    operands: SmallVec<[Kind; 3]>,
    instructions: Vec<Instruction>,
    /// The kind of each value.
    kinds: Vec<Kind>,
    known: FxHashMap<Instruction, ValueId>,
}

impl Builder {
    /// Creates a formula without instructions.
    pub fn new(operands: impl IntoIterator<Item = Kind>) -> Self {
        let operands: SmallVec<[Kind; 3]> = operands.into_iter().collect();
        let kinds = operands.to_vec();
        Self { operands, instructions: Vec::new(), kinds, known: FxHashMap::default() }
    }

    /// Returns an operand.
    pub fn operand(&self, at: usize) -> ValueId {
        assert!(at < self.operands.len(), "the formula has that operand");
        ValueId(at as u32)
    }

    /// Returns the kind of a value.
    pub fn kind(&self, value: ValueId) -> Kind {
        self.kinds[value.0 as usize]
    }

    /// Appends a number.
    pub fn constant(&mut self, kind: Kind, value: impl Into<Scalar>) -> ValueId {
        self.push(Instruction::constant(kind, value.into()))
    }

    /// Appends a float of the kind of `like`.
    pub fn float_like(&mut self, value: f64, like: ValueId) -> ValueId {
        self.constant(self.kind(like), value)
    }

    /// Converts a value to another kind.
    pub fn cast(&mut self, to: Kind, a: ValueId) -> ValueId {
        if self.kind(a) == to { a } else { self.push(Instruction::Cast(to, a)) }
    }

    /// Appends a function of a value.
    pub fn unary(&mut self, op: Unary, a: ValueId) -> ValueId {
        self.push(Instruction::Unary(op, a))
    }

    /// Appends a function of two values.
    pub fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        self.push(Instruction::Binary(op, a, b))
    }

    /// Selects one of two values.
    pub fn select(&mut self, condition: ValueId, then: ValueId, other: ValueId) -> ValueId {
        if then == other { then } else { self.push(Instruction::Select(condition, then, other)) }
    }

    /// Appends `a + b`.
    pub fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(Binary::Add, a, b)
    }

    /// Appends `a - b`.
    pub fn sub(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(Binary::Sub, a, b)
    }

    /// Appends `a * b`; returns `a` if `b` is the constant one, and vice versa.
    pub fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        match (self.float(a), self.float(b)) {
            (Some(1.0), _) => b,
            (_, Some(1.0)) => a,
            _ => self.binary(Binary::Mul, a, b),
        }
    }

    /// Appends `a / b`.
    pub fn div(&mut self, a: ValueId, b: ValueId) -> ValueId {
        self.binary(Binary::Div, a, b)
    }

    /// Appends `-a`.
    pub fn neg(&mut self, a: ValueId) -> ValueId {
        self.unary(Unary::Neg, a)
    }

    /// Multiplies `a` by a number.
    pub fn scale(&mut self, a: ValueId, by: f64) -> ValueId {
        let by = self.float_like(by, a);
        self.mul(a, by)
    }

    /// Returns the value of a constant float; `None` if the value is not one.
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

    /// Appends the instructions of a formula on these operands, and returns its values.
    pub(super) fn inline(&mut self, formula: &Formula, operands: &[ValueId]) -> Vec<ValueId> {
        let mut values = operands.to_vec();
        for instruction in &formula.instructions {
            let moved = instruction.map(|it| values[it.0 as usize]);
            values.push(self.push(moved));
        }
        values
    }

    /// Returns the formula of this result, without unused instructions.
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

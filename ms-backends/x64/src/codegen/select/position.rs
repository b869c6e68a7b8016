//! Analyses the positions of indexed buffers: which are uniform across lanes, and which need no vector.

use super::super::opcodes;
use super::super::vinst::{Op, VReg};
use super::Select;
use ms_ir::data::DType;
use ms_ir::{Compare, Inst, Kernel, ParamId, StrideClass, Val};

/// The results of the analysis, which runs before instruction selection.
pub struct Positions {
    /// For each value, whether it is uniform across lanes.
    uniform: Vec<bool>,
    /// For each value, the integer buffer of which it is an element. Only for values that are used as nothing but
    /// uniform positions: they are loaded at their uses and need no vector register.
    element: Vec<Option<ParamId>>,
}

impl Positions {
    /// Analyses a kernel.
    pub fn new(kernel: &Kernel) -> Self {
        let count = kernel.insts.len();
        if !kernel.insts.iter().any(|it| matches!(it, Inst::Gather(..))) {
            return Self { uniform: vec![false; count], element: vec![None; count] };
        }
        Self { uniform: kernel.uniform(), element: elements(kernel) }
    }

    /// Returns whether a value is uniform across lanes.
    pub fn is_uniform(&self, val: Val) -> bool {
        self.uniform[val.0 as usize]
    }

    /// Returns the buffer whose element the position is, if it is loaded at its uses.
    pub fn element(&self, val: Val) -> Option<ParamId> {
        self.element[val.0 as usize]
    }

    /// Returns whether any value that needs a vector has eight bytes.
    pub fn has_wide(&self, kernel: &Kernel) -> bool {
        let is_wide = |dtype: DType| dtype.size() == 8;
        let in_vectors = |at: &usize| self.element[*at].is_none();
        let read_apart = |param: usize| {
            let mut loads = (0..kernel.insts.len()).filter(|&at| kernel.insts[at] == Inst::Load(ParamId(param as u32)));
            loads.next().is_some_and(|it| !in_vectors(&it)) && loads.all(|it| !in_vectors(&it))
        };
        (0..kernel.insts.len()).any(|it| is_wide(kernel.types[it]) && in_vectors(&it))
            || (0..kernel.params.len()).any(|it| is_wide(kernel.params[it].dtype) && !read_apart(it))
    }
}

/// Computes [`Positions::element`].
fn elements(kernel: &Kernel) -> Vec<Option<ParamId>> {
    let mut element: Vec<Option<ParamId>> = Vec::with_capacity(kernel.insts.len());
    for inst in &kernel.insts {
        element.push(match *inst {
            Inst::Load(id) => {
                let param = kernel.params[id.0 as usize];
                (param.step == StrideClass::Zero && param.dtype.is_int()).then_some(id)
            }
            Inst::Cast { value, to: DType::I64 } => element[value.0 as usize],
            _ => None,
        });
    }
    let stage = |at: usize| kernel.stages.partition_point(|it| it.end as usize <= at);
    let mut stored = None;
    let mut last_store = Vec::with_capacity(element.len());
    for (at, inst) in kernel.insts.iter().enumerate() {
        last_store.push(stored);
        stored = if matches!(inst, Inst::Store(..)) { Some(at) } else { stored };
    }
    // Uses come after definitions, so a reverse visit propagates the need for a vector from uses to operands.
    for (at, inst) in kernel.insts.iter().enumerate().rev() {
        let passes = matches!(inst, Inst::Gather(..)) || element[at].is_some();
        for Val(operand) in inst.operands() {
            let operand = operand as usize;
            let same = stage(operand) == stage(at) && last_store[at].is_none_or(|it| it < operand);
            if !(passes && same) {
                element[operand] = None;
            }
        }
    }
    // A conversion of a value that needs a vector needs one, too.
    for at in 0..element.len() {
        if let Inst::Cast { value, .. } = kernel.insts[at]
            && element[value.0 as usize].is_none()
        {
            element[at] = None;
        }
    }
    element
}

impl Select<'_> {
    /// Loads the elements of an indexed buffer at `position`.
    pub fn gather(&mut self, param: ParamId, position: Val) -> VReg {
        let info = self.kernel.params[param.0 as usize];
        let (size, step) = (info.dtype.size() as u8, info.step);
        let raw = self.vector(info.dtype.size());
        // There is one position at a time if lanes are processed one at a time or the position is uniform.
        if self.program.one_lane || self.positions.is_uniform(position) {
            let (index, copy) = (self.positions.element(position), self.copy as u8);
            let op = Op::ReadAt { param, size, strided: step == StrideClass::Any, index, copy };
            match index {
                Some(_) => self.push(op, Some(raw), &[]),
                None => {
                    let position = self.value(position);
                    self.push(op, Some(raw), &[position]);
                }
            }
            return self.widened(info.dtype, raw);
        }
        let position = self.value(position);
        let (stride, extent, zero) = (self.vector(8), self.vector(8), self.constant(0, 8));
        self.push(Op::AxisStride(param), Some(stride), &[]);
        self.push(Op::AxisExtent(param), Some(extent), &[]);
        let negative = self.compare(Compare::Lt, DType::I64, position, zero);
        let from_end = self.op2(opcodes::ADD_Q, position, extent);
        let counted = self.select(DType::I64, negative, from_end, position);
        let inside = self.compare(Compare::Lt, DType::U64, counted, extent);
        let offset = self.multiply_int(counted, stride);
        let mask = if self.avx512() { inside } else { self.mask_lanes(inside, info.dtype.size()) };
        let op = Op::GatherAt { param, size, moves: step != StrideClass::Zero };
        self.push(op, Some(raw), &[position, offset, mask]);
        self.widened(info.dtype, raw)
    }

    /// Computes the low halves of 64-bit integer products.
    fn multiply_int(&mut self, a: VReg, b: VReg) -> VReg {
        if self.avx512() { self.op2(opcodes::MULL_Q, a, b) } else { self.multiply_q(a, b) }
    }
}

//! What lowering knows of the processor that a plan is for.

use crate::error::{Code, Error, Result};
use crate::ir::{Inst, Kernel, Math};
use crate::ops::math::{Expansion, expand};
use crate::tensor::DType;

/// A processor, as far as it decides what graphs are lowered to. Lowering for equal targets gives
/// equal plans.
///
/// A target is part of the key of every stored plan, so it describes a kind of processor and not the
/// machine at hand: it has neither a number of threads nor the number of a device, and the sizes of
/// caches are those of a class of processors.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Bytes of the cache that every core has to itself. A row that several stages of a kernel go
    /// over stays in it; longer ones are better shared out among threads.
    pub cache_bytes: usize,
    /// A result of inputs alone with at most this many elements is computed before all else: it
    /// takes little memory until then, and every later group can read it.
    pub small_elements: usize,
    /// How much one kernel does at most.
    pub budget: Budget,
    /// The functions that it computes by itself. In the place of others stand formulas of basic
    /// instructions.
    pub functions: Vec<Native>,
}

/// A function that a target computes by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Native {
    /// The function.
    pub math: Math,
    /// Of operands of this dtype: f32 or f64.
    pub dtype: DType,
    /// What it costs, in basic instructions.
    pub cost: usize,
}

/// What the body of a kernel costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Instructions, where formulas stand for functions that the target lacks.
    pub insts: usize,
    /// Whether there are values of eight bytes.
    pub is_wide: bool,
}

/// How much one kernel does at most. Costs are in instructions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// The cost of its body.
    pub cost: usize,
    /// The cost of the body of a kernel that reduces 4-byte elements and touches 8-byte ones. These
    /// halve the number of lanes, which a long body pays for more than another kernel costs.
    pub wide_cost: usize,
    /// Buffers that it reads.
    pub inputs: usize,
    /// Stages with loops.
    pub loops: u32,
    /// What a loop may spend on computing a value again that an earlier loop had, instead of
    /// reading it from memory.
    pub recomputed_cost: usize,
    /// The cost of an op that may be computed for more elements than it has.
    pub repeated_cost: usize,
    /// Neighbouring elements that a kernel of a higher cost writes at a time, if it has as many: a
    /// slice with shorter rows leaves lanes idle, and is a copy of what the kernel computes.
    pub shortest_run: usize,
}

/// What [`Inst::Gather`] costs, in basic instructions: the position is checked and scaled.
const GATHER_COST: usize = 4;

impl Target {
    /// A target of which nothing is known: no kernel is too large for it.
    pub const fn unbounded() -> Self {
        Self {
            cache_bytes: usize::MAX,
            small_elements: 0,
            budget: Budget {
                cost: usize::MAX,
                wide_cost: usize::MAX,
                inputs: usize::MAX,
                loops: u32::MAX,
                recomputed_cost: 0,
                repeated_cost: 0,
                shortest_run: 0,
            },
            functions: Vec::new(),
        }
    }

    /// The target without functions of its own, whose results are the same to the bit as those of every
    /// other such target.
    pub fn portable(&self) -> Self {
        Self { functions: Vec::new(), ..self.clone() }
    }

    /// How the target computes a function by itself, if it does.
    pub fn native(&self, math: Math, dtype: DType) -> Option<&Native> {
        self.functions.iter().find(|it| it.math == math && it.dtype == dtype)
    }

    /// The kernel with formulas in the place of the functions that the target lacks.
    pub fn expand(&self, kernel: Kernel) -> Kernel {
        expand(kernel, |math, dtype| self.native(math, dtype).is_some())
    }

    /// What a kernel costs.
    pub fn cost(&self, kernel: &Kernel) -> Cost {
        let mut cost = Cost { insts: 0, is_wide: kernel.types.iter().any(|it| it.size() == 8) };
        for (inst, &dtype) in kernel.insts.iter().zip(&kernel.types) {
            cost.insts += match *inst {
                Inst::Math(math, ..) => match self.native(math, dtype) {
                    Some(native) => native.cost,
                    None => {
                        let formula = Expansion::of(math, dtype);
                        cost.is_wide |= formula.is_wide();
                        formula.cost()
                    }
                },
                Inst::Gather(..) => GATHER_COST,
                _ => 1,
            };
        }
        cost
    }

    /// Whether the target runs a kernel: it has the functions that the kernel holds.
    ///
    /// # Errors
    /// [`Code::Backend`] with the first function that it lacks.
    pub fn check(&self, kernel: &Kernel) -> Result<()> {
        for (inst, &dtype) in kernel.insts.iter().zip(&kernel.types) {
            if let Inst::Math(math, ..) = *inst
                && self.native(math, dtype).is_none()
            {
                return Err(Error::new(Code::Backend, format!("the target has no {math:?} of {dtype}")));
            }
        }
        Ok(())
    }

    /// Elements of the longest row that several stages of a kernel go over, which are of four bytes
    /// as a rule.
    pub(super) fn longest_staged_row(&self) -> usize {
        self.cache_bytes / 4
    }
}

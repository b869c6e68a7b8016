//! What lowering depends on of the processor that a plan is for.

mod composite;
mod images;

pub use composite::Kept;
pub use images::{Contracted, Images};

use crate::error::{Code, Error, Result};
use crate::ir::{Contraction, Inst, Kernel, Math, Precision, Type};
use crate::ops::AxisOrder;
use crate::ops::math::{Expansion, expand};
use crate::tensor::{DType, Op};

/// A processor, as far as it determines how graphs are lowered. Lowering for equal targets yields equal
/// plans.
///
/// A target is part of the key of every stored plan, so it describes a kind of processor rather than a
/// machine: it has neither a number of threads nor a device number, and the sizes of caches are those of a
/// class of processors.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Size of the private cache of a core, in bytes. A row that several stages of a kernel iterate over
    /// stays in it; longer ones are better divided among threads.
    pub cache_bytes: usize,
    /// A result that depends only on inputs and has at most this many elements is computed first: it takes
    /// little memory, and every later group can read it.
    pub small_elements: usize,
    /// Whether contractions read operands whose elements are not evenly spaced along all axes of terms together.
    /// Otherwise a step before copies such an operand.
    pub strided_sums: bool,
    /// Limits of one kernel.
    pub budget: Budget,
    /// Which kernels it runs as the [epilogues](crate::lower::Epilogue) of contractions and of ops; `None` if it runs none.
    pub epilogues: Option<EpilogueLimits>,
    /// Which loops while a condition holds it runs as kernels; `None` if it runs none.
    pub repeats: Option<RepeatLimits>,
    /// Composites that it runs itself. Others are expanded to the ops of their bodies.
    pub composites: &'static [Kept],
    /// Which convolutions are contractions, and the order of the axes of images.
    pub images: Images,
    /// Native functions. Other functions are expanded to formulas of basic instructions.
    pub functions: Vec<Native>,
}

/// A native function of a target.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Native {
    /// The function.
    pub math: Math,
    /// The dtype of its operands: f32 or f64.
    pub dtype: DType,
    /// The cost in basic instructions.
    pub cost: usize,
}

/// The cost of the body of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Number of instructions, including the formulas of functions that are not native.
    pub insts: usize,
    /// Whether there are 8-byte values.
    pub is_wide: bool,
}

/// Limits of one kernel. Costs are in instructions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// The cost of its body.
    pub cost: usize,
    /// The cost of the body of a kernel that reduces 4-byte elements and accesses 8-byte ones. These halve
    /// the number of lanes, which costs more in a long body than another kernel.
    pub wide_cost: usize,
    /// Number of buffers that it reads.
    pub inputs: usize,
    /// Number of stages with loops.
    pub loops: u32,
    /// The maximum cost of recomputing a value of an earlier loop instead of reloading it from memory.
    pub recomputed_cost: usize,
    /// The maximum cost of an op that may be computed for more elements than it has.
    pub repeated_cost: usize,
    /// The number of adjacent elements that a kernel of a higher cost must write at a time, if it has as
    /// many: a slice with shorter rows leaves lanes idle, and is a copy of the kernel's result instead.
    pub shortest_run: usize,
    /// The number of slices of a result that kernels copy, one each, if nothing computes any of them; more are copied
    /// by one library step.
    pub copies: usize,
}

/// Limits of a contraction, or an op of the library, and the kernels that are its epilogues.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct EpilogueLimits {
    /// The minimum number of adjacent elements of the result: shorter rows leave lanes idle.
    pub shortest_row: usize,
    /// The minimum number of elements of the result.
    pub elements: usize,
    /// The minimum number of terms of a sum for each instruction of the kernel. One that takes long compared to the
    /// sums is better divided among threads by itself.
    pub terms: usize,
    /// The maximum number of elements of a row of the result of which a part has whole ones, because a kernel reduces
    /// rows, or reads other columns than it computes; 0 if the target runs no such kernels.
    pub longest_row: usize,
    /// The number of kernels that read one result.
    pub kernels: usize,
    /// Ops of the library on images whose results, of this minimum number of elements, such kernels read as well.
    pub ops: &'static [Op],
}

/// Limits of a loop that is one kernel, whose iterations are computed for one vector of elements after the other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RepeatLimits {
    /// Number of elements of the largest value. With many, iterations of all elements at a time take less: they do
    /// not wait for one another.
    pub elements: usize,
    /// Number of carries.
    pub carries: usize,
    /// Number of nodes of the condition and the body.
    pub nodes: usize,
}

/// The cost of [`Inst::Gather`] in basic instructions: the position is checked and scaled.
const GATHER_COST: usize = 4;

impl Target {
    /// An unknown processor: kernels are not limited in size, and no functions are native.
    pub const fn unbounded() -> Self {
        Self {
            cache_bytes: usize::MAX,
            small_elements: 0,
            strided_sums: true,
            budget: Budget {
                cost: usize::MAX,
                wide_cost: usize::MAX,
                inputs: usize::MAX,
                loops: u32::MAX,
                recomputed_cost: 0,
                repeated_cost: 0,
                shortest_run: 0,
                copies: usize::MAX,
            },
            epilogues: None,
            repeats: None,
            composites: &[],
            images: Images { contracted: Contracted::None, order: AxisOrder::ChannelsFirst },
            functions: Vec::new(),
        }
    }

    /// Whether the target runs a composite on operands of these types itself. In strict precision it does only
    /// if the results have the bits of the body's.
    pub fn keeps(&self, op: Op, types: &[&Type], precision: Precision) -> bool {
        self.composites.iter().any(|it| it.admits(op, types, precision))
    }

    /// Whether the target runs so many kernels, of this cost together, as the epilogues of a contraction whose result
    /// nothing else reads.
    ///
    /// The contraction has at most one axis of rows and one of columns: a product of matrices whose result has strides
    /// is not computed in the same order in a part of its own, unless the precision is strict.
    pub(super) fn takes_epilogues(&self, contraction: &Contraction, count: usize, insts: usize) -> bool {
        let Some(EpilogueLimits { shortest_row, elements, terms, kernels, .. }) = self.epilogues else { return false };
        let Contraction { batch, m, n, k, .. } = contraction;
        let row = n.last().or(m.last()).map_or(1, |it| it.size);
        let all = [batch, m, n].map(|it| Contraction::size(it)).into_iter().fold(1, usize::saturating_mul);
        count <= kernels
            && m.len() <= 1
            && n.len() <= 1
            && row >= shortest_row
            && all >= elements
            && Contraction::size(k) >= insts.saturating_mul(terms)
    }

    /// Whether the target runs so many kernels as the epilogues of an op of the library whose result, with these
    /// [axes](super::image_axes), nothing else reads.
    pub(super) fn takes_epilogues_of(&self, op: Op, axes: &[usize], count: usize) -> bool {
        self.epilogues.as_ref().is_some_and(|it| {
            count <= it.kernels && axes.iter().product::<usize>() >= it.elements && it.ops.contains(&op)
        })
    }

    /// Whether the target runs, behind other epilogues of a contraction, a kernel that computes so many columns of each
    /// row, where all of them together take this many instructions for a row.
    pub(super) fn takes_kernel_of_rows(&self, contraction: &Contraction, columns: usize, insts: usize) -> bool {
        let Some(EpilogueLimits { shortest_row, terms, .. }) = self.epilogues else { return false };
        let row = Contraction::size(&contraction.n);
        columns >= shortest_row
            && self.takes_rows(row)
            && Contraction::size(&contraction.k).saturating_mul(row) >= insts.saturating_mul(terms)
    }

    /// Whether the target runs kernels that need whole rows of this many elements as epilogues of contractions.
    pub(super) fn takes_rows(&self, row: usize) -> bool {
        self.epilogues.as_ref().is_some_and(|it| row <= it.longest_row)
    }

    /// The target without native functions, whose results are bitwise equal to those of all other such
    /// targets.
    pub fn portable(&self) -> Self {
        Self { functions: Vec::new(), ..self.clone() }
    }

    /// The native function of the target, if it has one.
    pub fn native(&self, math: Math, dtype: DType) -> Option<&Native> {
        self.functions.iter().find(|it| it.math == math && it.dtype == dtype)
    }

    /// The kernel with functions that are not native expanded to formulas.
    pub fn expand(&self, kernel: Kernel) -> Kernel {
        expand(kernel, |math, dtype| self.native(math, dtype).is_some())
    }

    /// The cost of a kernel.
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

    /// Checks that the target can run a kernel: all its functions are native.
    ///
    /// # Errors
    /// [`Code::Backend`] with the first function that is not.
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

    /// The maximum length of rows that several stages of a kernel iterate over, whose elements usually have
    /// four bytes.
    pub(super) fn longest_staged_row(&self) -> usize {
        self.cache_bytes / 4
    }
}

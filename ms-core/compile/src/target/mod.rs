//! Describes the target of a plan, as far as lowering depends on it.

mod epilogues;
mod images;
mod support;

pub use epilogues::{EpilogueKernel, EpilogueKind, EpilogueOperands, EpilogueSupport, Producer, Producers};
pub use images::{Contracted, Images};
pub use support::{OpSupport, SizeBound};

use ms_ir::data::{DType, Op};
use ms_ir::error::{Code, Error, Result};
use ms_ir::math::{Expansion, expand};
use ms_ir::op::{AxisOrder, Lowering, definition};
use ms_ir::{Inst, Kernel, Math, Precision, ReductionOrder, Type};

/// A processor, as far as it determines how graphs are lowered. Lowering for equal targets yields equal
/// plans.
///
/// A target is part of the key of every stored plan, so it describes a kind of processor rather than a machine. It has
/// neither a number of threads nor a device number, and its cache sizes are typical of a class of processors.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The number of adjacent elements that threads next to each other, or the lanes of one thread, process together.
    /// Rows that are shorter leave some of them idle.
    pub parallel_width: usize,
    /// Size in bytes of the fast memory next to the threads that share a row: the private cache of a core, or the
    /// shared memory of a thread block. A row that several stages of a kernel iterate over stays in it; longer ones are
    /// better divided among threads.
    pub fast_memory: usize,
    /// The order of short reductions in relaxed precisions: see [`Precision::order`].
    pub relaxed_order: ReductionOrder,
    /// A result that depends only on inputs and has at most this many elements is computed first. It takes little
    /// memory, and every later group can read it.
    pub small_elements: usize,
    /// Whether contractions read operands that are not evenly spaced along all reduction dimensions together. Otherwise
    /// a step copies such an operand first.
    pub strided_sums: bool,
    /// Whether it runs kernels. Otherwise every op that is no view is a library step, which runs in the precision of
    /// the code.
    pub kernels: bool,
    /// Limits of one kernel.
    pub budget: Budget,
    /// The kernels that it runs as [epilogues](crate::lower::Epilogue) of contractions and ops.
    pub epilogues: &'static [EpilogueSupport],
    /// The limits of `while` loops that it runs as kernels; `None` if it runs none.
    pub repeats: Option<RepeatLimits>,
    /// Whether it decides the conditions of branches and `while` loops itself. Otherwise the host waits for them. See
    /// [`Driver::branch`](crate::exec::Driver::branch).
    pub conditions: bool,
    /// Composites that are legal on the target. Others are expanded to the ops of their bodies.
    pub composites: &'static [OpSupport],
    /// The library ops that it implements; `None` if it implements all. Slices that are not copied by a library op are
    /// copied by kernels.
    pub library: Option<&'static [OpSupport]>,
    /// The dtypes of the operands of contractions that it runs; `None` for all.
    pub products: Option<&'static [DType]>,
    /// The convolutions that are lowered to contractions, and the axis order of images (NCHW or NHWC).
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
    /// The number of instructions, including the formulas of functions that are not native.
    pub insts: usize,
    /// Whether there are 8-byte values.
    pub is_wide: bool,
}

/// Limits of one kernel. Costs are in instructions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// The cost of its body.
    pub cost: usize,
    /// The cost of the body of a kernel that reduces 4-byte elements and accesses 8-byte ones. The 8-byte elements
    /// halve the number of lanes, which in a long body costs more than another kernel.
    pub wide_cost: usize,
    /// The number of buffers that it reads.
    pub inputs: usize,
    /// The number of words of the argument block of a call.
    pub words: usize,
    /// The number of stages with loops.
    pub loops: u32,
    /// The maximum cost of recomputing a value of an earlier loop instead of reloading it from memory.
    pub recomputed_cost: usize,
    /// The maximum cost of an op that may be computed for more elements than it has. A kernel of a higher cost writes
    /// no slices with rows that are shorter than the [width](Target::parallel_width): they are copied from its result.
    pub repeated_cost: usize,
    /// The maximum number of slices of a result that kernels copy, one each, if no kernel computes any of them. One
    /// library step copies more.
    pub copies: usize,
}

/// Limits of a loop that is one kernel and iterates on one vector of elements after the other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RepeatLimits {
    /// The number of elements of the largest value. With many elements, one iteration of all of them at a time is
    /// faster, since their latencies overlap.
    pub elements: usize,
    /// The number of carries.
    pub carries: usize,
    /// The number of nodes of the condition and the body.
    pub nodes: usize,
}

impl Target {
    /// An unknown processor: kernels are not limited in size, and no functions are native.
    pub const fn unbounded() -> Self {
        Self {
            parallel_width: 0,
            fast_memory: usize::MAX,
            relaxed_order: ReductionOrder::Lanes,
            small_elements: 0,
            strided_sums: true,
            kernels: true,
            budget: Budget {
                cost: usize::MAX,
                wide_cost: usize::MAX,
                inputs: usize::MAX,
                words: usize::MAX,
                loops: u32::MAX,
                recomputed_cost: 0,
                repeated_cost: 0,
                copies: usize::MAX,
            },
            epilogues: &[],
            repeats: None,
            conditions: false,
            composites: &[],
            library: None,
            products: None,
            images: Images { contracted: Contracted::None, order: AxisOrder::ChannelsFirst },
            functions: Vec::new(),
        }
    }

    /// Returns whether a composite on operands of these types is legal on the target. In strict precision, its results
    /// must also have the bits of the body's.
    pub fn keeps(&self, op: Op, types: &[&Type], precision: Precision) -> bool {
        self.composites.iter().any(|it| it.admits(op, types, precision))
    }

    /// Returns whether the target implements an op on operands of these types: a library op, or a composite that it
    /// [keeps](Target::keeps).
    pub fn runs(&self, op: Op, types: &[&Type], precision: Precision) -> bool {
        self.library.is_none_or(|all| all.iter().any(|it| it.admits(op, types, precision)))
            || self.keeps(op, types, precision)
    }

    /// Checks that the target runs an op that is a separate step: a contraction of a dtype of
    /// [`Target::products`], or any other op that it [runs](Target::runs).
    ///
    /// # Errors
    /// [`Code::Backend`], without the op and its operands.
    pub fn check_op(&self, op: Op, types: &[&Type], precision: Precision) -> Result<()> {
        let is_contraction = self.kernels && matches!(definition(op).lowering, Lowering::Contraction(_));
        let runs = match self.products {
            Some(dtypes) if is_contraction => types.iter().all(|it| dtypes.contains(&it.dtype)),
            _ => is_contraction || self.runs(op, types, precision),
        };
        if runs {
            return Ok(());
        }
        let error = Error::new(Code::Backend, format!("the device does not run `{}` on these operands", op.name()));
        Err(error.with_operands(types.iter().map(|it| it.to_string())))
    }

    /// Returns whether the target compiles a step and these kernels, which are the only readers of its result, as one.
    /// Without kernels, returns whether there may be any.
    pub fn takes_epilogues(&self, producer: Producer<'_>, kernels: &[EpilogueKernel]) -> bool {
        self.epilogues.iter().any(|it| it.admits(producer, kernels, self.parallel_width))
    }

    /// Returns the target without native functions. Results of such targets are bitwise equal.
    pub fn portable(&self) -> Self {
        Self { functions: Vec::new(), ..self.clone() }
    }

    /// Returns the native function of the target, if it has one.
    pub fn native(&self, math: Math, dtype: DType) -> Option<&Native> {
        self.functions.iter().find(|it| it.math == math && it.dtype == dtype)
    }

    /// Returns the kernel with functions that are not native expanded to formulas.
    pub fn expand(&self, kernel: Kernel) -> Kernel {
        expand(kernel, |math, dtype| self.native(math, dtype).is_some())
    }

    /// Returns the cost of a kernel.
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
                _ => inst.cost(),
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

    /// Returns the maximum length of rows that several stages of a kernel iterate over, assuming elements of four
    /// bytes.
    pub(super) fn longest_staged_row(&self) -> usize {
        self.fast_memory / 4
    }
}

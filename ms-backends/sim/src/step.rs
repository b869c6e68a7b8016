//! Runs single ops on arrays of a simulated device: [`step_code`].

use crate::driver::{Commands, SimDriver};
use crate::kernel::SimKernel;
use crate::reference::{ReferenceContraction, ReferenceOp};
use ms_compile::exec::{Driver, StepCode, refusal};
use ms_compile::lower::eager::Step;
use ms_ir::data::{Array, Attrs, Op};
use ms_ir::error::{Code, Error, Result, in_op};
use ms_ir::op::{NONE_REFUSED, definition};
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, MapVec, Precision};
use ms_x64::KernelCode;
use smallvec::SmallVec;
use std::sync::Arc;

/// Returns the code of a step.
pub fn step_code(step: &Step, driver: SimDriver) -> Arc<dyn StepCode> {
    let code = match step {
        Step::Kernel(kernel) => return Arc::new(KernelStep { kernel: Arc::new(SimKernel::new(kernel)), driver }),
        &Step::Contraction { precision, types, ranks } => WholeCode::Contraction { precision, types, ranks },
        Step::Library { op, attrs, precision, .. } => WholeCode::Op(ReferenceOp::new(*op, attrs.clone(), *precision)),
        Step::Check { kernel, op, attrs } => {
            let record = kernel.param_word(kernel.params.len() - 1);
            WholeCode::Check { kernel: SimKernel::new(kernel), record, op: *op, attrs: attrs.clone() }
        }
    };
    Arc::new(WholeStep { code: Arc::new(code), driver })
}

/// The code of a step with a single kernel.
struct KernelStep {
    kernel: Arc<SimKernel>,
    driver: SimDriver,
}

// SAFETY: the driver runs the kernel as work of the thread's stream, on the bytes behind the device addresses.
unsafe impl StepCode for KernelStep {
    unsafe fn run(&self, block: &[u64], _: &[&Array], _: &[Array]) -> Result<()> {
        let mut commands = Commands::default();
        // SAFETY: for a kernel's argument block, `StepCode::run` has the conditions of `Driver::launch`.
        unsafe { self.driver.launch(&mut commands, &self.kernel, block)? };
        self.driver.submit(&mut commands)
    }
}

/// The code of a step on whole arrays.
struct WholeStep {
    code: Arc<WholeCode>,
    driver: SimDriver,
}

/// A contraction, an op or a check.
enum WholeCode {
    Contraction {
        precision: Precision,
        types: ContractionTypes,
        ranks: ContractionRanks,
    },
    Op(ReferenceOp),
    /// The kernel of a check, and the word in its argument block with the address of the record.
    Check {
        kernel: SimKernel,
        record: usize,
        op: Op,
        attrs: Attrs,
    },
}

impl WholeCode {
    /// Runs the step on arrays in host memory.
    ///
    /// # Safety
    /// The conditions of [`StepCode::run`] hold, for host addresses.
    unsafe fn run(&self, block: &mut [u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        match self {
            // SAFETY: the conditions of `contract` are those of this function.
            &Self::Contraction { precision, types, ranks } => unsafe {
                contract(precision, types, ranks, operands, results)
            },
            // SAFETY: by this function's contract, the results have the op's types, and nothing else accesses them.
            Self::Op(op) => unsafe { op.run(operands, results) },
            Self::Check { kernel, record, op, attrs } => {
                let mut refused = NONE_REFUSED;
                block[*record] = &raw mut refused as u64;
                // SAFETY: for a kernel's argument block, `StepCode::run` has the conditions of `KernelCode::call`, and
                // the record is an i64 of this call.
                unsafe { kernel.code.call(block) };
                if refused == NONE_REFUSED {
                    return Ok(());
                }
                let types = operands.map_vec(|it| it.ty());
                let at = definition(*op).checked_operand().expect("the op makes a check");
                Err(refusal(*op, attrs, &types, refused, &operands[at..]).unwrap_or_else(|it| it))
            }
        }
    }
}

/// Computes a contraction of arrays in host memory.
///
/// # Safety
/// The conditions of [`StepCode::run`] hold, for host addresses.
unsafe fn contract(
    precision: Precision,
    types: ContractionTypes,
    ranks: ContractionRanks,
    operands: &[&Array],
    results: &[Array],
) -> Result<()> {
    let (&[a, b], [out]) = (operands, results) else {
        return Err(Error::new(Code::Argument, "a contraction has two operands and one result"));
    };
    let contraction = Contraction::new(types, precision, ranks, [a.layout(), b.layout(), out.layout()])?;
    // SAFETY: the layout of an array is inside its storage. By this function's contract, nobody else accesses the
    // storage of the result.
    unsafe {
        let operands = [a, b].map(|it| it.device_ptr().cast_const());
        ReferenceContraction::new(&contraction).run(operands, out.device_ptr())
    }
}

// SAFETY: the code writes all elements of the results, on the bytes behind the device addresses.
unsafe impl StepCode for WholeStep {
    unsafe fn run(&self, block: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        let code = self.code.clone();
        let mut block: SmallVec<[u64; 24]> = block.into();
        if let WholeCode::Check { kernel, record, .. } = &*code {
            // The step provides the memory of the record.
            let addresses = kernel.addresses().iter().filter(|it| *it != record);
            addresses.for_each(|&it| block[it] = self.driver.real(block[it]));
        }
        let acts_on_host = matches!(&*code, WholeCode::Op(op) if op.acts_on_host());
        let run = move |operands: &[&Array], results: &[Array]| {
            // SAFETY: the contract of `StepCode::run` covers the time when the work runs.
            in_op(|| unsafe { code.run(&mut block, operands, results) })
        };
        // SAFETY: the conditions of `StepCode::run` hold for the arrays.
        unsafe { self.driver.run_step(acts_on_host, operands, results, run) }
    }
}

//! Runs the native library ops; the reference evaluation runs all others.
//!
//! Native are convolution and pooling of floats, concatenation, reads and writes at indices, ops along an axis,
//! sorting, and long attention. Convolution and pooling widen f16 and bf16 to f32 and round once.

mod attention;
mod axis;
mod conv;
mod dense;
mod eager;
mod epilogues;
mod implementation;
mod index;
mod output;
mod pool;
mod scratch;
mod sort;
#[cfg(test)]
mod tests;
mod update;

pub use eager::EagerOp;
use epilogues::Epilogues;
pub use implementation::{queries, without};
use ms_compile::exec::{ArrayLayout, StepOperand, count_reference};
use ms_ir::data::{Array, Attrs, Element, HostArray, Op};
use ms_ir::error::{Code, Error, Result};
use ms_ops::ops::host::dense;
use ms_ops::ops::{self, OpDef};
use ms_x64::gemm::{Arithmetic, Epilogue};

/// Runs an op that is not [prepared](prepare), and writes its row-major `outputs`.
///
/// # Safety
/// The op's type rule accepts the inputs and infers the types of the outputs. Nothing else accesses the outputs'
/// memory, which does not overlap the inputs. The output of an op that [updates](ms_ops::ops::Lowering::Update) its
/// first operand may share the operand's memory.
///
/// # Errors
/// The errors of the op; [`Code::Memory`] if there is no scratch memory.
unsafe fn run(arithmetic: Arithmetic, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
    if let Some(out) = outputs.first() {
        // SAFETY: the outputs have the op's types, and nothing else accesses them, by this function's contract.
        let done = unsafe {
            index::run(op, attrs, inputs, out)
                .or_else(|| update::run(op, attrs, inputs, out))
                .or_else(|| axis::run(op, attrs, inputs, out))
                .or_else(|| sort::run(arithmetic.isa, op, attrs, inputs, outputs))
                .or_else(|| axis::means(op, attrs, inputs, out))
        };
        if let Some(done) = done {
            return done;
        }
    }
    // SAFETY: the outputs have the op's types, and nothing else accesses them, by this function's contract.
    unsafe { evaluate(op, attrs, inputs, outputs) }
}

/// A library op, prepared for operands and results of given types and strides. A call decides and allocates nothing.
pub trait LibraryCode: Send + Sync {
    /// Returns the size of the workspace in bytes.
    fn workspace(&self) -> usize;

    /// Returns the names of the implementations that were prepared, and why others declined.
    fn choice(&self) -> &str;

    /// Runs the op, then its epilogues, which may overwrite elements of the result that they read.
    ///
    /// # Safety
    /// The operands are live, and results and workspace have room and are accessed by nothing else. The conditions of
    /// the epilogues' code hold for the whole result.
    ///
    /// # Errors
    /// The errors of the op; [`Code::Memory`] if there is no scratch memory.
    unsafe fn run(&self, call: OpCall<'_>) -> Result<()>;
}

/// The memory of a call of a [`LibraryCode`].
#[derive(Clone, Copy)]
pub struct OpCall<'a> {
    /// The operands.
    pub operands: &'a [StepOperand<'a>],
    /// The addresses of the results.
    pub results: &'a [u64],
    /// The epilogues.
    pub epilogues: &'a [Epilogue<'a>],
    /// The address of the workspace.
    pub workspace: u64,
}

/// Convolution and its gradients.
const CONVOLUTIONS: [(&OpDef, conv::Kind); 3] = [
    (&ops::CONV, conv::Kind::Forward),
    (&ops::CONV_INPUT_GRAD, conv::Kind::BackwardData),
    (&ops::CONV_WEIGHT_GRAD, conv::Kind::BackwardWeights),
];

/// Max pooling and its gradients.
const POOLS: [(&OpDef, pool::Kind); 3] = [
    (&ops::MAX_POOL, pool::Kind::Max),
    (&ops::MAX_POOL_GRAD, pool::Kind::Gradient),
    (&ops::MAX_POOL_TAKE, pool::Kind::Take),
];

/// Returns whether an op has a list of implementations.
pub fn has_implementations(op: Op) -> bool {
    let defs = CONVOLUTIONS.iter().map(|it| it.0).chain(POOLS.iter().map(|it| it.0)).chain(attention::OPS);
    defs.into_iter().any(|it| it.op() == op)
}

/// Prepares an op; `None` for ops that [`run_arrays`] runs.
///
/// # Errors
/// The errors of the implementations.
pub fn prepare(
    arithmetic: Arithmetic,
    op: Op,
    attrs: &Attrs,
    operands: &[ArrayLayout],
    results: &[ArrayLayout],
) -> Result<Option<Box<dyn LibraryCode>>> {
    if let Some((_, kind)) = CONVOLUTIONS.iter().find(|it| it.0.op() == op) {
        return conv::prepare(arithmetic, *kind, attrs, operands, results);
    }
    if let Some((_, kind)) = POOLS.iter().find(|it| it.0.op() == op) {
        return pool::prepare(arithmetic.isa, *kind, attrs, operands, results);
    }
    attention::prepare(arithmetic.isa, op, attrs, operands)
}

/// Runs an op like [`run`], then its epilogues; only image ops with one result have epilogues.
///
/// # Safety
/// The conditions of [`run`] hold. The conditions of the epilogues' code hold for the whole result. Epilogues may
/// overwrite elements of the result that they read.
///
/// # Errors
/// The errors of the op; [`Code::Memory`] if there is no scratch memory.
pub unsafe fn run_arrays(
    arithmetic: Arithmetic,
    op: Op,
    attrs: &Attrs,
    inputs: &[&Array],
    outputs: &[Array],
    epilogues: &[Epilogue<'_>],
) -> Result<()> {
    // SAFETY: the outputs have the op's types, nothing else accesses them, and the epilogues fit the only output, by
    // this function's contract.
    unsafe {
        run(arithmetic, op, attrs, inputs, outputs)?;
        if !epilogues.is_empty() {
            Epilogues::new(epilogues, outputs[0].shape()).run_on_all();
        }
    }
    Ok(())
}

/// Returns the elements of a row-major operand of type `T`.
pub fn elements<'a, T: Element>(array: &'a HostArray<'_>) -> &'a [T] {
    array.as_slice().expect("operands were made row-major and their dtypes compared")
}

/// Runs an op by its reference evaluation.
///
/// # Safety
/// The conditions of [`run`] hold.
unsafe fn evaluate(op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
    let def = ops::definition(op);
    // An op with host effects has no native evaluation, so it does not count as a missing one.
    if !def.effects.act_on_host() {
        count_reference();
    }
    let results = (def.eval)(attrs, inputs)?;
    if results.len() != outputs.len() {
        let message = format!("{} results in {} places", results.len(), outputs.len());
        return Err(Error::new(Code::Backend, message).with_op(op.name()));
    }
    for (from, to) in results.iter().zip(outputs) {
        if from.ty() != to.ty() {
            let message = format!("a result is {}, its place {}", from.ty(), to.ty());
            return Err(Error::new(Code::Backend, message).with_op(op.name()));
        }
        let from = dense(from)?;
        let bytes = from.bytes();
        // SAFETY: both are row-major and of one type, and nothing else accesses the output's memory.
        unsafe { to.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(())
}

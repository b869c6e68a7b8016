//! Ops that run as a whole.

use ms_core::error::{Code, Error, Result};
use ms_core::ops;
use ms_core::tensor::{Array, Attrs, Op};

/// Runs an op, writing its row-major `outputs`, whose memory nobody else uses.
///
/// # Errors
/// What the op refuses.
pub fn run(op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
    evaluate(op, attrs, inputs, outputs)
}

/// The op's own meaning.
fn evaluate(op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
    let results = (ops::definition(op).eval)(attrs, inputs)?;
    if results.len() != outputs.len() {
        let message = format!("{} results in {} places", results.len(), outputs.len());
        return Err(Error::new(Code::Backend, message).with_op(op.name()));
    }
    for (from, to) in results.iter().zip(outputs) {
        if from.ty() != to.ty() {
            let message = format!("a result is {}, its place {}", from.ty(), to.ty());
            return Err(Error::new(Code::Backend, message).with_op(op.name()));
        }
        let from = from.to_contiguous();
        let bytes = from.numel() * from.dtype().size();
        // SAFETY: both are row-major and of one type; nobody else uses the output's memory.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from.as_ptr(), bytes) };
    }
    Ok(())
}

//! Runs the native library ops; the reference evaluation runs all others.
//!
//! Native are convolution and pooling of floats, concatenation, reads and writes at indices, ops along an axis,
//! sorting, and long attention. Convolution and pooling widen f16 and bf16 to f32 and round once.

mod attention;
mod axis;
mod conv;
mod epilogues;
mod index;
mod output;
mod pool;
mod sort;
#[cfg(test)]
mod tests;
mod update;

use epilogues::Epilogues;
use half::{bf16, f16};
use ms_compile::exec::count_reference;
use ms_ir::data::{Array, Attrs, DType, Element, HostArray, Op};
use ms_ir::error::{Code, Error, Result};
use ms_ops::ops::host::dense;
use ms_ops::ops::{self, OpDef};
use ms_x64::gemm::{Arithmetic, Epilogue};
use ms_x64::interp::Number;
use smallvec::SmallVec;
use std::ops::AddAssign;

/// Runs an op and writes its row-major `outputs`. Only convolutions depend on the precision.
///
/// # Safety
/// The op's type rule accepts the inputs and infers the types of the outputs. Nothing else accesses the outputs'
/// memory, which does not overlap the inputs. The output of an op that [updates](ms_ops::ops::Lowering::Update) its
/// first operand may share the operand's memory.
///
/// # Errors
/// The errors of the op; [`Code::Memory`] if there is no scratch memory.
pub unsafe fn run(arithmetic: Arithmetic, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
    if let Some(out) = outputs.first() {
        // SAFETY: the outputs have the op's types, and nothing else accesses them, by this function's contract.
        let done = unsafe {
            index::run(op, attrs, inputs, out)
                .or_else(|| update::run(op, attrs, inputs, out))
                .or_else(|| axis::run(op, attrs, inputs, out))
                .or_else(|| sort::run(arithmetic.isa, op, attrs, inputs, outputs))
                .or_else(|| axis::means(op, attrs, inputs, out))
                .or_else(|| attention::run(arithmetic.isa, op, attrs, inputs, outputs))
        };
        if let Some(done) = done {
            return done;
        }
    }
    // SAFETY: the outputs have the op's types, and nothing else accesses them, by this function's contract.
    if unsafe { native(arithmetic, op, attrs, inputs, outputs)? } {
        return Ok(());
    }
    // SAFETY: the outputs have the op's types, and nothing else accesses them, by this function's contract.
    unsafe { evaluate(op, attrs, inputs, outputs) }
}

/// Runs an op like [`run`], then its epilogues; only image ops with one result have epilogues.
///
/// # Safety
/// The conditions of [`run`] hold. The conditions of the epilogues' code hold for the whole result. Epilogues may
/// overwrite elements of the result that they read.
///
/// # Errors
/// The errors of the op; [`Code::Memory`] if there is no scratch memory.
pub unsafe fn run_with(
    arithmetic: Arithmetic,
    op: Op,
    attrs: &Attrs,
    inputs: &[&Array],
    outputs: &[Array],
    epilogues: &[Epilogue<'_>],
) -> Result<()> {
    if epilogues.is_empty() {
        // SAFETY: the outputs have the op's types, and nothing else accesses them, by this function's contract.
        return unsafe { run(arithmetic, op, attrs, inputs, outputs) };
    }
    let out = &outputs[0];
    let epilogues = Epilogues::new(epilogues, out.shape());
    // SAFETY: the output has the op's type, nothing else accesses it, and the epilogues fit it, by this function's
    // contract.
    unsafe {
        match out.dtype() {
            DType::F32 if op == ops::CONV.op() => return convolve::<f32>(arithmetic, attrs, inputs, out, epilogues),
            DType::F64 if op == ops::CONV.op() => return convolve::<f64>(arithmetic, attrs, inputs, out, epilogues),
            _ => {}
        }
        run(arithmetic, op, attrs, inputs, outputs)?;
        epilogues.run_on_all();
    }
    Ok(())
}

/// Runs a convolution with its epilogues.
///
/// # Safety
/// The conditions of [`run_with`] hold, and `T` is the output's element type.
unsafe fn convolve<T: conv::Direct + Element>(
    arithmetic: Arithmetic,
    attrs: &Attrs,
    inputs: &[&Array],
    out: &Array,
    epilogues: Epilogues<'_>,
) -> Result<()> {
    let inputs: SmallVec<[HostArray<'_>; 2]> = inputs.iter().map(|it| dense(it)).collect::<Result<_>>()?;
    // SAFETY: the output is a row-major array of `T`, and nothing else accesses its memory before the epilogues run.
    let to = unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<T>(), out.numel()) };
    conv::forward(arithmetic, attrs, &inputs, to, out.shape(), epilogues)
}

/// Runs an op by a native loop, and returns whether there is one for these operands.
///
/// # Safety
/// The conditions of [`run`] hold.
unsafe fn native(arithmetic: Arithmetic, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<bool> {
    // SAFETY: each arm passes the element type of the output; the conditions of `run` hold by this function's contract.
    unsafe {
        match outputs.first().map(Array::dtype) {
            Some(DType::F32) => native_in::<f32>(arithmetic, op, attrs, inputs, &outputs[0]),
            Some(DType::F64) => native_in::<f64>(arithmetic, op, attrs, inputs, &outputs[0]),
            Some(DType::F16) => native_half(arithmetic, op, attrs, inputs, &outputs[0], f16::to_f32, f16::from_f32),
            Some(DType::BF16) => native_half(arithmetic, op, attrs, inputs, &outputs[0], bf16::to_f32, bf16::from_f32),
            _ => Ok(false),
        }
    }
}

/// Runs [`native_in`] in f32 for operands of a 16-bit float type.
///
/// # Safety
/// The conditions of [`run`] hold.
unsafe fn native_half<H: Element>(
    arithmetic: Arithmetic,
    op: Op,
    attrs: &Attrs,
    inputs: &[&Array],
    out: &Array,
    widen: fn(H) -> f32,
    narrow: fn(f32) -> H,
) -> Result<bool> {
    if inputs.iter().any(|it| it.dtype() != H::DTYPE) {
        return Ok(false);
    }
    let widened = |x: &&Array| {
        let mut wide = Array::try_zeros(x.shape(), DType::F32)?;
        wide.as_mut_slice::<f32>().iter_mut().zip(x.on_host()?.iter::<H>()).for_each(|(to, it)| *to = widen(it));
        Ok(wide)
    };
    let inputs: SmallVec<[Array; 2]> = inputs.iter().map(widened).collect::<Result<_>>()?;
    let wide = Array::try_zeros(out.shape(), DType::F32)?;
    let arithmetic = arithmetic.for_widened(H::DTYPE);
    // SAFETY: all types are the ones of `run`'s contract, widened, and the output is newly allocated.
    if !unsafe { native_in::<f32>(arithmetic, op, attrs, &inputs.iter().collect::<SmallVec<[&Array; 2]>>(), &wide)? } {
        return Ok(false);
    }
    // SAFETY: the output is a row-major array of `H`, and nothing else accesses its memory.
    let to = unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<H>(), out.numel()) };
    to.iter_mut().zip(elements::<f32>(&wide.on_host()?)).for_each(|(to, &it)| *to = narrow(it));
    Ok(true)
}

/// A native loop over row-major operands, with the elements and the shape of its output.
type Loop<T> = fn(Arithmetic, &Attrs, &[HostArray<'_>], &mut [T], &[usize]) -> Result<()>;

/// Runs [`native`] for one element type.
///
/// # Safety
/// The conditions of [`run`] hold, and `T` is the output's element type.
unsafe fn native_in<T: conv::Direct + Number + Element + AddAssign>(
    arithmetic: Arithmetic,
    op: Op,
    attrs: &Attrs,
    inputs: &[&Array],
    out: &Array,
) -> Result<bool> {
    let loops: [(&OpDef, Loop<T>); 6] = [
        (&ops::CONV, |it, attrs, inputs, to, shape| {
            conv::forward(it, attrs, inputs, to, shape, Epilogues::new(&[], shape))
        }),
        (&ops::CONV_INPUT_GRAD, conv::backward_data),
        (&ops::CONV_WEIGHT_GRAD, conv::backward_weights),
        (&ops::MAX_POOL, |it, attrs, inputs, to, shape| pool::max(it.isa, attrs, inputs, to, shape)),
        (&ops::MAX_POOL_GRAD, |it, attrs, inputs, to, shape| pool::max_grad(it.isa, attrs, inputs, to, shape)),
        (&ops::MAX_POOL_TAKE, |it, attrs, inputs, to, shape| pool::max_take(it.isa, attrs, inputs, to, shape)),
    ];
    let Some((_, run)) = loops.into_iter().find(|it| it.0.op() == op) else { return Ok(false) };
    if inputs.iter().any(|it| it.dtype() != T::DTYPE) {
        return Ok(false);
    }
    let inputs: SmallVec<[HostArray<'_>; 2]> = inputs.iter().map(|it| dense(it)).collect::<Result<_>>()?;
    // SAFETY: the output is a row-major array of `T`, and nothing else accesses its memory.
    let to = unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<T>(), out.numel()) };
    run(arithmetic, attrs, &inputs, to, out.shape())?;
    Ok(true)
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

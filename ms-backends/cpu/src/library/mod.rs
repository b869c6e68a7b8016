//! Library ops: native loops for convolutions and pooling of floats (f16 and bf16 in f32, rounded once), for
//! concatenations, for reads and writes at positions, along an axis, and for long attention; the reference evaluation
//! for all others.

mod along;
mod attention;
mod conv;
mod epilogues;
mod index;
mod pool;
mod sort;
#[cfg(test)]
mod tests;
mod update;

use crate::interp::number::Number;
use crate::product::{Arithmetic, Epilogue};
use epilogues::Epilogues;
use half::{bf16, f16};
use ms_core::error::{Code, Error, Result};
use ms_core::exec::count_reference;
use ms_core::ops::host::dense;
use ms_core::ops::{self, Lowering, OpDef};
use ms_core::tensor::{Array, Attrs, DType, Element, HostArray, Op};
use smallvec::SmallVec;
use std::ops::AddAssign;

/// Runs an op, writing its row-major `outputs`. Only convolutions depend on the precision.
///
/// # Safety
/// The op's type rule accepts the inputs and infers the types of the outputs, whose memory nobody else
/// accesses and does not overlap that of the inputs; that of an op which
/// [updates](ms_core::ops::Lowering::Update) its first operand may be the operand's.
///
/// # Errors
/// Those of the op; [`Code::Memory`] if there is no scratch memory.
pub unsafe fn run(arithmetic: Arithmetic, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
    if let Lowering::Check(check) = ops::definition(op).lowering {
        // SAFETY: as the caller's.
        return unsafe { checked(check, attrs, inputs[0], &outputs[0]) };
    }
    if let Some(out) = outputs.first() {
        // SAFETY: as the caller's.
        let done = unsafe {
            index::run(op, attrs, inputs, out)
                .or_else(|| update::run(op, attrs, inputs, out))
                .or_else(|| along::run(op, attrs, inputs, out))
                .or_else(|| sort::run(arithmetic.isa, op, attrs, inputs, outputs))
                .or_else(|| along::means(op, attrs, inputs, out))
                .or_else(|| attention::run(arithmetic.isa, op, attrs, inputs, outputs))
        };
        if let Some(done) = done {
            return done;
        }
    }
    // SAFETY: as the caller's.
    if unsafe { native(arithmetic, op, attrs, inputs, outputs)? } {
        return Ok(());
    }
    // SAFETY: as the caller's.
    unsafe { evaluate(op, attrs, inputs, outputs) }
}

/// [`run`], with epilogues if an op on images with one result has some.
///
/// # Safety
/// As [`run`]; and the contract of the epilogues' code on the whole result, where they may write over elements of it that
/// they read.
///
/// # Errors
/// As [`run`].
pub unsafe fn run_with(
    arithmetic: Arithmetic,
    op: Op,
    attrs: &Attrs,
    inputs: &[&Array],
    outputs: &[Array],
    epilogues: &[Epilogue<'_>],
) -> Result<()> {
    if epilogues.is_empty() {
        // SAFETY: as the caller's.
        return unsafe { run(arithmetic, op, attrs, inputs, outputs) };
    }
    let out = &outputs[0];
    let epilogues = Epilogues::new(epilogues, out.shape());
    // SAFETY: as the caller's.
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

/// A convolution with its epilogues.
///
/// # Safety
/// As [`run_with`].
unsafe fn convolve<T: conv::Direct + Element>(
    arithmetic: Arithmetic,
    attrs: &Attrs,
    inputs: &[&Array],
    out: &Array,
    epilogues: Epilogues<'_>,
) -> Result<()> {
    let inputs: SmallVec<[HostArray<'_>; 2]> = inputs.iter().map(|it| dense(it)).collect::<Result<_>>()?;
    // SAFETY: the output is a row-major array of this element type, whose memory nobody else accesses before the epilogues.
    let to = unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<T>(), out.numel()) };
    conv::forward(arithmetic, attrs, &inputs, to, out.shape(), epilogues)
}

/// Runs an op of [`Lowering::Check`].
///
/// # Safety
/// As [`run`].
unsafe fn checked(
    check: fn(&Attrs, DType, &[u8]) -> Result<()>,
    attrs: &Attrs,
    input: &Array,
    out: &Array,
) -> Result<()> {
    let from = dense(input)?;
    let bytes = from.bytes();
    check(attrs, from.dtype(), bytes)?;
    // SAFETY: both are row-major and of one type; nobody else accesses the output's memory.
    unsafe { out.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// Runs an op by native loops; returns whether there are any for these operands.
///
/// # Safety
/// As [`run`].
unsafe fn native(arithmetic: Arithmetic, op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<bool> {
    // SAFETY: as the caller's.
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

/// [`native_in`] f32, for 16-bit floats.
///
/// # Safety
/// As [`run`].
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
    let arithmetic = arithmetic.of_widened(H::DTYPE);
    // SAFETY: the types are those of the caller's contract, widened; the output is newly allocated.
    if !unsafe { native_in::<f32>(arithmetic, op, attrs, &inputs.iter().collect::<SmallVec<[&Array; 2]>>(), &wide)? } {
        return Ok(false);
    }
    // SAFETY: the output is a row-major array of this element type, whose memory nobody else accesses.
    let to = unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<H>(), out.numel()) };
    to.iter_mut().zip(elements::<f32>(&wide.on_host()?)).for_each(|(to, &it)| *to = narrow(it));
    Ok(true)
}

/// A loop over row-major operands, with an output of this shape.
type Loop<T> = fn(Arithmetic, &Attrs, &[HostArray<'_>], &mut [T], &[usize]) -> Result<()>;

/// [`native`] for elements of one type.
///
/// # Safety
/// As [`run`].
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
        (&ops::CONV_INPUT_GRAD, conv::input_grad),
        (&ops::CONV_WEIGHT_GRAD, conv::weight_grad),
        (&ops::MAX_POOL, |it, attrs, inputs, to, shape| pool::max(it.isa, attrs, inputs, to, shape)),
        (&ops::MAX_POOL_GRAD, |it, attrs, inputs, to, shape| pool::max_grad(it.isa, attrs, inputs, to, shape)),
        (&ops::MAX_POOL_TAKE, |it, attrs, inputs, to, shape| pool::max_take(it.isa, attrs, inputs, to, shape)),
    ];
    let Some((_, run)) = loops.into_iter().find(|it| it.0.op() == op) else { return Ok(false) };
    if inputs.iter().any(|it| it.dtype() != T::DTYPE) {
        return Ok(false);
    }
    let inputs: SmallVec<[HostArray<'_>; 2]> = inputs.iter().map(|it| dense(it)).collect::<Result<_>>()?;
    // SAFETY: the output is a row-major array of this element type, whose memory nobody else accesses.
    let to = unsafe { std::slice::from_raw_parts_mut(out.device_ptr().cast::<T>(), out.numel()) };
    run(arithmetic, attrs, &inputs, to, out.shape())?;
    Ok(true)
}

/// The elements of an operand, which is row-major and of this type.
pub fn elements<'a, T: Element>(array: &'a HostArray<'_>) -> &'a [T] {
    array.as_slice().expect("operands were made row-major and their dtypes compared")
}

/// Runs an op by its reference evaluation.
///
/// # Safety
/// As [`run`].
unsafe fn evaluate(op: Op, attrs: &Attrs, inputs: &[&Array], outputs: &[Array]) -> Result<()> {
    let def = ops::definition(op);
    // What acts on the host has no other evaluation.
    if !def.effects.act_on_host() && op != ops::ASSERT.op() {
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
        // SAFETY: both are row-major and of one type; nobody else accesses the output's memory.
        unsafe { to.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    Ok(())
}

//! Evaluates instructions over a block of lanes.

use super::frame::Frame;
use super::memory;
use super::number::{Convert, Float, Int, Number, is_number_op, with_compute};
use super::reduce;
use crate::isa::{Isa, Vectors};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ms_ir::data::DType;
use ms_ir::{BinaryOp, Compare, Inst, UnaryOp, Val};
use std::ops::Range;

/// Runs instructions on the current block of lanes. The instruction set only affects speed.
///
/// # Safety
/// The machine supports `isa`. The addresses of the frame's step are valid for the kernel's loads and stores. The
/// instructions before the range have run as their stages require.
pub unsafe fn run(isa: Isa, frame: &mut Frame<'_>, range: Range<usize>) {
    match isa.vectors() {
        // AVX-512 would not justify another copy of all loops.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the machine supports `isa`, which implies AVX2, FMA and F16C. The addresses are valid by this
        // function's contract.
        Vectors::Avx2 | Vectors::Avx512 => unsafe { evaluate_avx2(frame, range) },
        // SAFETY: the addresses of the frame's step are valid by this function's contract.
        _ => unsafe { evaluate(frame, range) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn evaluate_avx2(frame: &mut Frame<'_>, range: Range<usize>) {
    // SAFETY: the addresses of the frame's step are valid: the only caller is `run`, whose contract says so.
    unsafe { evaluate(frame, range) }
}

#[inline(always)]
unsafe fn evaluate(frame: &mut Frame<'_>, range: Range<usize>) {
    for out in range {
        let ty = frame.kernel.types[out];
        // SAFETY: a well-formed kernel only reads live values, and `Slots` gives them disjoint slots. `T` matches their
        // dtypes. The addresses of the frame's step are valid by the contract of `run`.
        unsafe {
            match frame.kernel.insts[out] {
                Inst::Const(_) | Inst::Carry(_) | Inst::While(_) => {}
                Inst::Next(_, value) => frame.copy(value.0 as usize, out),
                Inst::Load(param) => memory::load(frame, out, param),
                Inst::Gather(param, position) => memory::gather(frame, out, param, position),
                Inst::Store(param, value) => memory::store(frame, param, value),
                Inst::Index(axis) => index(frame, out, axis),
                Inst::Unary(op, a) => unary(frame, out, op, a),
                Inst::Binary(op, a, b) if is_number_op(op) => {
                    with_compute!(ty, T => number_op::<T>(frame, out, op, a, b));
                }
                Inst::Binary(op, a, b) => with_compute!(@int ty, T => int_op::<T>(frame, out, op, a, b)),
                Inst::Fma(a, b, c) => with_compute!(@float ty, T => map3(frame, out, (a, b, c), T::fma)),
                Inst::Math(..) => unreachable!("the backend refuses functions that its target lacks"),
                Inst::Compare(op, a, b) => with_compute!(frame.kernel.ty(a), T => compare::<T>(frame, out, op, a, b)),
                Inst::Select(condition, a, b) => match ty.size() {
                    1 => select::<u8>(frame, out, condition, a, b),
                    4 => select::<u32>(frame, out, condition, a, b),
                    _ => select::<u64>(frame, out, condition, a, b),
                },
                Inst::Cast { value, to } => {
                    with_compute!(frame.kernel.ty(value), T => cast::<T>(frame, out, value, ty));
                    narrow(frame, out, to);
                }
                Inst::Reduce(reducer, value) => reduce::accumulate(frame, out, reducer, value),
            }
        }
    }
}

#[inline(always)]
unsafe fn map1<A: Copy, R>(frame: &Frame<'_>, out: usize, a: Val, f: impl Fn(A) -> R) {
    // SAFETY: `evaluate` only passes live operands, with the types `A` and `R` of their dtypes.
    let (out, a) = unsafe { (frame.result::<R>(out), frame.value::<A>(a)) };
    for (out, &a) in out.iter_mut().zip(a) {
        *out = f(a);
    }
}

#[inline(always)]
unsafe fn map2<A: Copy, R>(frame: &Frame<'_>, out: usize, a: Val, b: Val, f: impl Fn(A, A) -> R) {
    // SAFETY: `evaluate` only passes live operands, with the types `A` and `R` of their dtypes.
    let (out, a, b) = unsafe { (frame.result::<R>(out), frame.value::<A>(a), frame.value::<A>(b)) };
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = f(a, b);
    }
}

#[inline(always)]
unsafe fn map3<A: Copy, R>(frame: &Frame<'_>, out: usize, (a, b, c): (Val, Val, Val), f: impl Fn(A, A, A) -> R) {
    // SAFETY: `evaluate` only passes live operands, with the types `A` and `R` of their dtypes.
    let (out, a) = unsafe { (frame.result::<R>(out), frame.value::<A>(a)) };
    // SAFETY: `b` and `c` are live and have the type `A`, like `a`.
    let (b, c) = unsafe { (frame.value::<A>(b), frame.value::<A>(c)) };
    for (((out, &a), &b), &c) in out.iter_mut().zip(a).zip(b).zip(c) {
        *out = f(a, b, c);
    }
}

#[inline(always)]
unsafe fn index(frame: &Frame<'_>, out: usize, axis: u8) {
    let first = frame.base(axis).wrapping_add(frame.position[axis as usize]) as i64;
    // SAFETY: the result of `Inst::Index` is an i64, and `out` is the current instruction.
    let out = unsafe { frame.result::<i64>(out) };
    if axis == frame.kernel.par {
        for (lane, out) in out.iter_mut().enumerate() {
            *out = first + lane as i64;
        }
    } else {
        out.fill(first);
    }
}

#[inline(always)]
unsafe fn unary(frame: &Frame<'_>, out: usize, op: UnaryOp, a: Val) {
    let ty = frame.kernel.ty(a);
    // SAFETY: `a` is live, and each arm selects the Rust type of its dtype.
    unsafe {
        match op {
            UnaryOp::Neg => with_compute!(ty, T => map1(frame, out, a, T::neg)),
            UnaryOp::Abs => with_compute!(ty, T => map1(frame, out, a, <T as Number>::abs)),
            UnaryOp::Not => with_compute!(@int ty, T => map1(frame, out, a, T::not)),
            UnaryOp::Sqrt => with_compute!(@float ty, T => map1(frame, out, a, <T as Float>::sqrt)),
            UnaryOp::Floor => with_compute!(@float ty, T => map1(frame, out, a, <T as Float>::floor)),
            UnaryOp::Ceil => with_compute!(@float ty, T => map1(frame, out, a, <T as Float>::ceil)),
            UnaryOp::Trunc => with_compute!(@float ty, T => map1(frame, out, a, <T as Float>::trunc)),
            UnaryOp::RoundEven => with_compute!(@float ty, T => map1(frame, out, a, T::round_even)),
            UnaryOp::Bitcast => match ty.size() {
                4 => map1(frame, out, a, |it: u32| it),
                _ => map1(frame, out, a, |it: u64| it),
            },
        }
    }
}

#[inline(always)]
unsafe fn number_op<T: Number>(frame: &Frame<'_>, out: usize, op: BinaryOp, a: Val, b: Val) {
    // SAFETY: `a` and `b` are live, and `T` is the type of the dtype of both and of the result.
    unsafe {
        match op {
            BinaryOp::Add => map2(frame, out, a, b, T::add),
            BinaryOp::Sub => map2(frame, out, a, b, T::sub),
            BinaryOp::Mul => map2(frame, out, a, b, T::mul),
            BinaryOp::Div => map2(frame, out, a, b, T::div),
            BinaryOp::Min => map2(frame, out, a, b, T::min),
            _ => map2(frame, out, a, b, T::max),
        }
    }
}

#[inline(always)]
unsafe fn int_op<T: Int>(frame: &Frame<'_>, out: usize, op: BinaryOp, a: Val, b: Val) {
    // SAFETY: `a` and `b` are live, and `T` is the type of the dtype of both and of the result.
    unsafe {
        match op {
            BinaryOp::Rem => map2(frame, out, a, b, T::rem),
            BinaryOp::And => map2(frame, out, a, b, T::and),
            BinaryOp::Or => map2(frame, out, a, b, T::or),
            BinaryOp::Xor => map2(frame, out, a, b, T::xor),
            BinaryOp::Shl => map2(frame, out, a, b, T::shl),
            BinaryOp::MulWide => map2(frame, out, a, b, |a: u64, b: u64| a as u32 as u64 * b as u32 as u64),
            _ => map2(frame, out, a, b, T::shr),
        }
    }
}

#[inline(always)]
unsafe fn compare<T: Number>(frame: &Frame<'_>, out: usize, op: Compare, a: Val, b: Val) {
    // SAFETY: `a` and `b` are live, `T` is the type of their dtype, and the result is a bool, stored as `u8`.
    unsafe {
        match op {
            Compare::Eq => map2(frame, out, a, b, |a: T, b: T| (a == b) as u8),
            Compare::Ne => map2(frame, out, a, b, |a: T, b: T| (a != b) as u8),
            Compare::Lt => map2(frame, out, a, b, |a: T, b: T| (a < b) as u8),
            Compare::Le => map2(frame, out, a, b, |a: T, b: T| (a <= b) as u8),
        }
    }
}

#[inline(always)]
unsafe fn select<T: Copy>(frame: &Frame<'_>, out: usize, condition: Val, a: Val, b: Val) {
    // SAFETY: all values are live. A selection only moves bits, so `T` only needs the size of the dtype.
    let (out, condition) = unsafe { (frame.result::<T>(out), frame.value::<u8>(condition)) };
    // SAFETY: `a` and `b` are live, and `T` has the size of their dtype.
    let (a, b) = unsafe { (frame.value::<T>(a), frame.value::<T>(b)) };
    for (((out, &condition), &a), &b) in out.iter_mut().zip(condition).zip(a).zip(b) {
        *out = if condition != 0 { a } else { b };
    }
}

/// Converts a value to a compute dtype.
#[inline(always)]
unsafe fn cast<T>(frame: &Frame<'_>, out: usize, value: Val, to: DType)
where
    T: Copy + Convert<f32> + Convert<f64> + Convert<i32> + Convert<i64> + Convert<u32> + Convert<u64> + Convert<u8>,
{
    // SAFETY: `value` is live and of type `T`, and `R` is the type of the result's dtype `to`.
    unsafe { with_compute!(to, R => map1(frame, out, value, |it: T| -> R { it.convert() })) }
}

/// Rounds or wraps a result to a narrow dtype and widens it again.
#[inline(always)]
unsafe fn narrow(frame: &Frame<'_>, out: usize, to: DType) {
    #[inline(always)]
    unsafe fn update<T: Copy>(frame: &Frame<'_>, out: usize, f: impl Fn(T) -> T) {
        // SAFETY: `out` is the current instruction, so no other slice of its lanes exists. `T` is the type of its
        // compute dtype.
        for it in unsafe { frame.result::<T>(out) } {
            *it = f(*it);
        }
    }
    // SAFETY: narrow integers are represented as i32 and narrow floats as f32, and `out` is the current instruction.
    unsafe {
        match to {
            DType::I8 => update(frame, out, |it: i32| it as i8 as i32),
            DType::I16 => update(frame, out, |it: i32| it as i16 as i32),
            DType::U8 => update(frame, out, |it: i32| it as u8 as i32),
            DType::U16 => update(frame, out, |it: i32| it as u16 as i32),
            DType::BF16 => update(frame, out, |it: f32| bf16::from_f32(it).to_f32()),
            DType::F16 => {
                let values = frame.result::<f32>(out);
                let mut halves = [f16::ZERO; super::BLOCK];
                let halves = &mut halves[..values.len()];
                halves.convert_from_f32_slice(values);
                halves.convert_to_f32_slice(values);
            }
            _ => {}
        }
    }
}

//! Loads and stores: between memory in a buffer's dtype and lanes in its compute dtype.

use super::BLOCK;
use super::frame::Frame;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ms_core::ir::{Param, ParamId, Role, Val};
use ms_core::tensor::DType;

/// Reads the lanes of a buffer, or positions.
///
/// # Safety
/// The buffer's elements at the frame's step are valid for reads, and `out` is the current
/// instruction.
#[inline(always)]
pub unsafe fn load(frame: &Frame<'_>, out: usize, param: ParamId) {
    let Param { dtype, role, .. } = frame.kernel.params[param.0 as usize];
    if role == Role::Position {
        let (first, stride) = (frame.address[param.0 as usize], frame.lane_stride[param.0 as usize]);
        // SAFETY: as the caller's.
        let out = unsafe { frame.result::<u64>(out) };
        for (lane, out) in out.iter_mut().enumerate() {
            *out = first.wrapping_add_signed(lane as isize * stride) as u64 / 8;
        }
        return;
    }
    // SAFETY: as the caller's.
    unsafe {
        match dtype {
            DType::Bool => gather(frame, param, frame.result(out), |it: u8| (it != 0) as u8),
            DType::I8 => gather(frame, param, frame.result(out), |it: i8| it as i32),
            DType::I16 => gather(frame, param, frame.result(out), |it: i16| it as i32),
            DType::U8 => gather(frame, param, frame.result(out), |it: u8| it as i32),
            DType::U16 => gather(frame, param, frame.result(out), |it: u16| it as i32),
            DType::I32 | DType::U32 | DType::F32 => gather(frame, param, frame.result(out), |it: u32| it),
            DType::I64 | DType::U64 | DType::F64 => gather(frame, param, frame.result(out), |it: u64| it),
            DType::BF16 => gather(frame, param, frame.result(out), |it: u16| bf16::from_bits(it).to_f32()),
            DType::F16 => {
                let mut halves = [f16::ZERO; BLOCK];
                let halves = &mut halves[..frame.len];
                gather(frame, param, halves, f16::from_bits);
                halves.convert_to_f32_slice(frame.result(out));
            }
        }
    }
}

/// Writes the lanes of a buffer.
///
/// # Safety
/// The buffer's elements at the frame's step are valid for writes, and the value is live.
#[inline(always)]
pub unsafe fn store(frame: &Frame<'_>, param: ParamId, value: Val) {
    let dtype = frame.kernel.params[param.0 as usize].dtype;
    // SAFETY: as the caller's. Integers wrap to the buffer's dtype in the casts below.
    unsafe {
        match dtype {
            DType::Bool => scatter(frame, param, frame.value(value), |it: u8| it),
            DType::I8 | DType::U8 => scatter(frame, param, frame.value(value), |it: i32| it as u8),
            DType::I16 | DType::U16 => scatter(frame, param, frame.value(value), |it: i32| it as u16),
            DType::I32 | DType::U32 | DType::F32 => scatter(frame, param, frame.value(value), |it: u32| it),
            DType::I64 | DType::U64 | DType::F64 => scatter(frame, param, frame.value(value), |it: u64| it),
            DType::BF16 => scatter(frame, param, frame.value(value), |it: f32| bf16::from_f32(it).to_bits()),
            DType::F16 => {
                let mut halves = [f16::ZERO; BLOCK];
                let halves = &mut halves[..frame.len];
                halves.convert_from_f32_slice(frame.value(value));
                scatter(frame, param, halves, f16::to_bits);
            }
        }
    }
}

#[inline(always)]
unsafe fn gather<M: Copy, C: Copy>(frame: &Frame<'_>, param: ParamId, out: &mut [C], widen: impl Fn(M) -> C) {
    let first = frame.address[param.0 as usize] as *const M;
    let stride = frame.lane_stride[param.0 as usize];
    if stride == size_of::<M>() as isize {
        for (lane, out) in out.iter_mut().enumerate() {
            // SAFETY: as the caller's.
            *out = widen(unsafe { first.add(lane).read_unaligned() });
        }
    } else if stride == 0 {
        // SAFETY: as the caller's.
        out.fill(widen(unsafe { first.read_unaligned() }));
    } else {
        for (lane, out) in out.iter_mut().enumerate() {
            // SAFETY: as the caller's.
            *out = widen(unsafe { first.byte_offset(lane as isize * stride).read_unaligned() });
        }
    }
}

#[inline(always)]
unsafe fn scatter<M, C: Copy>(frame: &Frame<'_>, param: ParamId, values: &[C], narrow: impl Fn(C) -> M) {
    let first = frame.address[param.0 as usize] as *mut M;
    let stride = frame.lane_stride[param.0 as usize];
    if stride == size_of::<M>() as isize {
        for (lane, &value) in values.iter().enumerate() {
            // SAFETY: as the caller's.
            unsafe { first.add(lane).write_unaligned(narrow(value)) };
        }
    } else {
        for (lane, &value) in values.iter().enumerate() {
            // SAFETY: as the caller's.
            unsafe { first.byte_offset(lane as isize * stride).write_unaligned(narrow(value)) };
        }
    }
}

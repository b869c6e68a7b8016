//! Loads and stores: between memory in a buffer's dtype and lanes in its compute dtype.

use super::BLOCK;
use super::frame::Frame;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ms_core::ir::{ParamId, Role, Val};
use ms_core::tensor::DType;

/// Reads the lanes of a buffer, or positions.
///
/// # Safety
/// The buffer's elements at the frame's step are valid for reads, and `out` is the current
/// instruction.
#[inline(always)]
pub unsafe fn load(frame: &Frame<'_>, out: usize, param: ParamId) {
    let first = frame.address[param.0 as usize];
    let stride = frame.lane_stride[param.0 as usize];
    if frame.kernel.params[param.0 as usize].role == Role::Position {
        // SAFETY: as the caller's.
        let out = unsafe { frame.result::<u64>(out) };
        for (lane, out) in out.iter_mut().enumerate() {
            *out = first.wrapping_add_signed(lane as isize * stride) as u64 / 8;
        }
        return;
    }
    // SAFETY: as the caller's.
    unsafe { read(frame, out, param, Lanes::Strided { first, stride }) }
}

/// Reads the lanes of an indexed buffer at positions along its axis, and zero outside of it.
///
/// # Safety
/// As [`load`], for all positions of the axis; the positions are live.
#[inline(always)]
pub unsafe fn gather(frame: &Frame<'_>, out: usize, param: ParamId, position: Val) {
    let (first, lane_stride) = (frame.address[param.0 as usize], frame.lane_stride[param.0 as usize]);
    let (stride, extent) = frame.axis(param.0 as usize);
    let mut addresses = [0usize; BLOCK];
    let addresses = &mut addresses[..frame.len];
    // SAFETY: as the caller's.
    let positions = unsafe { frame.value::<i64>(position) };
    for (lane, (address, &at)) in addresses.iter_mut().zip(positions).enumerate() {
        let at = if at < 0 { at.wrapping_add(extent) } else { at };
        if (0..extent).contains(&at) {
            let lane = (lane as isize).wrapping_mul(lane_stride);
            *address = first.wrapping_add_signed(lane).wrapping_add_signed((at * stride) as isize);
        }
    }
    // SAFETY: as the caller's; nothing lies at address zero.
    unsafe { read(frame, out, param, Lanes::Anywhere(addresses)) }
}

/// Where lanes are read.
#[derive(Clone, Copy)]
enum Lanes<'a> {
    /// At an address, and at equal steps from there.
    Strided { first: usize, stride: isize },
    /// Each at an address; where that is zero, the element is zero.
    Anywhere(&'a [usize]),
}

/// Reads lanes in a buffer's dtype.
///
/// # Safety
/// The addresses may be read, and `out` is the running instruction.
#[inline(always)]
unsafe fn read(frame: &Frame<'_>, out: usize, param: ParamId, lanes: Lanes<'_>) {
    let dtype = frame.kernel.params[param.0 as usize].dtype;
    // SAFETY: as the caller's.
    unsafe {
        match dtype {
            DType::Bool => widened(lanes, frame.result(out), |it: u8| (it != 0) as u8),
            DType::I8 => widened(lanes, frame.result(out), |it: i8| it as i32),
            DType::I16 => widened(lanes, frame.result(out), |it: i16| it as i32),
            DType::U8 => widened(lanes, frame.result(out), |it: u8| it as i32),
            DType::U16 => widened(lanes, frame.result(out), |it: u16| it as i32),
            DType::I32 | DType::U32 | DType::F32 => widened(lanes, frame.result(out), |it: u32| it),
            DType::I64 | DType::U64 | DType::F64 => widened(lanes, frame.result(out), |it: u64| it),
            DType::BF16 => widened(lanes, frame.result(out), |it: u16| bf16::from_bits(it).to_f32()),
            DType::F16 => {
                let mut halves = [f16::ZERO; BLOCK];
                let halves = &mut halves[..frame.len];
                widened(lanes, halves, f16::from_bits);
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
unsafe fn widened<M: Copy + Default, C: Copy>(lanes: Lanes<'_>, out: &mut [C], widen: impl Fn(M) -> C) {
    let (first, stride) = match lanes {
        Lanes::Strided { first, stride } => (first as *const M, stride),
        Lanes::Anywhere(addresses) => {
            for (out, &address) in out.iter_mut().zip(addresses) {
                *out = widen(match address {
                    0 => M::default(),
                    // SAFETY: as the caller's.
                    _ => unsafe { (address as *const M).read_unaligned() },
                });
            }
            return;
        }
    };
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

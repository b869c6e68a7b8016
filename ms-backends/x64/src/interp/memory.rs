//! Loads and stores lanes, converting between a buffer's dtype and its compute dtype.

use super::frame::Frame;
use super::slots::BLOCK;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ms_ir::data::DType;
use ms_ir::{ParamId, Role, Val};

/// Loads the lanes of a buffer, or computes positions.
///
/// # Safety
/// The buffer's elements at the frame's step are valid for reads, and `out` is the current
/// instruction.
#[inline(always)]
pub unsafe fn load(frame: &Frame<'_>, out: usize, param: ParamId) {
    let first = frame.address[param.0 as usize];
    let stride = frame.lane_stride[param.0 as usize];
    if frame.kernel.params[param.0 as usize].role == Role::Iota {
        // SAFETY: `out` is the current instruction, and positions are 64-bit integers.
        let out = unsafe { frame.result::<u64>(out) };
        for (lane, out) in out.iter_mut().enumerate() {
            *out = first.wrapping_add_signed(lane as isize * stride) as u64 / 8;
        }
        return;
    }
    // SAFETY: the buffer's elements at the frame's step are valid for reads, and `out` is the current instruction, by
    // this function's contract.
    unsafe { read(frame, out, param, Lanes::Strided { first, stride }) }
}

/// Loads the lanes of an indexed buffer at positions along its axis. Positions out of range give zero.
///
/// # Safety
/// The buffer's elements are valid for reads at all positions of the axis. `out` is the current instruction, and
/// `position` is live.
#[inline(always)]
pub unsafe fn gather(frame: &Frame<'_>, out: usize, param: ParamId, position: Val) {
    let (first, lane_stride) = (frame.address[param.0 as usize], frame.lane_stride[param.0 as usize]);
    let (stride, extent) = frame.axis(param.0 as usize);
    let mut addresses = [0usize; BLOCK];
    let addresses = &mut addresses[..frame.len];
    // SAFETY: `position` is live by this function's contract, and positions are i64.
    let positions = unsafe { frame.value::<i64>(position) };
    for (lane, (address, &at)) in addresses.iter_mut().zip(positions).enumerate() {
        let at = if at < 0 { at.wrapping_add(extent) } else { at };
        if (0..extent).contains(&at) {
            let lane = (lane as isize).wrapping_mul(lane_stride);
            *address = first.wrapping_add_signed(lane).wrapping_add_signed((at * stride) as isize);
        }
    }
    // SAFETY: each address is zero, or points to an element at a position in `0..extent`, which is valid for reads. No
    // element lies at address zero.
    unsafe { read(frame, out, param, Lanes::Anywhere(addresses)) }
}

/// The addresses of the lanes to read.
#[derive(Clone, Copy)]
enum Lanes<'a> {
    /// An address for the first lane, and a byte stride between lanes.
    Strided { first: usize, stride: isize },
    /// An address for each lane. For address zero, the element is zero.
    Anywhere(&'a [usize]),
}

/// Reads lanes in a buffer's dtype and widens them.
///
/// # Safety
/// The addresses are valid for reads, and `out` is the current instruction.
#[inline(always)]
unsafe fn read(frame: &Frame<'_>, out: usize, param: ParamId, lanes: Lanes<'_>) {
    let dtype = frame.kernel.params[param.0 as usize].dtype;
    // SAFETY: the addresses are valid for reads by this function's contract. Each arm uses the type of the buffer's
    // dtype and of its compute dtype.
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

/// Stores the lanes of a value to a buffer.
///
/// # Safety
/// The buffer's elements at the frame's step are valid for writes, and the value is live.
#[inline(always)]
pub unsafe fn store(frame: &Frame<'_>, param: ParamId, value: Val) {
    let dtype = frame.kernel.params[param.0 as usize].dtype;
    // SAFETY: the buffer's elements at the frame's step are valid for writes, and `value` is live, by this function's
    // contract. The casts below wrap integers to the buffer's dtype.
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
                    // SAFETY: `read` only passes addresses that are zero or valid for reads.
                    _ => unsafe { (address as *const M).read_unaligned() },
                });
            }
            return;
        }
    };
    if stride == size_of::<M>() as isize {
        for (lane, out) in out.iter_mut().enumerate() {
            // SAFETY: `read` only passes addresses that are valid for reads in every lane, and `out` has one element
            // for each lane.
            *out = widen(unsafe { first.add(lane).read_unaligned() });
        }
    } else if stride == 0 {
        // SAFETY: the stride is zero, so all lanes read `first`, which is valid for reads.
        out.fill(widen(unsafe { first.read_unaligned() }));
    } else {
        for (lane, out) in out.iter_mut().enumerate() {
            // SAFETY: the address of every lane is valid for reads, and `out` has one element for each lane.
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
            // SAFETY: `store` requires that the element of every lane is valid for writes, and `values` has one element
            // for each lane.
            unsafe { first.add(lane).write_unaligned(narrow(value)) };
        }
    } else {
        for (lane, &value) in values.iter().enumerate() {
            // SAFETY: `store` requires that the element of every lane is valid for writes, and `values` has one element
            // for each lane.
            unsafe { first.byte_offset(lane as isize * stride).write_unaligned(narrow(value)) };
        }
    }
}

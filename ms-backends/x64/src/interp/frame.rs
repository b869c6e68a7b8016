//! Holds the state of one call: the positions of the loops, and the values of the current block of lanes.

use super::slots::{BLOCK, Slots};
use ms_ir::{Kernel, Role, StrideClass, Val};
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;

/// The state of one call.
pub struct Frame<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    slots: &'a Slots,
    scratch: *mut u8,
    block: &'a [u64],
    /// The word of each parameter in the argument block: its address, or the immediate.
    words: SmallVec<[usize; 8]>,
    /// The address of each parameter at the current step of the loops and the first lane.
    pub address: SmallVec<[usize; 8]>,
    /// The byte stride between adjacent lanes of each parameter.
    pub lane_stride: SmallVec<[isize; 8]>,
    /// The position of each loop. For the lanes, the number of lanes before the current block.
    pub position: SmallVec<[u64; 8]>,
    /// The number of lanes in the current block, at most [`BLOCK`].
    pub len: usize,
    /// The first lane of the current block, relative to the start of its row.
    pub in_row: usize,
}

impl<'a> Frame<'a> {
    /// Creates a frame at the first step of all loops. `scratch` is the memory of the slots.
    pub fn new(kernel: &'a Kernel, slots: &'a Slots, scratch: *mut u8, block: &'a [u64]) -> Self {
        let loops = kernel.loops();
        let words: SmallVec<[usize; 8]> = (0..kernel.params.len()).map(|it| kernel.param_word(it)).collect();
        let lane_stride = kernel.params.iter().zip(&words).map(|(param, word)| match param.step {
            StrideClass::Unit => param.dtype.size() as isize,
            StrideClass::Zero => 0,
            StrideClass::Any => block[word + 1 + kernel.par as usize] as isize,
        });
        let address = kernel.params.iter().zip(&words).map(|(param, &word)| match param.role {
            Role::Immediate => &raw const block[word] as usize,
            _ => block[word] as usize,
        });
        Self {
            kernel,
            slots,
            scratch,
            block,
            address: address.collect(),
            lane_stride: lane_stride.collect(),
            words,
            position: SmallVec::from_elem(0, loops),
            len: 0,
            in_row: 0,
        }
    }

    /// Returns the extents of all loops.
    pub fn extents(&self) -> &'a [u64] {
        &self.block[..self.kernel.loops()]
    }

    /// Returns whether the lanes at the current step of the reduced loops are the first of a row.
    pub fn begins_row(&self) -> bool {
        self.position[self.kernel.loops() - self.kernel.run as usize..].iter().all(|&it| it == 0)
    }

    /// Returns the memory for the block results of a reduction: [`BLOCK`] lanes for each second-level accumulator.
    pub fn partials<T>(&self, reduction: usize) -> *mut T {
        self.scratch.wrapping_add(self.slots.partials(reduction)).cast()
    }

    /// Returns the position of the first step of a loop. The kernel must read positions.
    pub fn base(&self, axis: u8) -> u64 {
        self.block[self.kernel.base_word(axis.into())]
    }

    /// Returns the byte stride and the extent of an indexed parameter's axis.
    pub fn axis(&self, param: usize) -> (i64, i64) {
        let word = self.kernel.axis_word(param);
        (self.block[word] as i64, self.block[word + 1] as i64)
    }

    /// Returns the slot of a value, for writing.
    pub fn slot<T>(&self, value: usize) -> *mut T {
        // The slot is inside the scratch memory by `Slots::bytes`.
        self.scratch.wrapping_add(self.slots.offset(value)).cast()
    }

    /// Returns the lanes of an earlier instruction's value.
    ///
    /// # Safety
    /// `T` is the type of the value's dtype, and the value is live.
    #[inline(always)]
    pub unsafe fn value<T>(&self, value: Val) -> &'a [T] {
        // SAFETY: a slot has room for a block of the widest dtype, and `len` is at most a block. The defining
        // instruction initialised the lanes, and nothing writes them while the value is live.
        unsafe { std::slice::from_raw_parts(self.slot(value.0 as usize), self.len) }
    }

    /// Returns the lanes of the current instruction's result.
    ///
    /// # Safety
    /// `T` is the type of the value's dtype, and this is the only such slice.
    #[inline(always)]
    pub unsafe fn result<T>(&self, value: usize) -> &'a mut [T] {
        // SAFETY: a slot has room for a block of the widest dtype, and `len` is at most a block. A result never shares
        // the slot of a live value, so the slice is unique.
        unsafe { std::slice::from_raw_parts_mut(self.slot(value), self.len) }
    }

    /// Writes a bit pattern to all lanes of a value.
    ///
    /// # Safety
    /// There is no other reference to the value's lanes.
    pub unsafe fn splat_bits(&mut self, value: usize, bits: u64) {
        // SAFETY: no other reference to the lanes exists, by this function's contract. The integer types have the size
        // of the dtype.
        unsafe {
            match self.kernel.types[value].size() {
                1 => self.result::<u8>(value).fill(bits as u8),
                4 => self.result::<u32>(value).fill(bits as u32),
                _ => self.result::<u64>(value).fill(bits),
            }
        }
    }

    /// Copies the lanes of one value to another value of the same dtype.
    ///
    /// # Safety
    /// `from` is live, and there is no reference to the lanes of `to`.
    pub unsafe fn copy(&self, from: usize, to: usize) {
        let bytes = self.len * self.kernel.types[to].size();
        // SAFETY: slots have room for a block, and the slots of two values are disjoint while both are live.
        unsafe { std::ptr::copy_nonoverlapping(self.slot::<u8>(from), self.slot::<u8>(to), bytes) };
    }

    /// Copies the first lane of a value to all others.
    ///
    /// # Safety
    /// There is no other reference to the value's lanes.
    pub unsafe fn splat_first(&mut self, value: usize) {
        // SAFETY: the instruction of `value` has written its first lane, and the integer types have the size of the
        // dtype.
        let bits = unsafe {
            match self.kernel.types[value].size() {
                1 => *self.slot::<u8>(value) as u64,
                4 => *self.slot::<u32>(value) as u64,
                _ => *self.slot::<u64>(value),
            }
        };
        // SAFETY: no other reference to the lanes exists, by this function's contract.
        unsafe { self.splat_bits(value, bits) };
    }

    /// Moves to the block of `len` lanes that begins at lane `first`.
    pub fn enter_lanes(&mut self, first: usize, len: usize) {
        self.len = len;
        self.move_lanes(first as isize);
    }

    /// Moves from the block at lane `first` back to the start of the lanes.
    pub fn leave_lanes(&mut self, first: usize) {
        self.move_lanes(-(first as isize));
    }

    fn move_lanes(&mut self, by: isize) {
        let lanes = self.kernel.par as usize;
        self.position[lanes] = self.position[lanes].wrapping_add_signed(by as i64);
        for (address, stride) in self.address.iter_mut().zip(&self.lane_stride) {
            *address = address.wrapping_add_signed(by.wrapping_mul(*stride));
        }
    }

    /// Runs `f` at every step of the reduced loops around the lanes. The last loop varies fastest.
    pub fn for_reduced_loops(&mut self, mut f: impl FnMut(&mut Self)) {
        let loops = self.kernel.par as usize + 1..self.kernel.loops();
        if self.block[loops.clone()].contains(&0) {
            return;
        }
        let mut walk = Walk::new(loops);
        loop {
            f(self);
            if !walk.advance(self) {
                break;
            }
        }
    }

    /// Moves one loop by `by` steps.
    fn move_loop(&mut self, axis: usize, by: i64) {
        self.position[axis] = self.position[axis].wrapping_add_signed(by);
        let params = self.kernel.params.iter().zip(&self.words);
        for (address, (_, word)) in self.address.iter_mut().zip(params).filter(|it| it.1.0.role != Role::Immediate) {
            let stride = self.block[word + 1 + axis] as i64;
            *address = address.wrapping_add_signed(by.wrapping_mul(stride) as isize);
        }
    }
}

/// An iterator over the steps of a range of loops. The last loop varies fastest.
pub struct Walk(Range<usize>);

impl Walk {
    /// Creates an iterator over these loops, none of which is empty.
    pub fn new(loops: Range<usize>) -> Self {
        Self(loops)
    }

    /// Moves the frame to the next step. After the last step, moves it back to the first step and returns `false`.
    pub fn advance(&mut self, frame: &mut Frame<'_>) -> bool {
        for axis in self.0.clone().rev() {
            let last = frame.block[axis] - 1;
            if frame.position[axis] < last {
                frame.move_loop(axis, 1);
                return true;
            }
            frame.move_loop(axis, -(last as i64));
        }
        false
    }
}

thread_local! {
    /// The memory for slots, reused between calls.
    static SCRATCH: Cell<Vec<CacheLine>> = const { Cell::new(Vec::new()) };
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

/// Runs `f` on at least `bytes` bytes of this thread's scratch memory.
pub fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    let mut memory = SCRATCH.take();
    let lines = bytes.div_ceil(64);
    if memory.len() < lines {
        memory.resize(lines, CacheLine([0; 64]));
    }
    let result = f(memory.as_mut_ptr().cast());
    SCRATCH.set(memory);
    result
}

const _: () = assert!(BLOCK.is_multiple_of(128), "a block holds whole groups of accumulators");

//! Scratch memory of tasks, in blocks that the host's memory keeps for later calls.

use ms_ir::data::Storage;
use ms_ir::error::Result;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// The alignment of parts of a workspace in bytes.
const ALIGN: usize = 64;

/// Returns a block for `len` elements. They are not initialised.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for it.
pub fn uninit<T>(len: usize) -> Result<Storage> {
    Storage::uninit(len.saturating_mul(size_of::<T>()))
}

/// Initialised elements of a task.
pub struct Scratch<T> {
    block: Storage,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Copy> Scratch<T> {
    /// Returns `len` copies of a value.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for them.
    pub fn filled(value: T, len: usize) -> Result<Self> {
        let block = uninit::<T>(len)?;
        // SAFETY: the block has room for `len` elements, is aligned to a cache line, and is not shared yet.
        unsafe { from_raw_parts_mut(block.device_ptr().cast::<MaybeUninit<T>>(), len) }.fill(MaybeUninit::new(value));
        Ok(Self { block, len, of: PhantomData })
    }
}

impl<T> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `filled` initialised `len` elements, which this value owns.
        unsafe { from_raw_parts(self.block.device_ptr().cast_const().cast(), self.len) }
    }
}

impl<T> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: `filled` initialised `len` elements, which this value owns.
        unsafe { from_raw_parts_mut(self.block.device_ptr().cast(), self.len) }
    }
}

/// The workspace of a call, whose parts are taken one after another.
pub struct Workspace<'a>(&'a mut [MaybeUninit<u8>]);

impl<'a> Workspace<'a> {
    /// Returns the workspace of `bytes` bytes at an address, a multiple of 64.
    ///
    /// # Safety
    /// The memory is live, and nothing else accesses it during the lifetime.
    pub unsafe fn at(address: u64, bytes: usize) -> Self {
        if bytes == 0 {
            return Self(&mut []);
        }
        debug_assert!(address.is_multiple_of(ALIGN as u64));
        // SAFETY: the bytes are live and not shared by this function's contract, and need no initial values.
        Self(unsafe { from_raw_parts_mut(address as *mut MaybeUninit<u8>, bytes) })
    }

    /// Takes the next part, with room for `len` elements, which are not initialised.
    ///
    /// # Panics
    /// Panics if the workspace has no room for it.
    pub fn take<T>(&mut self, len: usize) -> &'a mut [MaybeUninit<T>] {
        if len == 0 {
            return &mut [];
        }
        let (part, rest) = std::mem::take(&mut self.0).split_at_mut(bytes_of::<T>(len));
        self.0 = rest;
        // SAFETY: the part has room for `len` elements, and begins at a multiple of 64 as every part before it does.
        unsafe { from_raw_parts_mut(part.as_mut_ptr().cast(), len) }
    }

    /// Lends the rest.
    pub fn rest(&mut self) -> Workspace<'_> {
        Workspace(self.0)
    }
}

/// Returns the bytes of a part of a workspace with `len` elements.
pub fn bytes_of<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>()).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX)
}

//! Reads operands, and writes results, as contiguous elements of the type in which native code computes.

use super::scratch::{Workspace, bytes_of};
use half::{bf16, f16};
use ms_compile::exec::{ArrayLayout, StepOperand};
use ms_ir::data::{DType, Element, Layout, Scalar, Storage};
use ms_ir::with_element;
use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// An operand that native code reads as contiguous elements. It is copied to the workspace if it is not contiguous, or
/// of another type.
pub struct DenseOperand {
    of: ArrayLayout,
    is_copied: bool,
}

impl DenseOperand {
    /// Prepares an operand with a layout, which is computed in `T`.
    pub fn new<T: Element>(of: &ArrayLayout) -> Self {
        Self { of: of.clone(), is_copied: of.dtype != T::DTYPE || !of.layout.is_contiguous() }
    }

    /// Returns the bytes of the copy in the workspace.
    pub fn workspace<T: Element>(&self) -> usize {
        if self.is_copied { bytes_of::<T>(self.of.layout.numel()) } else { 0 }
    }

    /// Returns the elements, and the block that contains them if it may be parameter storage.
    ///
    /// # Safety
    /// The operand has elements of its layout, which are live and which nothing writes during the lifetime.
    pub unsafe fn elements<'a, T: Element>(
        &self,
        operand: StepOperand<'a>,
        workspace: &mut Workspace<'a>,
    ) -> (&'a [T], Option<&'a Storage>) {
        let ArrayLayout { dtype, layout } = &self.of;
        let len = layout.numel();
        if len == 0 {
            return (&[], None);
        }
        if !self.is_copied {
            // SAFETY: a contiguous layout has `len` elements of `T` at the address, by this function's contract.
            let elements = unsafe { from_raw_parts(operand.address as *const T, len) };
            return (elements, operand.parameter_storage.map(|it| &**it));
        }
        let to = workspace.take::<T>(len).as_mut_ptr();
        let is_f32 = T::DTYPE == DType::F32;
        // SAFETY: the layout is one of live elements of its type at the address, by this function's contract, and `to`
        // has room for all.
        unsafe {
            match dtype {
                DType::F16 if is_f32 => copy(operand.address as *const f16, layout, to.cast(), f16::to_f32),
                DType::BF16 if is_f32 => copy(operand.address as *const bf16, layout, to.cast(), bf16::to_f32),
                _ if *dtype == T::DTYPE => copy(operand.address as *const T, layout, to.cast(), |it: T| it),
                _ => with_element!(*dtype, S => {
                    let convert = |it: S| T::from_scalar(Scalar::Float(it.to_scalar().as_f64()));
                    copy(operand.address as *const S, layout, to.cast(), convert);
                }),
            }
            (from_raw_parts(to.cast::<T>(), len), None)
        }
    }
}

/// A row-major result that native code writes as elements of type `T`. A 16-bit result is computed in the workspace, and
/// rounded once.
pub struct DenseResult {
    dtype: DType,
    len: usize,
}

impl DenseResult {
    /// Prepares a result.
    pub fn new(of: &ArrayLayout) -> Self {
        Self { dtype: of.dtype, len: of.layout.numel() }
    }

    /// Returns whether the result is computed in the workspace.
    pub fn is_rounded<T: Element>(&self) -> bool {
        self.dtype != T::DTYPE
    }

    /// Returns the bytes of the elements in the workspace.
    pub fn workspace<T: Element>(&self) -> usize {
        if self.is_rounded::<T>() { bytes_of::<T>(self.len) } else { 0 }
    }

    /// Returns the elements to write.
    ///
    /// # Safety
    /// The result is at the address, and nothing else accesses it during the lifetime. Its elements are written before
    /// they are read.
    pub unsafe fn elements<'a, T: Element>(&self, address: u64, workspace: &mut Workspace<'a>) -> &'a mut [T] {
        if self.len == 0 {
            return &mut [];
        }
        let first = if self.is_rounded::<T>() {
            let wide = workspace.take::<T>(self.len);
            wide.fill(MaybeUninit::zeroed());
            wide.as_mut_ptr().cast::<T>()
        } else {
            address as *mut T
        };
        // SAFETY: either the workspace has `len` elements, which zero bytes initialise, or the result has, by this function's
        // contract.
        unsafe { from_raw_parts_mut(first, self.len) }
    }

    /// Rounds the elements in the workspace to the result.
    ///
    /// # Safety
    /// The result is at the address, and nothing else accesses it. It [is rounded](Self::is_rounded), from f32.
    pub unsafe fn round(&self, from: &[f32], address: u64) {
        for (at, &it) in from.iter().enumerate() {
            // SAFETY: the result has as many elements as `from`, by this function's contract.
            unsafe {
                match self.dtype {
                    DType::F16 => (address as *mut f16).add(at).write(f16::from_f32(it)),
                    _ => (address as *mut bf16).add(at).write(bf16::from_f32(it)),
                }
            }
        }
    }
}

/// Copies elements in row-major order, and converts them.
///
/// # Safety
/// The offsets of the layout are those of live elements, and `to` has room for all of them.
unsafe fn copy<S: Copy, T>(from: *const S, layout: &Layout, to: *mut T, convert: impl Fn(S) -> T) {
    let put = |(at, offset): (usize, usize)| {
        // SAFETY: `at` is below the number of elements, by this function's contract.
        unsafe { to.add(at).write(convert(*from.add(offset))) }
    };
    match layout.is_contiguous() {
        true => (0..layout.numel()).map(|it| (it, it)).for_each(put),
        false => layout.offsets().enumerate().for_each(put),
    }
}

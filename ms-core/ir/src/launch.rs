//! Defines calls of kernels and contractions: the data that a device's code receives.

use crate::data::{Array, Storage};
use crate::error::Result;
use crate::{Kernel, LoopArguments};
use std::sync::Arc;

/// A call of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelLaunch<'a, K> {
    /// The code of the kernel.
    pub kernel: &'a K,
    /// The argument block of the call.
    pub block: &'a [u64],
}

/// A kernel with its machine code, for profiles.
#[derive(Clone, Copy, Debug)]
pub struct KernelView<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The machine code, if there is any.
    pub code: Option<&'a [u8]>,
}

/// An operand of a contraction or of a library step.
#[derive(Clone, Copy, Debug)]
pub struct StepOperand<'a> {
    /// The address of its first element.
    pub address: u64,
    /// The block that contains it, if that may be parameter storage. The run does not write it, so [packed
    /// forms](Storage::form) of it can be cached.
    pub parameter_storage: Option<&'a Arc<Storage>>,
}

impl StepOperand<'_> {
    /// Creates an operand in memory of a run.
    pub fn at(address: u64) -> Self {
        Self { address, parameter_storage: None }
    }
}

/// The positions in an epilogue's argument block of the words that vary per tile of the result.
#[derive(Clone, Copy, Debug)]
pub struct TileArguments {
    /// The words of the loops.
    pub loops: LoopArguments,
    /// The number of leading loops that are axes of the result.
    pub axes: usize,
    /// The word with the address of the tile, if the kernel reads the result of a contraction. The tile's byte strides
    /// along the loops follow it.
    pub result: Option<usize>,
    /// Whether a tile needs whole rows along the last axis of the result: the last loop is not parallel, or that axis
    /// has no loop.
    pub by_rows: bool,
}

/// The code of a single op for eager execution: a kernel, or another step.
///
/// # Safety
/// A run writes all elements of the results with valid values of their dtypes. It accesses only the memory in the
/// contract of [`StepCode::run`], and retains none of the arrays. On a device with separate memory it is work of a
/// [stream](crate::data::with_stream); then the contract must hold when the work runs.
pub unsafe trait StepCode: Send + Sync {
    /// Runs the step. A kernel takes the argument block of a call (see [`Kernel`]), with the addresses of operands and
    /// results, and no arrays. A check takes the block of its kernel without the address of the record, and all
    /// operands of its op. Other steps take an empty block, operands of any layout, and row-major results. The block of
    /// a whole op has the bits of its host scalars.
    ///
    /// # Safety
    /// - The block has the kernel's number of words, and extents that the kernel [takes](Kernel::takes). All elements
    ///   that its extents and strides address are in memory of the device that is live during the call.
    /// - Arrays are in memory of the device. They have the dtypes of the step; the type rule of a library op accepts
    ///   the operands and infers the types of the results.
    /// - During the call, nobody else writes the operands or accesses the results, which do not overlap the operands.
    ///   The kernel itself may read an element that it writes only at the same loop indices.
    ///
    /// # Errors
    /// The errors of the op and of the device; [`Code::Shape`](crate::Code::Shape) for operands that do not fit a
    /// contraction.
    unsafe fn run(&self, block: &[u64], operands: &[&Array], results: &[Array]) -> Result<()>;
}

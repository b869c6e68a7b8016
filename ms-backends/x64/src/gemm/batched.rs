//! Prepares and runs contractions as batches of GEMMs.

use super::engine::Engine;
use super::matrices::{Matrices, OperandCopy, flattened};
use super::{OutputTiles, Results, To, engine, floats, integers};
use crate::isa::Isa;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use ms_ir::{Contraction, ContractionTypes, Precision, StepOperand};
use smallvec::SmallVec;
use std::ptr::null_mut;

/// The alignment of parts of the workspace in bytes.
const ALIGN: usize = 64;

/// A contraction, prepared as a batch of GEMMs of equal sizes.
#[derive(Clone, Debug)]
pub struct BatchedGemm {
    isa: Isa,
    types: ContractionTypes,
    precision: Precision,
    /// The batch. Operands that are copied have the strides of their copies.
    matrices: Matrices,
    /// The copies of operands to the workspace, each with its operand and its offset there.
    copies: SmallVec<[(OperandCopy, usize, usize); 0]>,
    /// The size of the workspace in bytes.
    workspace: usize,
}

impl BatchedGemm {
    /// Prepares a contraction. An operand is copied if its reduction dimensions cannot be merged into one.
    pub fn new(isa: Isa, contraction: &Contraction) -> Self {
        let &Contraction { types, precision, .. } = contraction;
        let mut copies = SmallVec::new();
        let mut workspace = 0usize;
        let matrices = Matrices::from_contraction(contraction).unwrap_or_else(|| {
            let (flat, operands) = flattened(contraction);
            for (operand, copy) in operands.into_iter().enumerate() {
                let Some(copy) = copy else { continue };
                let bytes = copy.bytes();
                copies.push((copy, operand, workspace));
                workspace = workspace.saturating_add(bytes).saturating_add(ALIGN - 1) / ALIGN * ALIGN;
            }
            Matrices::from_contraction(&flat).expect("the axes of the sum are one")
        });
        Self { isa, types, precision, matrices, copies, workspace }
    }

    /// Returns the size in bytes of the memory that a call needs beside operands and result.
    pub fn workspace(&self) -> usize {
        self.workspace
    }

    /// Runs the contraction. The workspace is at a multiple of 64 bytes.
    ///
    /// # Safety
    /// The contraction [is sound](Contraction::is_sound). All elements that its sizes and strides address are in memory
    /// that is live during the call, and so is the workspace. Meanwhile, nothing else writes the operands or accesses
    /// the result and the workspace, epilogues included. The argument block of each epilogue is valid for its kernel,
    /// on the whole result.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands, or for output tiles.
    #[inline]
    pub unsafe fn run(&self, operands: [StepOperand<'_>; 2], to: Results<'_>, workspace: *mut u8) -> Result<()> {
        // SAFETY: the conditions hold by this function's contract.
        unsafe { self.run_on(None, operands, to, workspace) }
    }

    /// Runs the contraction with a new workspace.
    ///
    /// # Safety
    /// The conditions of [`BatchedGemm::run`] hold.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the workspace, packed operands or output tiles.
    pub unsafe fn run_alone(&self, operands: [StepOperand<'_>; 2], to: Results<'_>) -> Result<()> {
        let workspace = (self.workspace > 0).then(|| Storage::uninit(self.workspace)).transpose()?;
        let workspace = workspace.as_ref().map_or(null_mut(), Storage::device_ptr);
        // SAFETY: the conditions hold by this function's contract, and the workspace has its size.
        unsafe { self.run_on(None, operands, to, workspace) }
    }

    /// Runs the contraction, on the given matrix engine in any size if there is one.
    ///
    /// # Safety
    /// The conditions of [`BatchedGemm::run`] hold, and this machine has the given engine.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for packed operands, or for output tiles.
    pub(super) unsafe fn run_on(
        &self,
        engine: Option<Engine>,
        mut operands: [StepOperand<'_>; 2],
        to: Results<'_>,
        workspace: *mut u8,
    ) -> Result<()> {
        let &Self { isa, types, precision, ref matrices, .. } = self;
        for (copy, operand, at) in &self.copies {
            let to = workspace.wrapping_add(*at);
            // SAFETY: the operand's elements are valid for reads, and the workspace has room for the copy, by this
            // function's contract.
            unsafe { copy.run(operands[*operand].address as *const u8, to) };
            operands[*operand] = StepOperand::at(to as u64);
        }
        for (at, operand) in operands.iter_mut().enumerate() {
            operand.parameter_storage = operand.parameter_storage.filter(|_| matrices.is_same(at));
        }
        let to = match to {
            Results::Memory(first) => To { first, output_tiles: None },
            Results::Epilogues(all) => {
                To { first: null_mut(), output_tiles: Some(OutputTiles::new(all, matrices, types.out)) }
            }
        };
        // SAFETY: `matrices` address elements of the operands or of their copies. They are live, and the result is not
        // shared, by this function's contract.
        unsafe {
            if engine::run(engine, isa, (types, precision), matrices, operands, to)? {
                return Ok(());
            }
            let [a, b] = operands.map(|it| it.address as *const u8);
            // Without a matrix engine, `High` and `Medium` are computed as `Highest`.
            let vectorised_sums = precision.is_relaxed();
            match types.accumulator {
                DType::F32 => floats::<f32>((isa, vectorised_sums), types, matrices, operands, to),
                DType::F64 => floats::<f64>((isa, vectorised_sums), types, matrices, operands, to),
                DType::Bool => integers::<u8>(types, matrices, [a, b], to),
                DType::I64 | DType::U64 => integers::<u64>(types, matrices, [a, b], to),
                _ => integers::<u32>(types, matrices, [a, b], to),
            }
        }
    }
}

//! Loads the epilogues of contractions and of library ops.

use super::Loader;
use crate::exec::runner::check::malformed;
use crate::exec::runner::program;
use crate::exec::{Driver, TileArguments};
use crate::lower::{Epilogue, EpilogueLoops, KernelCall, View, image_axes};
use ms_ir::data::Layout;
use ms_ir::error::Result;
use ms_ir::{Contraction, LaneAxis, LoopArguments, Param, Role, StrideClass};
use smallvec::SmallVec;

impl<D: Driver> Loader<'_, D> {
    /// Loads an epilogue of a contraction and checks that its kernel fits.
    pub(super) fn epilogue(&mut self, contraction: &Contraction, epilogue: &Epilogue) -> Result<program::Epilogue<D>> {
        let Epilogue { kernel, loops, args } = epilogue;
        let (kernel, code) = self.kernel(*kernel)?;
        let by_rows = loops.is_by_rows(kernel, contraction);
        let by_rows = by_rows.ok_or_else(|| malformed("an epilogue has the loops of its contraction"))?;
        let extents = loops.extents(contraction);
        let (axes, result, block) = match loops {
            EpilogueLoops::Elements(result) => {
                let at = result.0 as usize;
                let own = Param { dtype: contraction.types.out, role: Role::Input, step: StrideClass::Unit };
                if kernel.params.get(at) != Some(&own) {
                    return Err(malformed("an epilogue reads the result of its contraction"));
                }
                let strides = dense(&extents, own.dtype.size());
                let block = self.kernel_block(kernel, &extents, args, Some((at, &strides)))?;
                (extents.len(), Some(kernel.param_word(at)), block)
            }
            EpilogueLoops::Rows(_) => {
                (EpilogueLoops::rows(contraction), None, self.kernel_block(kernel, &extents, args, None)?)
            }
        };
        let words = TileArguments { loops: LoopArguments::of(kernel), axes, result, by_rows };
        Ok(program::Epilogue { code: code.clone(), block, words })
    }

    /// Loads an epilogue of a library op and checks that its kernel iterates over the op's result.
    pub(super) fn epilogue_of_op(&mut self, results: &[View], call: &KernelCall) -> Result<program::Epilogue<D>> {
        let KernelCall { kernel, extents, args } = call;
        let (kernel, code) = self.kernel(*kernel)?;
        let [result] = results else { return Err(malformed("an op with epilogues has one result")) };
        let loops = image_axes(result.layout.shape());
        if *extents != loops || kernel.lanes != LaneAxis::Parallel || kernel.seq != 0 {
            return Err(malformed("an epilogue has the loops of its op"));
        }
        let size = result.dtype.size();
        let strides = dense(extents, size);
        for (arg, param) in args.iter().zip(&kernel.params).filter(|it| it.0.buffer == result.buffer) {
            let is_own = arg.offset == result.layout.offset() * size && arg.strides == strides;
            if param.role != Role::Input || !is_own {
                return Err(malformed("an epilogue reads the elements that it is at"));
            }
        }
        let block = self.kernel_block(kernel, extents, args, None)?;
        let words =
            TileArguments { loops: LoopArguments::of(kernel), axes: extents.len(), result: None, by_rows: false };
        Ok(program::Epilogue { code: code.clone(), block, words })
    }
}

/// Returns the byte strides of a row-major value with elements of this size.
fn dense(extents: &[usize], size: usize) -> SmallVec<[i64; 4]> {
    Layout::contiguous(extents).strides().iter().map(|it| (it * size as isize) as i64).collect()
}

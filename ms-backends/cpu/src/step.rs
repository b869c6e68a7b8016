//! The code of steps that are no kernels.

use crate::isa::Isa;
use crate::{library, product};
use ms_core::error::{Code, Error, Result};
use ms_core::exec::{MatrixProduct, StepCode};
use ms_core::ir::Precision;
use ms_core::ops::host::check_positions;
use ms_core::tensor::{Array, Attrs, Op};

/// Matrix products in one precision.
pub struct ProductStep {
    pub isa: Isa,
    pub precision: Precision,
}

// SAFETY: products write all elements of the result, which their tests compare with the reference.
unsafe impl StepCode for ProductStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        let (&[a, b], [out]) = (operands, results) else {
            return Err(Error::new(Code::Argument, "a product has two operands and one result"));
        };
        if a.dtype() != out.dtype() || b.dtype() != out.dtype() {
            let message = format!("dtypes {}, {} and {} of a product differ", a.dtype(), b.dtype(), out.dtype());
            return Err(Error::new(Code::DType, message));
        }
        let product = MatrixProduct::new(out.dtype(), self.precision, a.layout(), b.layout(), out.layout())?;
        // SAFETY: layouts of arrays are inside their storage, and by the caller's contract nobody else
        // accesses the result's.
        unsafe { product::run(self.isa, &product, a.device_ptr(), b.device_ptr(), out.device_ptr()) }
    }
}

/// An op of the library.
pub struct LibraryStep {
    pub isa: Isa,
    pub op: Op,
    pub attrs: Attrs,
}

// SAFETY: the library writes all elements of the results, which its tests compare with the reference, and retains
// no arrays.
unsafe impl StepCode for LibraryStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], results: &[Array]) -> Result<()> {
        // SAFETY: the caller's contract is the same.
        unsafe { library::run(self.isa, self.op, &self.attrs, operands, results) }
    }
}

/// A check of positions.
pub struct CheckStep {
    pub axis: usize,
}

// SAFETY: it has no results and retains no arrays.
unsafe impl StepCode for CheckStep {
    unsafe fn run(&self, _: &[u64], operands: &[&Array], _: &[Array]) -> Result<()> {
        let &[of, positions] = operands else {
            return Err(Error::new(Code::Argument, "a check has an operand and positions"));
        };
        check_positions(positions, self.axis, of.shape())
    }
}

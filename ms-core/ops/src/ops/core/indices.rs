//! Type rules of ops with operands of positions.

use crate::tensor::Type;
use ms_ir::error::{Code, Error, Result};

/// Checks that a type can contain positions.
///
/// # Errors
/// [`Code::DType`] unless the type is of integers.
pub(in crate::ops) fn check_index(index: &Type) -> Result<()> {
    if index.dtype.is_int() {
        return Ok(());
    }
    Err(Error::new(Code::DType, format!("positions are integers, not {}", index.dtype)))
}

/// Checks that two operands have the same dtype.
///
/// # Errors
/// [`Code::DType`] when the dtypes differ.
pub(in crate::ops) fn check_dtypes(a: &Type, b: &Type) -> Result<()> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    Err(Error::new(Code::DType, format!("dtypes {} and {} differ", a.dtype, b.dtype)))
}

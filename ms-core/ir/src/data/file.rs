//! Checks the types of tensors in files.

use super::{DType, Type};

/// The maximum rank of a tensor in a file, as in NumPy.
pub const MAX_RANK: usize = 64;

/// Returns the type of a tensor in a file, and its size in bytes.
///
/// # Errors
/// A description of the defect: more than [`MAX_RANK`] axes, or a size that overflows.
pub fn sized(dtype: DType, shape: &[usize]) -> Result<(Type, usize), String> {
    if shape.len() > MAX_RANK {
        return Err(format!("it has {} axes, and tensors have at most {MAX_RANK}", shape.len()));
    }
    let ty = Type::of(dtype, shape);
    let size = ty.check_size().ok().and_then(|()| ty.numel()?.checked_mul(dtype.size()));
    size.map(|size| (ty.clone(), size)).ok_or_else(|| format!("no memory holds {ty}"))
}

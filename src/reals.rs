//! Dtype helpers for ops on f32 and f64 elements.

use crate::custom::Type;
use crate::{Code, DType, Error, Result};

/// Calls a function generic over the element, with f32 or f64.
macro_rules! by_dtype {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            $crate::DType::F32 => $function::<f32>($($argument),*),
            $crate::DType::F64 => $function::<f64>($($argument),*),
            other => unreachable!("`types` refuses {other}"),
        }
    };
}
pub(crate) use by_dtype;

/// Checks that elements are f32 or f64; `what` names the operand in the error.
///
/// # Errors
/// Returns [`Code::DType`] for other dtypes.
pub(crate) fn check_reals(what: &str, x: &Type) -> Result<()> {
    match x.dtype {
        DType::F32 | DType::F64 => Ok(()),
        other => Err(Error::new(Code::DType, format!("{what} are f32 or f64, not {other}")).help("cast first")),
    }
}

//! Poisoned tensors of composed ops. While tracing, a failed op returns a poisoned tensor instead of ending the trace.
//! All errors of a function are thus reported at once.

/// Unwraps a `Result`. For `Err`, returns the poisoned tensor of its error from the enclosing function (see
/// [`refused`](crate::tensor::refused)).
macro_rules! or_poison {
    ($result:expr) => {
        match $result {
            Ok(it) => it,
            Err(error) => return crate::tensor::refused(error),
        }
    };
}

/// Returns the first poisoned operand, if there is one, from the enclosing function.
macro_rules! propagate_poison {
    ($($operand:expr),*) => {
        if let Some(it) = crate::tensor::first_poisoned(&[$(&*$operand),*]) {
            return it;
        }
    };
}

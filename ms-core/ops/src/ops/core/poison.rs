//! Errors of ops that are composed of others: while tracing, a failed op returns a poisoned tensor
//! instead of ending the trace, so that all errors of a function are reported at once.

/// The value of a `Result`; for `Err`, returns the poisoned tensor of its error
/// ([`refused`](crate::tensor::refused)).
macro_rules! or_poison {
    ($result:expr) => {
        match $result {
            Ok(it) => it,
            Err(error) => return crate::tensor::refused(error),
        }
    };
}

/// Returns the first of the operands that is poisoned, if any is.
macro_rules! propagate_poison {
    ($($operand:expr),*) => {
        if let Some(it) = crate::tensor::first_poisoned(&[$(&*$operand),*]) {
            return it;
        }
    };
}

//! How ops that are made of others refuse: without an end of the trace, so that all that is wrong
//! in a function is told at once.

/// The value of a `Result`, or the end of an op of one result, with its error: see
/// [`refused`](crate::tensor::refused).
macro_rules! granted {
    ($result:expr) => {
        match $result {
            Ok(it) => it,
            Err(error) => return crate::tensor::refused(error),
        }
    };
}

/// The end of an op of one result that is given the result of an op that was refused.
macro_rules! or_lost {
    ($($operand:expr),*) => {
        if let Some(it) = crate::tensor::lost(&[$(&*$operand),*]) {
            return it;
        }
    };
}

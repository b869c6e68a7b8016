//! Traced values outside the trace that makes them.

use super::tensor::Traced;
use crate::error::{Code, Error};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// Numbers of the traces under construction, each with its thread.
static LIVE: Mutex<BTreeMap<u64, ThreadId>> = Mutex::new(BTreeMap::new());

/// A trace under construction on this thread, until it is dropped.
pub struct LiveTrace(u64);

impl LiveTrace {
    /// The trace of this number begins.
    pub fn begin(trace: u64) -> Self {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(trace, thread::current().id());
        Self(trace)
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl Drop for LiveTrace {
    fn drop(&mut self) {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Why a traced value cannot be used here: its trace is over, is another one, or is under
/// construction on another thread.
pub fn escaped(traced: &Traced) -> Error {
    let thread = LIVE.lock().unwrap_or_else(PoisonError::into_inner).get(&traced.trace).copied();
    let error = if thread.is_some_and(|it| it != thread::current().id()) {
        Error::new(Code::Thread, "a traced value is used on another thread than the one that traces")
            .help("trace on one thread: compute on the tensors here, and start threads outside the compiled function")
    } else {
        Error::new(Code::Escaped, "a traced value is used outside the function that made it")
            .help("return it from that function, or pass it as an argument")
    };
    error.with_operands([traced.ty.to_string()])
}

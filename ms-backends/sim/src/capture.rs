//! Captures submissions, and finds those that a run repeats: [`Captures`].

use crate::submission::{HostSteps, Steps};
use ms_ir::data::Stream;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of submissions that an executable keeps: a plan has one between one wait of the host and the next.
const MAX_CAPTURED: usize = 8;

/// The submissions of an executable that were captured, by their streams; the last one that was used is last.
#[derive(Default)]
pub struct Captures(Mutex<Vec<(Stream, Arc<HostSteps>)>>);

impl Captures {
    /// Returns what was captured of a stream, if it does the same as `steps`.
    pub fn find(&self, stream: Stream, steps: &Steps) -> Option<Arc<HostSteps>> {
        let mut captured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = captured.iter().position(|(of, it)| *of == stream && it.are_like(steps))?;
        let found = captured.remove(at);
        captured.push(found.clone());
        Some(found.1)
    }

    /// Keeps a submission. The one that was not used for the longest time is dropped.
    pub fn add(&self, stream: Stream, captured: Arc<HostSteps>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_CAPTURED {
            all.remove(0);
        }
        all.push((stream, captured));
    }
}

//! Queues submissions whose steps run on several streams: [`queue`].

use crate::memory::SimMemory;
use crate::scheduler::Random;
use crate::submission::HostSteps;
use ms_ir::data::{Fence, Stream, StreamKind, Streams, with_stream};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A piece of a submission that has forks.
pub enum Piece {
    /// Steps on the stream of the submission.
    Steps(Arc<HostSteps>),
    /// Steps on the calling thread's stream of a kind, which run when the pieces before have ended.
    Fork { fork: u32, kind: StreamKind, body: Arc<HostSteps> },
    /// The later pieces run when this fork has ended.
    Join { fork: u32 },
}

/// Queues the pieces of a submission on a stream, and the steps of forks on their streams. The stream then awaits all
/// forks.
///
/// # Safety
/// The conditions of [`HostSteps::run`] hold for all steps when the work runs.
pub unsafe fn queue(memory: &'static SimMemory, own: Stream, pieces: Vec<Piece>) {
    let mut forks: BTreeMap<u32, Fence> = BTreeMap::new();
    // SAFETY: the conditions hold by this function's contract.
    let work =
        |steps: Arc<HostSteps>| move |is_behind: bool, random: &mut Random| unsafe { steps.run(is_behind, random) };
    for piece in pieces {
        match piece {
            Piece::Steps(steps) => memory.run(own, work(steps)),
            Piece::Fork { fork, kind, body } => {
                forks.insert(fork, with_stream(memory, kind, |stream| memory.fork(own, stream, work(body))));
            }
            Piece::Join { fork } => forks.remove(&fork).into_iter().for_each(|end| memory.depend_on(own, end)),
        }
    }
    forks.into_values().for_each(|end| memory.depend_on(own, end));
}

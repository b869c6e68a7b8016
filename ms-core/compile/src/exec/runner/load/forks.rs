//! Chooses the streams of library steps, and places their workspaces.

use super::{Loader, WORKSPACE_ALIGN, malformed};
use crate::exec::Driver;
use crate::exec::runner::program::StreamOrder;
use crate::lower::{BufferId, View};
use ms_ir::error::Result;
use ms_ir::op::Effects;

/// The end of the arena, which all steps that need a workspace use one after the other. Forked steps, which run beside
/// others, use a separate part behind it.
#[derive(Default)]
pub(super) struct Workspace {
    /// The offset in the arena.
    first: usize,
    /// The size of the largest workspace so far.
    bytes: usize,
    /// The size of the largest workspace of a forked step so far.
    of_forks: usize,
    /// The arena words of forked steps, whose offset is known at the end.
    words_of_forks: Vec<usize>,
    /// The number of forks so far.
    forks: u32,
}

impl Workspace {
    /// Begins the workspace behind an arena of `bytes` bytes.
    pub fn behind(bytes: usize) -> Self {
        Self { first: bytes.next_multiple_of(WORKSPACE_ALIGN), ..Self::default() }
    }

    /// Places the workspace of forked steps. Returns the size of the arena with all workspaces, if it is `bytes`
    /// without.
    pub fn end(&self, bytes: usize, arena_words: &mut [(u32, usize)]) -> Option<usize> {
        let bytes = if self.bytes == 0 { bytes } else { self.first.checked_add(self.bytes)? };
        if self.of_forks == 0 {
            return Some(bytes);
        }
        let first = bytes.checked_next_multiple_of(WORKSPACE_ALIGN)?;
        self.words_of_forks.iter().for_each(|&it| arena_words[it].1 = first);
        first.checked_add(self.of_forks)
    }
}

impl<D: Driver> Loader<'_, D> {
    /// Adds a word with the address of a workspace of this many bytes, for a step that does not run beside others.
    pub(super) fn workspace(&mut self, bytes: usize) -> usize {
        self.workspace.bytes = self.workspace.bytes.max(bytes);
        self.arena_word(self.workspace.first)
    }

    /// Adds a word with the address of the workspace of a library step, unless it has no bytes.
    pub(super) fn workspace_of(&mut self, order: &StreamOrder, bytes: usize) -> Option<usize> {
        match order {
            _ if bytes == 0 => None,
            StreamOrder::InOrder | StreamOrder::Joining(_) => Some(self.workspace(bytes)),
            StreamOrder::Forked { .. } => {
                self.workspace.of_forks = self.workspace.of_forks.max(bytes);
                self.workspace.words_of_forks.push(self.words.arena_words.len());
                Some(self.arena_word(0))
            }
        }
    }

    /// Adds a word with an address in the arena.
    fn arena_word(&mut self, offset: usize) -> usize {
        let word = self.next_word();
        self.words.arena_words.push((word as u32, offset));
        self.words.template.push(0);
        word
    }

    /// Returns the order of a library step. A collective runs on the stream for communication. What it starts runs
    /// beside the steps up to the one that reads the results.
    ///
    /// # Errors
    /// [`Code::Verify`](ms_ir::Code::Verify) if a step ends what no step has started.
    pub(super) fn stream_order(&mut self, effects: Effects, inputs: &[View], outputs: &[View]) -> Result<StreamOrder> {
        if !D::FORKS || effects.are_local() || effects.act_on_host() {
            return Ok(StreamOrder::InOrder);
        }
        if effects.any_of(Effects::DONE) {
            let ends = |it: &&(BufferId, u32)| inputs.iter().any(|input| input.buffer == it.0);
            let found = self.started.iter().find(ends);
            return found
                .map(|it| StreamOrder::Joining(it.1))
                .ok_or_else(|| malformed("a step ends what was not started"));
        }
        let fork = self.workspace.forks;
        self.workspace.forks += 1;
        let joins = !effects.any_of(Effects::PENDING);
        if !joins {
            self.started.extend(outputs.iter().map(|it| (it.buffer, fork)));
        }
        Ok(StreamOrder::Forked { fork, joins })
    }
}

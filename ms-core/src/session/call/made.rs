//! The graphs that were compiled, by what they are.

use super::compiled::Compiled;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// Keys of graphs that are gone, at least, before it is looked for them.
const GONE_BYTES: usize = 64 << 10;

/// The graphs that were made and are still in use, by their canonical bytes and their precision.
#[derive(Default)]
pub(super) struct Made {
    table: FxHashMap<Vec<u8>, Weak<Compiled>>,
    /// The bytes of the keys that were added since it was looked for what is gone, and up to which
    /// it is not looked for again.
    added: usize,
    limit: usize,
}

impl Made {
    /// The one of a key, if it is still in use.
    pub fn get(&self, key: &[u8]) -> Option<Arc<Compiled>> {
        self.table.get(key).and_then(Weak::upgrade)
    }

    /// Adds the one of a key.
    pub fn insert(&mut self, key: Vec<u8>, made: &Arc<Compiled>) {
        self.added += key.len();
        self.table.insert(key, Arc::downgrade(made));
        if self.added > self.limit.max(GONE_BYTES) {
            self.table.retain(|_, it| it.strong_count() > 0);
            self.table.shrink_to(2 * self.table.len());
            self.added = 0;
            self.limit = self.table.keys().map(Vec::len).sum();
        }
    }
}

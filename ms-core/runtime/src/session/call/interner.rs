//! Interns compiled graphs by content.

use rustc_hash::FxHashMap;
use std::sync::{Arc, Weak};

/// The minimum total size of keys before dropped graphs are removed.
const GONE_BYTES: usize = 64 << 10;

/// The compiled graphs `T` that are still in use, by their canonical bytes and their precision.
pub(super) struct GraphInterner<T> {
    table: FxHashMap<Vec<u8>, Weak<T>>,
    /// The size of the keys added since dropped graphs were last removed, and the limit that triggers the next removal.
    added: usize,
    limit: usize,
}

impl<T> Default for GraphInterner<T> {
    fn default() -> Self {
        Self { table: FxHashMap::default(), added: 0, limit: 0 }
    }
}

impl<T> GraphInterner<T> {
    /// Returns the graph of a key, if it is still in use.
    pub fn get(&self, key: &[u8]) -> Option<Arc<T>> {
        self.table.get(key).and_then(Weak::upgrade)
    }

    /// Adds the graph of a key.
    pub fn insert(&mut self, key: Vec<u8>, made: &Arc<T>) {
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

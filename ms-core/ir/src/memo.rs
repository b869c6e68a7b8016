//! Memoises graphs by the data that determines them.

use super::Graph;
use crate::error::Result;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;

/// The number of graphs cached before the table is emptied.
const CAPACITY: usize = 1024;

/// Graphs that were built, by key.
#[doc(hidden)]
pub struct Memo<K>(RefCell<FxHashMap<K, Rc<Graph>>>);

impl<K> Default for Memo<K> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<K: Eq + Hash> Memo<K> {
    /// Returns the graph of a key, and calls `build` if it is not cached. `build` may use the table itself.
    ///
    /// # Errors
    /// The errors of `build`.
    pub fn get_or_build(&self, key: K, build: impl FnOnce(&K) -> Result<Graph>) -> Result<Rc<Graph>> {
        if let Some(known) = self.0.borrow().get(&key) {
            return Ok(known.clone());
        }
        let built = Rc::new(build(&key)?);
        let mut table = self.0.borrow_mut();
        if table.len() >= CAPACITY {
            table.clear();
        }
        table.insert(key, built.clone());
        Ok(built)
    }
}

//! A table of bounded size, which forgets what was not used for the longest time.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// At most `CAPACITY` values by key. A full table makes room by dropping the quarter whose last
/// use is longest ago.
pub(super) struct Recent<K, V, const CAPACITY: usize> {
    entries: RwLock<FxHashMap<K, Entry<V>>>,
    uses: AtomicU64,
}

struct Entry<V> {
    value: V,
    /// The number of the last use.
    used: AtomicU64,
}

impl<K, V, const CAPACITY: usize> Recent<K, V, CAPACITY> {
    /// An empty one.
    pub const fn new() -> Self {
        const { assert!(CAPACITY > 0) };
        Self { entries: RwLock::new(FxHashMap::with_hasher(FxBuildHasher)), uses: AtomicU64::new(0) }
    }
}

impl<K: Hash + Eq, V: Clone, const CAPACITY: usize> Recent<K, V, CAPACITY> {
    /// The value of a key, which is used now.
    pub fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(key)?;
        entry.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(entry.value.clone())
    }

    /// Adds a value, unless the key has one; gives the one that it has then.
    pub fn insert(&self, key: K, value: V) -> V {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let mut forgotten = Vec::new();
        if entries.len() >= CAPACITY && !entries.contains_key(&key) {
            let mut uses: Vec<u64> = entries.values_mut().map(|it| *it.used.get_mut()).collect();
            let (_, last, _) = uses.select_nth_unstable(CAPACITY / 4);
            forgotten.extend(entries.extract_if(|_, it| *it.used.get_mut() <= *last));
        }
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        let value = entries.entry(key).or_insert(Entry { value, used: now.into() }).value.clone();
        // What is forgotten is dropped when nobody waits for it.
        drop(entries);
        drop(forgotten);
        value
    }

    /// The number of values.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let table = Recent::<usize, usize, 8>::new();
        for key in 0..1000 {
            assert_eq!(table.insert(key, 10 * key), 10 * key);
            assert_eq!(table.get(&0), Some(0), "{key}");
            assert!(table.len() <= 8);
        }
        // The values used last are there, the oldest are not.
        assert!((995..1000).all(|it| table.get(&it) == Some(10 * it)));
        assert!((1..900).all(|it| table.get(&it).is_none()));
        assert_eq!(table.insert(0, 7), 0, "a key keeps its value");
    }

    #[test]
    fn one_value() {
        let table = Recent::<usize, usize, 1>::new();
        for key in 0..3 {
            table.insert(key, key);
            assert_eq!((table.len(), table.get(&key)), (1, Some(key)));
        }
    }
}

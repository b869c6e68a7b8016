//! Implements tables of bounded size that evict the least recently used entries.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The number of most recently used values that stay, whatever their size.
const FEW: usize = 8;

/// A value of a table.
pub(crate) trait Cached: Clone {
    /// Returns the current size of the value in memory.
    fn bytes(&self) -> usize;
}

/// Values by key, of at most `BYTES` bytes in total. A table that exceeds this evicts the least recently used values
/// until a quarter is free. The few most recently used values always stay.
pub(crate) struct Lru<K, V, const BYTES: usize> {
    entries: RwLock<FxHashMap<K, Entry<V>>>,
    uses: AtomicU64,
}

struct Entry<V> {
    value: V,
    /// The number of the last use.
    used: AtomicU64,
}

impl<K, V, const BYTES: usize> Lru<K, V, BYTES> {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self { entries: RwLock::new(FxHashMap::with_hasher(FxBuildHasher)), uses: AtomicU64::new(0) }
    }
}

impl<K: Hash + Eq, V: Cached, const BYTES: usize> Lru<K, V, BYTES> {
    /// Returns the value of a key, and counts as a use.
    pub fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(key)?;
        entry.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(entry.value.clone())
    }

    /// Adds a value, unless the key has one, and returns the value of the key.
    pub fn insert(&self, key: K, value: V) -> V {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        let value = entries.entry(key).or_insert(Entry { value, used: now.into() }).value.clone();
        let last =
            eviction_limit(entries.values().map(|it| (it.used.load(Ordering::Relaxed), it.value.bytes())), BYTES);
        let forgotten: Vec<_> = match last {
            Some(last) => entries.extract_if(|_, it| *it.used.get_mut() <= last).collect(),
            None => Vec::new(),
        };
        // Evicted values are dropped outside of the lock.
        drop(entries);
        drop(forgotten);
        value
    }

    /// Returns the number of values.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Returns the last use up to which values must be evicted, so that the others take at most three quarters of
/// `max_bytes`. Returns `None` if all of them fit. `uses` are last uses and bytes.
pub(crate) fn eviction_limit(uses: impl Iterator<Item = (u64, usize)> + Clone, max_bytes: usize) -> Option<u64> {
    if uses.clone().map(|it| it.1).sum::<usize>() <= max_bytes {
        return None;
    }
    let mut uses: Vec<_> = uses.collect();
    uses.sort_unstable_by_key(|it| std::cmp::Reverse(it.0));
    let mut left = max_bytes - max_bytes / 4;
    let fits = |&(at, it): &(usize, &(u64, usize))| {
        let room = left.checked_sub(it.1);
        left = room.unwrap_or(0);
        at < FEW || room.is_some()
    };
    let kept = uses.iter().enumerate().take_while(fits).count();
    uses.get(kept).map(|it| it.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value takes ten bytes.
    impl Cached for usize {
        fn bytes(&self) -> usize {
            10
        }
    }

    #[test]
    fn what_is_used_stays() {
        let table = Lru::<usize, usize, 400>::new();
        for key in 0..1000 {
            assert_eq!(table.insert(key, 10 * key), 10 * key);
            assert_eq!(table.get(&0), Some(0), "{key}");
            assert!(table.len() <= 40);
        }
        // The most recently used values are present, the oldest are not.
        assert!((990..1000).all(|it| table.get(&it) == Some(10 * it)));
        assert!((1..900).all(|it| table.get(&it).is_none()));
        assert_eq!(table.insert(0, 7), 0, "a key keeps its value");
    }

    #[test]
    fn a_few_stay_whatever_they_take() {
        let table = Lru::<usize, usize, 1>::new();
        for key in 0..100 {
            table.insert(key, key);
            assert_eq!(table.len(), (key + 1).min(FEW));
            assert_eq!(table.get(&key), Some(key));
        }
    }

    #[test]
    fn large_values_make_others_go() {
        let small = (0..100).map(|it| (it, 1));
        assert_eq!(eviction_limit(small.clone(), 100), None);
        assert_eq!(eviction_limit(small.clone(), 99), Some(24), "75 stay");
        assert_eq!(eviction_limit(small.chain([(100, 1000)]), 100), Some(92), "a few stay");
    }
}

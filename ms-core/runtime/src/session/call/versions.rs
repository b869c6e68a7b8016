//! Stores the compiled versions of a function by signature.

use super::version::{Home, Version};
use crate::session::cache::lru::eviction_limit;
use ms_ir::MapVec;
use ms_ops::tensor::Type;
use ms_trace::trace::Signature;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::any::TypeId;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The maximal size of the versions of a function, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// The versions of a function. If they take too much memory, the least recently used ones are evicted. Versions of a
/// dropped parameter are dropped immediately.
pub(super) struct Versions {
    table: RwLock<Table>,
    /// The position of the version that was called last.
    recent: AtomicUsize,
    /// The number of calls that used another version than the call before.
    turns: AtomicU64,
}

struct Table {
    all: Vec<Arc<Version>>,
    /// Positions by the hash of the signature.
    by_hash: FxHashMap<u64, SmallVec<[usize; 1]>>,
}

impl Versions {
    /// Creates an empty table.
    pub const fn new() -> Self {
        let table = Table { all: Vec::new(), by_hash: FxHashMap::with_hasher(FxBuildHasher) };
        Self { table: RwLock::new(table), recent: AtomicUsize::new(0), turns: AtomicU64::new(0) }
    }

    /// Returns the number of versions.
    pub fn len(&self) -> usize {
        self.read(|it| it.all.len())
    }

    /// Drops all versions.
    pub fn clear(&self) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.by_hash.clear();
        let old = std::mem::take(&mut table.all);
        drop(table);
        drop(old);
    }

    /// Passes the types of the tensors among the arguments of each version of a monomorph to `f`.
    pub fn arguments<R>(&self, monomorph: TypeId, f: impl FnOnce(&[&[Type]]) -> R) -> R {
        // `f` may run user code, which may drop parameters, so the lock is released first.
        let all = self.read(|it| it.all.clone());
        f(&all.iter().filter(|it| it.monomorph() == Some(monomorph)).map(|it| &*it.arguments).collect::<Vec<_>>())
    }

    fn read<R>(&self, f: impl FnOnce(&Table) -> R) -> R {
        f(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the version for a signature.
    pub fn find(&self, signature: &Signature) -> Option<Arc<Version>> {
        self.read(|table| {
            // Comparing all words takes less time than hashing them.
            let recent = self.recent.load(Ordering::Relaxed);
            if let Some(version) = table.all.get(recent)
                && version.is_of(signature)
            {
                return Some(version.clone());
            }
            let at = table.place(|it| it.is_of(signature), signature.hash())?;
            self.turn(table, at);
            Some(table.all[at].clone())
        })
    }

    /// Records that a call uses another version than the call before.
    fn turn(&self, table: &Table, to: usize) {
        let from = self.recent.swap(to, Ordering::Relaxed);
        let now = self.turns.fetch_add(1, Ordering::Relaxed);
        for at in [from, to] {
            if let Some(version) = table.all.get(at) {
                version.used.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Adds a version. It replaces a version of the same signature.
    pub fn insert(&self, version: Arc<Version>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if version.dead.load(Ordering::Acquire) {
            return;
        }
        // The version that was called last is in use until now.
        self.turn(&table, self.recent.load(Ordering::Relaxed));
        let mut evicted = table.evict();
        // An untraced version may be present until a derivative is requested.
        match table.place(|it| it.is_like(&version), version.hash) {
            Some(at) => evicted.push(std::mem::replace(&mut table.all[at], version)),
            None => {
                table.add(version);
                self.turn(&table, table.all.len() - 1);
            }
        }
        // Dropping them takes a while, and may drop parameters, so the lock is released first.
        drop(table);
        drop(evicted);
    }
}

impl Home for Versions {
    fn remove(&self, version: &Version) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let at = table.place(|it| std::ptr::eq(it, version), version.hash);
        let removed = at.map(|at| table.remove(at));
        drop(table);
        drop(removed);
    }
}

impl Table {
    /// Returns the position of the version with this hash that satisfies `fits`.
    fn place(&self, fits: impl Fn(&Version) -> bool, hash: u64) -> Option<usize> {
        self.by_hash.get(&hash)?.iter().copied().find(|&at| fits(&self.all[at]))
    }

    fn add(&mut self, version: Arc<Version>) {
        self.by_hash.entry(version.hash).or_default().push(self.all.len());
        self.all.push(version);
    }

    /// Removes the version at a position, which the last version takes.
    fn remove(&mut self, at: usize) -> Arc<Version> {
        let (from, version) = (self.all.len() - 1, self.all.swap_remove(at));
        if let Entry::Occupied(mut bucket) = self.by_hash.entry(version.hash) {
            bucket.get_mut().retain(|it| *it != at);
            if bucket.get().is_empty() {
                bucket.remove();
            }
        }
        if let Some(moved) = self.all.get(at) {
            let places = self.by_hash.get_mut(&moved.hash).expect("every version has a place");
            places.iter_mut().filter(|it| **it == from).for_each(|it| *it = at);
        }
        version
    }

    /// Evicts the least recently used versions if all together take too much memory.
    fn evict(&mut self) -> Vec<Arc<Version>> {
        let used = |it: &Arc<Version>| it.used.load(Ordering::Relaxed);
        // Versions of equal graphs share compiled code.
        let mut met = FxHashSet::default();
        let weighed = |it: &Arc<Version>| {
            let compiled = if met.insert(Arc::as_ptr(&it.compiled)) { it.compiled.bytes() } else { 0 };
            (used(it), it.bytes + compiled)
        };
        let uses: Vec<_> = self.all.map_vec(weighed);
        let Some(last) = eviction_limit(uses.iter().copied(), MAX_BYTES) else { return Vec::new() };
        self.by_hash.clear();
        let (kept, evicted): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.all).into_iter().partition(|it| used(it) > last);
        kept.into_iter().for_each(|it| self.add(it));
        evicted
    }
}

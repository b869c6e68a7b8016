//! Evicts the least recently used entries.

use crate::store::is_entry_name;
use crate::{Result, Store};
use std::sync::PoisonError;
use std::time::SystemTime;

/// The result of an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Evicted {
    /// The number of removed entries.
    pub entries: usize,
    /// The total size of their files in bytes.
    pub bytes: u64,
}

/// The estimated size of a store's directory, without listing it.
#[derive(Default, Debug)]
pub(crate) struct Usage {
    /// The number of bytes when the directory was last listed.
    listed: Option<u64>,
    /// The number of bytes that this store has written since then.
    written: u64,
    /// The number of these bytes that are not yet recorded for other processes.
    unrecorded: u64,
}

/// The sampling interval: one process in this many lists a store even if other processes have recorded its size.
const LISTS: u32 = 32;

impl Usage {
    /// Whether the directory must be listed. It may exceed the cap, or this store has written so much that other
    /// processes may have written much, too.
    fn is_stale(&self, max_bytes: u64) -> bool {
        self.listed.is_none_or(|listed| listed + self.written > max_bytes || self.written > max_bytes / 16)
    }
}

/// The file of an entry that may be evicted.
struct Candidate {
    used: SystemTime,
    name: String,
    bytes: u64,
}

impl Store {
    /// Removes the least recently used entries until the rest fits the cap. Also removes the unfinished files of killed
    /// writers.
    pub fn gc(&self) -> Result<Evicted> {
        self.evict(self.options.max_bytes, None)
    }

    /// Removes every entry, but no other files.
    pub fn clear(&self) -> Result<Evicted> {
        let mut evicted = self.evict(0, None)?;
        // Links and similar files were not candidates.
        for name in self.directory.names()?.iter().filter(|name| is_entry_name(name)) {
            evicted.entries += usize::from(self.directory.remove_file(name)?);
        }
        Ok(evicted)
    }

    /// Evicts entries if `written` more bytes may have exceeded the cap of the store. The entry `keep` is not evicted.
    pub(crate) fn make_room(&self, written: u64, keep: &str) -> Result<()> {
        let max_bytes = self.options.max_bytes;
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        usage.written += written;
        usage.unrecorded += written;
        if !usage.is_stale(max_bytes) {
            return Ok(());
        }
        if usage.listed.is_none()
            && let Some(bytes) = self.statistics().ok().and_then(|it| it.bytes)
        {
            // Another process has listed the directory. Its total lacks the writes of killed processes, so some
            // processes list the directory nevertheless.
            usage.listed = Some(bytes);
            if !usage.is_stale(max_bytes) && !std::process::id().is_multiple_of(LISTS) {
                return Ok(());
            }
        }
        drop(usage);
        self.evict(max_bytes, Some(keep)).map(drop)
    }

    /// Takes the number of bytes that this store has written and not yet recorded for other processes.
    pub(crate) fn take_unrecorded(&self) -> u64 {
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut usage.unrecorded)
    }

    /// Evicts entries down to `max_bytes`. If an entry was just written (`keep`), evicts further, so that a full store
    /// is not listed again for every following entry.
    fn evict(&self, max_bytes: u64, keep: Option<&str>) -> Result<Evicted> {
        let names = self.directory.names()?;
        self.directory.remove_abandoned(&names, self.options.abandoned_after)?;

        let mut candidates: Vec<_> = names.into_iter().filter_map(|name| self.candidate(name)).collect();
        let mut total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
        let mut evicted = Evicted::default();
        if total > max_bytes {
            let target = if keep.is_some() { max_bytes - max_bytes / 8 } else { max_bytes };
            candidates.sort_by(|a, b| (a.used, &a.name).cmp(&(b.used, &b.name)));
            for candidate in candidates.iter().filter(|candidate| Some(&*candidate.name) != keep) {
                if total <= target {
                    break;
                }
                // Another process may have evicted it, but the bytes are free in any case.
                if self.directory.remove_file(&candidate.name)? {
                    evicted.entries += 1;
                    evicted.bytes += candidate.bytes;
                }
                total -= candidate.bytes;
            }
        }
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) =
            Usage { listed: Some(total), written: 0, unrecorded: 0 };
        // If the total cannot be written, the next process computes it again.
        let _ = self.revise(|sums| sums.bytes = Some(total));
        Ok(evicted)
    }

    fn candidate(&self, name: String) -> Option<Candidate> {
        if !is_entry_name(&name) {
            return None;
        }
        let (bytes, used) = self.directory.stat(&name)?;
        Some(Candidate { used, name, bytes })
    }
}

//! Listing a store, and explaining misses.

use crate::entry::Description;
use crate::store::{is_entry_name, name_of};
use crate::{Key, Miss, Result, Store, differences};
use std::time::SystemTime;

/// One entry of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// Its notes: names and texts.
    pub notes: Vec<(String, String)>,
    /// When it was created.
    pub created: SystemTime,
    /// The length of its payload in bytes.
    pub payload_bytes: u64,
    /// The length of its file in bytes.
    pub file_bytes: u64,
    /// When it was last written or read.
    pub used: SystemTime,
}

/// A file with the name of an entry that is not trusted or not valid.
#[derive(Debug)]
pub struct Ignored {
    /// The name of the file in the directory of the store.
    pub name: String,
    /// Why it is ignored.
    pub reason: Miss,
}

/// The content of a store.
#[derive(Default, Debug)]
pub struct Listing {
    /// The entries, the most recently used first. Their payloads are not read.
    pub entries: Vec<Entry>,
    /// The files that would be misses, by name.
    pub ignored: Vec<Ignored>,
}

/// The entry most similar to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The entry with the most equal parts; of several, the most recently used.
    pub nearest: Entry,
    /// The names of the parts that differ; none if it is the entry of the key.
    pub differences: Vec<String>,
}

impl Entry {
    /// The text of a note.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }
}

impl Store {
    /// Lists the entries and what is ignored.
    pub fn entries(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        let mut names = self.directory.names()?;
        names.retain(|name| is_entry_name(name));
        names.sort();
        for name in names {
            match self.entry(&name) {
                Ok(entry) => listing.entries.push(entry),
                // Evicted since the directory was listed.
                Err(Miss::Absent) => {}
                Err(reason) => listing.ignored.push(Ignored { name, reason }),
            }
        }
        listing.entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        Ok(listing)
    }

    /// Verifies every entry completely: returns the number of valid entries, and the others with
    /// their reasons.
    ///
    /// # Errors
    /// I/O errors of the directory.
    pub fn verify(&self) -> Result<(usize, Vec<Ignored>)> {
        let mut names = self.directory.names()?;
        names.retain(|name| is_entry_name(name));
        names.sort();
        let mut whole = 0;
        let mut ignored = Vec::new();
        for name in names {
            let found = self.read(&name).and_then(|found| {
                self.check_payload(&found)?;
                found.header.describe(&found.bytes)?;
                if name_of(&found.header.key) == name { Ok(()) } else { Err(Miss::OtherKey) }
            });
            match found {
                Ok(()) => whole += 1,
                Err(Miss::Absent) => {}
                Err(reason) => ignored.push(Ignored { name, reason }),
            }
        }
        Ok((whole, ignored))
    }

    /// Explains a miss: how the key differs from the most similar entry; `None` if the store is
    /// empty.
    pub fn explain(&self, key: &Key) -> Result<Option<Explanation>> {
        let entries = self.entries()?.entries;
        // `max_by_key` returns the last of several maxima, which has to be the most recently used.
        let nearest = entries.into_iter().rev().max_by_key(|entry| entry.key.parts_shared_with(key));
        Ok(nearest.map(|nearest| Explanation { differences: differences(key, &nearest.key), nearest }))
    }

    fn entry(&self, name: &str) -> Result<Entry, Miss> {
        let found = self.read(name)?;
        if name_of(&found.header.key) != name {
            return Err(Miss::OtherKey);
        }
        let Description { key, notes } = found.header.describe(&found.bytes)?;
        Ok(Entry {
            payload_bytes: found.header.payload_len(),
            file_bytes: found.metadata.len(),
            used: found.metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            created: found.header.created,
            notes,
            key,
        })
    }
}

//! Lists the entries of a store, and explains misses.

use crate::entry::Description;
use crate::store::{is_entry_name, name_of};
use crate::{Key, Miss, Result, Store, differences};
use std::time::SystemTime;

/// An entry of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The notes: names and texts.
    pub notes: Vec<(String, String)>,
    /// The time of creation.
    pub created: SystemTime,
    /// The length of the payload in bytes.
    pub payload_bytes: u64,
    /// The length of the file in bytes.
    pub file_bytes: u64,
    /// The time of the last write or read.
    pub used: SystemTime,
}

/// A file with the name of an entry that is not trusted or not valid.
#[derive(Debug)]
pub struct Ignored {
    /// The name of the file in the directory of the store.
    pub name: String,
    /// The reason why it is ignored.
    pub reason: Miss,
}

/// The contents of a store.
#[derive(Default, Debug)]
pub struct Listing {
    /// The valid entries, most recently used first. Their payloads are not read.
    pub entries: Vec<Entry>,
    /// The files that would be misses, sorted by name.
    pub ignored: Vec<Ignored>,
}

/// The entry most similar to a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The entry with the most equal parts. Among several, the most recently used one.
    pub nearest: Entry,
    /// The names of the parts that differ. Empty if the entry has exactly this key.
    pub differences: Vec<String>,
}

impl Entry {
    /// Returns the text of a note.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }
}

impl Store {
    /// Lists the entries and the ignored files.
    pub fn entries(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        let mut names = self.directory.names()?;
        names.retain(|name| is_entry_name(name));
        names.sort();
        for name in names {
            match self.entry(&name) {
                Ok(entry) => listing.entries.push(entry),
                // The entry was evicted after the directory was listed.
                Err(Miss::Absent) => {}
                Err(reason) => listing.ignored.push(Ignored { name, reason }),
            }
        }
        listing.entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        Ok(listing)
    }

    /// Verifies every entry completely. Returns the number of valid entries, and the invalid ones with their reasons.
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

    /// Explains a miss by the differences between the key and the most similar entry. Returns `None` if the store is
    /// empty.
    pub fn explain(&self, key: &Key) -> Result<Option<Explanation>> {
        let entries = self.entries()?.entries;
        // `max_by_key` returns the last of several maxima, so the most recently used entry must come last.
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

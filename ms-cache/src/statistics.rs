//! Records totals of hits, misses and saved time over all processes that used a store.

use crate::{Distrust, Error, Miss, Result, Store};
use std::io::Read;
use std::time::Duration;

/// The name of the file with the totals.
const FILE: &str = "statistics";

/// Totals over all processes that recorded them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// The number of entries that were found and used.
    pub hits: u64,
    /// The number of entries that were missing or not usable.
    pub misses: u64,
    /// The time that hits saved compared to compiling.
    pub saved: Duration,
    /// The bytes of all entries if the store was ever listed: the total at that time, plus the bytes written since.
    pub(crate) bytes: Option<u64>,
}

impl Statistics {
    fn parse(text: &str) -> Self {
        let field = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        Self {
            hits: field("hits").unwrap_or(0),
            misses: field("misses").unwrap_or(0),
            saved: Duration::from_micros(field("saved_us").unwrap_or(0)),
            bytes: field("bytes"),
        }
    }

    fn print(&self) -> String {
        let bytes = self.bytes.map(|it| format!("bytes {it}\n")).unwrap_or_default();
        format!("hits {}\nmisses {}\nsaved_us {}\n{bytes}", self.hits, self.misses, self.saved.as_micros())
    }
}

impl Store {
    /// Returns the totals so far. They are zero if nothing was recorded or the file is not valid.
    ///
    /// # Errors
    /// [`Error::Statistics`] if the file cannot be read or trusted.
    pub fn statistics(&self) -> Result<Statistics> {
        let refused = |why| Error::Statistics(self.path().join(FILE), why);
        let file = match self.directory.open_file(FILE) {
            Ok((file, _)) => file,
            Err(Miss::Absent) => return Ok(Statistics::default()),
            Err(why) => return Err(refused(why)),
        };
        let mut text = Vec::new();
        file.take(1 << 10).read_to_end(&mut text).map_err(|error| refused(Miss::Io(error)))?;
        Ok(Statistics::parse(&String::from_utf8_lossy(&text)))
    }

    /// Adds to the totals. They are informational: if the directory stays locked or is read-only, nothing is added.
    ///
    /// # Errors
    /// [`Error::Statistics`] if the file cannot be read or trusted, and I/O errors of writing it.
    pub fn record(&self, hits: u64, misses: u64, saved: Duration) -> Result<()> {
        let written = self.take_unrecorded();
        if [hits, misses, written] == [0; 3] {
            return Ok(());
        }
        self.revise(|sums| {
            sums.hits = sums.hits.saturating_add(hits);
            sums.misses = sums.misses.saturating_add(misses);
            sums.saved = sums.saved.saturating_add(saved);
            sums.bytes = sums.bytes.map(|it| it.saturating_add(written));
        })
    }

    /// Changes the totals under a lock.
    pub(crate) fn revise(&self, change: impl FnOnce(&mut Statistics)) -> Result<()> {
        match self.statistics() {
            // A link is replaced by a file.
            Err(Error::Statistics(_, Miss::Distrusted(Distrust::Link))) => {}
            other => drop(other?),
        }
        self.directory.revise_file(FILE, |text| {
            let mut sums = Statistics::parse(text);
            change(&mut sums);
            sums.print()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_parsed() {
        for bytes in [None, Some(7)] {
            let sums = Statistics { hits: 3, misses: u64::MAX, saved: Duration::from_micros(12), bytes };
            assert_eq!(Statistics::parse(&sums.print()), sums);
        }
        for text in ["", "hits", "hits x\nmisses -1", "\u{0}\u{0}", "hitsmisses 3"] {
            assert_eq!(Statistics::parse(text), Statistics::default(), "{text:?}");
        }
    }
}

//! Exports a store as one file for other machines, and imports such files.
//!
//! ```text
//! magic                      8 bytes
//! per entry: length u64, the entry's file
//! ```

use crate::entry::decode_header;
use crate::store::{is_entry_name, name_of};
use crate::{Error, Miss, Result, Store, trust};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

const MAGIC: [u8; 8] = *b"\x89msCACHS";

/// The result of an import.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Imported {
    /// The number of entries that were added or replaced.
    pub entries: usize,
    /// The number of entries that were skipped because they are damaged or were written with another secret.
    pub ignored: usize,
}

impl Store {
    /// Writes all valid entries into one file. Returns their number.
    ///
    /// # Errors
    /// I/O errors of the directory and of the file.
    pub fn export(&self, path: &Path) -> Result<usize> {
        let failed = |error| Error::of_io(path, error);
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        out.write_all(&MAGIC).map_err(failed)?;
        let mut count = 0;
        let mut names = self.directory.names()?;
        names.retain(|name| is_entry_name(name));
        names.sort();
        for name in names {
            let Ok(found) = self.read(&name) else { continue };
            if self.check_payload(&found).is_err() {
                continue;
            }
            out.write_all(&(found.bytes.len() as u64).to_le_bytes()).map_err(failed)?;
            out.write_all(&found.bytes).map_err(failed)?;
            count += 1;
        }
        out.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
        Ok(count)
    }

    /// Adds the entries of an exported file, verifying each like an entry of the directory.
    ///
    /// Entries contain code that is executed when their keys are looked up. So a file of unknown origin is as dangerous
    /// as a program of unknown origin, unless the store has a secret.
    ///
    /// # Errors
    /// [`Error::NotAnExport`] for another kind of file, and I/O errors. Entries that were added before the error
    /// remain.
    pub fn import(&self, path: &Path) -> Result<Imported> {
        let failed = |error| Error::of_io(path, error);
        let (file, metadata) = trust::open(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::NotAnExport(path.to_owned()));
        }
        let mut rest = metadata.len();
        let mut file = BufReader::new(file);
        let mut magic = [0; MAGIC.len()];
        if rest < magic.len() as u64 || file.read_exact(&mut magic).is_err() || magic != MAGIC {
            return Err(Error::NotAnExport(path.to_owned()));
        }
        rest -= magic.len() as u64;
        let mut imported = Imported::default();
        while rest > 0 {
            let mut len = [0; 8];
            let len = match file.read_exact(&mut len) {
                Ok(()) if rest >= 8 => u64::from_le_bytes(len),
                _ => return Err(Error::NotAnExport(path.to_owned())),
            };
            rest -= 8;
            if len > rest {
                return Err(Error::NotAnExport(path.to_owned()));
            }
            rest -= len;
            let mut bytes = Vec::new();
            (&mut file).take(len).read_to_end(&mut bytes).map_err(failed)?;
            match self.check_file(&bytes) {
                Ok(name) => {
                    self.put_file(&name, &bytes)?;
                    imported.entries += 1;
                }
                Err(_) => imported.ignored += 1,
            }
        }
        Ok(imported)
    }

    /// Verifies the bytes of an entry. Returns its file name.
    fn check_file(&self, bytes: &[u8]) -> Result<String, Miss> {
        let secret = self.options.secret.as_ref();
        let header = decode_header(bytes, secret)?;
        header.check_payload(bytes, secret)?;
        header.describe(bytes)?;
        Ok(name_of(&header.key))
    }
}

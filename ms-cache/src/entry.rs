//! Encodes and decodes entries: a header that authenticates itself and the payload after it.
//!
//! All numbers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic |
//! | 4 | version of this format |
//! | 4 | length of the header, a multiple of [`ALIGNMENT`]: where the payload starts |
//! | 4 | 1 if the hashes are keyed with a [`Secret`], else 0 |
//! | 4 | schema of the key |
//! | 32 | hash of the key |
//! | 8 | time of creation, in seconds since 1970 |
//! | 8 | length of the data |
//! | 8 | length of the code |
//! | 32 | blake3 of the payload |
//! | 4 | number of parts |
//! | 4 | number of notes |
//! | per part 1 + n + 32 | length of the name, the name in UTF-8, blake3 of the part |
//! | per note 1 + n + 2 + m | length of the name, the name, length of the text, the text in UTF-8 |
//! | | zeros |
//! | 32 | blake3 of the header up to here |
//! | | payload, to the end of the file |
//!
//! The payload consists of data and optional code. The code starts at the next file offset that is a multiple of
//! [`PAGE`], after zeros.

use crate::key::{Key, Part};
use crate::{Digest, Miss, Secret};
use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

const MAGIC: [u8; 8] = *b"\x89msCACHE";
const VERSION: u32 = 3;

/// Payloads start at a multiple of this, so that vectors in them are aligned in a mapping.
pub(crate) const ALIGNMENT: usize = 64;

/// Code starts at a multiple of this, so that its pages can be mapped separately.
pub(crate) const PAGE: usize = 4096;

/// The reason why the bytes of an entry are invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Defect {
    /// The file ends too early.
    Short,
    /// The file continues after the payload.
    Long,
    /// The file is not an entry.
    Magic,
    /// The file has another version of the format.
    Version(u32),
    /// The file was written with a secret and is read without one, or the other way round.
    Keyed(bool),
    /// The header was changed, or was written with another secret.
    Header,
    /// The payload was changed.
    Payload,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("it ends too early"),
            Self::Long => f.write_str("it goes on after its payload"),
            Self::Magic => f.write_str("it is not an entry of this cache"),
            Self::Version(version) => write!(f, "it has version {version} of the format, this is version {VERSION}"),
            Self::Keyed(true) => f.write_str("it was written with a secret key, and none is used here"),
            Self::Keyed(false) => f.write_str("it was written without the secret key that is used here"),
            Self::Header => f.write_str("its header is damaged, or was written with another secret key"),
            Self::Payload => f.write_str("its payload is damaged"),
        }
    }
}

/// The contents of an entry to write.
#[derive(Clone, Copy, Default, Debug)]
pub struct Contents<'a> {
    /// Names and texts that are stored next to the payload for people to read. They are not part of the key. Names are
    /// truncated to 255 bytes and texts to 65535.
    pub notes: &'a [(&'a str, &'a str)],
    /// Bytes to read.
    pub data: &'a [u8],
    /// Bytes that may be executed in place, on separate pages.
    pub code: &'a [u8],
}

impl<'a> Contents<'a> {
    /// Returns contents with only data.
    pub fn data(data: &'a [u8]) -> Self {
        Self { data, ..Self::default() }
    }
}

/// The verified header of an entry.
#[derive(PartialEq, Debug)]
pub(crate) struct Header {
    /// The hash of the key.
    pub key: Digest,
    pub created: SystemTime,
    schema: u32,
    len: usize,
    data_len: u64,
    code_len: u64,
    payload_hash: Digest,
    parts: u32,
    notes: u32,
}

/// The description of an entry, for people.
pub(crate) struct Description {
    pub key: Key,
    pub notes: Vec<(String, String)>,
}

/// Encodes an entry.
pub(crate) fn encode(key: &Key, contents: &Contents<'_>, created: SystemTime, secret: Option<&Secret>) -> Vec<u8> {
    let notes: Vec<(&str, &str)> = contents
        .notes
        .iter()
        .map(|(name, text)| (cut(name, Part::MAX_NAME), cut(text, usize::from(u16::MAX))))
        .collect();
    let parts_len: usize = key.parts().iter().map(|part| 1 + part.name().len() + Digest::LEN).sum();
    let notes_len: usize = notes.iter().map(|(name, text)| 1 + name.len() + 2 + text.len()).sum();
    let len = (FIXED + parts_len + notes_len + Digest::LEN).next_multiple_of(ALIGNMENT);

    let (data, code) = (contents.data, contents.code);
    let data_end = len + data.len();
    let code_start = if code.is_empty() { data_end } else { data_end.next_multiple_of(PAGE) };
    // The payload is hashed as one contiguous piece, which is several times faster.
    let mut file = Vec::with_capacity(code_start + code.len());
    file.resize(len, 0);
    file.extend(data);
    file.resize(code_start, 0);
    file.extend(code);
    let payload_hash = hash(secret, &file[len..]);

    let seconds = created.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut header = Vec::with_capacity(len);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(u32::try_from(len).expect("names and texts are short, and few").to_le_bytes());
    header.extend(u32::from(secret.is_some()).to_le_bytes());
    header.extend(key.schema().to_le_bytes());
    header.extend(key.hash().as_bytes());
    header.extend(seconds.to_le_bytes());
    header.extend((data.len() as u64).to_le_bytes());
    header.extend((code.len() as u64).to_le_bytes());
    header.extend(payload_hash.as_bytes());
    header.extend(u32::try_from(key.parts().len()).expect("parts are few").to_le_bytes());
    header.extend(u32::try_from(notes.len()).expect("notes are few").to_le_bytes());
    for part in key.parts() {
        header.push(u8::try_from(part.name().len()).expect("the builder of keys refuses longer names"));
        header.extend(part.name().as_bytes());
        header.extend(part.hash().as_bytes());
    }
    for (name, text) in notes {
        header.push(u8::try_from(name.len()).expect("cut above"));
        header.extend(name.as_bytes());
        header.extend(u16::try_from(text.len()).expect("cut above").to_le_bytes());
        header.extend(text.as_bytes());
    }
    header.resize(len - Digest::LEN, 0);
    header.extend(hash(secret, &header).as_bytes());
    file[..len].copy_from_slice(&header);
    file
}

/// Returns the longest prefix of a text with at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns the blake3 hash of these bytes, keyed with a secret if there is one.
fn hash(secret: Option<&Secret>, bytes: &[u8]) -> Digest {
    Digest::from_bytes(match secret {
        Some(secret) => *blake3::keyed_hash(secret.as_bytes(), bytes).as_bytes(),
        None => *blake3::hash(bytes).as_bytes(),
    })
}

/// The length of the fields before the parts.
const FIXED: usize = PREFIX + 4 + Digest::LEN + 8 + 8 + 8 + Digest::LEN + 4 + 4;

/// The length of the fields that are read before the header is verified.
const PREFIX: usize = MAGIC.len() + 4 + 4 + 4;

/// Decodes and verifies the header of an entry, but not the payload.
pub(crate) fn decode_header(file: &[u8], secret: Option<&Secret>) -> Result<Header, Defect> {
    let mut fields = Fields(file);
    if fields.array()? != MAGIC {
        return Err(Defect::Magic);
    }
    let version = fields.u32()?;
    if version != VERSION {
        return Err(Defect::Version(version));
    }
    let len = fields.u32()? as usize;
    let keyed = fields.u32()?;
    let header = file.get(..len).ok_or(Defect::Short)?;
    let (body, tag) = header.split_last_chunk::<{ Digest::LEN }>().ok_or(Defect::Header)?;
    if keyed > 1 || body.len() < FIXED {
        return Err(Defect::Header);
    }
    if (keyed == 1) != secret.is_some() {
        return Err(Defect::Keyed(keyed == 1));
    }
    // Comparing two `blake3::Hash` takes constant time, so a tag cannot be guessed byte by byte.
    if blake3::Hash::from(*hash(secret, body).as_bytes()) != blake3::Hash::from(*tag) {
        return Err(Defect::Header);
    }
    let mut fields = Fields(&body[PREFIX..]);
    let schema = fields.u32()?;
    let key = Digest::from_bytes(fields.array()?);
    let created = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(fields.u64()?)).ok_or(Defect::Header)?;
    let (data_len, code_len) = (fields.u64()?, fields.u64()?);
    let payload_hash = Digest::from_bytes(fields.array()?);
    let (parts, notes) = (fields.u32()?, fields.u32()?);
    Ok(Header { key, created, schema, len, data_len, code_len, payload_hash, parts, notes })
}

impl Header {
    /// Returns the description in the header of this file.
    ///
    /// A faulty program may have written a header with a valid hash, so it is read with bounds checks.
    pub fn describe(&self, file: &[u8]) -> Result<Description, Defect> {
        let wrong = |_| Defect::Header;
        let mut fields = Fields(&file[FIXED..self.len - Digest::LEN]);
        let mut parts: Vec<Part> = Vec::new();
        for _ in 0..self.parts {
            let name = fields.name().map_err(wrong)?;
            // Keys contain their parts in order, and each name once.
            if parts.last().is_some_and(|it| it.name() >= name) {
                return Err(Defect::Header);
            }
            parts.push(Part::new(name.to_owned(), Digest::from_bytes(fields.array().map_err(wrong)?)));
        }
        let mut notes = Vec::new();
        for _ in 0..self.notes {
            let name = fields.name().map_err(wrong)?.to_owned();
            let len = u16::from_le_bytes(fields.array().map_err(wrong)?);
            notes.push((name, fields.text(usize::from(len)).map_err(wrong)?.to_owned()));
        }
        let key = Key::new(self.schema, parts);
        if *key.hash() != self.key {
            return Err(Defect::Header);
        }
        Ok(Description { key, notes })
    }

    /// Verifies the payload of the file that this header was read from.
    pub fn check_payload(&self, file: &[u8], secret: Option<&Secret>) -> Result<(), Defect> {
        let end = self.end().ok_or(Defect::Header)?;
        match (file.len() as u64).cmp(&end) {
            std::cmp::Ordering::Less => return Err(Defect::Short),
            std::cmp::Ordering::Greater => return Err(Defect::Long),
            std::cmp::Ordering::Equal => {}
        }
        if hash(secret, &file[self.len..]) != self.payload_hash {
            return Err(Defect::Payload);
        }
        Ok(())
    }

    /// Returns the length of the whole file, or `None` on overflow.
    fn end(&self) -> Option<u64> {
        let data_end = (self.len as u64).checked_add(self.data_len)?;
        if self.code_len == 0 {
            return Some(data_end);
        }
        data_end.checked_next_multiple_of(PAGE as u64)?.checked_add(self.code_len)
    }

    /// Returns the range of the data in a file with a verified payload.
    pub fn data(&self) -> Range<usize> {
        self.len..self.len + self.data_len as usize
    }

    /// Returns the range of the code in a file with a verified payload.
    pub fn code(&self) -> Range<usize> {
        let end = self.end().expect("a verified payload has an end") as usize;
        end - self.code_len as usize..end
    }

    /// Returns the length of data and code in bytes.
    pub fn payload_len(&self) -> u64 {
        self.data_len.saturating_add(self.code_len)
    }
}

impl From<Defect> for Miss {
    fn from(defect: Defect) -> Self {
        Self::Damaged(defect)
    }
}

/// The bytes that remain to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Defect> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Defect::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Defect> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Defect::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, Defect> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Defect> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self, len: usize) -> Result<&'a str, Defect> {
        std::str::from_utf8(self.take(len)?).map_err(|_| Defect::Header)
    }

    fn name(&mut self) -> Result<&'a str, Defect> {
        let [len] = self.array()?;
        self.text(usize::from(len))
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;

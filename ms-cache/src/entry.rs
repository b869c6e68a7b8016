//! The format of an entry: a header that vouches for itself and for the payload after it.
//!
//! All numbers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic |
//! | 4 | version of this format |
//! | 4 | length of the header, a multiple of [`ALIGNMENT`]: where the payload starts |
//! | 8 | length of the payload |
//! | 32 | blake3 of the payload |
//! | 4 | schema of the key |
//! | 4 | number of parts |
//! | per part 1 + n + 32 | length of the name, the name in UTF-8, blake3 of the part |
//! | | zeros |
//! | 32 | blake3 of the header up to here |
//! | | payload, to the end of the file |

use crate::key::{Key, Part};
use crate::{Digest, Miss};
use std::fmt;

const MAGIC: [u8; 8] = *b"\x89msCACHE";
const VERSION: u32 = 1;

/// Payloads start at a multiple of this, so that vectors in them are aligned in a mapping.
pub(crate) const ALIGNMENT: usize = 64;

/// What is wrong with the bytes of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Defect {
    /// The file ends too early.
    Short,
    /// The file goes on after the payload.
    Long,
    /// The file is something else.
    Magic,
    /// Another version of the format.
    Version(u32),
    /// The header is not what was written.
    Header,
    /// The payload is not what was written.
    Payload,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("it ends too early"),
            Self::Long => f.write_str("it goes on after its payload"),
            Self::Magic => f.write_str("it is not an entry of this cache"),
            Self::Version(version) => write!(f, "it has version {version} of the format, this is version {VERSION}"),
            Self::Header => f.write_str("its header is damaged"),
            Self::Payload => f.write_str("its payload is damaged"),
        }
    }
}

/// The header of an entry, verified.
#[derive(PartialEq, Debug)]
pub(crate) struct Header {
    pub key: Key,
    len: usize,
    payload_len: u64,
    payload_hash: Digest,
}

/// The bytes that stand before `payload` in the entry of `key`.
pub(crate) fn encode_header(key: &Key, payload: &[u8]) -> Vec<u8> {
    let parts: usize = key.parts().iter().map(|part| 1 + part.name().len() + Digest::LEN).sum();
    let len = (FIXED + parts + Digest::LEN).next_multiple_of(ALIGNMENT);

    let mut header = Vec::with_capacity(len);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(u32::try_from(len).expect("parts have short names and are few").to_le_bytes());
    header.extend((payload.len() as u64).to_le_bytes());
    header.extend(Digest::of(payload).as_bytes());
    header.extend(key.schema().to_le_bytes());
    header.extend(u32::try_from(key.parts().len()).expect("parts are few").to_le_bytes());
    for part in key.parts() {
        header.push(u8::try_from(part.name().len()).expect("the builder of keys refuses longer names"));
        header.extend(part.name().as_bytes());
        header.extend(part.hash().as_bytes());
    }
    header.resize(len - Digest::LEN, 0);
    let hash = Digest::of(&header);
    header.extend(hash.as_bytes());
    header
}

/// The length of the fields before the parts.
const FIXED: usize = MAGIC.len() + 4 + 4 + 8 + Digest::LEN + 4 + 4;

/// Reads and verifies the header of an entry; the payload is left alone.
pub(crate) fn decode_header(file: &[u8]) -> Result<Header, Defect> {
    let mut fields = Fields(file);
    if fields.array()? != MAGIC {
        return Err(Defect::Magic);
    }
    let version = fields.u32()?;
    if version != VERSION {
        return Err(Defect::Version(version));
    }
    let len = fields.u32()? as usize;
    let header = file.get(..len).ok_or(Defect::Short)?;
    let (body, hash) = header.split_last_chunk::<{ Digest::LEN }>().ok_or(Defect::Header)?;
    if Digest::of(body) != Digest::from_bytes(*hash) {
        return Err(Defect::Header);
    }

    // A header that vouches for itself may still have been written by a program that errs, so the
    // fields are read with their bounds checked.
    let mut fields = Fields(body);
    let _checked = fields.take(MAGIC.len() + 4 + 4);
    decode_fields(&mut fields, len).map_err(|_| Defect::Header)
}

fn decode_fields(fields: &mut Fields<'_>, len: usize) -> Result<Header, Defect> {
    let payload_len = u64::from_le_bytes(fields.array()?);
    let payload_hash = Digest::from_bytes(fields.array()?);
    let schema = fields.u32()?;
    let count = fields.u32()?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let [name_len] = fields.array()?;
        let name = std::str::from_utf8(fields.take(usize::from(name_len))?).map_err(|_| Defect::Header)?;
        parts.push(Part::new(name, Digest::from_bytes(fields.array()?)));
    }
    Ok(Header { key: Key::new(schema, parts), len, payload_len, payload_hash })
}

impl Header {
    /// The payload of the file that this header was read from, verified.
    pub fn payload<'a>(&self, file: &'a [u8]) -> Result<&'a [u8], Defect> {
        let payload = file.get(self.len..).ok_or(Defect::Short)?;
        match (payload.len() as u64).cmp(&self.payload_len) {
            std::cmp::Ordering::Less => Err(Defect::Short),
            std::cmp::Ordering::Greater => Err(Defect::Long),
            std::cmp::Ordering::Equal if Digest::of(payload) != self.payload_hash => Err(Defect::Payload),
            std::cmp::Ordering::Equal => Ok(payload),
        }
    }

    /// Where the payload starts in the file.
    pub fn payload_start(&self) -> usize {
        self.len
    }

    /// The length of the payload in bytes.
    pub fn payload_len(&self) -> u64 {
        self.payload_len
    }
}

impl From<Defect> for Miss {
    fn from(defect: Defect) -> Self {
        Self::Damaged(defect)
    }
}

/// The rest of the bytes to read.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyBuilder;

    fn decode(file: &[u8]) -> Result<(Key, &[u8]), Defect> {
        let header = decode_header(file)?;
        let payload = header.payload(file)?;
        Ok((header.key, payload))
    }

    fn small() -> (Key, Vec<u8>) {
        let key = KeyBuilder::new(5).part("graph", b"g").part("signature", b"f32[2]").finish();
        let file = [encode_header(&key, b"payload"), b"payload".to_vec()].concat();
        (key, file)
    }

    #[test]
    fn what_is_written_is_read() {
        let many = (0..300).fold(KeyBuilder::new(1), |key, i| key.part(&format!("part {i}"), &[]));
        let longest = KeyBuilder::new(u32::MAX).part(&"n".repeat(Part::MAX_NAME), b"x").part("", b"");
        for key in [KeyBuilder::new(0), many, longest].map(KeyBuilder::finish) {
            for payload in [&[][..], &[0], &[7; 1000]] {
                let header = encode_header(&key, payload);
                assert_eq!(header.len() % ALIGNMENT, 0);
                let file = [&header, payload].concat();
                assert_eq!(decode(&file), Ok((key.clone(), payload)));
            }
        }
    }

    #[test]
    fn every_truncation_is_found() {
        let (_, file) = small();
        for len in 0..file.len() {
            assert_eq!(decode(&file[..len]), Err(Defect::Short), "at {len}");
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (_, file) = small();
        for at in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(decode(&flipped).is_err(), "bit {at}");
        }
    }

    #[test]
    fn bytes_after_the_payload_are_found() {
        let (_, mut file) = small();
        file.push(0);
        assert_eq!(decode(&file), Err(Defect::Long));
    }

    #[test]
    fn other_files_and_versions_are_told_apart() {
        let (_, mut file) = small();
        file[8] = 2;
        assert_eq!(decode(&file), Err(Defect::Version(2)));
        assert_eq!(decode(b"#!/bin/sh\nexec true\n"), Err(Defect::Magic));
    }

    #[test]
    fn a_header_that_lies_with_a_right_hash_is_refused() {
        let (_, file) = small();
        let header = decode_header(&file).expect("the header as written").payload_start();
        let count_of_parts = FIXED - 4;
        for (at, value) in [(count_of_parts, 3), (count_of_parts + 3, 0xff), (FIXED, 200), (FIXED + 1, 0xff)] {
            let mut lying = file.clone();
            lying[at] = value;
            let hash = Digest::of(&lying[..header - Digest::LEN]);
            lying[header - Digest::LEN..header].copy_from_slice(hash.as_bytes());
            // The zeros after the parts may be read as one more; a payload that fits is harmless
            // then, because the key is another.
            match decode(&lying) {
                Err(defect) => assert_eq!(defect, Defect::Header),
                Ok((key, _)) => assert_ne!(key, small().0),
            }
        }
    }

    #[test]
    fn the_format_is_stable() {
        assert_eq!(
            Digest::of(&small().1).to_string(),
            "6f8ba90b3a157b0064f758427f257d03339471b7982f2c21e479ad0646cd2733",
            "raise VERSION when the format changes"
        );
    }
}

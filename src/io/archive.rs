//! Reads and writes zip archives and gzip files with Deflate compression.

use super::bytes::take_array;
use crc32fast::hash as crc32;
use flate2::bufread::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use ms_core::tensor::try_filled;
use rawzip::{CompressionMethod, ZipArchive, ZipSliceArchive};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};

/// The maximum compression ratio of Deflate: two bits can encode a run of 258 bytes.
const MAX_RATIO: u64 = 1032;

/// A file in a zip archive.
pub(crate) struct Member<'a> {
    /// The path in the archive. It is never used as a path of the file system.
    pub name: String,
    deflated: bool,
    packed: &'a [u8],
    size: u64,
    checksum: u32,
}

impl<'a> Member<'a> {
    /// Returns the uncompressed bytes.
    pub fn content(&self) -> Result<Cow<'a, [u8]>, String> {
        let bytes = match self.deflated {
            true => Cow::Owned(self.inflated()?),
            false if self.packed.len() as u64 == self.size => Cow::Borrowed(self.packed),
            false => return Err(format!("it has {} bytes instead of {}", self.packed.len(), self.size)),
        };
        if crc32(&bytes) != self.checksum {
            return Err("its checksum is wrong".to_owned());
        }
        Ok(bytes)
    }

    fn inflated(&self) -> Result<Vec<u8>, String> {
        let mut bytes = room(self.packed, self.size)?;
        let mut decoder = Decompress::new(false);
        match decoder.decompress(self.packed, &mut bytes, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) if decoder.total_out() == self.size => Ok(bytes),
            Ok(Status::StreamEnd) => Err(format!("it has {} bytes instead of {}", decoder.total_out(), self.size)),
            _ => Err(format!("its compressed bytes are broken, or more than {}", self.size)),
        }
    }
}

/// Allocates room for the `size` bytes that are compressed in `packed`.
fn room(packed: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let impossible = || format!("{} compressed bytes cannot be {size}", packed.len());
    if size / MAX_RATIO > packed.len() as u64 {
        return Err(impossible());
    }
    try_filled(0u8, usize::try_from(size).map_err(|_| impossible())?).map_err(|it| it.report().message.clone())
}

/// Lists the members of a zip archive.
pub(crate) fn members(file: &[u8]) -> Result<Vec<Member<'_>>, String> {
    let archive = ZipArchive::from_slice(file).map_err(|why| format!("it is no zip archive: {why}"))?;
    if archive.end_offset() != file.len() as u64 {
        return Err("it is no zip archive, or has bytes behind its end".to_owned());
    }
    check_records(file, &archive)?;
    let (mut all, mut places) = (Vec::new(), Vec::new());
    for entry in archive.entries() {
        let entry = entry.map_err(|why| format!("its directory is broken: {why}"))?;
        let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
        let refuse = |why: String| Err(format!("in its directory, `{name}` {why}"));
        if entry.flags().is_encrypted() {
            return refuse("is encrypted".to_owned());
        }
        let method = entry.compression_method();
        if ![CompressionMethod::STORE, CompressionMethod::DEFLATE].contains(&method) {
            return refuse(format!("is compressed by method {}, not by Deflate", method.as_u16()));
        }
        let Ok(data) = archive.get_entry(entry.wayfinder()) else {
            return refuse("is not where the directory says, or longer than the file".to_owned());
        };
        let (start, end) = data.compressed_data_range();
        places.push((entry.local_header_offset(), end));
        all.push(Member {
            deflated: method == CompressionMethod::DEFLATE,
            // The casts are lossless, since the data lies in the file.
            packed: &file[start as usize..end as usize],
            size: entry.uncompressed_size_hint(),
            checksum: entry.crc32(),
            name,
        });
    }
    if archive.entries_hint() != all.len() as u64 {
        return Err(format!("its directory has {} entries, and says {}", all.len(), archive.entries_hint()));
    }
    // Members that share one stream would make a small file expand to a large one.
    places.sort();
    places.push((archive.directory_offset(), u64::MAX));
    if places.windows(2).any(|it| it[1].0 < it[0].1) {
        return Err("its members overlap".to_owned());
    }
    Ok(all)
}

/// Checks that every record at the end of the file describes the directory that is read. `rawzip` skips the 64-bit
/// record if it disagrees, ignores the length, and accepts a start that is too low. Other readers would list other
/// members.
fn check_records(file: &[u8], archive: &ZipSliceArchive<&[u8]>) -> Result<(), String> {
    let outside = "its directory lies outside of it";
    let end = usize::try_from(archive.eocd_offset()).map_err(|_| outside)?;
    let locator = end.checked_sub(LOCATOR).filter(|&at| file[at..].starts_with(b"PK\x06\x07"));
    let last = match locator {
        None => end as u64,
        Some(at) => u64::from_le_bytes(take_array(&mut &file[at + 8..])?),
    };
    let length = last.checked_sub(archive.directory_offset()).ok_or(outside)?;
    let directory = [archive.entries_hint(), length, archive.directory_offset()];
    let mut fields = &file[end + 10..];
    let count = u16::from_le_bytes(take_array(&mut fields)?);
    let [length, start] = [(); 2].map(|()| take_array(&mut fields).map(u32::from_le_bytes));
    let narrow = [(count.into(), u16::MAX.into()), (length?.into(), u32::MAX.into()), (start?.into(), u32::MAX.into())];
    // Beside a 64-bit record, a field of all ones refers to it.
    let agrees = |(&(narrow, ones), it): (&(u64, u64), u64)| narrow == it || locator.is_some() && narrow == ones;
    let mut all_agree = narrow.iter().zip(directory).all(agrees);
    if locator.is_some() {
        let record = usize::try_from(last).ok().and_then(|it| file.get(it..)).unwrap_or_default();
        let wide = record.get(32..END_64 as usize).filter(|_| record.starts_with(b"PK\x06\x06"));
        all_agree &= wide == Some(directory.map(u64::to_le_bytes).as_flattened());
    }
    if all_agree { Ok(()) } else { Err("the records at its end disagree about its directory".to_owned()) }
}

/// The lengths of the zip64 end-of-central-directory record and of its locator.
const END_64: u64 = 56;
const LOCATOR: usize = 20;

/// The id of the zip64 extra field.
const SIZES_64: u16 = 1;

/// Writes an uncompressed zip archive of these files. Equal files give equal archives. Zip64 fields are written only
/// where 32 bits do not suffice.
///
/// `rawzip` would write the size of each file behind its content. Readers of streams reject that for uncompressed
/// files.
///
/// # Errors
/// The errors of `out`; [`ErrorKind::InvalidInput`] for a name of 64 KiB or more.
pub(crate) fn write_archive(files: &BTreeMap<String, impl AsRef<[u8]>>, out: &mut dyn Write) -> io::Result<()> {
    let files = files.iter().map(|(name, content)| (&**name, content.as_ref()));
    if files.clone().any(|it| it.0.len() > u16::MAX.into()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a name has 64 KiB or more"));
    }
    write_files(files.map(|(name, content)| (name, content, crc32(content))), out)
}

/// Writes a zip archive of files, each with a name and a checksum.
fn write_files<'a>(files: impl Iterator<Item = (&'a str, &'a [u8], u32)>, out: &mut dyn Write) -> io::Result<()> {
    const UTF8_NAME: u16 = 1 << 11;
    /// The first day that the format can represent: 1980-01-01.
    const DAY: u16 = 1 << 5 | 1;
    /// The format versions with 32-bit fields and with zip64 fields.
    const VERSION: u16 = 20;
    const VERSION_64: u16 = 45;
    let narrow = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    let is_wide = |it: u64| it >= u32::MAX.into();
    let (mut at, mut count, mut directory) = (0u64, 0u64, Vec::new());
    for (name, content, checksum) in files {
        let (size, start) = (content.len() as u64, at);
        let header = |extra: &[u64]| {
            let version = if extra.is_empty() { VERSION } else { VERSION_64 };
            let mut fields: Vec<u8> = [version, UTF8_NAME, 0, 0, DAY].into_iter().flat_map(u16::to_le_bytes).collect();
            fields.extend([checksum, narrow(size), narrow(size)].into_iter().flat_map(u32::to_le_bytes));
            let length = if extra.is_empty() { 0 } else { 4 + 8 * extra.len() as u16 };
            fields.extend([name.len() as u16, length].into_iter().flat_map(u16::to_le_bytes));
            let mut field = Vec::new();
            if length > 0 {
                field.extend([SIZES_64, length - 4].into_iter().flat_map(u16::to_le_bytes));
                field.extend(extra.iter().flat_map(|it| it.to_le_bytes()));
            }
            (fields, field)
        };
        let sizes: &[u64] = if is_wide(size) { &[size, size] } else { &[] };
        let (fields, extra) = header(sizes);
        for part in [b"PK\x03\x04", &*fields, name.as_bytes(), &extra, content] {
            out.write_all(part)?;
            at += part.len() as u64;
        }
        let place: &[u64] = if is_wide(start) { &[start] } else { &[] };
        let (fields, extra) = header(&[sizes, place].concat());
        let made_by = if extra.is_empty() { VERSION } else { VERSION_64 };
        let made_by = made_by.to_le_bytes();
        for part in
            [&b"PK\x01\x02"[..], &made_by, &fields, &[0; 10], &narrow(start).to_le_bytes(), name.as_bytes(), &extra]
        {
            directory.extend_from_slice(part);
        }
        count += 1;
    }
    out.write_all(&directory)?;
    let (length, start) = (directory.len() as u64, at);
    if count >= u16::MAX.into() || is_wide(length) || is_wide(start) {
        let mut record = b"PK\x06\x06".to_vec();
        record.extend((END_64 - 12).to_le_bytes());
        record.extend([VERSION_64, VERSION_64, 0, 0, 0, 0].into_iter().flat_map(u16::to_le_bytes));
        record.extend([count, count, length, start].into_iter().flat_map(u64::to_le_bytes));
        record.extend(b"PK\x06\x07\0\0\0\0");
        record.extend((start + length).to_le_bytes());
        const DISKS: u32 = 1;
        record.extend(DISKS.to_le_bytes());
        out.write_all(&record)?;
    }
    let mut record = b"PK\x05\x06\0\0\0\0".to_vec();
    let entries = u16::try_from(count).unwrap_or(u16::MAX);
    record.extend([entries, entries].map(u16::to_le_bytes).as_flattened());
    record.extend([narrow(length), narrow(start)].map(u32::to_le_bytes).as_flattened());
    const NO_COMMENT: [u8; 2] = [0; 2];
    record.extend(NO_COMMENT);
    out.write_all(&record)
}

/// Decompresses a gzip file with one member (RFC 1952). Returns any other file unchanged.
pub(crate) fn gunzipped(file: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if !file.starts_with(b"\x1f\x8b") {
        return Ok(Cow::Borrowed(file));
    }
    let size = u32::from_le_bytes(*file.last_chunk().ok_or("it ends early")?).into();
    let mut bytes = room(file, size)?;
    let mut decoder = GzDecoder::new(file);
    let broken = |why: io::Error| match why.kind() {
        ErrorKind::UnexpectedEof => format!("it has less than {size} bytes, or ends early"),
        _ => format!("its compressed bytes or its checksum are wrong: {why}"),
    };
    decoder.read_exact(&mut bytes).map_err(broken)?;
    // The decoder checks length and checksum at the end of the member.
    if decoder.read(&mut [0]).map_err(broken)? > 0 || !decoder.into_inner().is_empty() {
        return Err(format!("it has more than one member of {size} bytes"));
    }
    Ok(Cow::Owned(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sparse in-memory file that stores writes by position, except for the zeros of large files.
    #[derive(Default)]
    struct Sparse {
        parts: Vec<(usize, Vec<u8>)>,
        length: usize,
    }

    impl Write for Sparse {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if bytes.len() < 1 << 30 {
                self.parts.push((self.length, bytes.to_vec()));
            }
            self.length += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Only pages with headers take memory.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn more_than_four_gibibytes() {
        let large = vec![0u8; (1 << 32) + 5];
        let files = [("a", &large[..3]), ("b", &large[..u32::MAX as usize]), ("c", &large[..]), ("d", b"behind")];
        let mut written = Sparse::default();
        write_files(files.into_iter().map(|(name, content)| (name, content, crc32(b"behind"))), &mut written)
            .expect("nothing fails");
        let mut archive = vec![0u8; written.length];
        for (at, part) in &written.parts {
            archive[*at..at + part.len()].copy_from_slice(part);
        }
        let read = members(&archive).expect("it is whole");
        let sizes: Vec<_> = read.iter().map(|it| (&*it.name, it.size, it.packed.len())).collect();
        assert_eq!(sizes, files.map(|(name, content)| (name, content.len() as u64, content.len())));
        assert_eq!(*read[3].content().expect("its checksum is right"), *b"behind");
        let end = archive.len() - 1;
        assert!(members(&archive[..end]).is_err());
    }

    #[test]
    fn more_than_65535_files() {
        for count in [65534, 65535, 65536, 70000] {
            let files: BTreeMap<String, [u8; 0]> = (0..count).map(|it| (it.to_string(), [])).collect();
            let mut archive = Vec::new();
            write_archive(&files, &mut archive).expect("nothing fails");
            assert_eq!(members(&archive).expect("it is whole").len(), count);
        }
        let long = BTreeMap::from([("x".repeat(1 << 16), [])]);
        assert_eq!(write_archive(&long, &mut Vec::new()).expect_err("the name").kind(), ErrorKind::InvalidInput);
    }

    /// A small archive with zip64 fields everywhere, at the positions that the format prescribes.
    fn wide() -> Vec<u8> {
        let local = [
            &b"PK\x03\x04\x2d\0\0\0\0\0\0\0\0\0"[..],
            &crc32(b"text").to_le_bytes(),
            &[0xff; 8],
            &[1, 0, 20, 0],
            b"a\x01\0\x10\0",
            &[4u64, 4].map(u64::to_le_bytes).concat(),
            b"text",
        ];
        let (local, extra) = (local.concat(), [4u64, 4, 0].map(u64::to_le_bytes).concat());
        let entry = [
            &b"PK\x01\x02\x2d\0\x2d\0\0\0\0\0\0\0\0\0"[..],
            &crc32(b"text").to_le_bytes(),
            &[0xff; 8],
            &[1, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xff; 4],
            b"a\x09\0\0\0\x01\0\x18\0",
            &extra,
        ];
        let (entry, start) = (entry.concat(), local.len() as u64);
        let numbers = [1, 1, entry.len() as u64, start].map(u64::to_le_bytes).concat();
        let record = [b"PK\x06\x06", &44u64.to_le_bytes()[..], &[45, 0, 45, 0], &[0; 8], &numbers].concat();
        let locator = [b"PK\x06\x07", &[0; 4][..], &(start + entry.len() as u64).to_le_bytes(), &[1, 0, 0, 0]].concat();
        let end = [&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0, 0]].concat();
        [local, entry, record, locator, end].concat()
    }

    #[test]
    fn fields_of_64_bits() {
        let whole = wide();
        let read = members(&whole).expect("it is whole");
        assert_eq!((read.len(), &*read[0].content().expect("it is whole")), (1, &b"text"[..]));
        let refused = |bytes: &[u8], why: &str| {
            let error = members(bytes).map(|_| ()).expect_err(why);
            assert!(error.contains(why), "{error:?} instead of {why:?}");
        };
        for length in 0..whole.len() {
            refused(&whole[..length], "");
        }
        let at = |signature: &[u8]| whole.windows(4).position(|it| it == signature).expect("it is there");
        let [entry, record, locator, end] =
            [b"PK\x01\x02", b"PK\x06\x06", b"PK\x06\x07", b"PK\x05\x06"].map(|it| at(it));
        let with = |place: usize, value: &[u8]| {
            let mut bytes = whole.clone();
            bytes[place..place + value.len()].copy_from_slice(value);
            bytes
        };
        for place in [0, 1, record - 1, record + 1, locator, end, whole.len(), 1 << 40, usize::MAX, usize::MAX - 50] {
            refused(&with(locator + 8, &(place as u64).to_le_bytes()), "it is no zip archive");
        }
        for length in [0, 43, 45, u64::MAX] {
            refused(&with(record + 4, &length.to_le_bytes()), "it is no zip archive");
        }
        let disagree = "the records at its end disagree";
        for count in [0, 2, u64::MAX] {
            refused(&with(record + 24, &count.to_le_bytes()), disagree);
        }
        for place in [0, entry as u64 + 1, record as u64] {
            refused(&with(record + 48, &place.to_le_bytes()), disagree);
        }
        for place in [u64::MAX, u64::MAX - 10, 1 << 33] {
            refused(&with(record + 48, &place.to_le_bytes()), "it is no zip archive");
        }
        for length in [0, 7, u64::MAX] {
            refused(&with(record + 40, &length.to_le_bytes()), disagree);
        }
        for (place, value) in [(8, &[2, 0][..]), (10, &[2, 0]), (12, &[7, 0, 0, 0])] {
            refused(&with(end + place, value), "it is no zip archive");
        }
        refused(&with(end + 16, &7u32.to_le_bytes()), disagree);
        let extra = entry + 46 + 1;
        // Sizes without their wide fields are 4 GiB.
        refused(&with(extra + 6, &[8, 0]), "`a` is not where the directory says");
        refused(&with(extra + 4, &[2]), "`a` is not where the directory says");
        for size in [5, 1 << 33, u64::MAX] {
            let why = if size == 5 { "members overlap" } else { "`a` is not where the directory says" };
            refused(&with(extra + 16, &size.to_le_bytes()), why);
            let bytes = with(extra + 8, &size.to_le_bytes());
            let read = members(&bytes).expect("only its size is wrong");
            assert!(read[0].content().expect_err("its size").contains("instead of"));
        }
        for start in [1, whole.len() as u64, u64::MAX] {
            refused(&with(extra + 24, &start.to_le_bytes()), "`a` is not where the directory says");
        }
    }
}

//! Reads and writes zip archives and gzip files with Deflate compression.

use super::bytes::{take, take_array};
use crc32fast::hash as crc32;
use ms_core::tensor::try_filled;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};

/// The maximum compression ratio of Deflate: two bits can encode a run of 258 bytes.
const MAX_RATIO: usize = 1032;

/// A file in a zip archive.
pub(crate) struct Member<'a> {
    /// The path in the archive. It is never used as a path of the file system.
    pub name: String,
    deflated: bool,
    packed: &'a [u8],
    size: usize,
    checksum: u32,
}

impl<'a> Member<'a> {
    /// Returns the uncompressed bytes.
    pub fn content(&self) -> Result<Cow<'a, [u8]>, String> {
        let bytes = match self.deflated {
            true => Cow::Owned(inflated(self.packed, self.size)?),
            false if self.packed.len() == self.size => Cow::Borrowed(self.packed),
            false => return Err(format!("it has {} bytes instead of {}", self.packed.len(), self.size)),
        };
        if crc32(&bytes) != self.checksum {
            return Err("its checksum is wrong".to_owned());
        }
        Ok(bytes)
    }
}

/// Decompresses a Deflate stream to exactly `size` bytes.
fn inflated(packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    if size / MAX_RATIO > packed.len() {
        return Err(format!("{} compressed bytes cannot be {size}", packed.len()));
    }
    let mut bytes = try_filled(0u8, size).map_err(|it| it.report().message.clone())?;
    let parts = std::iter::once(packed);
    match miniz_oxide::inflate::decompress_slice_iter_to_slice(&mut bytes, parts, false, true) {
        Ok(written) if written == size => Ok(bytes),
        Ok(written) => Err(format!("it has {written} bytes instead of {size}")),
        Err(_) => Err(format!("its compressed bytes are broken, or more than {size}")),
    }
}

/// The length of the end-of-central-directory record, without its comment.
const END: usize = 22;

/// The lengths of the zip64 end-of-central-directory record and of its locator.
const END_64: usize = 56;
const LOCATOR: usize = 20;

/// The id of the zip64 extra field.
const SIZES_64: u16 = 1;

/// The location of the central directory.
struct Directory {
    count: u64,
    start: usize,
    end: usize,
}

/// Lists the members of a zip archive (<https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>).
pub(crate) fn members(file: &[u8]) -> Result<Vec<Member<'_>>, String> {
    let Directory { count, start: directory, end } = directory(file)?;
    let mut entries = &file[directory..end];
    let mut all = Vec::new();
    let mut places = Vec::new();
    for _ in 0..count {
        let (member, place) = member(file, &mut entries).map_err(|why| format!("in its directory, {why}"))?;
        all.push(member);
        places.push(place);
    }
    if !entries.is_empty() {
        return Err(format!("its directory has {} bytes behind its {count} entries", entries.len()));
    }
    // Members that share one stream would make a small file expand to a large one.
    places.sort_by_key(|it| (it.start, it.end));
    let ends = places.iter().map(|it| it.end);
    if places.iter().skip(1).zip(ends).any(|(it, end)| it.start < end) || places.iter().any(|it| it.end > directory) {
        return Err("its members overlap".to_owned());
    }
    Ok(all)
}

/// Finds the central directory by the records at the end of the file.
fn directory(file: &[u8]) -> Result<Directory, String> {
    let last = file.len().checked_sub(END).ok_or("it is no zip archive")?;
    // The archive comment has at most 65535 bytes.
    let first = last.saturating_sub(u16::MAX.into());
    let is_end = |at: &usize| {
        let comment = u16::from_le_bytes([file[at + 20], file[at + 21]]);
        file[*at..].starts_with(b"PK\x05\x06") && at + END + usize::from(comment) == file.len()
    };
    let end = (first..=last).rev().find(is_end).ok_or("it is no zip archive")?;
    let mut fields = &file[end + 4..];
    let [_, _, _, count] = [(); 4].map(|()| take_array(&mut fields).map(u16::from_le_bytes));
    let [length, start] = [(); 2].map(|()| take_array(&mut fields).map(u32::from_le_bytes));
    let narrow =
        [(count?.into(), u16::MAX.into()), (length?.into(), u32::MAX.into()), (start?.into(), u32::MAX.into())];
    let locator = end.checked_sub(LOCATOR).filter(|&at| file[at..].starts_with(b"PK\x06\x07"));
    let (numbers, end) = match locator {
        None => (narrow.map(|it: (u64, u64)| it.0), end),
        Some(at) => {
            let (wide, end) = wide_end(file, at)?;
            // Each field of the short record equals the zip64 record's, or is all ones.
            if narrow.iter().zip(wide).any(|(&(narrow, ones), wide)| narrow != wide && narrow != ones) {
                return Err("it has two directories, of 32 and of 64 bits".to_owned());
            }
            (wide, end)
        }
    };
    let [count, length, start] = numbers;
    let outside = "its directory lies outside of it";
    let start = usize::try_from(start).map_err(|_| outside)?;
    let last = usize::try_from(length).ok().and_then(|it| start.checked_add(it)).filter(|&it| it <= end);
    Ok(Directory { count, start, end: last.ok_or(outside)? })
}

/// Reads the zip64 record that the locator at `locator` points to. Returns the number of entries, the length and the
/// start of the central directory, and the position of the record.
fn wide_end(file: &[u8], locator: usize) -> Result<([u64; 3], usize), String> {
    let mut fields = &file[locator + 4..];
    let _disk: [u8; 4] = take_array(&mut fields)?;
    let at = u64::from_le_bytes(take_array(&mut fields)?);
    let elsewhere = "its record of 64 bits is not where it says";
    let at = usize::try_from(at).ok().filter(|it| it.checked_add(END_64).is_some_and(|end| end <= locator));
    let at = at.ok_or(elsewhere)?;
    let mut record = &file[at..locator];
    if take(&mut record, 4)? != b"PK\x06\x06" {
        return Err(elsewhere.to_owned());
    }
    let length = u64::from_le_bytes(take_array(&mut record)?);
    if length != record.len() as u64 {
        return Err(format!("its record of 64 bits has {} bytes, and says {length}", record.len()));
    }
    take(&mut record, 12)?;
    let [_, count, size, start] = [(); 4].map(|()| take_array(&mut record).map(u64::from_le_bytes));
    Ok(([count?, size?, start?], at))
}

/// Reads the next entry of the central directory. Returns the member, and the range of its local header and data.
fn member<'a>(file: &'a [u8], entries: &mut &[u8]) -> Result<(Member<'a>, std::ops::Range<usize>), String> {
    if take(entries, 4)? != b"PK\x01\x02" {
        return Err("an entry is broken".to_owned());
    }
    take(entries, 4)?;
    let [flags, method, _, _] = [(); 4].map(|()| take_array(entries).map(u16::from_le_bytes));
    let [checksum, packed, size] = [(); 3].map(|()| take_array(entries).map(u32::from_le_bytes));
    let [name, extra, comment, _, _] = [(); 5].map(|()| take_array(entries).map(u16::from_le_bytes));
    let [_, start] = [(); 2].map(|()| take_array(entries).map(u32::from_le_bytes));
    let name = String::from_utf8_lossy(take(entries, name?.into())?).into_owned();
    let extra = take(entries, extra?.into())?;
    take(entries, comment?.into())?;
    let refuse = |why: &str| Err(format!("`{name}` {why}"));
    if flags? & 1 != 0 {
        return refuse("is encrypted");
    }
    let method = method?;
    if ![0, 8].contains(&method) {
        return refuse(&format!("is compressed by method {method}, not by Deflate"));
    }
    let Some([size, packed, start]) = wide_fields([size?, packed?, start?], extra) else {
        return refuse("has 4 GiB or more, without sizes of 64 bits");
    };
    let mut local = usize::try_from(start).ok().and_then(|it| file.get(it..)).unwrap_or_default();
    let header = take(&mut local, 30).ok().filter(|it| it.starts_with(b"PK\x03\x04"));
    let Some(header) = header else { return refuse("is not where the directory says") };
    let length = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let skipped = length(26) + length(28);
    let packed = usize::try_from(packed).map_err(|_| "a member is longer than the file");
    let bytes = take(&mut local, skipped).and_then(|_| take(&mut local, packed?));
    let (Ok(bytes), Ok(size)) = (bytes, usize::try_from(size)) else { return refuse("is longer than the file") };
    // The casts are lossless, since header and data lie in the file.
    let start = start as usize;
    let place = start..start + 30 + skipped + bytes.len();
    Ok((Member { name, deflated: method == 8, packed: bytes, size, checksum: checksum? }, place))
}

/// Widens fields of an entry: fields of all ones are read from the zip64 extra field, in order. Returns `None` if it is
/// too short.
fn wide_fields<const N: usize>(fields: [u32; N], mut extra: &[u8]) -> Option<[u64; N]> {
    let mut wide: &[u8] = &[];
    while extra.len() >= 4 {
        let [kind, length] = [(); 2].map(|()| take_array(&mut extra).map(u16::from_le_bytes));
        let content = take(&mut extra, length.ok()?.into()).ok()?;
        if kind.ok()? == SIZES_64 {
            wide = content;
        }
    }
    let mut all = fields.map(u64::from);
    for field in all.iter_mut().filter(|it| **it == u64::from(u32::MAX)) {
        *field = u64::from_le_bytes(take_array(&mut wide).ok()?);
    }
    Some(all)
}

/// Writes an uncompressed zip archive of these files. Equal files give equal archives. Zip64 fields are written only
/// where 32 bits do not suffice.
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
        record.extend((END_64 as u64 - 12).to_le_bytes());
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
    const TEXT: u8 = 1;
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let Some(mut rest) = file.strip_prefix(b"\x1f\x8b") else { return Ok(Cow::Borrowed(file)) };
    let header: [u8; 8] = take_array(&mut rest)?;
    let [method, flags] = [header[0], header[1]];
    if method != 8 || flags & !(TEXT | CHECKSUM | EXTRA | NAME | COMMENT) != 0 {
        return Err("it is compressed in an unknown way".to_owned());
    }
    if flags & EXTRA != 0 {
        let length = u16::from_le_bytes(take_array(&mut rest)?);
        take(&mut rest, length.into())?;
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|it| *it == 0).ok_or("its header has no end")?;
            take(&mut rest, end + 1)?;
        }
    }
    if flags & CHECKSUM != 0 {
        take(&mut rest, 2)?;
    }
    let (packed, trailer) = rest.split_last_chunk::<8>().ok_or("it ends early")?;
    let [checksum, size] = [0, 4].map(|at| u32::from_le_bytes(std::array::from_fn(|i| trailer[at + i])));
    let bytes = inflated(packed, size as usize)?;
    if crc32(&bytes) != checksum {
        return Err("its checksum is wrong".to_owned());
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
        assert_eq!(sizes, files.map(|(name, content)| (name, content.len(), content.len())));
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
            refused(&with(locator + 8, &(place as u64).to_le_bytes()), "its record of 64 bits is not where it says");
        }
        for length in [0, 43, 45, u64::MAX] {
            refused(&with(record + 4, &length.to_le_bytes()), "its record of 64 bits has 44 bytes");
        }
        for count in [0, 2, u64::MAX] {
            refused(&with(record + 32, &count.to_le_bytes()), "its directory");
        }
        for place in [entry as u64 + 1, record as u64, u64::MAX, u64::MAX - 10, 1 << 33] {
            refused(&with(record + 48, &place.to_le_bytes()), "its directory lies outside of it");
        }
        refused(&with(record + 48, &0u64.to_le_bytes()), "in its directory, an entry is broken");
        for length in [0, 10, u64::MAX] {
            refused(&with(record + 40, &length.to_le_bytes()), "its directory");
        }
        for (place, value) in [(10, 2u16), (8, 2)] {
            let bytes = with(end + place, &value.to_le_bytes());
            // The number of entries on this disk is ignored.
            if place == 10 { refused(&bytes, "it has two directories") } else { assert!(members(&bytes).is_ok()) }
        }
        refused(&with(end + 16, &7u32.to_le_bytes()), "it has two directories");
        let extra = entry + 46 + 1;
        refused(&with(extra + 6, &[8, 0]), "`a` has 4 GiB or more, without sizes of 64 bits");
        refused(&with(extra + 4, &[2]), "`a` has 4 GiB or more, without sizes of 64 bits");
        for size in [5, 1 << 33, u64::MAX] {
            refused(
                &with(extra + 16, &size.to_le_bytes()),
                if size == 5 { "members overlap" } else { "`a` is longer" },
            );
            let bytes = with(extra + 8, &size.to_le_bytes());
            let read = members(&bytes).expect("only its size is wrong");
            assert!(read[0].content().expect_err("its size").contains("instead of"));
        }
        for start in [1, whole.len() as u64, u64::MAX] {
            refused(&with(extra + 24, &start.to_le_bytes()), "`a` is not where the directory says");
        }
    }
}

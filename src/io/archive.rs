//! Compressed files: zip archives and gzip, with Deflate.

use super::bytes::{take, take_array};
use super::crc::crc32;
use ms_core::tensor::try_filled;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The most bytes that one byte of Deflate stands for: a run of 258 bytes takes two bits.
const MAX_RATIO: usize = 1032;

/// A file in a zip archive.
pub(crate) struct Member<'a> {
    /// Its path in the archive, which is nowhere used as a path.
    pub name: String,
    deflated: bool,
    packed: &'a [u8],
    size: usize,
    checksum: u32,
}

impl<'a> Member<'a> {
    /// Its bytes.
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

/// The bytes that a Deflate stream stands for, which are exactly `size`.
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

/// The members of a zip archive (<https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>).
pub(crate) fn members(file: &[u8]) -> Result<Vec<Member<'_>>, String> {
    /// Without its comment.
    const END: usize = 22;
    let last = file.len().checked_sub(END).ok_or("it is no zip archive")?;
    // The comment at the end has at most 65535 bytes.
    let first = last.saturating_sub(u16::MAX.into());
    let is_end = |at: &usize| {
        let comment = u16::from_le_bytes([file[at + 20], file[at + 21]]);
        file[*at..].starts_with(b"PK\x05\x06") && at + END + usize::from(comment) == file.len()
    };
    let end = (first..=last).rev().find(is_end).ok_or("it is no zip archive")?;
    let mut fields = &file[end + 4..];
    let [_, _, _, count] = [(); 4].map(|()| take_array(&mut fields).map(u16::from_le_bytes));
    let [_, directory] = [(); 2].map(|()| take_array(&mut fields).map(u32::from_le_bytes));
    let (count, directory) = (count?, directory? as usize);
    let mut entries = file.get(directory..end).ok_or("its directory lies outside of it")?;
    let mut all = Vec::new();
    let mut places = Vec::new();
    for _ in 0..count {
        let (member, place) = member(file, &mut entries).map_err(|why| format!("in its directory, {why}"))?;
        all.push(member);
        places.push(place);
    }
    // One stream for many members makes a small file large.
    places.sort_by_key(|it| (it.start, it.end));
    let ends = places.iter().map(|it| it.end);
    if places.iter().skip(1).zip(ends).any(|(it, end)| it.start < end) || places.iter().any(|it| it.end > directory) {
        return Err("its members overlap".to_owned());
    }
    Ok(all)
}

/// The member of an entry of the directory, and where its header and its bytes are.
fn member<'a>(file: &'a [u8], entries: &mut &[u8]) -> Result<(Member<'a>, std::ops::Range<usize>), String> {
    if take(entries, 4)? != b"PK\x01\x02" {
        return Err("an entry is broken".to_owned());
    }
    take(entries, 4)?;
    let [flags, method, _, _] = [(); 4].map(|()| take_array(entries).map(u16::from_le_bytes));
    let [checksum, packed, size] = [(); 3].map(|()| take_array(entries).map(u32::from_le_bytes));
    let [name, extra, comment, _, _] = [(); 5].map(|()| take_array(entries).map(u16::from_le_bytes));
    let [_, start] = [(); 2].map(|()| take_array(entries).map(u32::from_le_bytes));
    let (packed, size, start) = (packed?, size?, start? as usize);
    let name = String::from_utf8_lossy(take(entries, name?.into())?).into_owned();
    take(entries, usize::from(extra?) + usize::from(comment?))?;
    let refuse = |why: &str| Err(format!("`{name}` {why}"));
    if flags? & 1 != 0 {
        return refuse("is encrypted");
    }
    let method = method?;
    if [packed, size].contains(&u32::MAX) {
        return refuse("has 4 GiB or more");
    }
    if ![0, 8].contains(&method) {
        return refuse(&format!("is compressed by method {method}, not by Deflate"));
    }
    let mut local = file.get(start..).unwrap_or_default();
    let header = take(&mut local, 30).ok().filter(|it| it.starts_with(b"PK\x03\x04"));
    let Some(header) = header else { return refuse("is not where the directory says") };
    let length = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let skipped = length(26) + length(28);
    let bytes = take(&mut local, skipped).and_then(|_| take(&mut local, packed as usize));
    let Ok(bytes) = bytes else { return refuse("is longer than the file") };
    let place = start..start + 30 + skipped + bytes.len();
    Ok((Member { name, deflated: method == 8, packed: bytes, size: size as usize, checksum: checksum? }, place))
}

/// A zip archive of these files, which are not compressed. Equal files give equal archives.
///
/// # Errors
/// What exceeds the format: an archive of 4 GiB and more, 65,535 files and more, a name of 64 KiB and more.
pub(crate) fn write_archive(files: &BTreeMap<String, impl AsRef<[u8]>>) -> Result<Vec<u8>, String> {
    const VERSION: u16 = 20;
    const UTF8_NAME: u16 = 1 << 11;
    /// The first day that the format has: 1980-01-01.
    const DAY: u16 = 1 << 5 | 1;
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    let size = |it: usize| u32::try_from(it).ok().filter(|it| *it != u32::MAX).ok_or("it has 4 GiB or more");
    for (name, content) in files {
        let content = content.as_ref();
        let length = u16::try_from(name.len()).map_err(|_| "a name has 64 KiB or more")?;
        let (bytes, start) = (size(content.len())?.to_le_bytes(), size(archive.len())?.to_le_bytes());
        let mut fields: Vec<u8> = [VERSION, UTF8_NAME, 0, 0, DAY].into_iter().flat_map(u16::to_le_bytes).collect();
        fields.extend([crc32(content).to_le_bytes(), bytes, bytes].as_flattened());
        fields.extend([length, 0].into_iter().flat_map(u16::to_le_bytes));
        for part in [b"PK\x03\x04", &*fields, name.as_bytes(), content] {
            archive.extend_from_slice(part);
        }
        for part in [b"PK\x01\x02", &VERSION.to_le_bytes()[..], &fields, &[0; 10], &start, name.as_bytes()] {
            directory.extend_from_slice(part);
        }
    }
    let count = u16::try_from(files.len()).ok().filter(|it| *it != u16::MAX).ok_or("it has 65,535 files or more")?;
    let (length, start) = (size(directory.len())?, size(archive.len())?);
    archive.append(&mut directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count, count].map(u16::to_le_bytes).as_flattened());
    archive.extend([length, start].map(u32::to_le_bytes).as_flattened());
    const NO_COMMENT: [u8; 2] = [0; 2];
    archive.extend(NO_COMMENT);
    Ok(archive)
}

/// The bytes of a gzip file with one member (RFC 1952), or the file itself if it is none.
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

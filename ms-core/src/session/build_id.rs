//! What tells the builds of a program apart.

use ms_cache::Digest;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::OnceLock;

/// The build of this program: the note that the linker left in the executable, which is a hash of
/// it; without one, a hash of the file. Nothing where the file cannot be read.
pub(super) fn build_id() -> Option<&'static [u8]> {
    static ID: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let make = || {
        // The file that runs, even where another was put in its place.
        let running = Path::new("/proc/self/exe");
        let path = if running.exists() { running.to_owned() } else { std::env::current_exe().ok()? };
        let mut file = File::open(path).ok()?;
        gnu_note(&mut file).or_else(|| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0)).ok()?;
            file.read_to_end(&mut bytes).ok()?;
            Some(Digest::of(&bytes).as_bytes().to_vec())
        })
    };
    ID.get_or_init(make).as_deref()
}

/// A file from which pieces are read.
trait Pieces: Read + Seek {
    fn piece(&mut self, at: u64, len: u64) -> Option<Vec<u8>> {
        // Headers and notes are small in every file that has them.
        let mut bytes = vec![0; usize::try_from(len).ok().filter(|&it| it <= 1 << 20)?];
        self.seek(SeekFrom::Start(at)).ok()?;
        self.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}

impl<T: Read + Seek> Pieces for T {}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut all = [0; 8];
    all[..N].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(all))
}

/// The build id in the notes of a little-endian 64-bit ELF file.
fn gnu_note(file: &mut impl Pieces) -> Option<Vec<u8>> {
    const PT_NOTE: u64 = 4;
    let header = file.piece(0, 64)?;
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let (at, size, count) = (number::<8>(&header, 32)?, number::<2>(&header, 54)?, number::<2>(&header, 56)?);
    let segments = file.piece(at, size * count)?;
    for segment in segments.chunks_exact((size as usize).max(56)) {
        if number::<4>(segment, 0)? == PT_NOTE
            && let Some(notes) = file.piece(number::<8>(segment, 8)?, number::<8>(segment, 32)?)
            && let Some(id) = find_note(&notes)
        {
            return Some(id);
        }
    }
    None
}

/// The note of the owner `GNU` with number 3.
fn find_note(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD_ID: u64 = 3;
    while let (Some(name), Some(len), Some(kind)) =
        (number::<4>(notes, 0), number::<4>(notes, 4), number::<4>(notes, 8))
    {
        let (name, len) = (name as usize, len as usize);
        let start = 12 + name.next_multiple_of(4);
        let content = notes.get(start..start + len)?;
        if kind == BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") && !content.is_empty() {
            return Some(content.to_vec());
        }
        notes = notes.get(start + len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn this_program_has_a_build() {
        assert!(build_id().is_some_and(|it| it.len() >= 8));
    }

    #[test]
    fn notes_are_read_and_damage_is_none() {
        let note = |kind: u8| [&[4, 0, 0, 0, 3, 0, 0, 0, kind, 0, 0, 0][..], b"GNU\0", &[7, 8, 9, 0]].concat();
        let notes = [note(1), note(3)].concat();
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (file[32], file[54], file[56]) = (64, 56, 1);
        let mut segment = vec![0; 56];
        (segment[0], segment[8], segment[32]) = (4, 120, notes.len() as u8);
        let file = [file, segment, notes].concat();
        assert_eq!(gnu_note(&mut Cursor::new(&file)), Some(vec![7, 8, 9]));
        for len in 0..file.len() - 1 {
            assert_eq!(gnu_note(&mut Cursor::new(&file[..len])), None, "{len} bytes");
        }
    }
}

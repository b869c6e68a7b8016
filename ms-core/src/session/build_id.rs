//! What tells the builds of a program apart.

use ms_cache::Digest;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The build of everything that this process has loaded: of the program and of its libraries, by
/// the notes that the linker left in them, which are hashes of what they hold; where there is none,
/// by a hash of the file. Nothing where a file cannot be read.
pub(super) fn build_id() -> Option<Digest> {
    /// The build, and what was loaded then.
    static KNOWN: Mutex<Option<(loaded::Changes, Option<Digest>)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let changes = loaded::changes();
    match &*known {
        Some((then, build)) if *then == changes => *build,
        _ => known.insert((changes, of_objects(&loaded::objects()))).1,
    }
}

/// A file that was loaded.
struct Object {
    /// Where it is; empty for the program itself.
    path: String,
    /// The note of its build.
    note: Option<Vec<u8>>,
}

fn of_objects(objects: &[Object]) -> Option<Digest> {
    let mut all = Vec::new();
    for Object { path, note } in objects {
        let hash = || Digest::of(note.as_deref().unwrap_or_default());
        all.extend(match note {
            Some(_) => *hash().as_bytes(),
            None => *of_file(path)?.as_bytes(),
        });
    }
    Some(Digest::of(&all))
}

fn of_file(path: &str) -> Option<Digest> {
    // The file that runs, even where another was put in its place.
    let running = Path::new("/proc/self/exe");
    let bytes = match path {
        "" if running.exists() => fs::read(running),
        "" => fs::read(std::env::current_exe().ok()?),
        path => fs::read(path),
    };
    Some(Digest::of(&bytes.ok()?))
}

/// The content of the note of the owner `GNU` with number 3, among ELF notes.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn find_note(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: usize = 3;
    let number = |notes: &[u8], at| -> Option<usize> {
        let bytes: [u8; 4] = notes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes) as usize)
    };
    while let (Some(name), Some(len), Some(kind)) = (number(notes, 0), number(notes, 4), number(notes, 8)) {
        let start = 12 + name.next_multiple_of(4);
        let content = notes.get(start..start + len)?;
        if kind == BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") && !content.is_empty() {
            return Some(content);
        }
        notes = notes.get(start + len.next_multiple_of(4)..)?;
    }
    None
}

/// What the dynamic linker tells.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod loaded {
    use super::{Object, find_note};
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::slice;

    /// How many objects were loaded so far, and how many unloaded.
    pub type Changes = (u64, u64);

    /// `dl_phdr_info` of `link.h`.
    #[repr(C)]
    struct Info {
        /// What is added to addresses in the file.
        base: usize,
        name: *const c_char,
        segments: *const Segment,
        count: u16,
        loaded: u64,
        unloaded: u64,
    }

    /// `Elf64_Phdr` of `elf.h`.
    #[repr(C)]
    struct Segment {
        kind: u32,
        flags: u32,
        offset: u64,
        address: u64,
        physical: u64,
        file_bytes: u64,
        bytes: u64,
        align: u64,
    }

    type Visit = unsafe extern "C" fn(*const Info, usize, *mut c_void) -> c_int;

    unsafe extern "C" {
        fn dl_iterate_phdr(visit: Visit, data: *mut c_void) -> c_int;
    }

    /// Tells whether something was loaded or unloaded since another time.
    pub fn changes() -> Changes {
        unsafe extern "C" fn visit(info: *const Info, _: usize, data: *mut c_void) -> c_int {
            // SAFETY: the linker gives an object, with what stands in `Info` since 2.4 of the C
            // library, and the place that it was called with, which is a `Changes`.
            unsafe { *data.cast::<Changes>() = ((*info).loaded, (*info).unloaded) };
            1
        }
        let mut changes = (0, 0);
        // SAFETY: `visit` takes a place for changes.
        unsafe { dl_iterate_phdr(visit, (&raw mut changes).cast()) };
        changes
    }

    /// The program, then its libraries; without the one that is part of the system's kernel.
    pub fn objects() -> Vec<Object> {
        unsafe extern "C" fn visit(info: *const Info, _: usize, data: *mut c_void) -> c_int {
            // SAFETY: the linker gives an object, whose name and segments live during the call, and
            // the place that it was called with, which is a vector.
            let (info, objects) = unsafe { (&*info, &mut *data.cast::<Vec<Object>>()) };
            // SAFETY: as above; the name ends with a zero.
            let path = unsafe { CStr::from_ptr(info.name) }.to_string_lossy().into_owned();
            if !path.starts_with("linux-vdso") {
                // SAFETY: as above.
                let segments = unsafe { slice::from_raw_parts(info.segments, usize::from(info.count)) };
                let note = note(info.base, segments).map(<[u8]>::to_vec);
                objects.push(Object { path, note });
            }
            0
        }
        let mut objects: Vec<Object> = Vec::new();
        // SAFETY: `visit` takes a place for objects.
        unsafe { dl_iterate_phdr(visit, (&raw mut objects).cast()) };
        objects
    }

    /// The note of a build in the memory of an object.
    fn note(base: usize, segments: &[Segment]) -> Option<&[u8]> {
        const LOAD: u32 = 1;
        const NOTE: u32 = 4;
        const READABLE: u32 = 4;
        let loads = |note: &&Segment| {
            let holds = |it: &&Segment| {
                let end = it.address.checked_add(it.file_bytes);
                it.kind == LOAD
                    && it.flags & READABLE != 0
                    && it.address <= note.address
                    && note.address.checked_add(note.bytes).is_some_and(|it| end.is_some_and(|end| it <= end))
            };
            note.kind == NOTE && segments.iter().any(|it| holds(&it))
        };
        segments.iter().filter(loads).find_map(|it| {
            let at = base.wrapping_add(it.address as usize) as *const u8;
            // SAFETY: the linker has mapped the segment that holds these bytes, to be read.
            find_note(unsafe { slice::from_raw_parts(at, it.bytes as usize) })
        })
    }
}

/// Nobody tells what is loaded: the program stands for all.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod loaded {
    use super::Object;

    pub type Changes = ();

    pub fn changes() -> Changes {}

    pub fn objects() -> Vec<Object> {
        vec![Object { path: String::new(), note: None }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_one_build() {
        let objects = loaded::objects();
        assert_eq!(objects[0].path, "", "the program comes first");
        let build = of_objects(&objects);
        assert!(build.is_some());
        assert_eq!(build_id(), build);
        assert_eq!(build_id(), build, "as it is known");
    }

    /// A change in any part that is loaded is another build.
    #[test]
    fn every_object_counts() {
        let object = |note: Option<&[u8]>| Object { path: String::new(), note: note.map(<[u8]>::to_vec) };
        let builds = [
            vec![object(Some(b"program"))],
            vec![object(None)],
            vec![object(Some(b"program")), object(Some(b"library"))],
            vec![object(Some(b"program")), object(Some(b"another"))],
            vec![object(Some(b"programl")), object(Some(b"ibrary"))],
        ];
        let builds = builds.map(|it| of_objects(&it).expect("this program can be read"));
        for (at, build) in builds.iter().enumerate() {
            assert!(!builds[..at].contains(build), "{at}");
        }
        let missing = Object { path: "/nowhere/libnothing.so".into(), note: None };
        assert_eq!(of_objects(&[missing]), None);
    }

    #[test]
    fn notes_are_read_and_damage_is_none() {
        let note = |kind: u32| {
            let numbers = [4u32, 3, kind].map(u32::to_ne_bytes).concat();
            [&numbers[..], b"GNU\0", &[7, 8, 9, 0]].concat()
        };
        let notes = [note(1), note(3)].concat();
        assert_eq!(find_note(&notes), Some(&[7, 8, 9][..]));
        for len in 0..notes.len() - 1 {
            assert_eq!(find_note(&notes[..len]), None, "{len} bytes");
        }
        assert_eq!(find_note(&[0xff; 64]), None);
    }
}

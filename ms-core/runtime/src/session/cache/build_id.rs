//! Identifies builds of a program.
//!
//! The linker leaves a note in its output, by default a hash of it (the GNU build id). But it can be configured to
//! leave any other note, or none. So the note only locates the entry of an earlier process. The files that contain the
//! code confirm that the build is the same. Their metadata suffices if nothing has changed since; otherwise content
//! hashes decide.

use ms_cache::Digest;
use std::fs::{self, File, Metadata};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Directories of system libraries, whose build ids come from their vendor.
const OF_SYSTEM: [&str; 3] = ["/lib/", "/lib64/", "/usr/lib"];

/// The build of everything that this process has loaded: the program and its libraries.
pub(in crate::session) struct Build {
    notes: Digest,
    /// The program, and the libraries that are not the system's.
    files: Vec<PathBuf>,
    identity: Digest,
    content: OnceLock<Option<Digest>>,
}

impl Build {
    /// Returns the build of this process; `None` if one of its files cannot be found any more.
    pub fn current() -> Option<Arc<Self>> {
        /// The loaded objects, and their build.
        type Known = (loaded::Changes, Option<Arc<Build>>);
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = loaded::changes();
        match &*known {
            Some((then, build)) if *then == changes => build.clone(),
            _ => known.insert((changes, Self::of(&loaded::objects()).map(Arc::new))).1.clone(),
        }
    }

    fn of(objects: &[Object]) -> Option<Self> {
        let (mut notes, mut files) = (Vec::new(), Vec::new());
        for object in objects {
            let note = object.note.as_deref();
            notes.extend(*Digest::of(note.unwrap_or_default()).as_bytes());
            if note.is_none() || !OF_SYSTEM.iter().any(|it| object.path.starts_with(it)) {
                files.push(object.file()?);
            }
        }
        let identity = identity(&files)?;
        Some(Self { notes: Digest::of(&notes), files, identity, content: OnceLock::new() })
    }

    /// Returns the linker's notes. They are equal for all processes of one build, and perhaps across builds.
    pub fn notes(&self) -> &Digest {
        &self.notes
    }

    /// Returns the files' identities in the file system, with their sizes and modification times. They differ between
    /// two builds, and between two copies of one.
    pub fn identity(&self) -> &Digest {
        &self.identity
    }

    /// Returns a hash of the content of the files. It is equal for all processes of one build, and for no others.
    /// Returns `None` if they cannot be read, or change meanwhile.
    pub fn content(&self) -> Option<&Digest> {
        let read = || {
            let mut all = Vec::new();
            for file in &self.files {
                all.extend(*Digest::of_reader(File::open(file).ok()?).ok()?.as_bytes());
            }
            (identity(&self.files)? == self.identity).then(|| Digest::of(&all))
        };
        self.content.get_or_init(read).as_ref()
    }
}

/// A loaded file.
struct Object {
    /// The path; empty for the program itself.
    path: String,
    /// The build note.
    note: Option<Vec<u8>>,
}

impl Object {
    /// Returns the executing file, even if the program's path was replaced; `None` for a library whose path was
    /// replaced.
    fn file(&self) -> Option<PathBuf> {
        let running = PathBuf::from("/proc/self/exe");
        match &*self.path {
            "" if running.exists() => Some(running),
            "" => std::env::current_exe().ok(),
            path => loaded::is_mapped(path).then(|| PathBuf::from(path)),
        }
    }
}

fn identity(files: &[PathBuf]) -> Option<Digest> {
    let mut all = Vec::new();
    for file in files {
        stamp(&fs::metadata(file).ok()?).iter().for_each(|it| all.extend_from_slice(&it.to_le_bytes()));
    }
    Some(Digest::of(&all))
}

/// Returns metadata that changes with a file. Only the system sets the change time.
#[cfg(unix)]
fn stamp(file: &Metadata) -> [i64; 7] {
    use std::os::unix::fs::MetadataExt;
    let [device, inode, size] = [file.dev(), file.ino(), file.size()].map(u64::cast_signed);
    [device, inode, size, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()]
}

/// Returns metadata that changes with a file.
#[cfg(not(unix))]
fn stamp(file: &Metadata) -> [i64; 3] {
    let nanos = |time: std::io::Result<std::time::SystemTime>| {
        let since = time.ok().and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
        since.map_or(0, |it| it.as_nanos() as i64)
    };
    [file.len().cast_signed(), nanos(file.modified()), nanos(file.created())]
}

/// Returns the content of the note of the owner `GNU` with number 3, among ELF notes.
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

/// Queries the dynamic linker.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod loaded {
    use super::{Object, find_note};
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::slice;

    /// The numbers of objects loaded and unloaded so far.
    pub type Changes = (u64, u64);

    /// `dl_phdr_info` of `link.h`.
    #[repr(C)]
    struct Info {
        /// The difference between addresses in memory and in the file.
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

    /// Counts loads and unloads, to detect changes.
    pub fn changes() -> Changes {
        unsafe extern "C" fn visit(info: *const Info, _: usize, data: *mut c_void) -> c_int {
            // SAFETY: the linker passes a live object with the fields of `Info`, since version 2.4 of the C library.
            // `data` is the pointer to a `Changes` that `changes` passed.
            unsafe { *data.cast::<Changes>() = ((*info).loaded, (*info).unloaded) };
            1
        }
        let mut changes = (0, 0);
        // SAFETY: `visit` expects a pointer to a `Changes`, and `changes` is live during the call.
        unsafe { dl_iterate_phdr(visit, (&raw mut changes).cast()) };
        changes
    }

    /// Returns the program, then its libraries, without the vDSO.
    pub fn objects() -> Vec<Object> {
        unsafe extern "C" fn visit(info: *const Info, _: usize, data: *mut c_void) -> c_int {
            // SAFETY: the linker passes an object that is live during the call. `data` is the pointer to a vector that
            // `objects` passed, which nothing else accesses.
            let (info, objects) = unsafe { (&*info, &mut *data.cast::<Vec<Object>>()) };
            // SAFETY: the linker sets `name` to a string that ends with a zero and is live during the call.
            let path = unsafe { CStr::from_ptr(info.name) }.to_string_lossy().into_owned();
            if !path.starts_with("linux-vdso") {
                // SAFETY: the linker sets `segments` to `count` program headers that are live during the call.
                let segments = unsafe { slice::from_raw_parts(info.segments, usize::from(info.count)) };
                let note = note(info.base, segments).map(<[u8]>::to_vec);
                objects.push(Object { path, note });
            }
            0
        }
        let mut objects: Vec<Object> = Vec::new();
        // SAFETY: `visit` expects a pointer to a vector of objects, and `objects` is live during the call.
        unsafe { dl_iterate_phdr(visit, (&raw mut objects).cast()) };
        objects
    }

    /// Returns whether this process maps the file at this path.
    pub fn is_mapped(path: &str) -> bool {
        let Ok(file) = fs::metadata(path) else { return false };
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        // Fields: addresses, permissions, offset, device, inode, path.
        let mut lines = maps.lines().map(|it| it.split_ascii_whitespace().skip(4));
        lines.any(|mut it| it.next() == Some(&file.ino().to_string()) && it.next() == Some(path))
    }

    /// Returns the build note in the memory of an object.
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
            // SAFETY: by the filter, the bytes are inside a readable segment that the linker has mapped.
            find_note(unsafe { slice::from_raw_parts(at, it.bytes as usize) })
        })
    }
}

/// Without information from the linker, the program represents all loaded objects.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod loaded {
    use super::Object;

    pub type Changes = ();

    pub fn changes() -> Changes {}

    pub fn objects() -> Vec<Object> {
        vec![Object { path: String::new(), note: None }]
    }

    pub fn is_mapped(_: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_one_build() {
        let objects = loaded::objects();
        assert_eq!(objects[0].path, "", "the program comes first");
        let (of_objects, first) = (Build::of(&objects), Build::current());
        let (of_objects, first) = (of_objects.expect("this program runs"), first.expect("this program runs"));
        assert!(first.notes() == of_objects.notes() && first.identity() == of_objects.identity());
        assert!(Arc::ptr_eq(&first, &Build::current().expect("this program runs")), "as it is known");
        let bytes = fs::read("/proc/self/exe").expect("this program can be read");
        assert_eq!(first.content(), Some(&Digest::of(Digest::of(&bytes).as_bytes())), "its file, and no other");
    }

    /// A change in any loaded object is a different build.
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
        let builds = builds.map(|it| Build::of(&it).expect("this program runs").notes);
        for (at, build) in builds.iter().enumerate() {
            assert!(!builds[..at].contains(build), "{at}");
        }
        let missing = Object { path: "/nowhere/libnothing.so".into(), note: None };
        assert!(Build::of(&[missing]).is_none());
    }

    /// A file with other content at the same path is a different build. A copy is equal by its content only.
    #[test]
    fn files_are_known_by_their_content() {
        let folder = std::env::temp_dir().join(format!("ms-build-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a writable folder");
        let build = |name: &str, bytes: &[u8]| {
            let file = folder.join(name);
            let _absent = fs::remove_file(&file);
            fs::write(&file, bytes).expect("a writable folder");
            let identity = identity(std::slice::from_ref(&file)).expect("it was written");
            let build = Build { notes: Digest::of(b"fixed"), files: vec![file], identity, content: OnceLock::new() };
            (identity, build.content().copied().expect("it can be read"))
        };
        let (first, copy) = (build("a", b"first"), build("b", b"first"));
        assert!(first.0 != copy.0 && first.1 == copy.1);
        let other = build("a", b"another");
        assert!(first.0 != other.0 && first.1 != other.1);
        let later = Build {
            notes: Digest::of(b""),
            files: vec![folder.join("a")],
            identity: first.0,
            content: OnceLock::new(),
        };
        assert_eq!(later.content(), None, "the file has changed since");
        fs::remove_dir_all(&folder).expect("it was made here");
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

//! The compile cache on disk: what compiled graphs are looked up by, and what is kept of them.
//!
//! The key is what was really built: the canonical graph as it was traced, before anything is
//! expanded, with everything that decides what becomes of it. Whatever goes wrong costs a warning
//! and a compilation, never a result.

use super::context;
use crate::error::{Code, Error};
use crate::exec::{Artifact, Backend, MachineCode};
use crate::ir::Graph;
use crate::lower::Plan;
use crate::stored::{Stored, read_all, stored};
use crate::transform::Residual;
use ms_cache::{Contents, Digest, Key, KeyBuilder, Mapped, Miss, Options, Secret, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Raised whenever the meaning of what is stored changes; `stored-schema.txt` watches over it.
pub(super) const SCHEMA: u32 = 5;

/// The name of the part of keys that says which piece of a function an entry is.
const PIECE: &str = "piece";

/// What an entry holds besides its code.
pub(super) struct Entry {
    /// What is known of the forward part of a derivative.
    pub split: Split,
    /// What making the entry took, in microseconds.
    pub took: u64,
    /// What is run.
    pub plan: Arc<Plan>,
    /// See [`Artifact::table`].
    pub table: Vec<u8>,
}

/// How a derivative is split: see [`Derivative`](super::Derivative).
#[derive(Clone, Default)]
pub(super) struct Split {
    /// Results that take a cotangent.
    pub seeds: Vec<usize>,
    /// What the backward part takes first.
    pub residuals: Vec<Residual>,
}

stored! {
    struct Entry { split: Split, took: u64, plan: Arc<Plan>, table: Vec<u8> }
    struct Split { seeds: Vec<usize>, residuals: Vec<Residual> }
}

stored! { enum Residual { 0 = Input(at: usize), 1 = Saved(at: usize) } }

/// The settings that only the environment has.
struct Environment {
    max_bytes: Option<u64>,
    verify: bool,
    key_file: Option<PathBuf>,
}

impl Environment {
    fn get() -> &'static Self {
        static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| {
            let set = |name: &str| env::var_os(name).filter(|it| !it.is_empty());
            let max_bytes = set("MS_COMPILER_CACHE_MAX_SIZE").and_then(|text| {
                let bytes = text.to_str().and_then(parse_size);
                if bytes.is_none() {
                    warn(&format!("MS_COMPILER_CACHE_MAX_SIZE is a size such as 500M or 2G, not {text:?}"));
                }
                bytes
            });
            Self {
                max_bytes,
                verify: env::var_os("MS_CACHE_VERIFY").is_some_and(|it| it == "1"),
                key_file: set("MS_COMPILER_CACHE_KEY").map(PathBuf::from),
            }
        })
    }

    fn options(&self) -> ms_cache::Result<Options> {
        let mut options = Options::default();
        options.max_bytes = self.max_bytes.unwrap_or(options.max_bytes);
        options.secret = self.key_file.as_deref().map(Secret::read).transpose()?;
        Ok(options)
    }
}

/// A number of bytes, with `K`, `M`, `G` or `T` for powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn warn(message: &str) {
    crate::error::warn(Error::new(Code::Cache, format!("compile cache: {message}")));
}

/// The options that the environment gives to a compile cache: its cap and its secret.
///
/// # Errors
/// A key file that cannot be read or trusted.
pub fn cache_options() -> ms_cache::Result<Options> {
    Environment::get().options()
}

/// Where the compile cache is that the settings name, whether it is used or not; nothing where
/// neither they nor the system name a place.
pub fn cache_path() -> Option<PathBuf> {
    let path = context::read(|it| it.compile_cache_path.clone()).filter(|it| !it.as_os_str().is_empty());
    let named = |name: &str, below: &str| {
        let base = PathBuf::from(env::var_os(name)?);
        base.is_absolute().then(|| base.join(below))
    };
    let path = path.or_else(|| named("XDG_CACHE_HOME", "ms")).or_else(|| named("HOME", ".cache/ms"))?;
    std::path::absolute(path).ok()
}

/// Waits until what the compile cache still has to write is written, or for ten seconds; says
/// whether it is. The end of a process waits by itself.
pub fn flush_cache() -> bool {
    ms_cache::flush()
}

/// How often this process found what it needed in compile caches, and how often not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheUse {
    /// Entries that were found and used.
    pub hits: u64,
    /// Entries that were not there or not usable.
    pub misses: u64,
}

/// What the compile caches of this process were good for so far.
pub fn cache_use() -> CacheUse {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.values().flatten().fold(CacheUse::default(), |sum, disk| CacheUse {
        hits: sum.hits + disk.hits.load(Ordering::Relaxed),
        misses: sum.misses + disk.misses.load(Ordering::Relaxed),
    })
}

/// The caches of this process by path; nothing for one that cannot be opened.
static OPEN: LazyLock<Mutex<BTreeMap<PathBuf, Option<Arc<Disk>>>>> = LazyLock::new(Mutex::default);

/// An open cache.
pub(super) struct Disk {
    store: Store,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Microseconds.
    saved: AtomicU64,
    /// What was warned of.
    warned: Mutex<BTreeSet<&'static str>>,
}

impl Disk {
    /// The cache that the settings ask for; nothing where they ask for none, or where it cannot be
    /// opened, which is said once.
    pub fn current() -> Option<Arc<Self>> {
        // Who wants to see the graphs of all stages wants to see them made.
        if !context::read(|it| it.enable_compile_cache && it.save_graphs == 0) {
            return None;
        }
        let path = cache_path().unwrap_or_default();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(path).or_insert_with_key(|path| Self::open(path)).clone()
    }

    fn open(path: &Path) -> Option<Arc<Self>> {
        if path.as_os_str().is_empty() {
            warn("no place is known for it; set MS_COMPILER_CACHE_PATH");
            return None;
        }
        let store = match Environment::get().options().and_then(|options| Store::open(path, &options)) {
            Ok(store) => store,
            Err(error) => {
                warn(&error.to_string());
                return None;
            }
        };
        let disk = Arc::new(Self {
            store,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            warned: Mutex::default(),
        });
        let at_end = disk.clone();
        ms_cache::at_end(move || at_end.record());
        Some(disk)
    }

    /// Adds what this process gained to the sums in the cache; done once.
    fn record(&self) {
        let [hits, misses, saved] = [&self.hits, &self.misses, &self.saved].map(|it| it.load(Ordering::Relaxed));
        // A directory that cannot be written keeps the sums it has.
        let _ = self.store.record(hits, misses, Duration::from_micros(saved));
    }

    /// Warns once of each kind.
    fn warn(&self, kind: &'static str, message: &str) {
        if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(kind) {
            warn(message);
        }
    }
}

impl Disk {
    /// The contents of an entry; why they are ignored is said once.
    fn mapped(&self, found: Result<Mapped, Miss>) -> Option<Mapped> {
        match &found {
            Err(Miss::Absent) | Ok(_) => {}
            Err(miss @ Miss::Distrusted(_)) => self.warn("distrusted", &miss.to_string()),
            Err(miss @ Miss::Damaged(_)) => self.warn("damaged", &miss.to_string()),
            Err(miss) => self.warn("unreadable", &miss.to_string()),
        }
        found.ok()
    }

    /// An entry that is data alone.
    pub fn read<T: Stored>(&self, key: &Key) -> Option<T> {
        let mapped = self.mapped(self.store.get(key))?;
        let value = read_all(mapped.data());
        if value.is_none() {
            self.warn("strange", "an entry is ignored: it is not one of this version");
        }
        value
    }

    /// Writes an entry that is data alone, in the background.
    pub fn write<T: Stored + Send + 'static>(self: Arc<Self>, key: Key, notes: Vec<(String, String)>, value: T) {
        ms_cache::in_background(move || {
            let mut data = Vec::new();
            value.write(&mut data);
            let notes: Vec<(&str, &str)> = notes.iter().map(|it| (&*it.0, &*it.1)).collect();
            self.put(&key, &Contents { notes: &notes, data: &data, code: &[] });
        });
    }

    fn put(&self, key: &Key, contents: &Contents<'_>) {
        if let Err(error) = self.store.put(key, contents) {
            self.warn("unwritten", &error.to_string());
        }
    }
}

/// Where in a cache a function is.
#[derive(Clone)]
pub(super) struct Place {
    disk: Arc<Disk>,
    at: At,
}

/// How an entry is known.
#[derive(Clone)]
enum At {
    /// By everything that it was made of.
    Parts {
        key: Arc<Key>,
        /// Everything but the piece.
        parts: KeyBuilder,
        piece: String,
        notes: Arc<Vec<(String, String)>>,
    },
    /// By its key alone: it can be found, and not made.
    Hash(Digest),
}

/// The definition of a function, for notes.
#[derive(Clone, Copy)]
pub struct Site {
    /// The file.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// A hash of its text.
    pub source: u64,
}

/// An entry that was found.
pub(super) struct Found {
    pub entry: Entry,
    pub artifact: Artifact,
}

impl Place {
    /// The place of a graph as it was traced, whose canonical bytes are `bytes`; nothing where no
    /// cache is asked for.
    pub fn of(
        graph: &Graph,
        bytes: &[u8],
        configuration: &[(&'static str, String)],
        backend: &dyn Backend,
        site: Option<Site>,
    ) -> Option<Self> {
        let disk = Disk::current()?;
        let types: Vec<_> = graph.inputs().iter().map(|&it| graph.ty(it).to_string()).collect();
        let mut parts = vec![
            ("signature", types.join(", ")),
            ("compiler", env!("MS_CORE_SOURCES").to_owned()),
            ("backend", format!("{} {}", backend.name(), backend.sources())),
            ("target", backend.fingerprint()),
        ];
        parts.extend(configuration.iter().cloned());
        let key = key_of(bytes, &parts);
        let mut notes: Vec<_> = parts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        notes.push(("function".into(), graph.name().to_owned()));
        if let Some(Site { file, line, source }) = site {
            notes.push(("defined".into(), format!("{file}:{line}")));
            notes.push(("source".into(), format!("{source:016x}")));
        }
        Some(Self { disk, at: At::of(key, String::new(), Arc::new(notes)) })
    }

    /// The place with this key.
    pub fn with_key(disk: Arc<Disk>, key: Digest) -> Self {
        Self { disk, at: At::Hash(key) }
    }

    /// The place of a piece of this one: its derivative's forward or backward part, or it at sizes.
    pub fn piece(&self, name: String) -> Self {
        let At::Parts { parts, piece, notes, .. } = &self.at else { return self.clone() };
        let piece = if piece.is_empty() { name } else { format!("{piece}; {name}") };
        Self { disk: self.disk.clone(), at: At::of(parts.clone(), piece, notes.clone()) }
    }

    /// The key.
    pub fn key(&self) -> Digest {
        match &self.at {
            At::Parts { key, .. } => *key.hash(),
            At::Hash(hash) => *hash,
        }
    }

    /// The entry, ready to be loaded.
    pub fn get(&self) -> Option<Found> {
        let found = match &self.at {
            At::Parts { key, .. } => self.disk.store.get(key),
            At::Hash(hash) => self.disk.store.get_by_hash(hash),
        };
        let found = self.disk.mapped(found).and_then(|it| self.decode(&it));
        if found.is_none() {
            self.disk.misses.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    fn decode(&self, mapped: &Mapped) -> Option<Found> {
        let entry = read_all::<Entry>(mapped.data()).filter(|it| it.plan.is_sound());
        let Some(entry) = entry else {
            self.disk.warn("strange", "an entry is ignored: its plan is not one of this version");
            return None;
        };
        let code = match mapped.executable() {
            Some(pages) => MachineCode::Executable(Arc::new(pages)),
            None => MachineCode::Bytes(mapped.code().to_vec()),
        };
        let artifact = Artifact { table: entry.table.clone(), code };
        Some(Found { entry, artifact })
    }

    /// Notes that an entry was used, and what that saved.
    pub fn used(&self, took: Duration, entry: &Entry) {
        self.disk.hits.fetch_add(1, Ordering::Relaxed);
        let saved = entry.took.saturating_sub(took.as_micros() as u64);
        self.disk.saved.fetch_add(saved, Ordering::Relaxed);
    }

    /// Notes that an entry was found and could not be used.
    pub fn refused(&self, why: &str) {
        self.disk.misses.fetch_add(1, Ordering::Relaxed);
        self.disk.warn("refused", why);
    }

    /// Writes an entry in the background; what has no artifact yet is compiled there.
    pub fn put(
        &self,
        backend: &'static dyn Backend,
        plan: Arc<Plan>,
        artifact: Option<Artifact>,
        split: Split,
        took: Duration,
    ) {
        let At::Parts { key, piece, notes, .. } = self.at.clone() else { return };
        let disk = self.disk.clone();
        ms_cache::in_background(move || {
            let artifact = artifact.map_or_else(|| backend.compile(&plan), Ok);
            // What cannot be compiled ahead is compiled in every process.
            let Ok(Artifact { table, code }) = artifact else { return };
            let entry = Entry { split, took: took.as_micros() as u64, plan, table };
            let mut data = Vec::new();
            entry.write(&mut data);
            let mut notes: Vec<(&str, &str)> = notes.iter().map(|it| (&*it.0, &*it.1)).collect();
            let took = entry.took.to_string();
            notes.extend([(PIECE, &*piece), ("took_us", &took)]);
            disk.put(&key, &Contents { notes: &notes, data: &data, code: code.as_ref() });
        });
    }

    /// Whether every entry is compared with a fresh compilation before it is used.
    pub fn verifies() -> bool {
        Environment::get().verify
    }
}

/// The key of a graph and of everything else that decides what becomes of it.
fn key_of(graph: &[u8], parts: &[(&str, String)]) -> KeyBuilder {
    let key = KeyBuilder::new(SCHEMA).part("graph", graph);
    parts.iter().fold(key, |key, (name, text)| key.part(name, text.as_bytes()))
}

impl At {
    fn of(parts: KeyBuilder, piece: String, notes: Arc<Vec<(String, String)>>) -> Self {
        let key = Arc::new(parts.clone().part(PIECE, piece.as_bytes()).finish());
        Self::Parts { key, parts, piece, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::Description;

    #[test]
    fn sizes_have_units() {
        let cases = [("17", Some(17)), ("2G", Some(2 << 30)), (" 5 mb ", Some(5 << 20)), ("1KiB", Some(1024))];
        let refused = ["", "G", "2X", "-1", "99999999T"].map(|it| (it, None));
        for (text, want) in cases.into_iter().chain(refused) {
            assert_eq!(parse_size(text), want, "{text:?}");
        }
    }

    /// Another compiler, backend or target has other entries. Programs cannot change these parts
    /// without building the compiler anew, so that they are changed here.
    #[test]
    fn every_part_counts() {
        let parts = ["compiler", "backend", "target", "precision", "optimize", "lower", "signature"];
        let parts = parts.map(|name| (name, "as it is".to_owned()));
        let key = |graph: &[u8], parts: &[(&str, String)]| *key_of(graph, parts).finish().hash();
        let first = key(b"graph", &parts);
        assert_ne!(key(b"another", &parts), first);
        for at in 0..parts.len() {
            let mut changed = parts.clone();
            changed[at].1 = "changed".to_owned();
            assert_ne!(key(b"graph", &changed), first, "{}", parts[at].0);
        }
        assert_eq!(env!("MS_CORE_SOURCES").len(), 64, "the sources have a hash");
    }

    /// What is stored changed: raise [`SCHEMA`], and add a line for it to `stored-schema.txt`.
    #[test]
    fn a_changed_type_has_another_schema() {
        let mut types = Description::new();
        Entry::describe(&mut types);
        super::super::pure::PureEntry::describe(&mut types);
        let all: String = types.iter().map(|(name, parts)| format!("{name}: {parts}\n")).collect();
        let now = format!("{SCHEMA} {}", ms_cache::Digest::of(all.as_bytes()));
        let lines: Vec<&str> = include_str!("stored-schema.txt").lines().collect();
        for (i, line) in lines.iter().enumerate() {
            assert!(line.starts_with(&format!("{} ", i + 1)), "line {} is of schema {}", i + 1, i + 1);
        }
        assert_eq!(lines.last().copied(), Some(&*now), "what is stored now:\n{all}");
    }
}

//! Manages the compile cache on disk: its location and its statistics.
//!
//! Any failure costs a warning and a compilation, never a result.

use crate::session::context;
use ms_cache::{Contents, Key, Mapped, Miss, Options, Secret, Store};
use ms_ir::MapVec;
use ms_ir::environment::Variable;
use ms_ir::environment_variables;
use ms_ir::error::{Code, Error};
use ms_ir::stored::{Stored, read_all};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

environment_variables! {
    static MAX_SIZE: Variable<u64> = Variable::new(
        "MS_COMPILER_CACHE_MAX_SIZE",
        |it| parse_size(it.to_str()?),
        || "a size such as 500M or 2G".to_owned(),
    );
    static VERIFY: Variable<bool> = Variable::switch("MS_CACHE_VERIFY");
    static KEY: Variable<PathBuf> = Variable::path("MS_COMPILER_CACHE_KEY");
}

/// Parses a number of bytes, with `K`, `M`, `G` or `T` for powers of 1024.
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
    ms_ir::error::warn(Error::new(Code::Cache, format!("compile cache: {message}")));
}

/// Returns the options of a compile cache from the environment: its cap and its secret.
///
/// ```
/// let options = ms_core::session::cache_options()?;
/// assert!(options.max_bytes > 0);
/// # Ok::<(), ms_cache::Error>(())
/// ```
///
/// # Errors
/// Fails if a key file cannot be read or trusted.
pub fn cache_options() -> ms_cache::Result<Options> {
    let mut options = Options::default();
    options.max_bytes = MAX_SIZE.value().unwrap_or(options.max_bytes);
    options.secret = KEY.value().as_deref().map(Secret::read).transpose()?;
    Ok(options)
}

/// Returns whether every entry is compared with a fresh compilation before it is used.
pub(in crate::session) fn verifies() -> bool {
    static VERIFIES: OnceLock<bool> = OnceLock::new();
    *VERIFIES.get_or_init(|| VERIFY.value().unwrap_or(false))
}

/// Returns the path of the compile cache according to the settings, whether it is used or not. Returns `None` if
/// neither they nor the system determine one.
///
/// ```
/// use ms_core::session::{Context, cache_path, context, with_context};
/// let own = Context { compile_cache_path: Some("/tmp/cache".into()), ..context() };
/// assert_eq!(with_context(own, cache_path), Some("/tmp/cache".into()));
/// ```
pub fn cache_path() -> Option<PathBuf> {
    let path = context::read(|it| it.compile_cache_path.clone()).filter(|it| !it.as_os_str().is_empty());
    let named = |name: &str, below: &str| {
        let base = PathBuf::from(env::var_os(name)?);
        base.is_absolute().then(|| base.join(below))
    };
    let path = path.or_else(|| named("XDG_CACHE_HOME", "ms")).or_else(|| named("HOME", ".cache/ms"))?;
    std::path::absolute(path).ok()
}

/// Waits until pending writes of the compile cache are done, or for ten seconds, and returns whether they are. A
/// process that exits waits for them too.
///
/// ```
/// use ms_core::session::flush_cache;
/// assert!(flush_cache(), "nothing is being written");
/// ```
pub fn flush_cache() -> bool {
    ms_cache::flush()
}

/// The numbers of hits and misses of this process in compile caches.
///
/// See the example of [`cache_use`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheUse {
    /// Entries that were found and used.
    pub hits: u64,
    /// Entries that were missing or not usable.
    pub misses: u64,
}

/// Returns the use of the compile caches by this process so far.
///
/// ```
/// use ms_core::session::{CacheUse, cache_use};
/// // The cache is disabled unless the settings or the environment enable it.
/// let CacheUse { hits, misses } = cache_use();
/// println!("{hits} hits, {misses} misses");
/// # assert_eq!((hits, misses), (0, 0));
/// ```
pub fn cache_use() -> CacheUse {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.values().flatten().fold(CacheUse::default(), |sum, disk| CacheUse {
        hits: sum.hits + disk.hits.load(Ordering::Relaxed),
        misses: sum.misses + disk.misses.load(Ordering::Relaxed),
    })
}

/// The caches of this process by path; `None` for a cache that cannot be opened.
static OPEN: LazyLock<Mutex<BTreeMap<PathBuf, Option<Arc<Disk>>>>> = LazyLock::new(Mutex::default);

/// An open cache.
pub(in crate::session) struct Disk {
    store: Store,
    hits: AtomicU64,
    misses: AtomicU64,
    /// The compilation time saved, in microseconds.
    saved: AtomicU64,
    /// The kinds of warnings that were printed.
    warned: Mutex<BTreeSet<&'static str>>,
}

impl Disk {
    /// Returns the cache of the settings; `None` if it is disabled, or cannot be opened, which is reported once.
    pub fn current() -> Option<Arc<Self>> {
        // All stages have to run if graphs are saved.
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
        let store = match cache_options().and_then(|options| Store::open(path, &options)) {
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

    /// Adds the counts of this process to the totals in the cache, once.
    fn record(&self) {
        let [hits, misses, saved] = [&self.hits, &self.misses, &self.saved].map(|it| it.load(Ordering::Relaxed));
        // A read-only directory keeps its totals.
        if let Err(error @ ms_cache::Error::Statistics(..)) =
            self.store.record(hits, misses, Duration::from_micros(saved))
        {
            self.warn("statistics", &error.to_string());
        }
    }

    /// Counts a hit, and the microseconds that it saved.
    pub fn used(&self, saved: u64) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.saved.fetch_add(saved, Ordering::Relaxed);
    }

    /// Counts a miss.
    pub fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Warns once of each kind.
    pub fn warn(&self, kind: &'static str, message: &str) {
        if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(kind) {
            warn(message);
        }
    }
}

impl Disk {
    /// Returns the entry that `find` finds in the store. The reason for ignoring an entry is reported once.
    pub fn find(&self, find: impl FnOnce(&Store) -> Result<Mapped, Miss>) -> Option<Mapped> {
        let found = find(&self.store);
        match &found {
            Err(Miss::Absent) | Ok(_) => {}
            Err(miss @ Miss::Distrusted(_)) => self.warn("distrusted", &miss.to_string()),
            Err(miss @ Miss::Damaged(_)) => self.warn("damaged", &miss.to_string()),
            Err(miss) => self.warn("unreadable", &miss.to_string()),
        }
        found.ok()
    }

    /// Returns an entry without code.
    pub fn read<T: Stored>(&self, key: &Key) -> Option<T> {
        let mapped = self.find(|it| it.get(key))?;
        let value = read_all(mapped.data());
        if value.is_none() {
            self.warn("strange", "an entry is ignored: it is not one of this version");
        }
        value
    }

    /// Writes an entry, with notes by name.
    pub fn put(&self, key: &Key, notes: &[(&str, String)], data: &[u8], code: &[u8]) {
        let notes: Vec<(&str, &str)> = notes.map_vec(|it| (it.0, &*it.1));
        if let Err(error) = self.store.put(key, &Contents { notes: &notes, data, code }) {
            self.warn("unwritten", &error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let cases = [("17", Some(17)), ("2G", Some(2 << 30)), (" 5 mb ", Some(5 << 20)), ("1KiB", Some(1024))];
        let refused = ["", "G", "2X", "-1", "99999999T"].map(|it| (it, None));
        for (text, want) in cases.into_iter().chain(refused) {
            assert_eq!(parse_size(text), want, "{text:?}");
        }
    }
}

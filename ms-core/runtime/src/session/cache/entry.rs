//! Defines the keys and the entries of compiled graphs in the compile cache.
//!
//! The key is computed from the actual input of the compilation: the canonical traced graph, before any expansion, and
//! everything else that determines the code.

use super::build_id::Build;
use super::disk::Disk;
use ms_cache::{Digest, Key, KeyBuilder, Mapped, Store};
use ms_compile::exec::{Artifact, Backend, Interface, MachineCode, Program};
use ms_ir::Graph;
use ms_ir::MapVec;
use ms_ir::stored::{Reader, Stored, stored};
use ms_ops::ops::custom::has_unversioned;
use ms_trace::transform::Residual;
use std::sync::Arc;
use std::time::Duration;

/// Incremented whenever the meaning of stored values changes; `stored-schema.txt` tests it.
pub(in crate::session) const SCHEMA: u32 = 26;

/// The name of the part of keys that identifies the piece of a function that an entry contains.
const PIECE: &str = "piece";

/// The content of an entry without the backend's bytes. The bytes of the program follow it, and the code is separate.
pub(in crate::session) struct Entry {
    /// The split of the forward part of a derivative.
    pub split: Split,
    /// The time in microseconds that compiling the entry took.
    pub took: u64,
    /// The interface of the program, which is known without the backend.
    pub interface: Interface,
}

/// The split of a derivative: see [`Derivative`](crate::session::Derivative).
#[derive(Clone, Default)]
pub(in crate::session) struct Split {
    /// Results that have a cotangent.
    pub seeds: Vec<usize>,
    /// The first inputs of the backward part.
    pub residuals: Vec<Residual>,
    /// Inputs with gradients that are added to partial sums.
    pub sums: Vec<usize>,
}

stored! {
    struct Entry { split: Split, took: u64, interface: Interface }
    struct Split { seeds: Vec<usize>, residuals: Vec<Residual>, sums: Vec<usize> }
}

/// The location of a function in a cache.
#[derive(Clone)]
pub(crate) struct CacheSlot {
    disk: Arc<Disk>,
    at: At,
}

/// The identity of an entry.
#[derive(Clone)]
enum At {
    /// All parts of its key.
    Parts {
        key: Arc<Key>,
        /// All parts except the piece.
        parts: KeyBuilder,
        piece: String,
        notes: Arc<Notes>,
    },
    /// Only its key: it can be loaded, but not compiled.
    Hash(Digest),
}

/// Everything besides a graph that determines its compiled code, as parts of its key.
pub(in crate::session) struct Making {
    texts: Vec<(&'static str, String)>,
    /// A key with these parts.
    pub key: KeyBuilder,
}

impl Making {
    /// Collects the parts of this compiler, this backend and these settings.
    pub fn new(backend: &dyn Backend, settings: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut texts = vec![
            ("compiler", crate::SOURCES.join(" ")),
            ("backend", format!("{} {}", backend.name(), backend.sources())),
            ("target", format!("{}, {:?}", backend.fingerprint(), backend.target())),
        ];
        texts.extend(settings);
        let key = KeyBuilder::new(SCHEMA);
        let key = texts.iter().fold(key, |key, (name, text)| key.part(*name, text.as_bytes()));
        Self { texts, key }
    }
}

/// The notes of an entry, for people.
pub(in crate::session) struct Notes {
    pub making: &'static Making,
    pub signature: String,
    pub function: String,
    pub site: Option<Site>,
    /// The level of the cache, if it is not the level of graphs.
    pub level: &'static str,
}

impl Notes {
    /// Returns the names and texts of the notes.
    pub fn texts(&self) -> Vec<(&'static str, String)> {
        let mut texts = self.making.texts.clone();
        texts.extend([("signature", self.signature.clone()), ("function", self.function.clone())]);
        if let Some(Site { file, line, source }) = self.site {
            texts.extend([("defined", format!("{file}:{line}")), ("source", format!("{source:016x}"))]);
        }
        if !self.level.is_empty() {
            texts.push(("level", self.level.to_owned()));
        }
        texts
    }
}

/// The definition site of a function, for notes.
#[derive(Clone, Copy)]
pub struct Site {
    /// The file.
    pub file: &'static str,
    /// The line.
    pub line: u32,
    /// A hash of the source text.
    pub source: u64,
}

/// A loaded entry.
pub(in crate::session) struct Found {
    pub artifact: Artifact,
    /// See [`Entry::split`].
    pub split: Split,
    /// See [`Entry::took`].
    pub took: u64,
}

impl CacheSlot {
    /// Returns the location of a traced graph with the canonical bytes `bytes`; `None` if the cache is disabled.
    ///
    /// The derivative of a custom op without a version may depend on any code of the program, so the key then includes
    /// the build.
    pub fn of(
        graph: &Graph,
        bytes: &[u8],
        making: impl FnOnce() -> &'static Making,
        site: Option<Site>,
    ) -> Option<Self> {
        let disk = Disk::current()?;
        let making = making();
        let types: Vec<_> = graph.inputs().map_vec(|&it| graph.ty(it).to_string());
        let signature = types.join(", ");
        let mut key = making.key.clone().part("graph", bytes).part("signature", signature.as_bytes());
        if has_unversioned(graph) {
            let build = Build::current()?;
            key = key.part("build", build.content()?.as_bytes());
        }
        let notes = Notes { making, signature, function: graph.name().to_owned(), site, level: "" };
        Some(Self { disk, at: At::of(key, String::new(), Arc::new(notes)) })
    }

    /// Returns the location with this key.
    pub fn with_key(disk: Arc<Disk>, key: Digest) -> Self {
        Self { disk, at: At::Hash(key) }
    }

    /// Returns the location of a piece of this one: the forward or backward part of its derivative, or its graph at
    /// constant sizes.
    pub fn piece(&self, name: String) -> Self {
        let At::Parts { parts, piece, notes, .. } = &self.at else { return self.clone() };
        let piece = if piece.is_empty() { name } else { format!("{piece}; {name}") };
        Self { disk: self.disk.clone(), at: At::of(parts.clone(), piece, notes.clone()) }
    }

    /// Returns the location of the same graph for another backend; `None` if only the key is known.
    pub fn on(&self, making: &'static Making) -> Option<Self> {
        let At::Parts { parts, piece, notes, .. } = &self.at else { return None };
        let parts = making.texts.iter().fold(parts.clone(), |it, (name, text)| it.with_part(name, text.as_bytes()));
        let Notes { signature, function, site, level, .. } = &**notes;
        let notes = Notes { making, signature: signature.clone(), function: function.clone(), site: *site, level };
        Some(Self { disk: self.disk.clone(), at: At::of(parts, piece.clone(), Arc::new(notes)) })
    }

    /// The key.
    pub fn key(&self) -> Digest {
        match &self.at {
            At::Parts { key, .. } => *key.hash(),
            At::Hash(hash) => *hash,
        }
    }

    /// Returns the entry, ready to be loaded.
    pub fn get(&self) -> Option<Found> {
        let find = |store: &Store| match &self.at {
            At::Parts { key, .. } => store.get(key),
            At::Hash(hash) => store.get_by_hash(hash),
        };
        let found = self.disk.find(find).and_then(|it| self.decode(&it));
        if found.is_none() {
            self.disk.missed();
        }
        found
    }

    fn decode(&self, mapped: &Mapped) -> Option<Found> {
        let mut from = Reader::new(mapped.data());
        let Some(Entry { split, took, interface }) = Entry::read(&mut from) else {
            self.disk.warn("strange", "an entry is ignored: it is not one of this version");
            return None;
        };
        let code = match mapped.executable() {
            Some(pages) => MachineCode::Executable(Arc::new(pages)),
            None => MachineCode::Bytes(mapped.code().to_vec()),
        };
        let artifact = Artifact { interface, program: Program::Bytes(from.rest().into()), code };
        Some(Found { artifact, split, took })
    }

    /// Counts the use of an entry that was loaded in `took`. It saved the rest of `compiling`, in microseconds.
    pub fn used(&self, took: Duration, compiling: u64) {
        self.disk.used(compiling.saturating_sub(took.as_micros() as u64));
    }

    /// Counts an entry that was found but could not be used.
    pub fn refused(&self, why: &str) {
        self.disk.missed();
        self.disk.warn("refused", why);
    }

    /// Writes an entry in the background.
    pub fn put(&self, Artifact { interface, program, code }: Artifact, split: Split, took: Duration) {
        let At::Parts { key, piece, notes, .. } = &self.at else { return };
        let (key, piece, notes, disk) = (key.clone(), piece.clone(), notes.clone(), self.disk.clone());
        let took = took.as_micros() as u64;
        // The bytes are much smaller than the program, whose memory the next compilation can reuse.
        let mut data = Vec::new();
        Entry { split, took, interface }.write(&mut data);
        program.write(&mut data);
        drop(program);
        ms_cache::in_background(move || {
            let mut notes = notes.texts();
            notes.extend([(PIECE, piece), ("took_us", took.to_string())]);
            disk.put(&key, &notes, &data, code.as_ref());
        });
    }
}

impl At {
    fn of(parts: KeyBuilder, piece: String, notes: Arc<Notes>) -> Self {
        let key = Arc::new(parts.clone().part(PIECE, piece.as_bytes()).finish());
        Self::Parts { key, parts, piece, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_compile::exec::{CompileOptions, Executable, StepCode};
    use ms_compile::lower::Plan;
    use ms_compile::lower::eager::Step;
    use ms_compile::target::Target;
    use ms_ir::stored::Description;

    /// A different compiler, backend, target or setting has different entries. The test varies the parts that programs
    /// cannot change without rebuilding the compiler.
    #[test]
    fn every_part_counts() {
        struct Made([&'static str; 3], Target);
        // SAFETY: the test only computes keys, so neither `load` nor an executable of this backend ever runs.
        unsafe impl Backend for Made {
            fn name(&self) -> &'static str {
                self.0[0]
            }
            fn sources(&self) -> &'static str {
                self.0[1]
            }
            fn fingerprint(&self) -> String {
                self.0[2].to_owned()
            }
            fn target(&self) -> &Target {
                &self.1
            }
            fn compile(&self, _: &Graph, _: &CompileOptions<'_>) -> crate::Result<Artifact> {
                unreachable!("nothing is compiled here")
            }
            unsafe fn load(&self, _: &Artifact) -> crate::Result<Arc<dyn Executable>> {
                unreachable!("nothing is compiled here")
            }
            fn describe(&self, _: &Graph, _: &CompileOptions<'_>) -> crate::Result<String> {
                unreachable!("nothing is compiled here")
            }
            fn compile_step(&self, _: &Step) -> crate::Result<Arc<dyn StepCode>> {
                unreachable!("nothing is compiled here")
            }
        }
        let key_for = |target, backend, setting: &str| {
            *Making::new(&Made(backend, target), [("precision", setting.to_owned())]).key.finish().hash()
        };
        let key = |backend, setting| key_for(Target::unbounded(), backend, setting);
        let first = key(["cpu", "sources", "avx2"], "Strict");
        let other = Target { small_elements: 7, ..Target::unbounded() };
        let changed = [
            key(["gpu", "sources", "avx2"], "Strict"),
            key(["cpu", "changed", "avx2"], "Strict"),
            key(["cpu", "sources", "avx512"], "Strict"),
            key(["cpu", "sources", "avx2"], "Highest"),
            key_for(other, ["cpu", "sources", "avx2"], "Strict"),
        ];
        assert!(changed.iter().all(|it| *it != first));
        let making = Making::new(&Made(["cpu", "sources", "avx2"], Target::unbounded()), []);
        let parts = making.key.clone().finish();
        assert_eq!(
            parts.part("compiler").map(ms_cache::Part::hash),
            Some(&Digest::of(crate::SOURCES.join(" ").as_bytes()))
        );
        assert!(crate::SOURCES.iter().all(|it| it.len() == 64), "the sources of every crate have a hash");
        assert_eq!(key(["cpu", "sources", "avx2"], "Strict"), first);
    }

    /// If a stored type changes, increment [`SCHEMA`] and add a line for it to `stored-schema.txt`.
    #[test]
    fn a_changed_type_has_another_schema() {
        let mut types = Description::new();
        Entry::describe(&mut types);
        // The program of a backend that runs plans.
        Plan::describe(&mut types);
        crate::session::cache::pure::PureEntry::describe(&mut types);
        let all: String = types.iter().map(|(name, parts)| format!("{name}: {parts}\n")).collect();
        let now = format!("{SCHEMA} {}", ms_cache::Digest::of(all.as_bytes()));
        let lines: Vec<&str> = include_str!("stored-schema.txt").lines().collect();
        for (i, line) in lines.iter().enumerate() {
            assert!(line.starts_with(&format!("{} ", i + 1)), "line {} is of schema {}", i + 1, i + 1);
        }
        assert_eq!(lines.last().copied(), Some(&*now), "what is stored now:\n{all}");
    }
}

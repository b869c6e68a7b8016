//! Defines keys: hashes of named parts, each with a separate hash.

use crate::Digest;
use std::borrow::Cow;

/// The hash domain of keys, which separates keys from hashes of other data.
const DOMAIN: &str = "ms-cache 1 key";

/// The name under which [`differences`] reports the schema.
const SCHEMA: &str = "schema";

/// A named part of a [`Key`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    name: Cow<'static, str>,
    hash: Digest,
}

impl Part {
    /// The maximum length of a name in bytes.
    pub const MAX_NAME: usize = u8::MAX as usize;

    pub(crate) fn new(name: impl Into<Cow<'static, str>>, hash: Digest) -> Self {
        Self { name: name.into(), hash }
    }

    /// Returns the name, such as `signature`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hash of the part's bytes.
    pub fn hash(&self) -> &Digest {
        &self.hash
    }
}

/// The key of an entry: a hash over a schema number and named parts.
///
/// Parts are sorted by name, so two keys are equal exactly if [`differences`] is empty. The hash is
/// `blake3(schema, count, (length of name, name, blake3(bytes))*)`. Every field has a fixed length or follows its
/// length, so different parts never encode to the same input.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    hash: Digest,
    schema: u32,
    parts: Box<[Part]>,
}

impl Key {
    pub(crate) fn new(schema: u32, mut parts: Vec<Part>) -> Self {
        parts.sort_by(|a, b| a.name.cmp(&b.name));
        let mut hasher = blake3::Hasher::new_derive_key(DOMAIN);
        hasher.update(&schema.to_le_bytes());
        hasher.update(&(parts.len() as u64).to_le_bytes());
        for part in &parts {
            hasher.update(&(part.name.len() as u64).to_le_bytes());
            hasher.update(part.name.as_bytes());
            hasher.update(part.hash.as_bytes());
        }
        let hash = Digest::from_bytes(*hasher.finalize().as_bytes());
        Self { hash, schema, parts: parts.into() }
    }

    /// Returns the hash of the schema and all parts, which names the entry.
    pub fn hash(&self) -> &Digest {
        &self.hash
    }

    /// Returns the version of the payload's meaning.
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// Returns the parts, sorted by name.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the part with this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        let at = self.parts.binary_search_by(|part| (*part.name).cmp(name)).ok()?;
        Some(&self.parts[at])
    }

    /// Returns the key with other contents of one part, which must exist.
    pub fn with_part(&self, name: &str, bytes: &[u8]) -> Self {
        let hash = |part: &Part| if part.name() == name { Digest::of(bytes) } else { part.hash };
        let parts = self.parts.iter().map(|it| Part { name: it.name.clone(), hash: hash(it) });
        Self::new(self.schema, parts.collect())
    }

    /// Returns the number of parts that are equal in `other`. The schema counts as one part.
    pub(crate) fn parts_shared_with(&self, other: &Key) -> usize {
        let parts = self.parts.iter().filter(|part| other.part(part.name()) == Some(part)).count();
        parts + usize::from(self.schema == other.schema)
    }
}

/// Builds a [`Key`] part by part.
///
/// ```
/// use ms_cache::KeyBuilder;
///
/// let a = KeyBuilder::new(3).part("graph", b"%0 = relu(%x)").part("target", b"avx512").finish();
/// let b = KeyBuilder::new(3).part("target", b"avx512").part("graph", b"%0 = relu(%x)").finish();
/// assert_eq!(a, b, "the order of the calls does not count");
/// ```
#[derive(Clone, Debug)]
pub struct KeyBuilder {
    schema: u32,
    parts: Vec<Part>,
}

impl KeyBuilder {
    /// Creates a builder without parts. Raise `schema` whenever the meaning of payloads changes.
    pub fn new(schema: u32) -> Self {
        Self { schema, parts: Vec::new() }
    }

    /// Adds a named part.
    ///
    /// # Panics
    ///
    /// If the name was added before, is `schema`, or is longer than [`Part::MAX_NAME`] bytes.
    #[must_use]
    pub fn part(mut self, name: impl Into<Cow<'static, str>>, bytes: &[u8]) -> Self {
        let name = name.into();
        assert!(name.len() <= Part::MAX_NAME, "the name of a part is longer than {} bytes: {name}", Part::MAX_NAME);
        assert!(name != SCHEMA, "the part `{SCHEMA}` is given to `KeyBuilder::new`");
        assert!(self.parts.iter().all(|part| part.name != name), "the part `{name}` is given twice");
        self.parts.push(Part::new(name, Digest::of(bytes)));
        self
    }

    /// Replaces the contents of a part.
    ///
    /// ```
    /// use ms_cache::KeyBuilder;
    ///
    /// let key = |target| KeyBuilder::new(1).part("graph", b"g").part("target", target);
    /// assert_eq!(key(b"cpu").with_part("target", b"gpu").finish(), key(b"gpu").finish());
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no part with this name.
    #[must_use]
    pub fn with_part(mut self, name: &str, bytes: &[u8]) -> Self {
        let part = self.parts.iter_mut().find(|part| part.name == name);
        part.unwrap_or_else(|| panic!("there is no part `{name}`")).hash = Digest::of(bytes);
        self
    }

    /// Returns the key of the parts added so far.
    pub fn finish(self) -> Key {
        Key::new(self.schema, self.parts)
    }
}

/// Returns the sorted names of the parts that differ, or that only one of the keys has. `schema` comes first.
///
/// ```
/// use ms_cache::{KeyBuilder, differences};
///
/// let strict = KeyBuilder::new(1).part("graph", b"g").part("precision", b"strict").finish();
/// let high = KeyBuilder::new(1).part("graph", b"g").part("precision", b"high").finish();
/// assert_eq!(differences(&strict, &high), ["precision"]);
/// ```
pub fn differences(a: &Key, b: &Key) -> Vec<String> {
    let schema = (a.schema != b.schema).then(|| SCHEMA.to_owned());
    let of_a = a.parts.iter().filter(|part| b.part(part.name()) != Some(part));
    let only_b = b.parts.iter().filter(|part| a.part(part.name()).is_none());
    let mut names: Vec<_> = of_a.chain(only_b).map(|part| part.name().to_owned()).collect();
    names.sort();
    schema.into_iter().chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(schema: u32, parts: &[(&'static str, &str)]) -> Key {
        parts.iter().fold(KeyBuilder::new(schema), |key, (name, bytes)| key.part(*name, bytes.as_bytes())).finish()
    }

    fn check(a: &Key, b: &Key, expected: &[&str]) {
        assert_eq!(differences(a, b), expected);
        assert_eq!(differences(b, a), expected);
        assert_eq!(a == b, expected.is_empty());
        assert_eq!(a.hash() == b.hash(), expected.is_empty(), "{a:?} {b:?}");
    }

    #[test]
    fn keys_differ_exactly_by_their_parts() {
        let base = key(1, &[("graph", "g"), ("target", "t")]);
        check(&base, &key(1, &[("target", "t"), ("graph", "g")]), &[]);
        check(&base, &key(2, &[("graph", "g"), ("target", "t")]), &["schema"]);
        check(&base, &key(1, &[("graph", "h"), ("target", "t")]), &["graph"]);
        check(&base, &key(1, &[("graph", "g")]), &["target"]);
        check(&base, &key(1, &[("graph", "g"), ("target", "t"), ("config", "")]), &["config"]);
        check(&base, &key(3, &[("zone", "z"), ("graph", "h")]), &["schema", "graph", "target", "zone"]);
        check(&base, &key(1, &[("grapht", "g"), ("arget", "t")]), &["arget", "graph", "grapht", "target"]);
        check(&key(1, &[("a", "")]), &key(1, &[]), &["a"]);
    }

    #[test]
    fn the_hash_of_a_key_is_stable() {
        let expected = "ba86e4ec0c406abf4b866c72591fb8a6029d8e7ced74c84186d4cbe5325f54f8";
        assert_eq!(key(7, &[("graph", "g"), ("target", "t")]).hash().to_string(), expected);
    }

    #[test]
    #[should_panic(expected = "given twice")]
    fn a_part_is_given_once() {
        key(1, &[("graph", "g"), ("graph", "g")]);
    }

    #[test]
    #[should_panic(expected = "KeyBuilder::new")]
    fn the_schema_is_no_part() {
        key(1, &[("schema", "2")]);
    }
}

//! A content-addressed store on disk of byte strings by key. It knows nothing of graphs.
//!
//! A [`Key`] is the hash of named parts. A [`Store`] holds one file per key in one directory, which any number of
//! threads and processes may share.
//!
//! An entry is verified whenever it is read. So a torn, damaged or foreign file is a [`Miss`] with a reason, never a
//! wrong answer. The hashes of the parts are stored next to the payload. They explain a miss by the parts that differ
//! from the nearest entry.
//!
//! ```
//! use ms_cache::{Contents, KeyBuilder, Options, Store};
//!
//! # let directory = std::env::temp_dir().join(format!("ms-cache-doc-{}", std::process::id()));
//! let store = Store::open(&directory, &Options::default())?;
//! let key = |signature: &str| {
//!     KeyBuilder::new(1).part("graph", b"add(%0, %1)").part("signature", signature.as_bytes()).finish()
//! };
//!
//! store.put(&key("f32[2, 3]"), &Contents { data: b"a plan", code: b"machine code", ..Contents::default() })?;
//! assert_eq!(store.get(&key("f32[2, 3]"))?.data(), b"a plan");
//!
//! assert!(store.get(&key("f32[4, 3]")).is_err());
//! let explanation = store.explain(&key("f32[4, 3]"))?.expect("the store has an entry");
//! assert_eq!(explanation.differences, ["signature"]);
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod background;
mod digest;
mod directory;
mod entry;
mod error;
mod evict;
mod explain;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod secret;
mod sources;
mod statistics;
mod store;
mod trust;

pub use archive::Imported;
pub use background::{at_end, flush, in_background};
pub use digest::Digest;
pub use entry::{Contents, Defect};
pub use error::{Error, Miss, Result};
pub use evict::Evicted;
pub use explain::{Entry, Explanation, Ignored, Listing};
pub use key::{Key, KeyBuilder, Part, differences};
pub use secret::Secret;
pub use sources::{emit_sources, hash_sources};
pub use statistics::Statistics;
pub use store::{Mapped, Options, Store};
pub use trust::Distrust;

//! Caches compiled functions, in the process and on disk.

pub(super) mod build_id;
pub(super) mod disk;
pub(super) mod entry;
pub(super) mod footprint;
pub mod fuzzing;
pub(super) mod lru;
pub(super) mod pure;

pub use disk::{CacheUse, cache_options, cache_path, cache_use, flush_cache};
pub use entry::Site;

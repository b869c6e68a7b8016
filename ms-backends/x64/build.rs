//! Hashes the sources of the crate, so that stored results of other sources are never used.

fn main() -> std::io::Result<()> {
    ms_cache::emit_sources("MS_X64_SOURCES")
}

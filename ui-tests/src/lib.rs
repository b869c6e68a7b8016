//! Holds the reference programs of the language.
//!
//! `pass/` contains programs that must run, `fail/` programs that rustc must reject with exactly the messages beside
//! them. `tests/pass.rs` and `tests/ui.rs` run them.

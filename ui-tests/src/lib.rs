//! The reference of the language: `pass/` holds programs that must run, `fail/` programs that
//! rustc must refuse with exactly the messages beside them. `tests/ui.rs` runs both.

//! Attribute macros of `ms`.

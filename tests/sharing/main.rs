//! Equal calls of cells are one graph.

// Linked for `MS_DEVICE_TARGET=sim`.
use ms_sim as _;

#[path = "../common/gpt.rs"]
mod gpt;

mod calls;
mod depth;
mod lazy_inline;

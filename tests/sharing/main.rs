//! Tests that equal calls of cells are one graph.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

#[path = "../common/gpt.rs"]
mod gpt;

mod calls;
mod depth;
mod lazy_inline;

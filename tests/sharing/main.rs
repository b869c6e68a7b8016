//! Equal calls of cells are one graph.

#[path = "../common/gpt.rs"]
mod gpt;

mod calls;
mod depth;
mod lazy_inline;

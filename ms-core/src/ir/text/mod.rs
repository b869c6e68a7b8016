//! The text form of graphs, `.msir`: printed by [`Display`](std::fmt::Display) and
//! [`with_locations`], read by [`parse`].
//!
//! ```text
//! graph @layer(%0: f32[64, 10], %1: f32[10]) -> (f32[64, 10]) {
//!   %2 = add %0, %1 : f32[64, 10]
//!   return %2
//! }
//!
//! graph @main(%0: f32[64, 10]) -> (f32[64]) {
//!   %1 = constant {value = f32[10](0.5, ..)} : f32[10]
//!   %2 = call @layer %0, %1 : f32[64, 10]
//!   %3 = sum %2 {axes = [1], keepdims = false} : f32[64] // src/net.rs:12:9
//!   return %3
//! }
//! ```
//!
//! The last graph is the one that the text is of. Those before it are the regions of its
//! nodes, each written once, before the first graph that uses it; what is written once is
//! stored once. White space has no meaning, `//` starts a comment.
//!
//! ```text
//! text     = graph+
//! graph    = "graph" label "(" [input {"," input}] ")" "->" types "{" {node} "return" [values] "}"
//! input    = value ":" type
//! node     = [values "="] op {label} [values] ["{" attr {"," attr} "}"] ":" (type {"," type} | "(" ")")
//! types    = "(" [type {"," type}] ")"
//! attr     = word "=" (bool | int | float | list of ints | string | dtype | literal)
//! type     = dtype "[" [int {"," int}] "]"
//! literal  = type "(" [elements | element "," ".." | "0x" bytes in hexadecimal, in memory order] ")"
//! label    = "@" (word | string) ["#" int]        told apart by number where names are equal
//! value    = "%" letters, digits, "_", "."
//! float    = with a point or an exponent, or inf, -inf, nan, nan:0x (its bits)
//! ```
//!
//! Names of values are free; [`parse`] numbers values in the order of their definition. A
//! printed value carries the number of its [`ValueId`](crate::ir::ValueId). Floats are written
//! with as many digits as it takes to read the same bits.

mod lex;
mod literal;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use parse::{Resolver, parse};
pub use print::with_locations;
pub(crate) use print::write_attr;

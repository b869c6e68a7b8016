//! Defines the text form of graphs, `.msir`: [`Display`](std::fmt::Display) and [`with_locations`] print it, and
//! [`parse`] reads it.
//!
//! ```text
//! graph @layer(%x: f32[64, 10], %bias: f32[10]) -> (f32[64, 10]) {
//!   %2 = add %x, %bias : f32[64, 10]
//!   return %2
//! }
//!
//! graph @main(%x: f32[64, 10], %layers[0].bias: f32[10]) -> (f32[64]) {
//!   %2 = constant {value = f32[10](0.5, ..)} : f32[10]
//!   %3 = call @layer %x, %layers[0].bias : f32[64, 10]
//!   %4 = call @layer %3, %2 : f32[64, 10]
//!   %5 = sum %4 {axes = [1], keepdims = false} : f32[64] // src/net.rs:12:9
//!   return %5
//! }
//! ```
//!
//! The last graph is the main one. Those before it are the regions of its nodes, each written once, before the first
//! graph that uses it. A graph that is written once is stored once. White space is insignificant, and `//` starts a
//! comment.
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
//! label    = "@" (word | string) ["#" int]                    the number distinguishes equal names
//! value    = "%" (digits | name | string) ["#" int]           the number distinguishes equal names
//! name     = letters, digits, "_", ".", "[" digits "]"
//! float    = with a point or an exponent, or inf, -inf, nan, nan:0x (its bits)
//! ```
//!
//! An input that is not written as a number has a [name](Graph::input_name). This is the name of an argument, or a
//! parameter's path in the cell of the graph. Names of other values are arbitrary and are not stored; [`parse`] numbers
//! values in the order of their definition. A value without a name is printed with the number of its
//! [`ValueId`](crate::ValueId). Floats are written with enough digits to read the same bits.

mod lex;
mod literal;
mod names;
mod parse;
mod print;
#[cfg(test)]
mod tests;
mod tokens;

#[cfg(doc)]
use super::Graph;
pub use lex::{Token, Value};
pub use literal::{element_from_text, write_element};
#[doc(hidden)]
pub use names::{InputNames, ValueNames};
pub use parse::{Resolver, parse};
pub use print::with_locations;
#[doc(hidden)]
pub use print::{write_attr, write_attrs};
pub use tokens::Tokens;

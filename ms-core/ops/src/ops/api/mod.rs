//! Interfaces of ops besides functions: operators, methods, indexing, objects and random numbers.

mod index;
mod methods;
mod objects;
mod operators;
pub mod random;
mod rows;
pub mod wrapping;

pub use objects::*;
pub use rows::Rows;

//! The language: what is annotated, what it takes and gives, and what refusals say.

mod annotations;
mod diagnostics;
mod donation;
mod functional;
mod hyper_map;
mod locks;
mod parameters;
mod programs;

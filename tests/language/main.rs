//! The language: annotated code, its arguments and results, and its errors.

mod annotations;
mod diagnostics;
mod donation;
mod functional;
mod hyper_map;
mod locks;
mod parameters;
mod programs;

//! Generates random structured programs.
//!
//! [`generator`] writes programs twice: as plain Rust on `f32`, and as annotated code on tensors. The build script of
//! this crate writes a file of them for the tests. The tests run each on the same inputs natively, eagerly (`MS_JIT=0`)
//! and compiled, and compare the bits. A program in which control flow on a tensor changes host-only state is right, or
//! an error when it is compiled.
//!
//! `MS_RANDOM_SEED=500 cargo test -p ms-random-programs` runs the next 500 programs. `ui-tests/random/many COUNT` runs
//! many crates of 500.
//! `ui-tests/random/many COUNT` runs many crates of 500.

pub mod generator;

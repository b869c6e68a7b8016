//! Generated code against the interpreter, bit for bit (except for nan payloads), on every
//! instruction set of this machine; code for the others is compiled.

mod exponentials;
mod harness;
mod instructions;
mod limits;
mod orders;
mod random;
mod reductions;
mod speed;

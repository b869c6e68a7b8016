//! Tests generated code against the interpreter, bit for bit except for NaN payloads. The code runs on every
//! instruction set of this machine. For other instruction sets it is compiled only.

mod exponentials;
mod harness;
mod instructions;
mod limits;
mod orders;
mod random;
mod reductions;
mod speed;

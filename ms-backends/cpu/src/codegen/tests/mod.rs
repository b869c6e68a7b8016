//! Generated code against the interpreter, bit for bit (nan payloads aside), on every
//! instruction set that this machine has.

mod harness;
mod instructions;
mod limits;
mod orders;
mod random;
mod reductions;
mod speed;

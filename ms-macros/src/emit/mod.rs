//! Emits the expansion of each attribute.

mod bprop;
mod callable;
pub mod cell;
pub mod class;
pub mod closure;
mod fields;
pub mod func;
pub mod marks;
mod param;
mod receiver;
pub mod tree;

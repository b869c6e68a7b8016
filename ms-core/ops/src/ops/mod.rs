//! Ops of the framework and their definitions.
//!
//! - [`core`] has the definition of an op and the code that the rules of ops share.
//! - [`primitive`] has the primitives.
//! - [`composite`] has the composites and functions composed of ops.
//! - [`api`] has the interfaces besides functions.
//! - [`custom`] has the ops that programs define.
//!
//! To add an op, add its file, and its name to the list in `primitive/mod.rs` or `composite/mod.rs`. Everything else
//! reads the definition: text form, verifier, eager execution, tracing, lowering and generated tests.

#[macro_use]
pub mod core;
pub mod api;
#[doc(hidden)]
pub mod compare;
pub mod composite;
pub mod custom;
pub mod primitive;

pub use self::core::*;
pub use api::*;
pub use composite::*;
pub use primitive::window::{PerAxis, PoolOptions, Run, Window, WindowAxis, Windows};
pub use primitive::*;

use crate::tensor::Op;
use std::sync::OnceLock;

/// Iterates over every op of this crate: the primitives, then the composites.
pub fn definitions() -> impl Iterator<Item = &'static OpDef> {
    PRIMITIVES.iter().chain(COMPOSITES).copied()
}

/// Returns the definition of an op.
#[inline]
pub fn definition(op: Op) -> &'static OpDef {
    by_number(op.number()).expect("every op that is applied is listed in `PRIMITIVES` or `COMPOSITES`")
}

/// Returns the definition with a number.
#[inline]
pub fn by_number(number: u16) -> Option<&'static OpDef> {
    static TABLE: OnceLock<Vec<Option<&'static OpDef>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let last = definitions().map(|it| it.info.number).max().unwrap_or(0);
        let mut table = vec![None; last as usize + 1];
        for def in definitions() {
            let slot = &mut table[def.info.number as usize];
            assert!(slot.is_none(), "op number {} is used twice", def.info.number);
            *slot = Some(def);
        }
        table
    });
    match table.get(number as usize) {
        Some(def) => *def,
        None => custom::by_number(number),
    }
}

/// Returns the definition with a name.
pub fn by_name(name: &str) -> Option<&'static OpDef> {
    definitions().find(|it| it.info.name == name).or_else(|| custom::by_name(name))
}

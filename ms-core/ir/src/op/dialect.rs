//! The ops of a program.

use super::{Control, OpDef};
use crate::data::{Attrs, DType, Dim, Literal, Op};
use crate::{Node, ValueId};
use std::sync::OnceLock;

/// The set of all ops: their definitions, and the nodes that passes insert. The crate that defines the ops implements
/// the trait and registers it by a [`RegisteredDialect`], so that this crate and the compiler depend on no op.
pub trait Dialect: Sync {
    /// Lists the definitions of the ops with stable numbers.
    fn definitions(&self) -> [&'static [&'static OpDef]; 2];

    /// Returns the custom op with a number.
    fn custom_by_number(&self, number: u16) -> Option<&'static OpDef>;

    /// Returns the custom op with a name; `None` if several have it.
    fn custom_by_name(&self, name: &str) -> Option<&'static OpDef>;

    /// Returns the custom op with a name and a [hash of its source](Op::custom_source).
    fn custom_by_source(&self, name: &str, source: u64) -> Option<&'static OpDef>;

    /// Returns the op and the attributes of a node with this control.
    fn control(&self, control: &Control) -> (Op, Attrs);

    /// Creates a node of constant data.
    fn constant(&self, value: Literal) -> Node;

    /// Creates a node whose elements all equal a zero-dimensional literal.
    fn full(&self, element: Literal, dims: &[Dim]) -> Node;

    /// Creates a node that selects elements of `yes` where `condition` is true, and of `no` elsewhere.
    fn select(&self, condition: ValueId, yes: ValueId, no: ValueId) -> Node;

    /// Returns the op, with its attributes, whose result has the elements of its only operand, of this dtype.
    fn copy(&self, dtype: DType) -> (Op, Attrs);

    /// Returns the literal of a constant node's elements: its data, or the element that it repeats.
    fn literal_of<'n>(&self, node: &'n Node) -> Option<&'n Literal>;
}

/// The entry of a dialect in the list that `inventory` collects at link time.
pub struct RegisteredDialect(pub &'static dyn Dialect);

inventory::collect!(RegisteredDialect);

/// Returns the dialect of the program.
///
/// # Panics
/// If the program does not link the crate that defines the ops.
#[inline]
pub fn dialect() -> &'static dyn Dialect {
    static DIALECT: OnceLock<&'static dyn Dialect> = OnceLock::new();
    *DIALECT.get_or_init(|| {
        let mut all = inventory::iter::<RegisteredDialect>.into_iter();
        all.next().expect("the program links the crate that defines the ops").0
    })
}

/// Iterates over every op with a stable number: the primitives, then the composites.
pub fn definitions() -> impl Iterator<Item = &'static OpDef> {
    dialect().definitions().into_iter().flatten().copied()
}

/// Returns the definition of an op.
#[inline]
pub fn definition(op: Op) -> &'static OpDef {
    by_number(op.number()).expect("every op that is applied is a definition of the dialect")
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
        None => dialect().custom_by_number(number),
    }
}

/// Returns the definition with a name.
pub fn by_name(name: &str) -> Option<&'static OpDef> {
    definitions().find(|it| it.info.name == name).or_else(|| dialect().custom_by_name(name))
}

//! Formats values as text: named inputs by name, all other values by number.

use super::lex::{is_number, value_len, write_string};
use crate::MapVec;
use crate::{Def, Graph, ValueId};
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Write};
use std::sync::Arc;

/// The inputs of one graph as text.
#[doc(hidden)]
pub struct InputNames<'a> {
    names: &'a [Option<Arc<str>>],
    /// The number of inputs before each input with the same name; empty if all names differ.
    numbers: Vec<u32>,
}

impl<'a> InputNames<'a> {
    /// Formats inputs with these names, in order. Further inputs are unnamed.
    pub fn of(names: &'a [Option<Arc<str>>]) -> Self {
        let mut used: FxHashMap<&str, u32> = FxHashMap::default();
        let mut number = |name: &'a Option<Arc<str>>| {
            let next = used.entry(name.as_deref()?).or_default();
            *next += 1;
            Some(*next - 1)
        };
        let numbers: Vec<u32> = names.map_vec(|it| number(it).unwrap_or(0));
        Self { names, numbers: if numbers.iter().any(|&it| it > 0) { numbers } else { Vec::new() } }
    }

    /// Formats the input at a position, `%fc1.weight`, if it has a name.
    pub fn show(&self, at: usize) -> Option<impl Display + use<'a>> {
        let name = self.names.get(at)?.as_deref()?;
        let number = self.numbers.get(at).copied().unwrap_or(0);
        Some(fmt::from_fn(move |f| {
            f.write_char('%')?;
            match is_plain(name) {
                true => f.write_str(name)?,
                false => write_string(name, f)?,
            }
            if number == 0 { Ok(()) } else { write!(f, "#{number}") }
        }))
    }
}

/// Returns whether a name can be read back without quotes and is not a number.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && value_len(name) == name.len() && !is_number(name)
}

/// The values of a graph as text.
#[doc(hidden)]
pub struct ValueNames<'a> {
    graph: &'a Graph,
    inputs: InputNames<'a>,
}

impl<'a> ValueNames<'a> {
    /// Formats the values of a graph, which may be malformed.
    pub fn of(graph: &'a Graph) -> Self {
        Self { graph, inputs: InputNames::of(graph.input_names()) }
    }

    /// Formats a value: `%fc1.weight`, or `%3`.
    pub fn show(&self, id: ValueId) -> impl Display {
        let exists = (id.0 as usize) < self.graph.value_count();
        let input = match exists.then(|| self.graph.value(id).def) {
            Some(Def::Input(at)) => self.inputs.show(at as usize),
            _ => None,
        };
        fmt::from_fn(move |f| match &input {
            Some(name) => name.fmt(f),
            None => id.fmt(f),
        })
    }
}

impl Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

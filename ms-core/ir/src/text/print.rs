//! Prints graphs as text.

use super::lex::{is_name, write_string};
use super::literal::{write_element, write_literal};
use super::names::ValueNames;
use crate::data::{Attr, Attrs, DType, Op};
use crate::walk::subgraphs;
use crate::{Graph, Node, ValueId};
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Write};

impl Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer::new(self, false).print(self, f)
    }
}

/// Formats a graph with the user's source locations as comments after its nodes.
pub fn with_locations(graph: &Graph) -> String {
    let mut out = String::new();
    Printer::new(graph, true).print(graph, &mut out).expect("a string takes any text");
    out
}

struct Printer<'a> {
    /// All graphs, regions before the graphs that use them.
    graphs: Vec<&'a Graph>,
    /// The number of each graph among those with the same name.
    numbers: FxHashMap<*const Graph, u32>,
    locations: bool,
}

impl<'a> Printer<'a> {
    fn new(root: &'a Graph, locations: bool) -> Self {
        let mut graphs: Vec<&Graph> = subgraphs(root).into_iter().map(|it| &**it).collect();
        graphs.push(root);
        let mut used: FxHashMap<&str, u32> = FxHashMap::default();
        let mut numbers = FxHashMap::default();
        for &graph in &graphs {
            let next = used.entry(graph.name()).or_default();
            numbers.insert(std::ptr::from_ref(graph), *next);
            *next += 1;
        }
        Self { graphs, numbers, locations }
    }

    fn print(&self, root: &Graph, f: &mut impl Write) -> fmt::Result {
        for &graph in &self.graphs {
            self.graph(graph, f)?;
            if !std::ptr::eq(graph, root) {
                f.write_str("\n")?;
            }
        }
        Ok(())
    }

    fn graph(&self, graph: &Graph, f: &mut impl Write) -> fmt::Result {
        let names = ValueNames::of(graph);
        f.write_str("graph ")?;
        self.label(graph, f)?;
        f.write_str("(")?;
        list(f, graph.inputs(), |f, &id| {
            write!(f, "{}: ", names.show(id))?;
            type_of(graph, id, f)
        })?;
        f.write_str(") -> (")?;
        list(f, graph.outputs(), |f, &id| type_of(graph, id, f))?;
        f.write_str(") {\n")?;
        for (_, node) in graph.nodes() {
            self.node(graph, &names, node, f)?;
        }
        f.write_str("  return")?;
        values(f, &names, graph.outputs())?;
        f.write_str("\n}\n")
    }

    fn node(&self, graph: &Graph, names: &ValueNames<'_>, node: &Node, f: &mut impl Write) -> fmt::Result {
        f.write_str("  ")?;
        if !node.outputs.is_empty() {
            list(f, &node.outputs, |f, &id| write!(f, "{}", names.show(id)))?;
            f.write_str(" = ")?;
        }
        f.write_str(node.op.name())?;
        for region in &node.regions {
            f.write_str(" ")?;
            self.label(region, f)?;
        }
        values(f, names, &node.inputs)?;
        write_attrs(node.op, &node.attrs, f)?;
        f.write_str(" : ")?;
        if node.outputs.is_empty() {
            f.write_str("()")?;
        }
        list(f, &node.outputs, |f, &id| type_of(graph, id, f))?;
        if let (true, Some(location)) = (self.locations, node.location) {
            write!(f, " // {location}")?;
        }
        f.write_str("\n")
    }

    fn label(&self, graph: &Graph, f: &mut impl Write) -> fmt::Result {
        f.write_str("@")?;
        let name = graph.name();
        if !name.is_empty() && name.chars().all(is_name) {
            f.write_str(name)?
        } else {
            write_string(name, f)?
        }
        match self.numbers[&std::ptr::from_ref(graph)] {
            0 => Ok(()),
            number => write!(f, "#{number}"),
        }
    }
}

/// Writes ` %x, %1`, or nothing if there are no values.
fn values(f: &mut impl Write, names: &ValueNames<'_>, ids: &[ValueId]) -> fmt::Result {
    if !ids.is_empty() {
        f.write_str(" ")?;
    }
    list(f, ids, |f, &id| write!(f, "{}", names.show(id)))
}

/// Writes the type of a value, or `?` if a malformed graph has no such value.
fn type_of(graph: &Graph, id: ValueId, f: &mut impl Write) -> fmt::Result {
    if (id.0 as usize) < graph.value_count() { write!(f, "{}", graph.ty(id)) } else { f.write_str("?") }
}

/// Writes the attributes of an op, if it has any, with a space before them.
#[doc(hidden)]
pub fn write_attrs(op: Op, attrs: &Attrs, f: &mut impl Write) -> fmt::Result {
    if attrs.as_slice().is_empty() {
        return Ok(());
    }
    f.write_str(" {")?;
    // Reports also print a node with attributes that do not fit its op.
    let names = op.0.attrs.iter().map(|it| it.name).chain(std::iter::repeat("?"));
    let named: Vec<_> = names.zip(attrs.as_slice()).collect();
    list(f, &named, |f, (name, attr)| {
        write!(f, "{name} = ")?;
        write_attr(attr, f)
    })?;
    f.write_str("}")
}

/// Writes an attribute's value.
#[doc(hidden)]
pub fn write_attr(attr: &Attr, f: &mut impl Write) -> fmt::Result {
    match attr {
        Attr::Bool(it) => write!(f, "{it}"),
        Attr::Int(it) => write!(f, "{it}"),
        Attr::Float(it) => write_element(it.to_bits(), DType::F64, f),
        Attr::Ints(it) => {
            f.write_str("[")?;
            list(f, it, |f, it| write!(f, "{it}"))?;
            f.write_str("]")
        }
        Attr::Size(it) => write!(f, "({it})"),
        Attr::Sizes(all) => {
            f.write_str("[")?;
            list(f, all, |f, it| write!(f, "{it}"))?;
            f.write_str("]")
        }
        Attr::DType(it) => write!(f, "{it}"),
        Attr::Str(it) => write_string(it, f),
        Attr::Literal(it) => write_literal(it, f),
    }
}

/// Writes items separated by commas.
fn list<W: Write, T>(f: &mut W, items: &[T], mut item: impl FnMut(&mut W, &T) -> fmt::Result) -> fmt::Result {
    for (i, it) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        item(f, it)?;
    }
    Ok(())
}

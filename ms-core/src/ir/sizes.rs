//! Substitution of constants for symbolic sizes.

use super::graph::{Def, Graph, Node, ValueData};
use super::walk::subgraphs;
use crate::error::{Error, Result};
use crate::tensor::{Attr, Attrs, Dim, Type};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Graph {
    /// The names of the symbols in the types of the inputs, which a call determines, in alphabetical
    /// order.
    pub fn symbols(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let dims = self.inputs().iter().flat_map(|&id| &self.ty(id).dims);
        for dim in dims {
            dim.symbols(&mut |name| {
                names.insert(name.to_owned());
            });
        }
        names
    }

    /// The graph, with all graphs in it, with the sizes that `size` returns for symbols. Whether
    /// nodes accept the sizes is checked by the verifier.
    ///
    /// # Errors
    /// [`Code::Shape`](crate::Code::Shape) if a symbol has no size or a dimension is negative.
    pub fn with_sizes(&self, size: &impl Fn(&str) -> Option<usize>) -> Result<Graph> {
        let mut known: FxHashMap<*const Graph, Arc<Graph>> = FxHashMap::default();
        for region in subgraphs(self) {
            let done = Arc::new(sized(region, &known, size)?);
            known.insert(Arc::as_ptr(region), done);
        }
        sized(self, &known, size)
    }
}

/// Adds the op and the location of a node to an error.
fn in_node(node: &Node, error: Error) -> Error {
    let error = error.with_op(node.op.name());
    node.location.map_or(error.clone(), |it| error.at(it))
}

fn sized(
    graph: &Graph,
    known: &FxHashMap<*const Graph, Arc<Graph>>,
    size: &impl Fn(&str) -> Option<usize>,
) -> Result<Graph> {
    let node = |node: &Node| {
        let mut copy = node.clone();
        if node.attrs.as_slice().iter().any(is_symbolic) {
            copy.attrs = sized_attrs(&node.attrs, size).map_err(|error| in_node(node, error))?;
        }
        copy.regions.iter_mut().for_each(|it| *it = known[&Arc::as_ptr(it)].clone());
        Ok(copy)
    };
    let nodes = graph.nodes().map(|(_, it)| node(it)).collect::<Result<_>>()?;
    let value = |id: u32| {
        let ValueData { ty, def } = graph.value(super::ValueId(id));
        let ty = sized_type(ty, size).map_err(|error| match def {
            Def::Result(node, _) => in_node(graph.node(*node), error),
            Def::Input(_) => error,
        })?;
        Ok(ValueData { ty, def: *def })
    };
    let values = (0..graph.value_count() as u32).map(value).collect::<Result<_>>()?;
    let (inputs, outputs) = (graph.inputs().to_vec(), graph.outputs().to_vec());
    let mut sized = Graph::from_parts(graph.name(), nodes, values, inputs, outputs);
    sized.share_input_names(graph);
    Ok(sized)
}

fn sized_type(ty: &Type, size: &impl Fn(&str) -> Option<usize>) -> Result<Type> {
    if !ty.is_symbolic() {
        return Ok(ty.clone());
    }
    let dim = |&dim: &Dim| if dim.is_symbolic() { dim.evaluate(size).map(Dim::new) } else { Ok(dim) };
    Ok(Type::new(ty.dtype, ty.dims.iter().map(dim).collect::<Result<_>>()?))
}

fn is_symbolic(attr: &Attr) -> bool {
    match attr {
        Attr::Int(raw) => Dim::from_raw(*raw).is_symbolic(),
        Attr::Ints(all) => all.iter().any(|&raw| Dim::from_raw(raw).is_symbolic()),
        _ => false,
    }
}

fn sized_attrs(attrs: &Attrs, size: &impl Fn(&str) -> Option<usize>) -> Result<Attrs> {
    let number = |&raw: &i64| match Dim::from_raw(raw) {
        dim if dim.is_symbolic() => dim.number(size),
        _ => Ok(raw),
    };
    let attr = |attr: &Attr| {
        Ok(match attr {
            Attr::Int(it) => Attr::Int(number(it)?),
            Attr::Ints(all) => Attr::Ints(all.iter().map(number).collect::<Result<_>>()?),
            other => other.clone(),
        })
    };
    Ok(Attrs::new(attrs.as_slice().iter().map(attr).collect::<Result<Vec<_>>>()?))
}

//! Substitutes constants for symbolic sizes.

use super::graph::{Def, Graph, Node, ValueData, ValueId};
use super::walk::subgraphs;
use crate::MapVec;
use crate::data::{Attr, Attrs, Dim, Dims, Type};
use crate::error::{Code, Error, Result};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Graph {
    /// Returns the names of the symbols in the types of the inputs, which a call determines, in alphabetical order.
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

    /// Checks that the sizes of inputs have every symbol of the graph and of all graphs in it.
    ///
    /// # Errors
    /// [`Code::Shape`](crate::Code::Shape) for a symbol that calls do not determine.
    pub fn check_symbols(&self) -> Result<()> {
        let (known, mut unknown) = (self.symbols(), None);
        let mut visit = |dim: &Dim| {
            dim.symbols(&mut |name| {
                if !known.contains(name) {
                    unknown = Some(name.to_owned());
                }
            })
        };
        for graph in subgraphs(self).into_iter().map(|it| &**it).chain([self]) {
            (0..graph.value_count()).for_each(|it| graph.ty(ValueId(it as u32)).dims.iter().for_each(&mut visit));
            for attr in graph.nodes().flat_map(|(_, node)| node.attrs.as_slice()) {
                match attr {
                    Attr::Size(it) => visit(it),
                    Attr::Sizes(all) => all.iter().for_each(&mut visit),
                    _ => {}
                }
            }
        }
        let refuse = |name| Error::new(Code::Shape, format!("no input of `@{}` has the size `{name}`", self.name()));
        unknown.map_or(Ok(()), |name| Err(refuse(name)))
    }

    /// Substitutes the sizes that `size` returns for symbols, in the graph and all graphs in it. The verifier checks
    /// whether nodes accept the sizes.
    ///
    /// # Errors
    /// [`Code::Shape`](crate::Code::Shape) if a symbol has no size or a dimension is negative.
    pub fn with_sizes(&self, size: &impl Fn(&str) -> Option<usize>) -> Result<Graph> {
        let sizes = Sizes { size, known: RefCell::default() };
        let mut known: FxHashMap<*const Graph, Arc<Graph>> = FxHashMap::default();
        for region in subgraphs(self) {
            let done = Arc::new(sized(region, &known, &sizes)?);
            known.insert(Arc::as_ptr(region), done);
        }
        sized(self, &known, &sizes)
    }
}

/// The sizes of symbols, with a cache of computed dimensions: most types of a graph have the same few.
struct Sizes<'a, F> {
    size: &'a F,
    known: RefCell<SmallVec<[(Dim, Dim); 8]>>,
}

impl<F: Fn(&str) -> Option<usize>> Sizes<'_, F> {
    /// Returns a dimension with these sizes.
    fn dim(&self, dim: Dim) -> Result<Dim> {
        if !dim.is_symbolic() {
            return Ok(dim);
        }
        if let Some(known) = self.known.borrow().iter().find(|it| it.0 == dim) {
            return Ok(known.1);
        }
        let sized = dim.evaluate(self.size).map(Dim::new)?;
        self.known.borrow_mut().push((dim, sized));
        Ok(sized)
    }

    fn of_type(&self, ty: &Type) -> Result<Type> {
        if !ty.is_symbolic() {
            return Ok(ty.clone());
        }
        let mut dims = Dims::with_capacity(ty.dims.len());
        for &dim in &ty.dims {
            dims.push(self.dim(dim)?);
        }
        Ok(Type::new(ty.dtype, dims))
    }
}

/// Adds the op, its operands with their symbols, and the location of a node to an error.
fn in_node(graph: &Graph, node: &Node, error: Error) -> Error {
    let operands = node.inputs.iter().map(|&it| graph.ty(it).to_string());
    let error = error.with_op(node.op.name()).with_operands(operands);
    node.location.map_or(error.clone(), |it| error.at(it))
}

fn sized(
    graph: &Graph,
    known: &FxHashMap<*const Graph, Arc<Graph>>,
    sizes: &Sizes<'_, impl Fn(&str) -> Option<usize>>,
) -> Result<Graph> {
    let node = |node: &Node| {
        let mut copy = node.clone();
        if node.attrs.is_symbolic() {
            copy.attrs = sized_attrs(&node.attrs, sizes.size).map_err(|error| in_node(graph, node, error))?;
        }
        copy.regions.iter_mut().for_each(|it| *it = known[&Arc::as_ptr(it)].clone());
        Ok(copy)
    };
    let nodes = graph.nodes().map(|(_, it)| node(it)).collect::<Result<_>>()?;
    let value = |id: u32| {
        let ValueData { ty, def } = graph.value(super::ValueId(id));
        let ty = sizes.of_type(ty).map_err(|error| match def {
            Def::Result(node, _) => in_node(graph, graph.node(*node), error),
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

fn sized_attrs(attrs: &Attrs, size: &impl Fn(&str) -> Option<usize>) -> Result<Attrs> {
    let known = |dim: Dim| match dim.is_symbolic() {
        true => dim.number(size).map(Dim::signed),
        false => Ok(dim),
    };
    let attr = |attr: &Attr| {
        Ok(match attr {
            Attr::Size(it) => known(*it)?.into(),
            Attr::Sizes(all) => (&*all.iter().map(|&it| known(it)).collect::<Result<Dims>>()?).into(),
            other => other.clone(),
        })
    };
    Ok(Attrs::new(attrs.as_slice().try_map_vec(attr)?))
}

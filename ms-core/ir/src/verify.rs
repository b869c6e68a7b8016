//! Verifies the structure of graphs.

use super::graph::{Def, Graph, NodeId, ValueId};
use super::walk::subgraphs;
use crate::MapVec;
use crate::error::{Code, Error, Result};

/// Checks the arenas of a graph and of all graphs in it. Every id must refer to a value, which is defined once, by the
/// definition in its [`ValueData`](super::ValueData). Nodes must come after the nodes whose results they use, and must
/// have as many attributes as their op has names.
///
/// # Errors
/// [`Code::Verify`] with all defects.
pub fn verify_structure(graph: &Graph) -> Result<()> {
    let mut found = Vec::new();
    for region in subgraphs(graph) {
        Structure { graph: region, found: &mut found }.check();
    }
    Structure { graph, found: &mut found }.check();
    defects(graph, found)
}

/// Checks a graph like [`verify_structure`], without the graphs in it.
///
/// # Errors
/// [`Code::Verify`] with all defects.
pub fn verify_structure_of_one(graph: &Graph) -> Result<()> {
    let mut found = Vec::new();
    Structure { graph, found: &mut found }.check();
    defects(graph, found)
}

/// Combines the defects of a graph into one error; `Ok` if there are none.
///
/// # Errors
/// [`Code::Verify`] with the defects as related errors.
pub fn defects(graph: &Graph, found: Vec<Error>) -> Result<()> {
    match found.len() {
        0 => Ok(()),
        1 => Err(Error::new(Code::Verify, format!("graph `@{}` is broken", graph.name())).with_related(found)),
        count => {
            let message = format!("graph `@{}` is broken in {count} places", graph.name());
            Err(Error::new(Code::Verify, message).with_related(found))
        }
    }
}

struct Structure<'a> {
    graph: &'a Graph,
    found: &'a mut Vec<Error>,
}

impl Structure<'_> {
    fn check(&mut self) {
        let graph = self.graph;
        // Every value is defined once, at the position in its own entry.
        let mut defined = vec![false; graph.value_count()];
        for (i, &id) in graph.inputs().iter().enumerate() {
            self.definition(None, id, Def::Input(i as u32), &mut defined);
        }
        for (node_id, node) in graph.nodes() {
            for &id in &node.inputs {
                match self.origin(id) {
                    None => self.refuse(Some(node_id), format!("operand {id} does not exist")),
                    Some(Def::Result(from, _)) if from >= node_id => {
                        self.refuse(Some(node_id), format!("operand {id} is defined later, by node {}", from.0));
                    }
                    Some(_) => {}
                }
            }
            for (i, &id) in node.outputs.iter().enumerate() {
                self.definition(Some(node_id), id, Def::Result(node_id, i as u32), &mut defined);
            }
            let (declared, attrs) = (node.op.0.attrs, node.attrs.as_slice());
            if declared.len() != attrs.len() {
                let names: Vec<&str> = declared.map_vec(|it| it.name);
                self.refuse(Some(node_id), format!("{} attributes for the names {names:?}", attrs.len()));
            }
        }
        for &id in graph.outputs() {
            if self.origin(id).is_none() {
                self.refuse(None, format!("output {id} does not exist"));
            }
        }
        for (i, _) in defined.iter().enumerate().filter(|(_, defined)| !**defined) {
            self.refuse(None, format!("{} is defined by no input and no node", ValueId(i as u32)));
        }
    }

    fn origin(&self, id: ValueId) -> Option<Def> {
        ((id.0 as usize) < self.graph.value_count()).then(|| self.graph.value(id).def)
    }

    fn definition(&mut self, node: Option<NodeId>, id: ValueId, here: Def, defined: &mut [bool]) {
        match self.origin(id) {
            None => self.refuse(node, format!("{id} is defined, but does not exist")),
            Some(def) if def != here => self.refuse(node, format!("{id} is defined by {here:?}, not by {def:?}")),
            Some(_) if defined[id.0 as usize] => self.refuse(node, format!("{id} is defined twice")),
            Some(_) => defined[id.0 as usize] = true,
        }
    }

    fn refuse(&mut self, node: Option<NodeId>, message: String) {
        let name = self.graph.name();
        let error = Error::new(Code::Verify, message);
        self.found.push(match node {
            Some(id) if (id.0 as usize) < self.graph.len() => {
                let node = self.graph.node(id);
                let error = error.with_op(node.op.name()).within(format!("`@{name}`, node {}", id.0));
                match node.location {
                    Some(location) => error.at(location),
                    None => error,
                }
            }
            _ => error.within(format!("`@{name}`")),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Attrs, DType, Type};
    use crate::random::{random_graph, random_ops};
    use crate::testing::Random;
    use crate::{Node, ValueData};
    use std::sync::Arc;

    #[test]
    fn random_graphs_hold() {
        for seed in 0..100 {
            verify_structure(&random_graph(&mut Random::Seed(seed), 2)).expect("built by `Graph`'s own methods");
        }
    }

    fn plain(inputs: &[u32], outputs: &[u32]) -> Node {
        let op = random_ops("plain").expect("an op of random graphs");
        let mut node = Node::new(op, Attrs::none(), inputs.iter().map(|&id| ValueId(id)));
        node.outputs = outputs.iter().map(|&id| ValueId(id)).collect();
        node
    }

    /// Builds a graph with one input, %0, from nodes and the definitions of the values from %1 on.
    fn graph(nodes: Vec<Node>, defs: &[Def], outputs: &[u32]) -> Graph {
        let defs = [&[Def::Input(0)], defs].concat();
        let values = defs.into_iter().map(|def| ValueData { ty: Type::of(DType::F32, &[]), def }).collect();
        let outputs = outputs.iter().map(|&id| ValueId(id)).collect();
        Graph::from_parts("g", nodes, values, vec![ValueId(0)], outputs)
    }

    #[test]
    fn all_defects_are_listed() {
        let result = |node, i| Def::Result(NodeId(node), i);
        let one = random_ops("one").expect("an op of random graphs");
        let nested = graph(vec![plain(&[7], &[1])], &[result(0, 0)], &[1]);
        let mut caller = plain(&[0], &[1]);
        caller.regions.push(Arc::new(nested));
        let cases: [(Graph, &[&str]); 7] = [
            (graph(vec![plain(&[5], &[1])], &[result(0, 0)], &[9]), &["operand %5 does not", "output %9 does not"]),
            (graph(vec![plain(&[1], &[1])], &[result(0, 0)], &[]), &["operand %1 is defined later, by node 0"]),
            (graph(vec![plain(&[], &[1, 1])], &[result(0, 0)], &[]), &["%1 is defined by Result(NodeId(0), 1), not"]),
            (graph(vec![plain(&[], &[0])], &[], &[]), &["%0 is defined by Result(NodeId(0), 0), not by Input(0)"]),
            (graph(vec![], &[result(3, 0)], &[1]), &["%1 is defined by no input and no node"]),
            (graph(vec![caller], &[result(0, 0)], &[1]), &["operand %7 does not exist"]),
            (graph(vec![Node::new(one, Attrs::none(), [])], &[], &[]), &["0 attributes for the names [\"value\"]"]),
        ];
        for (graph, wants) in cases {
            let error = verify_structure(&graph).expect_err("the graph is broken");
            assert_eq!(error.code(), Code::Verify);
            assert_eq!(error.report().related.len(), wants.len(), "{error}");
            for want in wants {
                assert!(error.to_string().contains(want), "{error}\n{want}");
            }
            // A malformed graph can still be printed.
            assert!(graph.to_string().contains("return"));
        }
    }
}

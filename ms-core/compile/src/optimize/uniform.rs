//! Finds uniform values: those with equal elements.

use ms_ir::data::{Literal, Scalar, Type};
use ms_ir::op::{Lowering, definition, dialect};
use ms_ir::{Graph, Node, NodeId, ValueId};

/// The elements of uniform values, filled in node by node in the order in which a graph is built.
#[derive(Default)]
#[doc(hidden)]
pub struct Uniform {
    /// The bits of the element, by value.
    known: Vec<Option<u64>>,
    /// Nodes of the graph that have been seen.
    seen: u32,
}

impl Uniform {
    /// Returns the element of a value that is known to be uniform.
    pub fn element(&mut self, graph: &Graph, id: ValueId) -> Option<Scalar> {
        self.bits(graph, id).map(|bits| Scalar::from_bits(bits, graph.ty(id).dtype))
    }

    /// Returns whether a value is known to be uniform.
    pub fn is_known(&mut self, graph: &Graph, id: ValueId) -> bool {
        self.bits(graph, id).is_some()
    }

    /// Returns the element of a uniform value as a literal without dimensions.
    pub fn literal(&mut self, graph: &Graph, id: ValueId) -> Option<Literal> {
        let dtype = graph.ty(id).dtype;
        let bits = self.bits(graph, id)?;
        let bytes = bits.to_le_bytes()[..dtype.size()].to_vec();
        Some(Literal::from_bytes(&[], dtype, bytes).expect("one element has its dtype's size"))
    }

    fn bits(&mut self, graph: &Graph, id: ValueId) -> Option<u64> {
        if self.known.len() <= id.0 as usize {
            self.known.resize(graph.value_count(), None);
        }
        if let ms_ir::Def::Result(node, _) = graph.value(id).def {
            while self.seen <= node.0 {
                let next = graph.node(NodeId(self.seen));
                if let [result] = next.outputs[..] {
                    let bits = self.of_node(next, graph.ty(result));
                    self.known[result.0 as usize] = bits;
                }
                self.seen += 1;
            }
        }
        self.known[id.0 as usize]
    }

    fn of_node(&self, node: &Node, ty: &Type) -> Option<u64> {
        if let Some(literal) = dialect().literal_of(node) {
            let bytes = literal.bytes();
            let mut elements = bytes.chunks_exact(ty.dtype.size());
            let first = elements.next()?;
            let mut bits = [0; 8];
            bits[..first.len()].copy_from_slice(first);
            return elements.all(|it| it == first).then(|| u64::from_le_bytes(bits));
        }
        let def = definition(node.op);
        match def.lowering {
            // What is uniform on this rank need not equal what other ranks have.
            _ if !def.effects.are_local() => None,
            Lowering::View(_) => self.known[node.inputs[0].0 as usize],
            _ => None,
        }
    }
}

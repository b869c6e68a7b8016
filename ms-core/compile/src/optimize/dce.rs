//! Eliminates dead code: nodes without used results.

use super::{Pass, PassContext};
use ms_ir::{Def, Graph, Rewriter, ValueId};
use std::borrow::Cow;

/// Removes nodes on which neither an output nor a node without results depends. Inputs stay, since they are the
/// signature.
pub struct Dce;

impl Pass for Dce {
    fn name(&self) -> &'static str {
        "dce"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        let mut live: Vec<bool> = graph.nodes().map(|(_, node)| node.outputs.is_empty()).collect();
        let mark = |ids: &[ValueId], live: &mut [bool]| {
            for &id in ids {
                if let Def::Result(node, _) = graph.value(id).def {
                    live[node.0 as usize] = true;
                }
            }
        };
        mark(graph.outputs(), &mut live);
        for (id, node) in graph.nodes().rev() {
            if live[id.0 as usize] {
                mark(&node.inputs, &mut live);
            }
        }
        let mut rewriter = Rewriter::new(graph);
        for live in live {
            if live { rewriter.keep() } else { rewriter.replace(&[]) }
        }
        rewriter.finish()
    }
}

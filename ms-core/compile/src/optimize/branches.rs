//! Eliminates branches.

use super::uniform::Uniform;
use super::{Pass, PassContext};
use ms_ir::data::{Dim, Scalar};
use ms_ir::op::{Control, Lowering, definition, dialect};
use ms_ir::{Graph, Node, Rewriter, ValueId, Values, rewrite};
use std::borrow::Cow;
use std::sync::Arc;

/// The maximal number of nodes of both arms if both are computed on large arrays. A branch costs less than one pass
/// over these.
const MAX_NODES: usize = 8;

/// The maximal number of nodes of both arms if both are computed on small arrays. A node then costs about a nanosecond,
/// and a branch, which prevents fusion, a hundred.
const MAX_NODES_SMALL: usize = 64;

/// The maximal number of elements of a small array.
const SMALL: usize = 64;

/// Inlines the arm of an `if` with a known condition, or with equal arms. Also converts an `if` to a `select`
/// (if-conversion), so that one kernel computes both arms. Both must be short and elementwise, and neither may fail or
/// have effects.
pub struct Branches;

impl Pass for Branches {
    fn name(&self) -> &'static str {
        "branches"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        let mut uniform = Uniform::default();
        rewrite(graph, |rewriter, node, operands| {
            if Control::of(node)? != Control::Branch {
                return None;
            }
            let [yes, no] = [&node.regions[0], &node.regions[1]];
            if Arc::ptr_eq(yes, no) {
                return Some(rewriter.splice(yes, &operands[1..]));
            }
            if let Some(Scalar::Bool(taken)) = uniform.element(rewriter.graph(), operands[0]) {
                return Some(rewriter.splice(if taken { yes } else { no }, &operands[1..]));
            }
            worth_computing(yes, no).then(|| select(rewriter, node, operands))
        })
    }
}

/// Emits both arms, with `select` where they differ.
fn select(rewriter: &mut Rewriter<'_>, node: &Node, operands: &[ValueId]) -> Values {
    let [yes, no] = [0, 1].map(|arm: usize| rewriter.splice(&node.regions[arm], &operands[1..]));
    let choose = |(yes, no): (ValueId, ValueId)| {
        if yes == no {
            return yes;
        }
        let ty = rewriter.graph().ty(yes).clone();
        let select = dialect().select(operands[0], yes, no);
        rewriter.add(Node { location: node.location, ..select }, [ty])[0]
    };
    yes.into_iter().zip(no).map(choose).collect()
}

/// Returns whether computing both arms is safe and cheaper than branching.
fn worth_computing(yes: &Graph, no: &Graph) -> bool {
    let (mut nodes, mut small) = (0, true);
    for arm in [yes, no] {
        let values = arm.inputs().iter().chain(arm.outputs()).chain(arm.nodes().flat_map(|(_, node)| &node.outputs));
        for ty in values.map(|&it| arm.ty(it)) {
            if ty.dims.contains(&Dim::DYNAMIC) {
                return false;
            }
            small &= ty.numel().is_some_and(|it| it <= SMALL);
        }
        for (_, node) in arm.nodes() {
            let def = definition(node.op);
            match def.lowering {
                _ if !def.effects.are_speculatable() => return false,
                Lowering::Map(_) => nodes += 1,
                Lowering::View(_) | Lowering::Generate(_) | Lowering::Constant(_) => {}
                _ => return false,
            }
        }
        // The `select` is a node, too.
        nodes += arm.outputs().len();
    }
    nodes <= if small { MAX_NODES_SMALL } else { MAX_NODES }
}

//! Traces the bodies of composites to graphs.

use super::build;
use ms_ir::MapVec;
use ms_ir::error::Result;
use ms_ir::{Graph, Memo};
use ms_ops::ops::{Body, OpDef, Types, infer, transform_rules};
use ms_ops::tensor::{Attrs, Dim, Op, Type};
use std::rc::Rc;

/// The key of a body's graph: op, attributes, types of the operands.
type Key = (u16, Attrs, Vec<Type>);

thread_local! {
    static BODIES: Memo<Key> = Memo::default();
}

/// Returns the graph of a composite's body on operands of these types. Its outputs are the results of the composite.
/// Every thread traces it once.
///
/// # Errors
/// The errors of the ops of the body, attributed to the composite.
pub fn body_graph(op: Op, body: Body, attrs: &Attrs, types: &[&Type]) -> Result<Rc<Graph>> {
    let apply = |inputs: &[_]| Ok(body(attrs, &inputs.iter().collect::<Vec<_>>()).into_vec());
    let key = (op.number(), attrs.clone(), types.map_vec(|&it| it.clone()));
    let graph = BODIES.with(|it| it.get_or_build(key, |(.., types)| build(op.name(), types, apply)));
    graph.map_err(|error| error.of_composite(op.name()))
}

/// Infers the types of an op that becomes a node without regions, like [`infer`]. A composite has the types of its
/// body, which is traced here and reused for its expansion.
///
/// # Errors
/// See [`infer`].
pub(super) fn infer_node(def: &'static OpDef, attrs: &Attrs, types: &[&Type]) -> Result<Types> {
    // On failure, the type rule reports the error: that of the first op that fails, or of an unknown size.
    if let Some(body) = transform_rules(def).composite()
        && !types.iter().any(|it| it.dims.contains(&Dim::DYNAMIC))
        && let Ok(graph) = body_graph(def.op(), body, attrs, types)
    {
        return Ok(graph.outputs().iter().map(|&it| graph.ty(it).clone()).collect());
    }
    infer(def, attrs, &[], types)
}

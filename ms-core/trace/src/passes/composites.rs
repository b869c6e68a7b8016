//! Legalises composites: expands those that the target does not run natively.

use crate::transform::expand_own_composites;
use ms_compile::optimize::{Pass, PassContext};
use ms_ir::MapVec;
use ms_ir::{Graph, Node, Type};
use std::borrow::Cow;

/// Replaces composites by the ops of their bodies, unless [`PassContext::legal_composites`] lists them.
pub struct Composites;

impl Pass for Composites {
    fn name(&self) -> &'static str {
        "composites"
    }

    fn run<'g>(&self, graph: &'g Graph, context: &PassContext) -> Cow<'g, Graph> {
        let refused = |graph: &Graph, node: &Node| {
            let types: Vec<&Type> = node.inputs.map_vec(|&it| graph.ty(it));
            !context.legal_composites.iter().any(|it| it.admits(node.op, &types, context.precision))
        };
        // If the body of a composite fails to expand, the composite remains, and running it reports the error.
        expand_own_composites(graph, &refused).unwrap_or(Cow::Borrowed(graph))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::value_and_grad;
    use ms_ops::ops::core::testing::scattered;
    use ms_ops::ops::{COMPOSITES, OpDef, Sample, evaluate_graph, infer};
    use ms_ops::tensor::{Array, DType};

    /// Builds a graph of one node from a sample.
    fn single(def: &'static OpDef, sample: &Sample) -> Graph {
        let mut graph = Graph::new(def.name());
        let types: Vec<Type> = sample.inputs.iter().map(|it| Type::of(it.dtype, &it.shape)).collect();
        let inputs: Vec<_> = types.iter().map(|it| graph.add_input(it.clone())).collect();
        let results = infer(def, &sample.attrs, &[], &types.iter().collect::<Vec<_>>()).expect("a sample fits");
        let id = graph.add_node(Node::new(def.op(), sample.attrs.clone(), inputs), results);
        let outputs = graph.node(id).outputs.clone();
        graph.set_outputs(outputs);
        graph
    }

    /// The derivative rule of a composite agrees with the rules of the ops of its body.
    #[test]
    fn rules_agree_with_those_of_bodies() {
        let context = PassContext::default();
        for def in COMPOSITES
            .iter()
            .filter(|it| !matches!(ms_ops::ops::transform_rules(it).derivative, ms_ops::ops::Derivative::Body))
        {
            for mut sample in (def.samples)() {
                sample.inputs.iter_mut().filter(|it| it.dtype.is_float()).for_each(|it| it.dtype = DType::F64);
                let graph = single(def, &sample);
                let wrt: Vec<usize> =
                    (0..sample.inputs.len()).filter(|&at| sample.inputs[at].dtype.is_float()).collect();
                let arrays = sample.arrays();
                let gradients = |graph: &Graph| {
                    // Every result has a different cotangent.
                    let seeded = value_and_grad(graph, &wrt, graph.outputs().len(), true, true).expect("it has rules");
                    let seeds = seeded.inputs()[arrays.len()..].iter().enumerate();
                    let seeds = seeds.map(|(at, &it)| {
                        let ty = seeded.ty(it);
                        scattered(&ty.shape().expect("sizes are known"), ty.dtype, -1.0, 1.0, at + 3)
                    });
                    let inputs: Vec<Array> = arrays.iter().cloned().chain(seeds).collect();
                    let outputs =
                        evaluate_graph(&seeded, &inputs.iter().collect::<Vec<_>>()).expect("a sample evaluates");
                    let gradients = outputs[graph.outputs().len()..].to_vec();
                    gradients
                        .iter()
                        .flat_map(|it| it.on_host().expect("the elements are readable").scalars())
                        .map(|it| it.as_f64())
                        .collect::<Vec<f64>>()
                };
                let (got, want) = (gradients(&graph), gradients(&Composites.run(&graph, &context)));
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
                let same = got.len() == want.len() && got.iter().zip(&want).all(near);
                assert!(same, "`{}`: {got:?}, not {want:?}, in {sample:?}", def.name());
            }
        }
    }
}

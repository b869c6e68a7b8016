//! Expansion of the composites that the target does not run itself.

use super::{Pass, PassContext};
use crate::ir::{Graph, Node, Precision, Type};
use crate::tensor::{DType, Op};
use crate::transform::expand_own_composites;
use std::borrow::Cow;

/// A composite that a target runs itself, instead of the ops of its body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Kept {
    /// The composite.
    pub op: Op,
    /// The dtype of its first operand.
    pub dtype: DType,
    /// Whether its results have the bits of the body, so that it is kept in strict precision as well.
    pub strict: bool,
}

impl Kept {
    /// Whether this is an op on operands of these types, in this precision.
    pub fn admits(&self, op: Op, types: &[&Type], precision: Precision) -> bool {
        let exact = self.strict || precision.is_relaxed();
        exact && self.op == op && types.first().is_some_and(|it| it.dtype == self.dtype)
    }
}

/// Replaces composites by the ops of their bodies, unless they are in [`PassContext::kept`].
pub struct Composites;

impl Pass for Composites {
    fn name(&self) -> &'static str {
        "composites"
    }

    fn run<'g>(&self, graph: &'g Graph, context: &PassContext) -> Cow<'g, Graph> {
        let refused = |graph: &Graph, node: &Node| {
            let types: Vec<&Type> = node.inputs.iter().map(|&it| graph.ty(it)).collect();
            !context.kept.iter().any(|it| it.admits(node.op, &types, context.precision))
        };
        // A composite whose body is refused remains, and running it reports the error.
        expand_own_composites(graph, &refused).unwrap_or(Cow::Borrowed(graph))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::core::testing::scattered;
    use crate::ops::{COMPOSITES, Lowering, OpDef, Sample, definition, evaluate_graph, infer, verify};
    use crate::optimize::optimize;
    use crate::tensor::Array;
    use crate::transform::{jvp, value_and_grad};

    /// A graph of one node of a sample.
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

    fn kept() -> Vec<Kept> {
        let dtypes = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32, DType::I64];
        let of = |def: &&'static OpDef| dtypes.map(|dtype| Kept { op: def.op(), dtype, strict: true });
        COMPOSITES.iter().flat_map(of).collect()
    }

    fn count(graph: &Graph, op: Op) -> usize {
        graph.nodes().filter(|(_, node)| node.op == op).count()
    }

    /// The bits of the outputs.
    fn bits(graph: &Graph, inputs: &[Array]) -> Vec<Vec<u64>> {
        verify(graph).expect("the graph is sound");
        let outputs = evaluate_graph(graph, &inputs.iter().collect::<Vec<_>>()).expect("a sample evaluates");
        let bits = |it: &Array| -> Vec<u64> {
            let scalars = it.on_host().expect("the elements are readable").scalars();
            scalars.into_iter().map(|it| it.as_f64()).map(|it| if it.is_nan() { 0 } else { it.to_bits() }).collect()
        };
        outputs.iter().map(bits).collect()
    }

    /// The derivative rule of a composite gives what the rules of the ops of its body give.
    #[test]
    fn rules_agree_with_those_of_bodies() {
        let context = PassContext::default();
        for def in COMPOSITES.iter().filter(|it| !matches!(it.derivative, crate::ops::Derivative::Body)) {
            for mut sample in (def.samples)() {
                sample.inputs.iter_mut().filter(|it| it.dtype.is_float()).for_each(|it| it.dtype = DType::F64);
                let graph = single(def, &sample);
                let wrt: Vec<usize> =
                    (0..sample.inputs.len()).filter(|&at| sample.inputs[at].dtype.is_float()).collect();
                let arrays = sample.arrays();
                let gradients = |graph: &Graph| {
                    // Every result has another cotangent.
                    let seeded = value_and_grad(graph, &wrt, graph.outputs().len(), true, true).expect("it has rules");
                    let seeds = seeded.inputs()[arrays.len()..].iter().enumerate();
                    let seeds = seeds.map(|(at, &it)| {
                        scattered(&seeded.ty(it).shape().expect("sizes are known"), DType::F64, -1.0, 1.0, at + 3)
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

    /// Every composite is a node after differentiation if it has a rule; kept, it has the bits that it has
    /// expanded.
    #[test]
    fn kept_and_expanded() {
        let (all, none) = (PassContext { kept: kept(), ..PassContext::default() }, PassContext::default());
        for def in COMPOSITES {
            for sample in (def.samples)() {
                let graph = single(def, &sample);
                let floats: Vec<usize> =
                    (0..sample.inputs.len()).filter(|&at| sample.inputs[at].dtype.is_float()).collect();
                let results: usize = graph.outputs().iter().take_while(|&&it| graph.ty(it).dtype.is_float()).count();
                let gradients = value_and_grad(&graph, &floats, results, false, true).expect("it has a derivative");
                let tangents = jvp(&graph, &floats, results).expect("it has a derivative");
                let has_rule = !matches!(def.derivative, crate::ops::Derivative::Body);
                assert_eq!(count(&gradients, def.op()) > 0, has_rule, "{gradients}");
                for (graph, stays) in [(graph, true), (gradients, has_rule), (tangents, false)] {
                    let mut inputs = sample.arrays();
                    inputs.extend(
                        floats.iter().take(graph.inputs().len() - inputs.len()).map(|&at| sample.inputs[at].array(9)),
                    );
                    let (kept, expanded) = (optimize(graph.clone(), &all), optimize(graph.clone(), &none));
                    assert_eq!(count(&kept, def.op()) > 0, stays, "{kept}");
                    let left =
                        expanded.nodes().any(|(_, it)| matches!(definition(it.op).lowering, Lowering::Composite(_)));
                    assert!(!left, "{expanded}");
                    let want = bits(&graph, &inputs);
                    assert_eq!(bits(&kept, &inputs), want, "{kept}");
                    assert_eq!(bits(&expanded, &inputs), want, "{expanded}");
                }
            }
        }
    }

    #[test]
    fn what_is_kept() {
        let op = COMPOSITES[0].op();
        let fast = Kept { op, dtype: DType::F32, strict: false };
        let (f32, f64) = (Type::of(DType::F32, &[2]), Type::of(DType::F64, &[2]));
        assert!(fast.admits(op, &[&f32, &f64], Precision::Highest));
        assert!(!fast.admits(op, &[&f64], Precision::Highest));
        assert!(!fast.admits(op, &[&f32], Precision::Strict));
        assert!(!fast.admits(COMPOSITES[1].op(), &[&f32], Precision::Highest));
        assert!(Kept { strict: true, ..fast }.admits(op, &[&f32], Precision::Strict));
    }
}

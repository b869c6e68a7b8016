//! Every primitive on its own samples, eagerly and compiled, on the backend of this machine,
//! against its reference evaluation.

use ms::ir::{Graph, Node};
use ms::ops::{OpDef, PRIMITIVES, Sample, SampleInput};
use ms::session::{Compiled, Precision};
use ms::tensor::{Array, Element, Scalar, apply};
use ms::{DType, Tensor, with_element};

/// Evenly scattered values of the sample's range.
fn operand((seed, input): (usize, &SampleInput)) -> Tensor {
    let mut out = Array::uninit(&input.shape, input.dtype);
    with_element!(input.dtype, T => {
        for (i, to) in out.as_mut_slice::<T>().iter_mut().enumerate() {
            // The golden ratio's multiples modulo one never come close to each other.
            let unit = ((i + 1) as f64 * 0.618_033_988_749_894_9 + seed as f64 * 0.37).fract();
            *to = <T as Element>::from_scalar(match input.dtype.is_float() {
                true => Scalar::Float(input.low + unit * (input.high - input.low)),
                false => Scalar::Int((input.low + unit * (input.high - input.low + 1.0)).floor() as i64),
            });
        }
    });
    Tensor::from_array(out)
}

/// The graph of one node.
fn graph(def: &'static OpDef, sample: &Sample, inputs: &[Tensor], results: &[Array]) -> Graph {
    let mut graph = Graph::new(def.name());
    let operands: Vec<_> = inputs.iter().map(|it| graph.add_input(it.ty())).collect();
    let node = Node::new(def.op(), sample.attrs.clone(), operands);
    let node = graph.add_node(node, results.iter().map(Array::ty));
    graph.set_outputs(graph.node(node).outputs.clone());
    graph
}

/// How far a result may be from the reference, which rounds less often.
fn last_digits(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-9),
        DType::BF16 => 2f64.powi(-6),
        DType::F32 => 2f64.powi(-19),
        DType::F64 => 2f64.powi(-48),
        _ => 0.0,
    }
}

fn check(what: &str, sample: &Sample, got: &[Tensor], want: &[Array]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got.ty(), want.ty(), "{what}");
        let (digits, got) = (last_digits(want.dtype()), got.try_array().expect("an array"));
        for (got, want) in got.scalars().into_iter().zip(want.scalars()) {
            let (got, want) = (got.as_f64(), want.as_f64());
            let same = got == want || (got.is_nan() && want.is_nan());
            assert!(same || (got - want).abs() <= digits * (1.0 + want.abs()), "{what}: {got}, not {want}: {sample:?}");
        }
    }
}

#[test]
fn every_primitive_means_the_same_eagerly_and_compiled() {
    for &def in PRIMITIVES {
        for sample in (def.samples)() {
            let inputs: Vec<Tensor> = sample.inputs.iter().enumerate().map(operand).collect();
            let arrays: Vec<Array> = inputs.iter().map(|it| it.try_array().expect("an array")).collect();
            let want = (def.eval)(&sample.attrs, &arrays.iter().collect::<Vec<_>>()).expect("a sample evaluates");

            let eager = apply(def.op(), &sample.attrs, &inputs.iter().collect::<Vec<_>>());
            let eager = eager.unwrap_or_else(|error| panic!("`{}` eagerly: {error}", def.name()));
            check(&format!("`{}` eagerly", def.name()), &sample, &eager, &want);

            let graph = graph(def, &sample, &inputs, &want);
            let compiled = Compiled::new(&graph, Precision::Strict).and_then(|it| it.run(&inputs));
            let compiled = compiled.unwrap_or_else(|error| panic!("`{}` compiled: {error}", def.name()));
            check(&format!("`{}` compiled", def.name()), &sample, &compiled, &want);
        }
    }
}

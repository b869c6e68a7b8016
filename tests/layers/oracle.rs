//! Reads the cases of the file, and compares layers with them.

use ms::prelude::*;
use ms::{At, Context, Gradients, context, with_context};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static FILE: LazyLock<StateDict> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layers/data/layers.safetensors");
    StateDict::read(path).expect("the file is there")
});

/// Returns the tensors of a case under a name, such as `out`, in order.
pub fn numbered(case: &str, name: &str) -> Vec<Tensor> {
    (0..).map_while(|at| FILE.get(&format!("{case}.{name}.{at}")).cloned()).collect()
}

/// Returns an entry of a case.
pub fn entry(case: &str, name: &str) -> Tensor {
    FILE.get(&format!("{case}.{name}")).unwrap_or_else(|| panic!("the file has no {case}.{name}")).clone()
}

/// Compares to five digits of the largest element.
#[track_caller]
pub fn near(what: &str, got: &Tensor, want: &Tensor) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let (got, want) = (got.cast(DType::F64).to_vec::<f64>(), want.cast(DType::F64).to_vec::<f64>());
    let scale = want.iter().fold(1.0f64, |all, it| all.max(it.abs()));
    for (at, (got, want)) in got.into_iter().zip(want).enumerate() {
        assert!((got - want).abs() <= 1e-5 * scale, "{what}, element {at}: {got}, not {want}");
    }
}

/// Loads the state of a case. Its names are PyTorch's.
#[track_caller]
pub fn load(case: &str, net: &impl Cell) {
    let options = LoadOptions::new().convention(Convention::PyTorch);
    let loaded = net.load_state_dict(&FILE.part(&format!("{case}.state")), &options);
    loaded.unwrap_or_else(|error| panic!("{case}: {error}"));
}

/// Compares a layer with a case, eagerly and compiled. `call` applies the layer to the operands with gradients, and to
/// those without.
#[track_caller]
pub fn check<C, F>(case: &str, net: C, call: F)
where
    C: Cell + 'static,
    F: Fn(&C, &[Tensor], &[Tensor]) -> Vec<Tensor> + Copy + 'static,
{
    let (inputs, others, factors) = (numbered(case, "in"), numbered(case, "by"), numbered(case, "ct"));
    assert!(!factors.is_empty(), "the file has no case {case}");
    let run = ms::jit(move |net: &C, inputs: &Vec<Tensor>, others: &Vec<Tensor>, factors: &Vec<Tensor>| {
        let weighed = |net: &C, inputs: &Vec<Tensor>| {
            let results = call(net, inputs, others);
            let sums = results.iter().zip(factors).map(|(result, factor)| (result * factor).sum(()));
            (sums.reduce(|a, b| a + b).expect("there is a result"), results)
        };
        let ((_, results), gradients) = ms::value_and_grad(weighed).has_aux().wrt((At::<0>, At::<1>))(net, inputs);
        (results, gradients)
    });
    for jit in [false, true] {
        let mode = if jit { "compiled" } else { "eagerly" };
        // Class weights of losses are fields here, but part of the state in the file.
        if !net.parameters().is_empty() {
            load(case, &net);
        }
        type Answers = (Vec<Tensor>, (Gradients, Vec<Tensor>));
        let (results, (of_state, of_inputs)): Answers =
            with_context(Context { jit, ..context() }, || run(&net, &inputs, &others, &factors));
        assert_eq!((results.len(), of_inputs.len()), (factors.len(), inputs.len()), "{case}");
        for (at, (got, want)) in results.iter().zip(numbered(case, "out")).enumerate() {
            near(&format!("{case}, {mode}, result {at}"), got, &want);
        }
        for (at, got) in of_inputs.iter().enumerate() {
            near(&format!("{case}, {mode}, gradient of operand {at}"), got, &entry(case, &format!("grad.in.{at}")));
        }
        same(&format!("{case}, {mode}, after"), &net, &FILE.part(&format!("{case}.after")));
        // The slots take the gradients, so that these have the names of PyTorch.
        let wanted = FILE.part(&format!("{case}.grad.state"));
        assert_eq!(of_state.len(), wanted.len(), "{case}");
        of_state.iter().for_each(|(parameter, gradient)| parameter.store(gradient.clone()));
        same(&format!("{case}, {mode}, gradient"), &net, &wanted);
    }
}

/// Compares slots by their names in PyTorch.
#[track_caller]
fn same(what: &str, net: &impl Cell, wanted: &StateDict) {
    let got = StateDict::named(net, Convention::PyTorch);
    for (name, want) in wanted.iter() {
        let got = got.get(name).unwrap_or_else(|| panic!("{what}: no slot is called {name}"));
        near(&format!("{what} of {name}"), got, want);
    }
}

/// [`check`] for a layer of one operand.
#[track_caller]
pub fn layer<C: Cell + Layer>(case: &str, net: C) {
    check(case, net, |net, x, by| vec![net.forward(x.iter().chain(by).next().expect("there is an operand"))]);
}

#[test]
fn every_case_of_the_file_is_compared() {
    let sources = [
        include_str!("attention.rs"),
        include_str!("convolutions.rs"),
        include_str!("losses.rs"),
        include_str!("norms.rs"),
        include_str!("pools.rs"),
        include_str!("recurrent.rs"),
    ];
    let names = FILE.names().map(|it| it.split('.').next().expect("a name has a first part"));
    let cases: BTreeSet<&str> = names.collect();
    let missing: Vec<&str> =
        cases.into_iter().filter(|case| !sources.iter().any(|it| it.contains(&format!("\"{case}\"")))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

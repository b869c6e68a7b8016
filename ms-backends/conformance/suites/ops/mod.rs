//! Tests ops: values, numerics, layouts, and invalid input.

/// An invalid call: the code of its error, words of the message, and the call.
type Failure<'a> = (ms::Code, &'a [&'a str], Box<dyn Fn() + 'a>);

fn check_failures(cases: &[Failure<'_>]) {
    for (at, (code, words, case)) in cases.iter().enumerate() {
        let error = ms_conformance::late_errors::catch(case).expect_err("it fails");
        let said = error.to_string();
        assert_eq!(error.code(), *code, "case {at}: {said}");
        words.iter().for_each(|it| assert!(said.contains(it), "case {at}: {said}\nhas no {it}"));
    }
}

/// Returns the elements as f64.
fn numbers(x: &ms::Tensor) -> Vec<f64> {
    x.cast(ms::DType::F64).to_vec()
}

mod bad_input;
mod composed;
mod custom_ops;
mod dynamic_slices;
mod edges;
mod indices;
mod kernels;
mod movement;
pub mod narrow;
mod numbers_refused;
mod numerics;
mod primitives;
mod quantization;
mod reductions;
mod robustness;
mod safety;
mod segments;
mod tensors;
mod unseen;

//! Every operator and its gradient against the answers of an independent framework (PyTorch, in
//! float64), on each way to run it. `data/README.md` tells the conventions.

mod case;
mod elementwise;
mod losses;
mod movement;
mod networks;
mod normalizations;
mod optimisers;
mod products;
mod reductions;

use case::{Attributes, Case, cases};
use ms::ops::{self, reference::ReferenceDispatcher};
use ms::session::{Compiled, Precision, Wrt, differentiate};
use ms::tensor::with_dispatcher;
use ms::{Result, Tensor, catch, trace};
use std::rc::Rc;

/// Operators, and single cases, that have no entry yet.
const MISSING: &[&str] = &[
    "adadelta",
    "adagrad",
    "adam.amsgrad",
    "momentum.dampening",
    "momentum.nesterov",
    "momentum.nesterov_decay",
    "rmsprop",
];

/// Operators whose results' sizes depend on data, and those that make a parameter of an operand:
/// they do not become part of a graph.
const EAGER_ONLY: &[&str] = &["adam", "adamw", "masked_select", "momentum", "nonzero", "sgd"];

/// The results of an operator; nothing where it has no entry.
fn apply(op: &str, attrs: &Attributes, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    let families = [
        elementwise::apply,
        losses::apply,
        movement::apply,
        networks::apply,
        normalizations::apply,
        optimisers::apply,
        products::apply,
        reductions::apply,
    ];
    families.into_iter().find_map(|family| family(op, attrs, inputs))
}

/// The operands of a case, then the cotangents of those results that take part.
fn arguments(case: &Case) -> Vec<Tensor> {
    case.inputs.iter().chain(case.cotangents.iter().flatten()).cloned().collect()
}

/// The results of a case on its arguments, then its gradients.
fn answers(case: &Case, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
    let (inputs, cotangents) = arguments.split_at(case.inputs.len());
    let run = |inputs: &[Tensor]| apply(&case.op, &case.attrs, inputs).expect("the operator has an entry");
    let mut answers = run(inputs);
    if case.cotangents.is_empty() {
        return Ok(answers);
    }
    let wanted: Vec<usize> = (0..inputs.len()).filter(|&i| case.gradients[i].is_some()).collect();
    let mut wrt = Wrt::default();
    wrt.tree(&wanted.iter().map(|&i| inputs[i].clone()).collect::<Vec<_>>());
    let weigh = |watched: &[Tensor]| {
        let mut inputs = inputs.to_vec();
        for (&i, tensor) in wanted.iter().zip(watched) {
            inputs[i] = tensor.clone();
        }
        let results = run(&inputs).into_iter().zip(&case.cotangents).filter(|it| it.1.is_some());
        let weighed = results.zip(cotangents).map(|((result, _), it)| ops::sum(ops::mul(result, it), (), false));
        weighed.collect::<Vec<_>>()
    };
    let (_, gradients) = differentiate(&wrt, weigh, std::panic::Location::caller())?;
    answers.extend(gradients);
    Ok(answers)
}

/// What is wrong with an answer, if anything is.
fn difference(got: &Tensor, want: &Tensor, (rtol, atol): (f64, f64)) -> Option<String> {
    if got.shape() != want.shape() {
        return Some(format!("shape {:?}, not {:?}", got.shape(), want.shape()));
    }
    let wide = |it: &Tensor| it.try_array().expect("an array").scalars().into_iter().map(|it| it.as_f64());
    wide(got).zip(wide(want)).enumerate().find_map(|(at, (got, want))| {
        let same = got == want || (got.is_nan() && want.is_nan());
        let near = (got - want).abs() <= atol + rtol * want.abs();
        (!same && !near).then(|| format!("element {at} is {got}, not {want}"))
    })
}

/// Runs all cases one way, and reports all that is wrong.
fn check(skipped: &[&str], run: impl Fn(&Case) -> Result<Vec<Tensor>>) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in cases() {
        let listed = |list: &[&str]| list.contains(&&*case.op) || list.contains(&&*case.name);
        if listed(MISSING) || listed(skipped) {
            continue;
        }
        count += 1;
        let got = match catch(|| run(&case)) {
            Ok(Ok(got)) => got,
            Ok(Err(error)) | Err(error) => {
                wrong.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        let want = case.outputs.iter().chain(case.gradients.iter().flatten());
        let places = (0..case.outputs.len()).map(|i| format!("result {i}"));
        let places = places.chain((0..).map(|i| format!("gradient {i}")));
        for ((got, want), place) in got.iter().zip(want).zip(places) {
            if let Some(what) = difference(got, want, case.tolerance) {
                wrong.push(format!("{}, {place}: {what}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn by_reference_evaluation() {
    check(&[], |case| with_dispatcher(Rc::new(ReferenceDispatcher::Eval), || answers(case, &arguments(case))));
}

#[test]
fn by_the_bodies_of_kernels() {
    check(&[], |case| with_dispatcher(Rc::new(ReferenceDispatcher::Lowered), || answers(case, &arguments(case))));
}

#[test]
fn eagerly() {
    check(&[], |case| answers(case, &arguments(case)));
}

#[test]
fn compiled() {
    check(EAGER_ONLY, |case| {
        let arguments = arguments(case);
        let types: Vec<_> = arguments.iter().map(Tensor::ty).collect();
        let graph = trace::build(&case.name, &types, |arguments| answers(case, arguments))?;
        Compiled::new(&graph, Precision::Strict)?.run(&arguments)
    });
}

#[test]
fn every_operator_has_an_entry() {
    let known = |case: &Case| catch(|| apply(&case.op, &case.attrs, &case.inputs)).map_or(true, |it| it.is_some());
    let listed = |name: &str| MISSING.contains(&name);
    for case in cases() {
        assert_eq!(
            known(&case),
            !listed(&case.op) && !listed(&case.name),
            "`MISSING` lists what has no entry: {}",
            case.name
        );
    }
}

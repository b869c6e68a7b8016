//! Compares every operator and its gradient with the results of an independent framework (PyTorch, in float64), on each
//! execution path.
//!
//! `data/README.md` documents the conventions. `cargo test --test golden -- --nocapture` prints how many cases of each
//! category pass on each path.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod case;
mod elementwise;
mod losses;
mod methods;
mod movement;
mod networks;
mod normalizations;
mod objects;
mod optimisers;
mod paths;
mod products;
mod reductions;
mod report;

use case::{Case, cases};
use ms::Parameter;
use ms::ops::reference::ReferenceDispatcher;
use ms::tensor::{Dispatcher, OpCall, Outputs};
use ms::{Result, Tensor, catch, ops};
use paths::{OF_BACKEND, WITHOUT_BACKEND, op_by_op};
use report::{Column, Table};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::Command;
use std::rc::Rc;

/// Returns the results of an operator.
fn apply(case: &Case, inputs: &[Tensor]) -> Vec<Tensor> {
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
    let results = families.into_iter().find_map(|family| family(&case.op, &case.attrs, inputs));
    results.unwrap_or_else(|| selected(case, inputs).unwrap_or_else(|| panic!("`{}` has no entry", case.op)))
}

/// Returns the results of an operator with result sizes that depend on data. In a graph, the case gives sizes that are
/// a little too large.
fn selected(case: &Case, x: &[Tensor]) -> Option<Vec<Tensor>> {
    let (size, traced) = (case.outputs[0].shape().first().copied().unwrap_or(0), x[0].is_traced());
    let result = match &*case.op {
        "masked_select" if traced => ops::masked_select_sized(&x[0], &x[1], size + 3, 7.0).i(..size as isize),
        "masked_select" => ops::masked_select(&x[0], &x[1]),
        "nonzero" if traced => ops::nonzero_sized(&x[0], size + 3, 7).i(..size as isize),
        "nonzero" => ops::nonzero(&x[0]),
        _ => return None,
    };
    Some(vec![result])
}

/// Returns the operands of a case, then the cotangents of the results that are in the sum.
fn arguments(case: &Case) -> Vec<Tensor> {
    case.inputs.iter().chain(case.cotangents.iter().flatten()).cloned().collect()
}

/// Returns the results of a case on its arguments, then its gradients.
fn answers(case: &Case, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
    let (inputs, cotangents) = arguments.split_at(case.inputs.len());
    let run = |inputs: &[Tensor]| apply(case, inputs);
    let mut answers = run(inputs);
    if case.cotangents.is_empty() {
        return Ok(answers);
    }
    let wanted: Vec<usize> = (0..inputs.len()).filter(|&i| case.gradients[i].is_some()).collect();
    let wrt: Vec<Tensor> = wanted.iter().map(|&i| inputs[i].clone()).collect();
    let weigh = |watched: &Vec<Tensor>| {
        let mut inputs = inputs.to_vec();
        for (&i, tensor) in wanted.iter().zip(watched) {
            inputs[i] = tensor.clone();
        }
        let results = run(&inputs).into_iter().zip(&case.cotangents).filter(|it| it.1.is_some());
        let weighed = results.zip(cotangents).map(|((result, _), it)| ops::sum(ops::mul(result, it), ()));
        weighed.collect::<Vec<_>>()
    };
    answers.extend(catch(|| ms::grad(weigh)(&wrt))?);
    Ok(answers)
}

/// Returns the difference of a result from the expected one, if there is one.
fn difference(got: &Tensor, want: &Tensor, (rtol, atol): (f64, f64)) -> Option<String> {
    if got.shape() != want.shape() {
        return Some(format!("shape {:?}, not {:?}", got.shape(), want.shape()));
    }
    let wide = |it: &Tensor| {
        it.try_array()
            .and_then(ms::tensor::Array::into_host)
            .expect("an array")
            .scalars()
            .into_iter()
            .map(|it| it.as_f64())
    };
    wide(got).zip(wide(want)).enumerate().find_map(|(at, (got, want))| {
        let same = got == want || (got.is_nan() && want.is_nan());
        let near = (got - want).abs() <= atol + rtol * want.abs();
        (!same && !near).then(|| format!("element {at} is {got}, not {want}"))
    })
}

/// The instruction sets that kernels are compiled for. `interp` interprets them.
const INSTRUCTION_SETS: [&str; 3] = ["avx512", "avx2", "interp"];

/// The kind of the simulated device, which uses the best instruction set of the machine.
const SIMULATED: &str = "sim";

/// Returns the simulated device or the instruction set of this process.
fn target() -> String {
    let device = ms::context().device();
    let backend = ms_core::exec::backend(device).expect("a backend is linked").fingerprint();
    match device.is_cpu() {
        true => backend.split(' ').next_back().expect("a fingerprint has words").to_string(),
        false => device.kind().to_string(),
    }
}

/// Runs all cases in a separate process, on the simulated device or with one instruction set. Returns nothing if the
/// machine does not support it.
fn on(isa: &str) -> Vec<Column> {
    let mut test = Command::new(std::env::current_exe().expect("this test is a file"));
    test.args(["on_one_target", "--exact", "--ignored", "--nocapture"]);
    match isa {
        SIMULATED => test.env("MS_DEVICE_TARGET", SIMULATED),
        _ => test.env("MS_DEVICE_TARGET", "cpu").env("MS_CPU_ISA", isa),
    };
    let output = test.output().expect("the test starts");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if isa != "interp" && errors.contains(&format!("error[{}]", ms::Code::Environment)) {
        return Vec::new();
    }
    assert!(output.status.success(), "{isa}: {text}{errors}");
    Column::read(&text)
}

#[test]
#[ignore = "every_case_passes_on_every_path starts it, once for each target"]
fn on_one_target() {
    for path in OF_BACKEND {
        print!("\n{}", Column::run(path, format!("{} {}", target(), path.name())).write());
    }
}

#[test]
fn every_case_passes_on_every_path() {
    let columns = std::thread::scope(|scope| {
        let apart = INSTRUCTION_SETS.into_iter().chain([SIMULATED]).map(|isa| scope.spawn(move || on(isa)));
        let apart: Vec<_> = apart.collect();
        let here = WITHOUT_BACKEND.map(|path| Column::run(path, path.name().to_string()));
        let apart = apart.into_iter().flat_map(|it| it.join().expect("the process ends well"));
        here.into_iter().chain(apart).collect::<Vec<_>>()
    });
    let table = Table(columns);
    let known: BTreeSet<&str> = table.0.iter().map(|it| &*it.name).collect();
    println!("{table}");
    for isa in INSTRUCTION_SETS.iter().filter(|isa| !known.iter().any(|it| it.starts_with(**isa))) {
        println!("this machine does not run {isa}");
    }
    for everywhere in ["interp", SIMULATED] {
        assert!(known.iter().any(|it| it.starts_with(everywhere)), "{everywhere} runs everywhere");
    }
    let wrong = table.0.iter().flat_map(|column| column.wrong.iter().map(move |it| format!("{}, {it}", column.name)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    for column in &table.0 {
        assert_eq!(column.passed.values().sum::<usize>(), cases().len(), "cases on {}", column.name);
    }
}

/// Evaluates ops by reference, and records the names of the ops.
struct Recorder(RefCell<BTreeSet<&'static str>>);

impl Dispatcher for Recorder {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        self.0.borrow_mut().insert(call.op.name());
        ReferenceDispatcher::Eval.apply(call)
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        ReferenceDispatcher::Eval.read_parameter(parameter)
    }

    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        ReferenceDispatcher::Eval.write_parameter(parameter, value)
    }
}

/// The composites that are compared with examples of ONNX instead, in `ms-backends/conformance/suites/ops/quantization.rs`.
const OF_ONNX: [&str; 2] = ["dequantize", "quantize"];

/// Every composite is applied by some case: as one op by the reference, and by the ops of its body on the other paths.
#[test]
fn every_composite_has_a_case() {
    let recorder = Rc::new(Recorder(RefCell::default()));
    for case in cases() {
        op_by_op(recorder.clone(), case).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
    let applied = recorder.0.borrow();
    let missing: Vec<&str> = ops::COMPOSITES.iter().map(|it| it.name()).filter(|it| !applied.contains(it)).collect();
    assert_eq!(missing, OF_ONNX, "the composites without a case");
}

/// Returns the operators that `form` does not support in any case, and checks the results of all others.
fn without(form: impl Fn(&Case, &[Tensor]) -> Option<Vec<Tensor>>) -> Vec<&'static str> {
    let (mut all, mut known) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        all.insert(&*case.op);
        let Some(got) = catch(|| form(case, &case.inputs)).unwrap_or_else(|error| panic!("{}: {error}", case.name))
        else {
            continue;
        };
        known.insert(&*case.op);
        for (at, (got, want)) in got.iter().zip(&case.outputs).enumerate() {
            if let Some(what) = difference(got, want, case.tolerance) {
                panic!("{}, result {at}: {what}", case.name);
            }
        }
    }
    all.difference(&known).copied().collect()
}

#[test]
fn operators_are_objects_where_mindspore_has_one() {
    let functions_and_layers = [
        "adadelta",
        "adagrad",
        "adam",
        "adamw",
        "argsort",
        "blocked_attention",
        "clamp",
        "conv1d",
        "cosine_embedding_loss",
        "cosine_similarity",
        "cross_entropy",
        "embedding",
        "group_norm",
        "gru",
        "huber_loss",
        "index_select",
        "instance_norm",
        "interpolate",
        "l1_loss",
        "leaky_relu",
        "logsumexp",
        "lstm",
        "momentum",
        "mse_loss",
        "norm",
        "repeat",
        "rmsprop",
        "scaled_dot_product_attention",
        "scatter",
        "scatter_add",
        "sgd",
        "slice",
        "std",
        "transpose",
        "var",
    ];
    assert_eq!(without(objects::apply), functions_and_layers);
}

#[test]
fn operators_are_methods_where_numpy_has_one() {
    let functions = [
        "adadelta",
        "adagrad",
        "adam",
        "adamw",
        "adaptive_avg_pool2d",
        "arange",
        "avg_pool2d",
        "batch_norm",
        "bce_with_logits",
        "binary_cross_entropy",
        "blocked_attention",
        "celu",
        "clamp",
        "concat",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose2d",
        "cosine_embedding_loss",
        "cosine_similarity",
        "cross_entropy",
        "dense",
        "einsum",
        "elu",
        "embedding",
        "eye",
        "gelu",
        "group_norm",
        "gru",
        "hsigmoid",
        "hswish",
        "huber_loss",
        "instance_norm",
        "interpolate",
        "kl_div",
        "l1_loss",
        "layer_norm",
        "leaky_relu",
        "linspace",
        "logsigmoid",
        "lstm",
        "max_pool2d",
        "mish",
        "momentum",
        "mse_loss",
        "nll_loss",
        "one_hot",
        "pad",
        "relu6",
        "rms_norm",
        "rmsprop",
        "scaled_dot_product_attention",
        "selu",
        "sgd",
        "silu",
        "smooth_l1_loss",
        "softplus",
        "softsign",
        "stack",
    ];
    assert_eq!(without(methods::apply), functions);
}

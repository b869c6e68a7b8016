//! Runs the node tests of the ONNX standard: a model, inputs and results each. `MS_ONNX_NODES` names their folder.
//!
//! Every test runs twice: with all inputs as function inputs, and with small integer inputs as constants, which the
//! trace may read. A model may be rejected; a model that is read must give the results of its test.

use super::model::{Model, tensor};
use super::{Importer, Result};
use ms_core::session::{Exported, export};
use ms_ir::error::OrRaise;
use ms_ops::Tensor;
use ms_ops::tensor::{Array, DType};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Inputs with more elements remain inputs.
const CONSTANT: usize = 64;

/// Tests of version 1.17 with `int8_float` in the name expect wrap-around where operators saturate.
const WRAPPED: &str = "test_qlinearmatmul_";

// Models run on the backend, which registers itself.
use ms_cpu as _;

/// Rejects data in other files.
fn outside(_: &BTreeMap<String, String>, _: usize) -> Result<Vec<u8>, String> {
    Err("no test has data in other files".to_owned())
}

fn traced(model: &Model) -> Result<Exported> {
    let importer = Importer::new(model)?;
    let run = |inputs: &Vec<Tensor>| importer.run(inputs).or_raise();
    export(&run, (importer.examples(),), importer.inputs())
}

enum Outcome {
    Right,
    Refused(String),
    Wrong(String),
}

/// Reads the tensors of the files `KIND_0.pb`, `KIND_1.pb`, .. in order.
fn numbered(folder: &Path, kind: &str) -> Result<Vec<(String, Array)>, String> {
    let paths = (0..).map(|at| folder.join(format!("{kind}_{at}.pb"))).take_while(|it| it.exists());
    let read = |path: PathBuf| tensor(&std::fs::read(path).map_err(|why| why.to_string())?, &outside);
    paths.map(read).collect()
}

/// Reinterprets an array of integers as bits of this dtype.
fn of_bits(array: &Array, dtype: DType) -> Array {
    match (array.ty().dtype, dtype) {
        (DType::U16, DType::BF16) => {
            let bits = Tensor::from_array(array.clone()).to_vec::<u16>();
            let bytes: Vec<u8> = bits.into_iter().flat_map(u16::to_le_bytes).collect();
            Array::from_bytes(array.shape(), dtype, &bytes)
        }
        _ => array.clone(),
    }
}

/// Describes how the tensors differ by more than the tolerance of the standard's tests.
fn difference(result: &Tensor, wanted: &Tensor) -> Option<String> {
    if result.ty() != wanted.ty() {
        return Some(format!("{} and not {}", result.ty(), wanted.ty()));
    }
    let tolerance = match wanted.dtype() {
        DType::F16 | DType::BF16 => 1e-2,
        DType::F32 | DType::F64 => 1e-3,
        _ => 0.0,
    };
    let numbers = |it: &Tensor| it.cast(DType::F64).to_vec::<f64>();
    let mut pairs = numbers(result).into_iter().zip(numbers(wanted));
    let differs = |a: f64, b: f64| a != b && (a - b).abs() > 1e-7 + tolerance * b.abs() || a.is_nan() != b.is_nan();
    pairs.find(|&(a, b)| differs(a, b)).map(|(a, b)| format!("{a} and not {b}"))
}

fn run(folder: &Path, fixed: bool) -> Outcome {
    let file = std::fs::read(folder.join("model.onnx")).expect("every test has a model");
    let mut model = match Model::read(&file, &outside) {
        Ok(model) => model,
        Err(why) => return Outcome::Refused(why),
    };
    let data = folder.join("test_data_set_0");
    let (given, wanted) = match (numbered(&data, "input"), numbered(&data, "output")) {
        (Ok(given), Ok(wanted)) => (given, wanted),
        (Err(why), _) | (_, Err(why)) => return Outcome::Refused(why),
    };
    let mut inputs = Vec::new();
    let declared = std::mem::take(&mut model.inputs);
    if declared.len() != given.len() {
        return Outcome::Refused(format!("{} inputs have {} values", declared.len(), given.len()));
    }
    for (input, (_, array)) in declared.into_iter().zip(&given) {
        let array = of_bits(array, input.dtype);
        let is_small = array.ty().dtype.is_int() && array.shape().iter().product::<usize>() <= CONSTANT;
        if fixed && is_small {
            model.graph.inputs.retain(|it| *it != input.name);
            model.graph.initializers.push((input.name, array));
        } else {
            inputs.push(Tensor::from_array(array));
            model.inputs.push(input);
        }
    }
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let called = catch_unwind(AssertUnwindSafe(|| traced(&model).and_then(|it| it.call(&inputs))));
    let Ok(results) = called else { return Outcome::Wrong("a panic".to_owned()) };
    match results {
        Ok(results) => {
            let mut pairs = results.iter().zip(&wanted);
            let wrong = pairs.find_map(|(result, (_, wanted))| {
                difference(result, &Tensor::from_array(of_bits(wanted, result.dtype())))
            });
            wrong.map_or(Outcome::Right, Outcome::Wrong)
        }
        Err(error) => Outcome::Refused(error.report().message.clone()),
    }
}

#[test]
fn node_tests_of_the_standard_are_right_or_refused() {
    let Some(folder) = std::env::var_os("MS_ONNX_NODES") else {
        eprintln!("SKIPPED: MS_ONNX_NODES is not the folder of the node tests");
        return;
    };
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let mut folders: Vec<PathBuf> = entries.map(|it| it.expect("it is readable").path()).collect();
    folders.sort();
    let (mut right, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for folder in &folders {
        let name = folder.file_name().expect("it is in a folder").to_string_lossy();
        let outcomes = [false, true].map(|fixed| run(folder, fixed));
        for outcome in &outcomes {
            if let Outcome::Wrong(why) = outcome
                && !(name.starts_with(WRAPPED) && name.contains("int8_float"))
            {
                wrong.push(format!("{name}: {why}"));
            }
        }
        match outcomes {
            [Outcome::Right, _] | [_, Outcome::Right] => right += 1,
            [_, Outcome::Refused(why)] => refused.push(format!("{name}: {why}")),
            _ => {}
        }
    }
    println!("{}", refused.join("\n"));
    println!("{right} right, {} refused, {} wrong", refused.len(), wrong.len());
    assert!(right > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}

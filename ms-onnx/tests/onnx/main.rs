//! Exports every op and some networks, and imports them again; reads models of others and damaged ones.
//!
//! With `MS_ONNX_FOLDER`, the models are left in that folder with inputs and results, and `peers/onnx_models.py`
//! compares these with onnxruntime.

mod export;
mod import;

use ms::prelude::*;
use ms_core::Code;
use ms_core::error::OrRaise;
use ms_core::optimize::optimize;
use ms_core::session::Exported;
use ms_core::tensor::HostArray;
use ms_core::transform;
use ms_onnx::{Importer, Model};
use std::path::{Path, PathBuf};

/// Encodes the model of a function.
fn model(function: &Exported) -> Result<Vec<u8>> {
    let graph = optimize(transform::expand(function.graph(), false)?.into_owned(), &ms_onnx::pass_context());
    let names: Vec<&str> = function.inputs().map(|it| it.0).chain(function.constants().map(|it| it.0)).collect();
    let value = |it: &Tensor| it.try_array()?.into_host()?.to_contiguous().into_host();
    let constants: Vec<HostArray<'_>> = function.constants().map(|it| value(it.1)).collect::<Result<_>>()?;
    ms_onnx::export(&graph, &names, &constants)
}

/// Imports a model from bytes.
fn imported(bytes: &[u8]) -> Result<Exported> {
    let model = Model::read(bytes, &|_, _| Err("the model is in no folder".to_owned()));
    let model = model.map_err(|why| Error::new(Code::Io, why))?;
    let importer = Importer::new(&model)?;
    let run = |inputs: &Vec<Tensor>| importer.run(inputs).or_raise();
    ms_core::session::export(&run, (importer.examples(),), importer.inputs())
}

/// The folder of models that other programs wrote.
fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/onnx")
}

/// Asserts that results equal the expected ones up to rounding.
#[track_caller]
fn close(name: &str, results: &[Tensor], wanted: &[Tensor]) {
    assert_eq!(results.len(), wanted.len(), "{name}");
    for (result, wanted) in results.iter().zip(wanted) {
        assert_eq!(result.ty(), wanted.ty(), "{name}");
        let tolerance = match wanted.dtype() {
            DType::BF16 => 1e-2,
            DType::F16 => 2e-3,
            DType::F32 => 2e-5,
            DType::F64 => 1e-12,
            _ => 0.0,
        };
        let numbers = |it: &Tensor| it.cast(DType::F64).to_vec::<f64>();
        for (a, b) in numbers(result).into_iter().zip(numbers(wanted)) {
            let fits = a == b || (a - b).abs() <= tolerance * b.abs().max(1.0) || a.is_nan() && b.is_nan();
            assert!(fits, "{name}: {a} and not {b}");
        }
    }
}

fn data(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::from_slice(shape, &(0..count).map(|it| (it * 7 % 11) as f32 / 5.0 - 1.0).collect::<Vec<_>>())
}

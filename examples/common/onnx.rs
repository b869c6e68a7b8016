//! Compares functions of programs with their ONNX models.

use ms::io::{ExportOptions, ExportedFunction};
use ms::prelude::*;
use std::path::PathBuf;

/// Writes a function of a program as an ONNX model, reads it, and compares the results of both. With `MS_ONNX_FOLDER`,
/// the model is left in that folder with the inputs and results, for `peers/onnx_models.py`.
///
/// # Panics
/// Panics if results differ by more than rounding.
pub fn check_onnx<R: Tree>(program: &str, f: impl Fn(&[Tensor]) -> R, inputs: &[Tensor]) -> Result<()> {
    let function = ms::export(|it: &Vec<Tensor>| f(it), (&inputs.to_vec(),), &ExportOptions::new())?;
    let folder = std::env::var_os("MS_ONNX_FOLDER").map(PathBuf::from);
    let file = format!("{program}-{}", std::process::id());
    let path = folder.as_ref().map_or_else(|| std::env::temp_dir().join(file), |it| it.join(program));
    let model = path.with_extension("onnx");
    function.save_onnx(&model)?;
    let read = ExportedFunction::load_onnx(&model)?;
    let operands: Vec<&Tensor> = inputs.iter().collect();
    let (results, same) = (function.call(&operands)?, read.call(&operands)?);
    let size = |it: &Tensor| it.cast(DType::F64).abs().max(()).item::<f64>();
    let differences = same.iter().zip(&results).map(|(got, want)| size(&(got - want)) / size(want).max(1e-30));
    let largest = differences.fold(0.0, f64::max);
    println!("{program}: at most {largest:.1e} from the ONNX model, relative to the largest number");
    assert!(largest <= 1e-5, "{program}: the ONNX model has other results");
    if folder.is_none() {
        std::fs::remove_file(&model).expect("it was written");
        return Ok(());
    }
    let names = function.inputs().map(|it| format!("in {}", it.0)).collect::<Vec<_>>();
    let results = results.into_iter().enumerate().map(|(at, it)| (format!("out {at}"), it));
    let values = names.into_iter().zip(inputs.iter().cloned()).chain(results);
    values.collect::<StateDict>().write(path.with_extension("safetensors"))
}

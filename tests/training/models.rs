//! Tests ONNX models on the device of new tensors.

use ms::io::ExportedFunction;

/// The model computes shapes from tensors of its data, which are on the device.
#[test]
fn models_run_where_new_tensors_are() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/onnx/");
    for name in ["sizes", "text"] {
        let path = format!("{folder}{name}");
        let function = ExportedFunction::load_onnx(format!("{path}.onnx")).unwrap_or_else(|error| panic!("{error}"));
        let values = ms::StateDict::read(format!("{path}.safetensors")).unwrap_or_else(|error| panic!("{error}"));
        let results = function.call(&[values.get("in x").expect("an input")]).unwrap_or_else(|error| panic!("{error}"));
        let wanted = values.get("out 0").expect("a result");
        assert!((&results[0] - wanted).abs().max(()).item::<f32>() < 2e-5, "{name}");
    }
}

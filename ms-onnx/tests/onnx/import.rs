//! Reads models of other programs, damaged models, and operators with attributes.

use super::{close, data, imported, model, models};
use ms::io::ExportedFunction;
use ms::prelude::*;
use ms_core::Code;
use ms_core::session::InputSpec;
use ms_onnx::element_type;
use ms_protobuf::{bytes, number};

/// Truncated or changed models are rejected, or are valid functions.
#[test]
fn damaged_models_are_refused() {
    let images = nn::sequential![nn::Conv2d::new(1, 2, 3), nn::ReLU, nn::Flatten::new(), nn::Dense::new(8, 3)];
    let spec = InputSpec { name: "x".to_owned(), axes: vec![Some("n".to_owned()), None, None, None] };
    let softmax = |x: &Tensor| ops::softmax(images.call(x), -1);
    let exported = ms_core::session::export(&softmax, (&data(&[1, 1, 4, 4]),), &[spec]);
    let whole = exported.and_then(|it| model(&it)).expect("it has a model");
    let refused = |bytes: &[u8], word: &str| {
        let error = imported(bytes).map(|_| ()).expect_err("it is damaged");
        assert!(error.to_string().contains(word), "`{word}` is not in {error}");
    };
    for length in 0..whole.len() {
        refused(&whole[..length], "");
    }
    let replaced = |from: &str, to: &str| {
        let at = whole.windows(from.len()).position(|it| it == from.as_bytes()).expect(from);
        let mut changed = whole.clone();
        changed[at..at + to.len()].copy_from_slice(to.as_bytes());
        changed
    };
    refused(&replaced("Relu", "Ralu"), "the operator `Ralu` is not supported");
    refused(&replaced("output", "autput"), "no node defines the output `output`");
    let of = |graph: Vec<u8>| [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 18))].concat();
    let nested = |graph: Vec<u8>, _| {
        let branch = [bytes(1, b"then_branch"), bytes(6, &graph), number(20, 5)].concat();
        bytes(1, &[bytes(4, b"If"), bytes(5, &branch)].concat())
    };
    refused(&of((0..1000).fold(Vec::new(), nested)), "its graphs nest more than 16 deep");
    let tensor = |kind: u64, size: u64| bytes(5, &[number(1, size), number(2, kind), bytes(8, b"w")].concat());
    refused(&of(tensor(8, 1)), "`w` has elements of kind 8, which is not supported");
    refused(&of(tensor(1, 2)), "`w` is f32[2], and has 0 bytes");
    refused(&of(tensor(1, u64::MAX)), "`w` has a negative size");
    refused(&of(tensor(1, 1 << 62)), "no memory holds f32");
}

/// Third-party models with changed bytes are rejected, or are valid functions. `MS_ONNX_CHANGES` is the number of
/// changes to each.
#[test]
fn changed_models_are_refused_or_read() {
    let count = std::env::var("MS_ONNX_CHANGES").map_or(100, |it| it.parse().expect("a number"));
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let folder = models();
    let entries = std::fs::read_dir(folder).expect("the folder is there").map(|it| it.expect("an entry").path());
    for path in entries.filter(|it| it.extension().is_some_and(|it| it == "onnx")) {
        let whole = std::fs::read(&path).expect("it can be read");
        for _ in 0..count {
            let mut bytes = whole.clone();
            for _ in 0..=random(2) {
                let at = random(bytes.len());
                bytes[at] = if random(2) == 0 { bytes[at] ^ 1 << random(8) } else { random(256) as u8 };
            }
            let _ = imported(&bytes);
        }
    }
}

/// Models of a folder compute the results stored beside them. `MS_ONNX_MODELS` names a different folder.
#[test]
fn models_of_others_are_read() {
    let own = models();
    let folder = std::env::var_os("MS_ONNX_MODELS").map_or(own, Into::into);
    let mut read = 0;
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|it| it != "onnx") {
            continue;
        }
        let name = path.display().to_string();
        let function = ExportedFunction::load_onnx(&path).unwrap_or_else(|error| panic!("{error}"));
        let values = StateDict::read(path.with_extension("safetensors")).unwrap_or_else(|error| panic!("{error}"));
        let inputs: Vec<&Tensor> =
            function.inputs().map(|it| values.get(&format!("in {}", it.0)).expect("an input")).collect();
        let wanted = (0..).map_while(|at| values.get(&format!("out {at}")).cloned()).collect::<Vec<_>>();
        close(&name, &function.call(&inputs).unwrap_or_else(|error| panic!("{name}: {error}")), &wanted);
        read += 1;
    }
    assert!(read > 3, "{read} models are read");
}

/// External data is read from the model's folder only, and must have the right length.
#[test]
fn data_outside_is_refused() {
    let own = models();
    let whole = std::fs::read(own.join("external.onnx")).expect("it is in the repository");
    let weights = std::fs::read(own.join("external.bin")).expect("it is in the repository");
    let folder = std::env::temp_dir().join(format!("ms onnx outside {}", std::process::id()));
    let inner = folder.join("inner");
    std::fs::create_dir_all(&inner).expect("the folder is writable");
    let path = inner.join("model.onnx");
    let located = |location: &str| {
        assert_eq!(location.len(), "external.bin".len());
        let mut bytes = whole.clone();
        for at in 0..bytes.len() - location.len() {
            if bytes[at..].starts_with(b"external.bin") {
                bytes[at..at + location.len()].copy_from_slice(location.as_bytes());
            }
        }
        std::fs::write(&path, bytes).expect("the folder is writable");
    };
    let refused = |word: &str| {
        let error = ExportedFunction::load_onnx(&path).map(|_| ()).expect_err(word);
        assert!(error.code() == Code::Io && error.to_string().contains(word), "`{word}` is not in {error}");
    };
    std::fs::write(folder.join("external.bin"), &weights).expect("the folder is writable");
    located("external.bin");
    refused("`external.bin` cannot be found");
    for location in ["./../ext.bin", "/xternal.bin", "inner/../../", "../inner/../"] {
        located(location);
        refused("is outside of the folder of the model");
    }
    located("external.bin");
    let data = inner.join("external.bin");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.join("external.bin"), &data).expect("the folder is writable");
        refused("is outside of the folder of the model");
        std::fs::remove_file(&data).expect("it was made");
    }
    std::fs::write(&data, &weights[..weights.len() - 1]).expect("the folder is writable");
    refused(&format!("has {} bytes", weights.len() - 1));
    std::fs::write(&data, &weights).expect("the folder is writable");
    assert!(ExportedFunction::load_onnx(&path).is_ok());
    std::fs::remove_file(&data).expect("it was made");
    std::fs::create_dir(&data).expect("the folder is writable");
    refused("`external.bin`");
    let error = imported(&whole).map(|_| ()).expect_err("it is in no file");
    assert!(error.to_string().contains("the model is in no folder"), "{error}");
    std::fs::remove_dir_all(&folder).expect("it was made");
}

/// Unsupported data-dependent operators are rejected by name.
#[test]
fn what_depends_on_data_is_refused() {
    let whole = std::fs::read(models().join("loop.onnx"));
    let whole = whole.expect("it is in the repository");
    let changed = |from: &[u8], to: &[u8]| {
        let at = whole.windows(from.len()).position(|it| it == from).expect("it is there");
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let refused = |bytes: &[u8], word: &str| {
        let error = imported(bytes).map(|_| ()).expect_err(word);
        assert!(error.to_string().contains(word), "`{word}` is not in {error}");
    };
    refused(&changed(b"goes_\x22\x08Identity", b"goes_\x22\x08Ydentity"), "may end before the last");
    refused(&changed(b"\x05count\n\x04true", b"\x05first\n\x04true"), "whose number depends on data");
}

/// A model of one node with these encoded attributes, for inputs of these types.
fn node(operator: &str, attributes: &[Vec<u8>], inputs: &[(DType, &[usize])]) -> Vec<u8> {
    let name = |at: usize| format!("x{at}").into_bytes();
    let input = |(at, (dtype, shape)): (usize, &(DType, &[usize]))| {
        let axes: Vec<u8> = shape.iter().flat_map(|&it| bytes(1, &number(1, it as u64))).collect();
        let tensor = [number(1, element_type(*dtype)), bytes(2, &axes)].concat();
        bytes(11, &[bytes(1, &name(at)), bytes(2, &bytes(1, &tensor))].concat())
    };
    let operands: Vec<u8> = (0..inputs.len()).flat_map(|at| bytes(1, &name(at))).collect();
    let attributes: Vec<u8> = attributes.iter().flat_map(|it| bytes(5, it)).collect();
    let node = [operands, bytes(2, b"y"), bytes(4, operator.as_bytes()), attributes].concat();
    let inputs: Vec<u8> = inputs.iter().enumerate().flat_map(input).collect();
    let graph = [bytes(1, &node), inputs, bytes(12, &bytes(1, b"y"))].concat();
    [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 18))].concat()
}

fn int(name: &str, value: i64) -> Vec<u8> {
    [bytes(1, name.as_bytes()), number(3, value as u64), number(20, 2)].concat()
}

fn float(name: &str, value: f32) -> Vec<u8> {
    let key = [2 << 3 | 5];
    [bytes(1, name.as_bytes()), [&key[..], &value.to_le_bytes()].concat(), number(20, 1)].concat()
}

/// For every operator, an attribute that nothing reads is an error.
#[test]
fn attributes_are_read_or_refused() {
    let x: &[(DType, &[usize])] = &[(DType::F32, &[2, 3])];
    let two: &[(DType, &[usize])] = &[(DType::F32, &[2, 2]), (DType::F32, &[2, 2])];
    let operators = ["Relu", "Exp", "Selu", "Softmax", "Flatten", "Transpose", "ReduceSum", "Identity", "Shape", "Elu"];
    let operators = operators.into_iter().map(|it| (it, x)).chain(["Add", "MatMul", "Gemm", "Max"].map(|it| (it, two)));
    for (operator, inputs) in operators {
        imported(&node(operator, &[], inputs)).unwrap_or_else(|error| panic!("{operator}: {error}"));
        let error = imported(&node(operator, &[int("mystery", 1)], inputs)).map(|_| ());
        let error = error.expect_err(operator).to_string();
        assert!(error.contains(operator) && error.contains("with the attribute `mystery`"), "{error}");
    }
}

#[test]
fn attributes_have_their_meaning() {
    let call = |operator: &str, attributes: &[Vec<u8>], x: &Tensor| {
        let model = node(operator, attributes, &[(x.dtype(), x.shape())]);
        let function = imported(&model).unwrap_or_else(|error| panic!("{operator}: {error}"));
        function.call(&[x]).unwrap_or_else(|error| panic!("{operator}: {error}")).remove(0)
    };
    let x = tensor![[-1.0f32, 0.0, 2.0]];
    let exact = |it: f64, alpha: f64, gamma: f64| gamma * if it > 0.0 { it } else { alpha * it.exp_m1() };
    for (alpha, gamma) in [(2.0f32, 3.0f32), (1.673_263_2, 2.0), (0.5, 1.050_701)] {
        let wanted = [-1.0, 0.0, 2.0].map(|it| exact(it, alpha.into(), gamma.into()) as f32);
        let result = call("Selu", &[float("alpha", alpha), float("gamma", gamma)], &x);
        close("Selu", &[result], &[Tensor::from_slice([1, 3], &wanted)]);
    }
    let x = tensor![[-1.0f32, 2.0, 3.0]];
    let elements: [(&str, [f32; 3]); 6] = [
        ("ReduceSum", [-1.0, 2.0, 3.0]),
        ("ReduceMax", [-1.0, 2.0, 3.0]),
        ("ReduceL1", [1.0, 2.0, 3.0]),
        ("ReduceL2", [1.0, 2.0, 3.0]),
        ("ReduceSumSquare", [1.0, 4.0, 9.0]),
        ("ReduceLogSum", [f32::NAN, 2f32.ln(), 3f32.ln()]),
    ];
    for (operator, wanted) in elements {
        let result = call(operator, &[int("noop_with_empty_axes", 1)], &x);
        close(operator, &[result], &[Tensor::from_slice([1, 3], &wanted)]);
    }
    let large = tensor![[300.0f32, 400.0, 0.0]];
    for dtype in [DType::F16, DType::BF16] {
        let result = call("ReduceL2", &[], &large.cast(dtype));
        close("ReduceL2", &[result], &[tensor![[500.0f32]].cast(dtype)]);
    }
}

/// Import takes time linear in the number of inputs.
#[test]
fn many_inputs() {
    let begin = std::time::Instant::now();
    let input = |at: usize| {
        let tensor = bytes(1, &[number(1, 1), bytes(2, &bytes(1, &number(1, 1)))].concat());
        bytes(11, &[bytes(1, format!("x{at}").as_bytes()), bytes(2, &tensor)].concat())
    };
    let weight = |at: usize| {
        bytes(5, &[number(1, 1), number(2, 1), bytes(8, format!("x{at}").as_bytes()), bytes(9, &[0; 4])].concat())
    };
    let node = [bytes(1, b"x0"), bytes(2, b"y"), bytes(4, b"Relu")].concat();
    let inputs: Vec<u8> = (0..20_000).flat_map(input).collect();
    let weights: Vec<u8> = (1..20_000).flat_map(weight).collect();
    for weights in [weights, Vec::new()] {
        let graph = [bytes(1, &node), inputs.clone(), weights, bytes(12, &bytes(1, b"y"))].concat();
        let model = [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 18))].concat();
        let _ = imported(&model);
        assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    }
}

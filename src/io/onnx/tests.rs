//! Exports every op and some networks, and imports them again. With `MS_ONNX_FOLDER`, the models are left in that
//! folder with inputs and results, and `peers/onnx_models.py` compares these with onnxruntime.

use crate::StateDict;
use crate::io::exported::message;
use crate::io::protobuf::{Value, bytes, field, number};
use crate::io::{ExportOptions, ExportedFunction};
use crate::prelude::*;
use ms_core::Code;
use ms_core::ir::{Graph, Node};
use ms_core::ops::{OpDef, Sample, infer};
use ms_core::session::Exported;
use ms_core::tensor::Type;
use std::collections::BTreeSet;
use std::path::Path;

/// Exports a function of one node.
fn single(def: &'static OpDef, sample: &Sample) -> Result<ExportedFunction> {
    let mut graph = Graph::new(def.name());
    let types: Vec<Type> = sample.inputs.iter().map(|it| Type::of(it.dtype, &it.shape)).collect();
    let inputs: Vec<_> = types.iter().map(|it| graph.add_input(it.clone())).collect();
    for at in 0..types.len() {
        graph.name_input(at, Some(format!("x{at}").into()));
    }
    let results = infer(def, &sample.attrs, &[], &types.iter().collect::<Vec<_>>())?;
    let node = graph.add_node(Node::new(def.op(), sample.attrs.clone(), inputs), results);
    let outputs = graph.node(node).outputs.clone();
    graph.set_outputs(outputs);
    Exported::parse(&graph.to_string(), types.len(), |_| None).map(ExportedFunction)
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

/// Returns the operators of the model, and checks that the imported model computes the same. Writes the model with
/// inputs and results if a folder is given.
fn keep(name: &str, function: &ExportedFunction, inputs: &[Tensor]) -> Result<String> {
    let model = function.onnx()?;
    let mut operators = operators(parts(&model, 7)[0]);
    let operands: Vec<&Tensor> = inputs.iter().collect();
    let results = function.call(&operands)?;
    if let Some(folder) = std::env::var_os("MS_ONNX_FOLDER") {
        let path = Path::new(&folder).join(name);
        std::fs::write(path.with_extension("onnx"), &model).expect("the folder is writable");
        let names = function.inputs().map(|it| format!("in {}", it.0)).collect::<Vec<_>>();
        let numbered = (0..results.len()).map(|at| format!("out {at}"));
        let values = names.into_iter().chain(numbered).zip(inputs.iter().chain(&results).cloned());
        values.collect::<StateDict>().write(path.with_extension("safetensors"))?;
    }
    match ExportedFunction::from_onnx(&model) {
        Ok(read) => {
            assert_eq!(read.inputs().collect::<Vec<_>>(), function.inputs().collect::<Vec<_>>(), "{name}");
            close(name, &read.call(&operands).unwrap_or_else(|error| panic!("{name}: {error}")), &results);
        }
        Err(error) => operators.push_str(&format!(" [not read: {}]", message(&error))),
    }
    Ok(operators)
}

/// Returns the messages and texts of a field.
fn parts(mut message: &[u8], number: u64) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some((key, value)) = field(&mut message).expect("it was written here") {
        match value {
            Value::Bytes(bytes) if key == number => found.push(bytes),
            _ => {}
        }
    }
    found
}

/// Lists the operators of a graph in order; those of nested graphs are in brackets.
fn operators(graph: &[u8]) -> String {
    let node = |node| {
        let operator = String::from_utf8(parts(node, 4).concat()).expect("a name");
        let graphs = parts(node, 5).into_iter().flat_map(|it| parts(it, 6));
        graphs.fold(operator, |all, it| format!("{all}({})", operators(it)))
    };
    parts(graph, 1).into_iter().map(node).collect::<Vec<_>>().join(" ")
}

/// Asserts that the lines equal a file beside this one, which `MS_BLESS` writes.
#[track_caller]
fn recorded(file: &str, lines: &BTreeSet<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/io/onnx").join(file);
    let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
    if std::env::var_os("MS_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder is writable");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("it is recorded"), text);
}

#[test]
fn every_op_is_a_model_or_refused() {
    let mut lines = BTreeSet::new();
    for def in ms_core::ops::definitions() {
        for (at, sample) in (def.samples)().iter().enumerate() {
            let function = match single(def, sample) {
                Ok(function) => function,
                // This op needs a second node.
                Err(_) if def.name() == "get_float_status" => continue,
                Err(error) => panic!("{}: {error}", def.name()),
            };
            let inputs: Vec<Tensor> = sample.arrays().into_iter().map(Tensor::from_array).collect();
            let operators = match keep(&format!("{}_{at}", def.name()), &function, &inputs) {
                Ok(operators) => operators,
                Err(error) if error.code() == Code::Export => error.report().message.clone(),
                Err(error) => panic!("{}: {error}", def.name()),
            };
            lines.insert(format!("{}: {operators}", def.name()));
        }
    }
    recorded("ops.txt", &lines);
}

fn data(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::from_slice(shape, &(0..count).map(|it| (it * 7 % 11) as f32 / 5.0 - 1.0).collect::<Vec<_>>())
}

/// Returns the operators of a function of `x`. Sizes that differ between these shapes are symbolic.
#[track_caller]
fn network(name: &str, f: impl Fn(&Tensor) -> Tensor, shapes: [&[usize]; 2]) -> String {
    let axes = shapes[0].iter().zip(shapes[1]).map(|(a, b)| if a == b { "_" } else { "batch" });
    let options = ExportOptions::new().input("x", axes);
    let function = crate::export(|x: &Tensor| f(x), (&data(shapes[0]),), &options);
    let function = function.unwrap_or_else(|error| panic!("{name}: {error}"));
    let models = [0, 1].map(|at| {
        let model = keep(&format!("{name}_{at}"), &function, &[data(shapes[at])]);
        model.unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    format!("{name}: {}", models[0])
}

#[jit]
fn doubled(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x.abs().sum(()) < 100.0 {
        x = if x.sum(()) > 0.0 { &x * 2.0 } else { &x * 3.0 };
    }
    x
}

#[jit]
fn branched(x: &Tensor) -> Tensor {
    if x.sum(()) > 0.0 { doubled(x) } else { ops::softmax(doubled(&(x + 1.0)), -1) }
}

#[jit]
fn assigned(x: &Tensor) -> Tensor {
    let mut y = x * 2.0;
    y.assign_at((.., 1), x.i((.., 0)) + 1.0);
    y.assign_at((-1, (..).step(-2)), 7.0);
    y
}

crate::kernel! {
    /// Depends on the first operand only, but has the broadcast shape of both.
    fn first(x: crate::kernel::Float, y: crate::kernel::Float) -> crate::kernel::Float {
        let _ = y;
        if x > 0.0 { x.exp() } else { 1.0 }
    }
}

/// Returns the operators of an elementwise function of two lists, and checks that the model gives the same results.
#[track_caller]
fn pairs(name: &str, f: impl Fn(&Tensor, &Tensor) -> Tensor, [a, b]: [&Tensor; 2]) -> String {
    let options = ExportOptions::new().input("a", ["_", "_"]).input("b", ["_"]);
    let a = a.reshape((-1, 1));
    let function = crate::export(|a: &Tensor, b: &Tensor| f(a, b), (&a, b), &options);
    let model = function.and_then(|it| keep(name, &it, &[a, b.clone()]));
    format!("{name}: {}", model.unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn elements_at_the_edges() {
    let floats = tensor![0.0f32, -0.0, 1.0, -1e-40, 3.0, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let mut lines = BTreeSet::new();
    lines.insert(pairs("angle", |a, b| ops::atan2(a, b), [&floats, &floats]));
    lines.insert(pairs("length", |a, b| ops::hypot(a, b), [&floats, &floats]));
    lines.insert(pairs("kernel", |a, b| first(a, b), [&floats, &tensor![1.0f32, 2.0]]));
    for dtype in [DType::I8, DType::U8, DType::I16, DType::U32, DType::I32, DType::I64, DType::U64] {
        let bits = [0i64, 1, 5, 100, -1, -128, 0x7fff_1234, i64::MIN, i64::MAX].map(|it| it.rotate_left(3));
        let bits = Tensor::from_slice([bits.len()], &bits).cast(dtype);
        let by = Tensor::from_slice([9], &[0i64, 1, 7, 8, 15, 31, 32, 63, 64]).cast(dtype);
        let by = if dtype.is_signed_int() { ops::concat(&[&by, &(-&by)], 0) } else { by };
        lines.insert(pairs(&format!("left_{dtype}"), |a, b| ops::left_shift(a, b), [&bits, &by]));
        lines.insert(pairs(&format!("right_{dtype}"), |a, b| ops::right_shift(a, b), [&bits, &by]));
    }
    recorded("edges.txt", &lines);
}

#[test]
fn networks_are_models() {
    crate::random::set_seed(1);
    let mut lines = BTreeSet::new();
    let mlp = nn::sequential![nn::Dense::new(6, 8), nn::GELU, nn::LayerNorm::new(8), nn::Dense::new(8, 3)];
    lines.insert(network("mlp", |x| ops::log_softmax(mlp.call(x), -1), [&[2, 6], &[5, 6]]));
    let images = nn::sequential![
        nn::Conv2d::new(2, 4, 3).padding(1).stride(2),
        nn::BatchNorm::new(4),
        nn::ReLU,
        nn::MaxPool2d::new(2),
        nn::Conv2d::new(4, 4, 3).padding(1).groups(2),
        nn::Flatten::new(),
        nn::Dense::new(16, 3)
    ];
    images.set_train(false);
    lines.insert(network("images", |x| images.call(x), [&[1, 2, 8, 8], &[3, 2, 8, 8]]));
    let lstm = nn::LSTM::new(4, 5);
    // Otherwise, elements in a window would be equal up to rounding, and the maximum ambiguous.
    let apart: Vec<f32> = (0..128).map(|it| (it * it) as f32).map(f32::sin).collect();
    let apart = Tensor::from_slice([2, 8, 8], &apart);
    let loss = |x: &Tensor| ops::square(images.call(&(x + &apart))).mean(());
    lines.insert(network("images_gradient", |x| crate::grad(loss)(x), [&[1, 2, 8, 8], &[3, 2, 8, 8]]));
    let weights = |x: &Tensor, w: &Tensor| {
        let options = ops::ConvOptions::new(2).stride(2).dilation([1, 2]).groups(2);
        ops::square(ops::conv(x, w, None, &options)).mean(())
    };
    let of_weights = |x: &Tensor| crate::grad(weights).wrt(crate::At::<1>)(x, &data(&[4, 1, 3, 2]));
    lines.insert(network("weight_gradient", of_weights, [&[1, 2, 8, 7], &[3, 2, 8, 7]]));
    lines.insert(network("lstm", |x| lstm.call(x, None, None).0, [&[7, 2, 4], &[7, 3, 4]]));
    let encoder = nn::TransformerEncoderLayer::new(8, 2);
    encoder.set_train(false);
    lines.insert(network("encoder", |x| encoder.call(x, &nn::AttentionMask::causal()), [&[2, 5, 8], &[3, 5, 8]]));
    let both = nn::LSTM::new(4, 3).bidirectional(true);
    lines.insert(network("both", |x| both.call(x, None, None).0, [&[7, 2, 4], &[7, 3, 4]]));
    lines.insert(network("branch", branched, [&[2, 3], &[4, 3]]));
    lines.insert(network("loop", doubled, [&[2, 3], &[4, 3]]));
    let total = |x: &Tensor| doubled(x).sum(());
    lines.insert(network("loop_gradient", |x| crate::grad(total)(x), [&[2, 3], &[4, 3]]));
    lines.insert(network("assigned", assigned, [&[2, 4], &[4, 4]]));
    lines.insert(network("products", |x| ops::cumprod(x, 0), [&[2, 3], &[4, 3]]));
    let far =
        |x: &Tensor| ops::concat(&[ops::expm1(x * 200.0), ops::elu(x * 200.0, 1.0), ops::log1p(x.abs() * 1e6)], 0);
    lines.insert(network("far", far, [&[2, 3], &[4, 3]]));
    let tiny = |x: &Tensor| ops::remainder(x * 3e-30, Tensor::full([3], -7e-30f32));
    lines.insert(network("tiny", tiny, [&[2, 3], &[4, 3]]));
    let pools = |x: &Tensor| {
        let options = ops::PoolOptions::new(2, 3).stride(2).padding(1);
        ops::max_pool(x, &options) - ops::avg_pool(x, &options)
    };
    lines.insert(network("pools", pools, [&[1, 2, 8, 5], &[1, 2, 7, 5]]));
    lines.insert(network("rows", |x| ops::concat(&[x.i(1..), x.i(..1)], 0).reshape([-1]), [&[2, 3], &[4, 3]]));
    recorded("networks.txt", &lines);
}

/// Truncated or changed models are rejected, or are valid functions.
#[test]
fn damaged_models_are_refused() {
    let images = nn::sequential![nn::Conv2d::new(1, 2, 3), nn::ReLU, nn::Flatten::new(), nn::Dense::new(8, 3)];
    let options = ExportOptions::new().input("x", ["n", "_", "_", "_"]);
    let exported = crate::export(|x: &Tensor| ops::softmax(images.call(x), -1), (&data(&[1, 1, 4, 4]),), &options);
    let whole = exported.and_then(|it| it.onnx()).expect("it has a model");
    let refused = |bytes: &[u8], word: &str| {
        let error = ExportedFunction::from_onnx(bytes).map(|_| ()).expect_err("it is damaged");
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/onnx");
    let entries = std::fs::read_dir(folder).expect("the folder is there").map(|it| it.expect("an entry").path());
    for path in entries.filter(|it| it.extension().is_some_and(|it| it == "onnx")) {
        let whole = std::fs::read(&path).expect("it can be read");
        for _ in 0..count {
            let mut bytes = whole.clone();
            for _ in 0..=random(2) {
                let at = random(bytes.len());
                bytes[at] = if random(2) == 0 { bytes[at] ^ 1 << random(8) } else { random(256) as u8 };
            }
            let _ = ExportedFunction::from_onnx(&bytes);
        }
    }
}

/// Models of a folder compute the results stored beside them. `MS_ONNX_MODELS` names a different folder.
#[test]
fn models_of_others_are_read() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/onnx");
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
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/onnx");
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
    let error = ExportedFunction::from_onnx(&whole).map(|_| ()).expect_err("it is in no file");
    assert!(error.to_string().contains("the model is in no folder"), "{error}");
    std::fs::remove_dir_all(&folder).expect("it was made");
}

/// Unsupported data-dependent operators are rejected by name.
#[test]
fn what_depends_on_data_is_refused() {
    let whole = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/onnx/loop.onnx"));
    let whole = whole.expect("it is in the repository");
    let changed = |from: &[u8], to: &[u8]| {
        let at = whole.windows(from.len()).position(|it| it == from).expect("it is there");
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let refused = |bytes: &[u8], word: &str| {
        let error = ExportedFunction::from_onnx(bytes).map(|_| ()).expect_err(word);
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
        let tensor = [number(1, super::element_type(*dtype)), bytes(2, &axes)].concat();
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
        ExportedFunction::from_onnx(&node(operator, &[], inputs)).unwrap_or_else(|error| panic!("{operator}: {error}"));
        let error = ExportedFunction::from_onnx(&node(operator, &[int("mystery", 1)], inputs)).map(|_| ());
        let error = error.expect_err(operator).to_string();
        assert!(error.contains(operator) && error.contains("with the attribute `mystery`"), "{error}");
    }
}

#[test]
fn attributes_have_their_meaning() {
    let call = |operator: &str, attributes: &[Vec<u8>], x: &Tensor| {
        let model = node(operator, attributes, &[(x.dtype(), x.shape())]);
        let function = ExportedFunction::from_onnx(&model).unwrap_or_else(|error| panic!("{operator}: {error}"));
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
        let _ = ExportedFunction::from_onnx(&model);
        assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    }
}

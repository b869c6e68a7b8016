//! Records the operators of the model of every op, of operands at the edges of dtypes, and of networks.

use super::{close, data, imported, model};
use ms::prelude::*;
use ms_core::Code;
use ms_core::ir::{Graph, Node};
use ms_core::ops::{OpDef, Sample, definitions, infer};
use ms_core::session::{Exported, InputSpec};
use ms_core::tensor::Type;
use ms_protobuf::{Value, field};
use std::collections::BTreeSet;
use std::path::Path;

/// Exports a function of one node.
fn single(def: &'static OpDef, sample: &Sample) -> Result<Exported> {
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
    Exported::parse(&graph.to_string(), types.len(), |_| None)
}

/// Returns the message of an error, or of the first error that it summarises.
fn message(error: &Error) -> String {
    let report = error.report().related.first().map_or(error.report(), Error::report);
    match &report.op {
        Some(op) if report.code != Code::Io => format!("`{op}`: {}", report.message),
        _ => report.message.clone(),
    }
}

/// Returns the operators of the model, and checks that the imported model computes the same. Writes the model with
/// inputs and results if a folder is given.
fn keep(name: &str, function: &Exported, inputs: &[Tensor]) -> Result<String> {
    let model = model(function)?;
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
    match imported(&model) {
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx").join(file);
    let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
    if std::env::var_os("MS_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder is writable");
    }
    assert_eq!(std::fs::read_to_string(&path).expect("it is recorded"), text);
}

#[test]
fn every_op_is_a_model_or_refused() {
    let mut lines = BTreeSet::new();
    for def in definitions() {
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

/// Models have the oldest version of operators that they need.
#[test]
fn versions_of_operators() {
    let version = |def, sample: &Sample| {
        let model = model(&single(def, sample).expect("a sample fits")).unwrap_or_else(|error| panic!("{error}"));
        let mut set = parts(&model, 8)[0];
        match field(&mut set).expect("it was written here") {
            Some((2, Value::Number(version))) => version,
            _ => panic!("the set of operators has a version"),
        }
    };
    let all = |name: &str| -> Vec<u64> {
        let def = definitions().find(|it| it.name() == name).expect("it is an op");
        (def.samples)().iter().map(|it| version(def, it)).collect()
    };
    assert!(all("softmax").iter().all(|it| *it == 18));
    // f32 to i8; f64, as arithmetic; f16 to i16; bf16 to u16; f32 to i8; blocks; no elements; sums of i32.
    assert_eq!(all("quantize"), [18, 18, 21, 21, 18, 21, 18]);
    assert_eq!(all("dequantize"), [18, 18, 21, 21, 18, 21, 18, 18]);
}

/// Returns the operators of a function of `x`. Sizes that differ between these shapes are symbolic.
#[track_caller]
fn network(name: &str, f: impl Fn(&Tensor) -> Tensor, shapes: [&[usize]; 2]) -> String {
    let axes = shapes[0].iter().zip(shapes[1]).map(|(a, b)| (a != b).then(|| "batch".to_owned()));
    let spec = InputSpec { name: "x".to_owned(), axes: axes.collect() };
    let function = ms_core::session::export(&|x: &Tensor| f(x), (&data(shapes[0]),), &[spec]);
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

ms::kernel! {
    /// Depends on the first operand only, but has the broadcast shape of both.
    fn first(x: ms::kernel::Float, y: ms::kernel::Float) -> ms::kernel::Float {
        let _ = y;
        if x > 0.0 { x.exp() } else { 1.0 }
    }
}

/// Returns the operators of an elementwise function of two lists, and checks that the model gives the same results.
#[track_caller]
fn pairs(name: &str, f: impl Fn(&Tensor, &Tensor) -> Tensor, [a, b]: [&Tensor; 2]) -> String {
    let specs = [("a", vec![None; 2]), ("b", vec![None])];
    let specs = specs.map(|(name, axes)| InputSpec { name: name.to_owned(), axes });
    let a = a.reshape((-1, 1));
    let function = ms_core::session::export(&|a: &Tensor, b: &Tensor| f(a, b), (&a, b), &specs);
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
    random::set_seed(1);
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
    lines.insert(network("images_gradient", |x| ms::grad(loss)(x), [&[1, 2, 8, 8], &[3, 2, 8, 8]]));
    let weights = |x: &Tensor, w: &Tensor| {
        let options = ops::ConvOptions::new(2).stride(2).dilation([1, 2]).groups(2);
        ops::square(ops::conv(x, w, None, &options)).mean(())
    };
    let of_weights = |x: &Tensor| ms::grad(weights).wrt(ms::At::<1>)(x, &data(&[4, 1, 3, 2]));
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
    lines.insert(network("loop_gradient", |x| ms::grad(total)(x), [&[2, 3], &[4, 3]]));
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

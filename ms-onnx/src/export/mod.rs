//! Exports graphs as ONNX models.

mod convolution;
mod elements;
mod formula;
mod message;
mod names;
mod operators;
mod pooling;
mod quantized;
mod regions;
mod slices;
mod translator;

use ms_compile::optimize::PassContext;
use ms_compile::target::OpSupport;
use ms_ir::{Code, DType, Error, Graph, Result, subgraphs};
use ms_ops::ops::{self, Control};
use ms_ops::tensor::HostArray;
use names::Names;
use translator::{Applied, Translator};

/// The protobuf limit: no runtime reads larger messages.
const MAX_BYTES: usize = i32::MAX as usize;

/// Returns the settings of the passes before an [`export`]: calls are inlined, and composites without an ONNX operator
/// are expanded.
pub fn pass_context() -> PassContext {
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64];
    let composites = [&ops::SOFTMAX, &ops::LOG_SOFTMAX];
    let kept = composites.into_iter().flat_map(|it| floats.map(|dtype| (it, dtype)));
    // ONNX has no quantisation of f64.
    let quantised = [&ops::QUANTIZE, &ops::DEQUANTIZE];
    let quantised = quantised.into_iter().flat_map(|it| floats[..3].iter().map(move |&dtype| (it, dtype)));
    let kept = kept.chain(quantised).map(|(it, dtype)| OpSupport::new(it.op(), dtype, true));
    PassContext {
        legal_composites: kept.collect(),
        inline_limit: usize::MAX,
        inline_marked: true,
        ..PassContext::default()
    }
}

/// Encodes a graph as a model with opset version 18, or 21 if it quantises blocks, f16, bf16, or to 16 bits. The graph
/// has no transforms, and is optimised with [`pass_context`].
///
/// `names` has a name for each input. The last inputs are initializers with the values of `constants`, in row-major
/// order. Outputs are called `output`, or `output_0`, `output_1` and so on.
///
/// ```
/// let graph = ms_ops::ops::parse_graph(
///     "graph @f(%x: f32[2]) -> (f32[2]) {
///        %y = exp %x : f32[2]
///        return %y
///      }",
/// )?;
/// let model = ms_onnx::export(&graph, &["x"], &[])?;
/// assert!(model.windows(3).any(|it| it == b"Exp"));
/// # Ok::<(), ms_ir::Error>(())
/// ```
///
/// # Errors
/// [`Code::Export`] for an op without a counterpart in ONNX, or for a model of 2 GiB or more.
pub fn export(graph: &Graph, names: &[&str], constants: &[HostArray<'_>]) -> Result<Vec<u8>> {
    let mut used = Names::default();
    names.iter().for_each(|it| used.reserve(it));
    let (arguments, stored) = names.split_at(names.len() - constants.len());
    let types = graph.inputs().iter().map(|&it| graph.ty(it));
    let inputs: Vec<Vec<u8>> = arguments.iter().zip(types).map(|(name, ty)| message::value(name, ty)).collect();
    let mut initializers: Vec<Vec<u8>> =
        stored.iter().zip(constants).map(|(name, it)| message::tensor(name, it)).collect();
    let outputs: Vec<String> = match graph.outputs().len() {
        1 => vec![used.like("output")],
        count => (0..count).map(|at| used.like(&format!("output_{at}"))).collect(),
    };
    let mut translator = Translator::new(translate, &mut used, &mut initializers);
    let values: Vec<String> = names.iter().map(|&it| it.to_owned()).collect();
    let results = translator.region(graph, &values)?;
    let mut types = Vec::new();
    for ((result, name), &output) in results.iter().zip(&outputs).zip(graph.outputs()) {
        translator.add("Identity", &[result], &[name], &[]);
        types.push(message::value(name, graph.ty(output)));
    }
    let nodes = translator.into_nodes();
    let of_graph = |graph: &Graph| graph.nodes().map(|(_, node)| quantized::opset(graph, node)).max();
    let opset = subgraphs(graph).into_iter().map(|it| of_graph(it)).chain([of_graph(graph)]).flatten().max();
    let graph = message::graph(graph.name(), &nodes, &initializers, &inputs, &types);
    let model = message::model(&graph, opset.unwrap_or(message::OPSET));
    if model.len() > MAX_BYTES {
        let message = format!("an ONNX model of {} bytes is larger than 2 GiB", model.len());
        return Err(Error::new(Code::Export, message));
    }
    Ok(model)
}

/// Exports a node with or without regions.
fn translate(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<Vec<String>> {
    match Control::of(node.node) {
        Some(control) => regions::translate(to, node, &control),
        None => operators::translate(to, node),
    }
}

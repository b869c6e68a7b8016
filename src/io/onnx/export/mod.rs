//! Exports functions as ONNX models.

mod elements;
mod formula;
mod images;
mod message;
mod names;
mod operators;
mod places;
mod pooling;
mod regions;
mod translator;

use crate::io::exported::ExportedFunction;
use crate::io::replace::replace;
use crate::io::state_dict::{refuse, row_major};
use ms_core::error::in_op;
use ms_core::ir::Graph;
use ms_core::optimize::{PassContext, optimize};
use ms_core::target::Kept;
use ms_core::{Code, DType, Error, Result, ops, transform};
use names::Names;
use std::path::Path;
use translator::Translator;

/// The protobuf limit: no runtime reads larger messages.
const MAX_BYTES: usize = i32::MAX as usize;

impl ExportedFunction {
    /// Writes an ONNX model with opset version 18. Its inputs have the names and sizes of the function's inputs. Its
    /// outputs are called `output`, or `output_0`, `output_1` and so on.
    ///
    /// Results equal `ms`'s up to rounding. Bounds checks of indices and classes, which `ms` makes at their use,
    /// are left to the runtime.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::io::ExportOptions;
    /// # let path = std::env::temp_dir().join(format!("ms doc onnx {}", std::process::id()));
    /// let net = nn::sequential![nn::Dense::new(4, 8), nn::ReLU, nn::Dense::new(8, 2)];
    /// let options = ExportOptions::new().input("x", ["batch", "_"]);
    /// let exported = ms::export(|x: &Tensor| ops::softmax(net.call(x), -1), (&Tensor::ones([1, 4]),), &options)?;
    /// exported.save_onnx(&path)?;
    /// # std::fs::remove_file(&path).expect("it was written");
    /// # Ok::<(), ms::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Code::Export`] for an op without a counterpart in ONNX, or for a model of 2 GiB or more; [`Code::Io`] if the
    /// file cannot be written.
    #[track_caller]
    pub fn save_onnx(&self, path: impl AsRef<Path>) -> Result<()> {
        let (path, location) = (path.as_ref(), std::panic::Location::caller());
        let model = in_op(|| self.onnx()).map_err(|error| error.with_op("save_onnx").at(location))?;
        replace(path, |out| out.write_all(&model)).map_err(|why| refuse(path, "write", why))
    }

    /// Encodes the model.
    pub(super) fn onnx(&self) -> Result<Vec<u8>> {
        let graph = lowered(self.graph())?;
        let mut names = Names::default();
        let mut initializers = Vec::new();
        let (mut inputs, mut values) = (Vec::new(), Vec::new());
        for (name, ty) in self.inputs() {
            names.reserve(name);
            inputs.push(message::value(name, ty));
            values.push(name.to_owned());
        }
        for (name, constant) in self.constants() {
            names.reserve(name);
            initializers.push(message::tensor(name, &row_major(constant)?));
            values.push(name.to_owned());
        }
        let outputs: Vec<String> = match graph.outputs().len() {
            1 => vec![names.like("output")],
            count => (0..count).map(|at| names.like(&format!("output_{at}"))).collect(),
        };
        let mut translator = Translator::new(&mut names, &mut initializers);
        let results = translator.region(&graph, &values)?;
        let mut types = Vec::new();
        for ((result, name), &output) in results.iter().zip(&outputs).zip(graph.outputs()) {
            translator.add("Identity", &[result], &[name], &[]);
            types.push(message::value(name, graph.ty(output)));
        }
        let nodes = translator.into_nodes();
        let model = message::model(&message::graph(graph.name(), &nodes, &initializers, &inputs, &types));
        if model.len() > MAX_BYTES {
            let message = format!("an ONNX model of {} bytes is larger than 2 GiB", model.len());
            return Err(Error::new(Code::Export, message));
        }
        Ok(model)
    }
}

/// Expands transforms, and composites without an ONNX operator.
fn lowered(graph: &Graph) -> Result<Graph> {
    let expanded = transform::expand(graph, false)?;
    let floats = [DType::F16, DType::BF16, DType::F32, DType::F64];
    let composites = [&ops::SOFTMAX, &ops::LOG_SOFTMAX];
    let kept = composites.into_iter().flat_map(|it| floats.map(|dtype| Kept { op: it.op(), dtype, strict: true }));
    let context =
        PassContext { kept: kept.collect(), inline_limit: usize::MAX, inline_marked: true, ..PassContext::default() };
    Ok(optimize(expanded.into_owned(), &context))
}

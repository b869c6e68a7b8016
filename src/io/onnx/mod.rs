//! Writes exported functions as ONNX models, and reads models as functions.

mod external;

use super::bytes::{guarded, read, refuse};
use super::exported::{ExportedFunction, message};
use super::replace::replace;
use super::state_dict::row_major;
use external::Folder;
use ms_core::error::{OrRaise, in_op};
use ms_core::optimize::optimize;
use ms_core::session::export;
use ms_core::tensor::HostArray;
use ms_core::{Code, Error, Result, Tensor, transform};
use ms_onnx::{Importer, Model, pass_context};
use std::path::Path;

impl ExportedFunction {
    /// Writes an ONNX model with opset version 18. Its inputs have the names and sizes of the function's inputs. Its
    /// outputs are called `output`, or `output_0`, `output_1` and so on. Needs the feature `onnx`.
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
    fn onnx(&self) -> Result<Vec<u8>> {
        let graph = optimize(transform::expand(self.0.graph(), false)?.into_owned(), &pass_context());
        let names: Vec<&str> = self.inputs().map(|it| it.0).chain(self.constants().map(|it| it.0)).collect();
        let constants: Vec<HostArray<'_>> = self.constants().map(|it| row_major(it.1)).collect::<Result<_>>()?;
        ms_onnx::export(&graph, &names, &constants)
    }

    /// Reads an ONNX model of opset version 13 to 22. Named and unknown sizes become symbolic; shape computations of
    /// the model may derive other sizes from them. External data is read from the folder of the model. Needs the
    /// feature `onnx`.
    ///
    /// The result is an exported function like any other: it is compiled when it is called, has gradients, and can be
    /// saved.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::io::{ExportOptions, ExportedFunction};
    /// # let path = std::env::temp_dir().join(format!("ms doc read onnx {}", std::process::id()));
    /// let options = ExportOptions::new().input("x", ["n"]);
    /// ms::export(|x: &Tensor| ops::softmax(x, 0), (&Tensor::zeros([3]),), &options)?.save_onnx(&path)?;
    ///
    /// let softmax = ExportedFunction::load_onnx(&path)?;
    /// assert_eq!(softmax.to_string(), "(x: f32[n]) -> (f32[n])");
    /// assert_eq!(softmax.call(&[&tensor![1.0, 1.0]])?[0].to_vec::<f32>(), [0.5, 0.5]);
    /// # std::fs::remove_file(&path).expect("it was written");
    /// # Ok::<(), ms::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be read, is not a model, or has an unsupported operator or form of one, which
    /// the message names. [`Code::Memory`] if the system has no memory for it.
    pub fn load_onnx(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let loaded = guarded(path, || {
            let bytes = read(path)?;
            let folder = path.parent().map(|it| if it.as_os_str().is_empty() { Path::new(".") } else { it });
            let model = parsed(&bytes, folder).map_err(|why| refuse(path, "read", why))?;
            traced(&model).map_err(|error| refuse(path, "read", message(&error)))
        });
        loaded.map_err(|error| error.with_op("load_onnx"))
    }

    /// Imports a model from bytes.
    pub(super) fn from_onnx(bytes: &[u8]) -> Result<Self> {
        traced(&parsed(bytes, None).map_err(|why| Error::new(Code::Io, why))?)
    }
}

/// Parses a model; external data is read from this folder.
fn parsed(bytes: &[u8], folder: Option<&Path>) -> Result<Model, String> {
    Model::read(bytes, &|entries, size| Folder(folder).data(entries, size))
}

fn traced(model: &Model) -> Result<ExportedFunction> {
    let importer = Importer::new(model)?;
    let run = |inputs: &Vec<Tensor>| importer.run(inputs).or_raise();
    export(&run, (importer.examples(),), importer.inputs()).map(ExportedFunction)
}

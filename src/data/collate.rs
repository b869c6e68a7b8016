//! Collates samples: stacks their tensors into batches and gathers rows.

use ms_core::error::in_op;
use ms_core::tensor::{Array, Type, try_room};
use ms_core::trace::{Arg, Name, Sink, Tree, Visitor};
use ms_core::{Code, Error, Parameter, Result, Tensor};

/// The flattened content of a sample.
#[derive(Default)]
struct Leaves {
    path: Vec<String>,
    /// The tensors with their paths.
    tensors: Vec<(String, Tensor)>,
    /// Host values, bit by bit.
    fixed: Vec<u64>,
}

impl Leaves {
    fn of(sample: &impl Arg) -> Self {
        let mut parts = Self::default();
        sample.visit(&mut Sink::new(&mut parts));
        parts
    }
}

impl Visitor for Leaves {
    fn tensor(&mut self, tensor: &Tensor) {
        self.tensors.push((self.path.concat(), tensor.clone()));
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.fixed.push(parameter.id());
    }

    fn fixed(&mut self, bits: u64) {
        self.fixed.push(bits);
    }

    fn begin(&mut self, name: Name<'_>) {
        self.path.push(name.step());
    }

    fn end(&mut self) {
        self.path.pop();
    }
}

/// Formats a path in a sample, such as `` at `[0].image` ``, or nothing for a sample that is a single tensor.
fn place(path: &str) -> String {
    match path {
        "" => String::new(),
        _ => format!(" at `{}`", path.trim_start_matches('.')),
    }
}

/// Collates samples by stacking their tensors along a new first axis; `name` returns the name of a sample in errors.
///
/// # Errors
/// [`Code::Shape`], [`Code::DType`] or [`Code::Argument`] if samples differ in anything but the values of their
/// tensors, and for no samples.
pub(super) fn stack<T: Tree>(samples: &[T], name: impl Fn(usize) -> String) -> Result<T> {
    let parts: Vec<Leaves> = samples.iter().map(Leaves::of).collect();
    let Some(first) = parts.first() else {
        return Err(Error::new(Code::Argument, "a batch has one sample at least").with_op("batch"));
    };
    for (at, other) in parts.iter().enumerate() {
        check_alike(first, other).map_err(|it| it.with_op("batch").within(name(at)))?;
    }
    let column = |leaf: usize| -> Result<Tensor> {
        let ty = first.tensors[leaf].1.ty();
        let size = ty.numel().unwrap_or(0) * ty.dtype.size();
        let mut bytes = try_room(size.saturating_mul(samples.len()))?;
        for it in &parts {
            bytes.extend_from_slice(it.tensors[leaf].1.try_array()?.on_host()?.to_contiguous().on_host()?.bytes());
        }
        let shape: Vec<usize> = [samples.len()].into_iter().chain(first.tensors[leaf].1.shape().to_vec()).collect();
        Ok(Tensor::from_array(Array::from_bytes(&shape, ty.dtype, &bytes)))
    };
    let columns = (0..first.tensors.len()).map(|it| in_op(|| column(it)).map_err(|error| error.with_op("batch")));
    Ok(rebuilt(&samples[0], columns.collect::<Result<Vec<_>>>()?))
}

/// Checks that two samples differ only in the values of their tensors.
fn check_alike(first: &Leaves, other: &Leaves) -> Result<()> {
    if first.tensors.len() != other.tensors.len() || first.fixed != other.fixed {
        let message = "it differs from the first sample of the batch in more than the values of tensors";
        return Err(Error::new(Code::Argument, message).help("a number that differs between samples is a tensor"));
    }
    for ((path, want), (_, got)) in first.tensors.iter().zip(&other.tensors) {
        let (want, got): (Type, Type) = (want.ty(), got.ty());
        if want != got {
            let code = if want.dtype == got.dtype { Code::Shape } else { Code::DType };
            let message = format!("its tensor{} is {got}, that of the first sample of the batch {want}", place(path));
            return Err(Error::new(code, message));
        }
    }
    Ok(())
}

/// Rebuilds a pytree with these tensors, one for each leaf.
pub(super) fn rebuilt<T: Tree>(sample: &T, tensors: Vec<Tensor>) -> T {
    let mut tensors = tensors.into_iter();
    sample.rebuild(&mut |_| tensors.next().expect("one for each tensor of the structure"))
}

/// Gathers rows of a row-major host array, in this order, into a tensor of shape `shape`.
///
/// # Errors
/// [`Code::Memory`] if the system has no memory for them.
pub(super) fn rows(array: &Array, shape: &[usize], indices: &[usize]) -> Result<Tensor> {
    in_op(|| {
        let host = array.on_host()?;
        let size = array.shape()[1..].iter().product::<usize>() * array.dtype().size();
        let mut bytes = try_room(size * indices.len())?;
        for &index in indices {
            bytes.extend_from_slice(&host.bytes()[index * size..][..size]);
        }
        Ok(Tensor::from_array(Array::from_bytes(shape, array.dtype(), &bytes)))
    })
}

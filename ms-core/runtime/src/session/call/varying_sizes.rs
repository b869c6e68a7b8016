//! Warns about arguments with varying sizes, which cause repeated recompilation.

use ms_ir::error::{Code, Error};
use ms_ops::tensor::{Parameter, Tensor, Type};
use ms_trace::trace::{Name, Signature, Sink, Visitor};

/// The number of versions that triggers the warning.
pub const MANY_VERSIONS: usize = 8;

/// Returns the warning for one more version of `function`, if the existing versions differ from this call only in sizes
/// of one argument. The types of their tensors represent the versions. `annotated` functions can declare sizes.
pub fn warning(
    (function, annotated): (&str, bool),
    versions: &[&[Type]],
    signature: &Signature,
    sign: impl Fn(&mut Sink<'_>),
) -> Option<Error> {
    let types = signature.types();
    let alike = versions.iter().filter(|it| it.len() == types.len());
    let mut changing: Vec<usize> = alike
        .flat_map(|it| (0..types.len()).filter(|&at| it[at] != types[at] && it[at].rank() == types[at].rank()))
        .collect();
    changing.sort_unstable();
    // The first argument that differs most often is the one that varies; others follow it.
    let at =
        changing.chunk_by(|a, b| a == b).rev().max_by_key(|it| it.len()).filter(|it| it.len() + 1 >= MANY_VERSIONS)?[0];
    let varies = |axis: usize| {
        versions.iter().any(|it| it.get(at).is_some_and(|it| it.dims.get(axis) != types[at].dims.get(axis)))
    };
    let axes: Vec<&str> = (0..types[at].rank()).map(|axis| if varies(axis) { "n" } else { "_" }).collect();
    let mut names = Names::default();
    sign(&mut Sink::new(&mut names));
    let (path, argument) = (&names.tensors[at], names.tensors[at].split(['.', '[']).next().unwrap_or_default());
    let message = format!(
        "`{function}` has been compiled {} times because the sizes of `{path}` keep changing, now {}",
        versions.len(),
        types[at]
    );
    let help = match annotated {
        true => format!("`#[jit(dims({argument} = [{}]))]` compiles it once for all of them", axes.join(", ")),
        false => "keep the sizes: drop or pad the last batch; or write a function with `#[jit(dims(..))]` around what \
                  it does eagerly, which is compiled once for all sizes"
            .to_owned(),
    };
    Some(Error::new(Code::VaryingSizes, message).help(help))
}

/// The paths of tensors in the arguments.
#[derive(Default)]
struct Names {
    path: Vec<String>,
    tensors: Vec<String>,
}

impl Visitor for Names {
    fn tensor(&mut self, _: &Tensor) {
        self.tensors.push(self.path.concat());
    }

    fn parameter(&mut self, _: &Parameter) {}

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, name: &'static str) {
        self.path.clear();
        self.path.push(name.to_owned());
    }

    fn begin(&mut self, name: Name<'_>) {
        self.path.push(name.step());
    }

    fn end(&mut self) {
        self.path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use ms_ops::tensor::DType;

    #[test]
    fn the_argument_that_varies_is_named() {
        let tensor = |shape: &[usize]| Tensor::from_array(ms_ops::tensor::Array::zeros(shape, DType::F32));
        let (fixed, last) = (tensor(&[3]), tensor(&[9, 4]));
        let sign = |sink: &mut Sink<'_>| {
            sink.argument("w");
            sink.tensor(&fixed);
            sink.argument("batch");
            sink.begin(Name::Index(0));
            sink.tensor(&last);
            sink.end();
        };
        let mut signature = Signature::default();
        sign(&mut Sink::signing(&mut signature));
        let types = |n: usize| [Type::of(DType::F32, &[3]), Type::of(DType::F32, &[n, 4])];
        let versions: Vec<[Type; 2]> = (1..=MANY_VERSIONS).map(types).collect();
        let versions: Vec<&[Type]> = versions.iter().map(|it| &it[..]).collect();
        let text = warning(("f", true), &versions, &signature, sign)
            .expect("eight versions differ in one argument")
            .to_string();
        assert!(text.contains("sizes of `batch[0]` keep changing, now f32[9, 4]"), "{text}");
        assert!(text.contains("#[jit(dims(batch = [n, _]))]"), "{text}");
        assert!(warning(("f", true), &versions[..3], &signature, sign).is_none());
    }
}

//! Formatted messages of `print` and `assert`.

use crate::tensor::{Array, AsTensor, Parameter, Tensor};
use ms_ir::error::{Code, Error, Result};
use std::fmt::Write;

/// A value that can be formatted in a message: a tensor, a parameter (read at that point of the
/// program), or a host value.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (_, lines) = ops::capture_prints(|| ops::print("{} of {}", &[&"sum", &tensor![1, 2]]));
/// assert_eq!(lines, ["sum of [1 2]"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be printed",
    label = "not a tensor, a parameter, a number, a bool or a string"
)]
pub trait Show {
    /// Returns the value as a part of a message.
    fn show(&self) -> Shown;
}

/// A part of a message.
///
/// ```
/// use ms_core::{ops::{Show, Shown}, tensor};
/// assert!(matches!(3.show(), Shown::Text(text) if text == "3"));
/// assert!(matches!(tensor![1.0].show(), Shown::Tensor(_)));
/// ```
pub enum Shown {
    /// A formatted host value.
    Text(String),
    /// A tensor, which is formatted when the message is printed.
    Tensor(Tensor),
}

impl Show for Tensor {
    fn show(&self) -> Shown {
        Shown::Tensor(self.clone())
    }
}

impl Show for Parameter {
    #[track_caller]
    fn show(&self) -> Shown {
        Shown::Tensor(self.as_tensor().into_owned())
    }
}

impl<T: Show + ?Sized> Show for &T {
    #[track_caller]
    fn show(&self) -> Shown {
        (**self).show()
    }
}

macro_rules! host_values {
    ($($ty:ty)*) => {$(
        impl Show for $ty {
            fn show(&self) -> Shown {
                Shown::Text(self.to_string())
            }
        }
    )*};
}

host_values! { bool char str String i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 }

/// A message with its host values filled in, and the tensors of the remaining placeholders `{}`.
pub(in crate::ops) struct Message {
    pub text: String,
    pub tensors: Vec<Tensor>,
}

impl Message {
    /// Fills the placeholders `{}` of `text` with `values`; `{{` and `}}` are escaped braces.
    ///
    /// # Errors
    /// [`Code::Argument`] if the numbers of placeholders and values differ.
    #[track_caller]
    pub fn new(text: &str, values: &[&dyn Show]) -> Result<Self> {
        let (mut filled, mut tensors) = (String::with_capacity(text.len()), Vec::new());
        let mut rest = values.iter();
        let place = |out: &mut String| match rest.next().map(|it| it.show()) {
            Some(Shown::Text(value)) => out.push_str(&value.replace('{', "{{").replace('}', "}}")),
            Some(Shown::Tensor(tensor)) => {
                tensors.push(tensor);
                out.push_str("{}");
            }
            None => {}
        };
        let places = fill(text, place, &mut filled, true);
        if places == values.len() {
            return Ok(Self { text: filled, tensors });
        }
        let message = format!("{places} placeholders `{{}}` in {text:?} for {} values", values.len());
        Err(Error::new(Code::Argument, message))
    }
}

/// The text with its placeholders filled with arrays.
pub(in crate::ops) fn show_arrays(text: &str, arrays: &[&Array]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = arrays.iter();
    let place = |out: &mut String| {
        if let Some(array) = rest.next() {
            write!(out, "{array}").expect("a string takes any text");
        }
    };
    fill(text, place, &mut out, false);
    out
}

/// Copies a text with its placeholders filled by `fill_one`, and returns their number. Escaped braces remain escaped if
/// `kept` is set, because the text is filled again later.
fn fill(text: &str, mut fill_one: impl FnMut(&mut String), out: &mut String, kept: bool) -> usize {
    let mut places = 0;
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{}") {
            fill_one(out);
            places += 1;
            rest = after;
            continue;
        }
        let brace = &rest[..1];
        let doubled = rest[1..].starts_with(brace);
        out.push_str(brace);
        if kept {
            out.push_str(brace);
        }
        rest = &rest[1 + usize::from(doubled)..];
    }
    out.push_str(rest);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor;

    #[test]
    fn places_braces_and_values() {
        let x = tensor![1.0, 2.0];
        let array = x.as_array().expect("an array");
        let cases: [(&str, &[&dyn Show], &str); 5] = [
            ("plain", &[], "plain"),
            ("{} of {}", &[&1, &x], "1 of [1. 2.]"),
            ("{{}} {}", &[&x], "{} [1. 2.]"),
            ("{}{}", &[&"{}", &x], "{}[1. 2.]"),
            ("lone { and }", &[], "lone { and }"),
        ];
        for (text, values, want) in cases {
            let message = Message::new(text, values).expect(text);
            let arrays = vec![array; message.tensors.len()];
            assert_eq!(show_arrays(&message.text, &arrays), want);
        }
        for (text, values) in [("{}", &[][..]), ("none", &[&1 as &dyn Show])] {
            assert_eq!(Message::new(text, values).err().map(|it| it.code()), Some(Code::Argument));
        }
    }
}

//! `print`: a line of text with the values of tensors.

use crate::ops::core::message::{Message, Show, show_arrays};
use crate::ops::core::order::{apply_in_order, batch_in_order, check_token, token, token_type};
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{DType, OpInfo, Tensor};
use ms_ir::error::OrRaise;
use smallvec::smallvec;
use std::cell::RefCell;

attributes! {
    /// The attributes of [`PRINT`].
    struct PrintAttrs { text: str }
}

/// Prints `text` with its placeholders `{}` filled with the operands after the token.
pub static PRINT: OpDef = OpDef {
    info: OpInfo { number: 730, name: "print", attrs: PrintAttrs::DECLARED },
    infer: |_, inputs| check_token(inputs).map(|()| smallvec![token_type()]),
    eval: |attrs, inputs| {
        print_line(&show_arrays(PrintAttrs::of(attrs).text(), &inputs[1..]));
        Ok(smallvec![token()])
    },
    effects: Effects::ORDERED,
    lowering: Lowering::Library,
    samples: || {
        let token = || SampleInput::of(DType::U8, &[], 0.0, 0.0);
        let sample = |it: Sample, text: &str| it.attrs(PrintAttrs::attrs(text));
        vec![
            sample(Sample::new([token()]), "sample"),
            sample(Sample::new([token(), SampleInput::f32(&[2], -1.0, 1.0)]), "sample {}"),
        ]
    },
    transforms: &TransformRules {
        derivative: Derivative::Zero,
        finite_derivatives: true,
        batching: Batching::Rule(batch_in_order),
        body: None,
    },
};

thread_local! {
    /// The active captures of this thread's lines, innermost last. Without one, lines go to standard output.
    static CAPTURED: RefCell<Vec<Vec<String>>> = const { RefCell::new(Vec::new()) };
}

fn print_line(line: &str) {
    let captured = CAPTURED.with(|it| it.borrow_mut().last_mut().map(|lines| lines.push(line.to_owned())));
    if captured.is_none() {
        println!("{line}");
    }
}

/// Prints a line on standard output, with the placeholders `{}` of `text` filled with `values`; write `{{` and `}}` for
/// braces. Prints keep program order with other prints, assertions and writes of parameters, eagerly and in compiled
/// code. A compiled function prints the line at every run.
///
/// ```
/// use ms_core::{ops, tensor};
/// let x = tensor![1.0, 2.0];
/// let (_, lines) = ops::capture_prints(|| ops::print("step {}: {}", &[&3, &x]));
/// assert_eq!(lines, ["step 3: [1. 2.]"]);
/// ```
///
/// # Panics
/// Raises [`Code::Argument`](crate::Code::Argument) if the numbers of placeholders and values differ.
#[track_caller]
pub fn print(text: &str, values: &[&dyn Show]) {
    let message = Message::new(text, values).map_err(|it| it.with_op("print")).or_raise();
    let tensors: Vec<&Tensor> = message.tensors.iter().collect();
    apply_in_order(PRINT.op(), &PrintAttrs::attrs(&*message.text), &tensors);
}

/// Runs `f`, and returns the lines that it printed on this thread by [`print`](fn@print) instead of printing them.
///
/// See the example of [`print`](fn@print).
pub fn capture_prints<R>(f: impl FnOnce() -> R) -> (R, Vec<String>) {
    /// Removes the capture even if `f` unwinds.
    struct Captured;
    impl Captured {
        fn take(&self) -> Vec<String> {
            CAPTURED.with(|it| it.borrow_mut().pop()).unwrap_or_default()
        }
    }
    impl Drop for Captured {
        fn drop(&mut self) {
            self.take();
        }
    }
    CAPTURED.with(|it| it.borrow_mut().push(Vec::new()));
    let captured = Captured;
    let result = f();
    let lines = captured.take();
    std::mem::forget(captured);
    (result, lines)
}

//! Tests that `MS_EXPAND=name` prints the macro expansions of the items of that name, and of no others.

use std::process::Command;

/// Returns the output of compiling the example `jit` with the variable set.
fn printed(name: &str) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--package=ms-examples", "--example=jit", "--"]);
    // rustc does not expand an unchanged file again, so the option changes.
    cargo.arg(format!("--cfg=expansion=\"{name}\"")).env("MS_EXPAND", name);
    let output = cargo.output().expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn expansions_are_printed_by_name() {
    let text = printed("func");
    let heads = text.lines().filter(|it| it.starts_with("fn "));
    assert_eq!(heads.collect::<Vec<_>>(), ["fn func(x: &Tensor, y: &Tensor) -> Tensor {"], "{text}");
    assert!(text.contains("::ms::__rt"), "the hidden module stands in what a macro made:\n{text}");
    assert_eq!(printed("nothing_of_that_name"), "");
}

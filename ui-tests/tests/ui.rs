//! Compiles `fail/`, and the program of `pass/` that is a separate crate. `TRYBUILD=overwrite` accepts changed
//! messages.

use std::fs;
use std::path::{Path, PathBuf};
use trybuild::TestCases;

/// Returns the programs of `fail/` that rustc rejects in code generation, or the others. In code generation, rustc
/// evaluates the constants of generic functions.
fn refused(in_codegen: bool) -> Vec<PathBuf> {
    let is_in_codegen = |program: &Path| {
        fs::read_to_string(program.with_extension("stderr")).is_ok_and(|it| it.contains("error[E0080]"))
    };
    let entries = fs::read_dir("fail").expect("the folder of programs");
    let mut programs: Vec<PathBuf> = entries.map(|it| it.expect("a readable entry").path()).collect();
    programs.retain(|it| it.extension().is_some_and(|it| it == "rs") && is_in_codegen(it) == in_codegen);
    programs.sort();
    programs
}

/// trybuild checks a set at once if no program in it has to be built.
#[test]
fn checked() {
    let cases = TestCases::new();
    refused(false).iter().for_each(|it| cases.compile_fail(it));
}

#[test]
fn built() {
    let cases = TestCases::new();
    cases.pass("pass/other_crate_name.rs");
    refused(true).iter().for_each(|it| cases.compile_fail(it));
}

//! Runs `pass/` and `fail/`; `TRYBUILD=overwrite` accepts changed messages.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    cases.compile_fail("fail/*.rs");
}

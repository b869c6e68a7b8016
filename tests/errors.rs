//! Every code of a run-time error has a page.

use std::fs;

#[test]
fn every_code_is_explained() {
    let root = env!("CARGO_MANIFEST_DIR");
    let source = fs::read_to_string(format!("{root}/ms-core/src/error.rs")).expect("the codes");
    let codes =
        source.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ")?.1.parse::<u16>().ok());
    let mut count = 0;
    for code in codes {
        let page = format!("{root}/docs/errors/MS{code:03}.md");
        let text = fs::read_to_string(&page).unwrap_or_else(|_| panic!("{page} is missing"));
        assert!(text.starts_with(&format!("# MS{code:03}: ")), "{page} starts with its code");
        count += 1;
    }
    assert!(count > 10, "{count} codes found");
}

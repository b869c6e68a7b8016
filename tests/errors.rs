//! Tests that every code of a run-time error has a page, and that a caught error prints nothing.

use ms::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Collects every file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Returns the codes that are defined in enums (`Shape = 100`) or named in texts (`MS100`).
fn codes(text: &str) -> BTreeSet<u16> {
    let defined = text.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ")?.1.parse().ok());
    let named = text.match_indices("MS").filter_map(|(at, _)| {
        let digits = text.get(at + 2..at + 5)?;
        digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
    });
    defined.filter(|code| (1..1000).contains(code)).chain(named).collect()
}

#[test]
fn every_code_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    ["src", "ms-core", "ms-macros/src", "docs"].iter().for_each(|it| files(&root.join(it), &mut sources));
    let mut found = BTreeSet::new();
    for source in sources.into_iter().filter(|it| it.extension().is_some_and(|it| it == "rs" || it == "md")) {
        let text = fs::read_to_string(&source).expect("sources are text");
        let defines = source.ends_with("error/mod.rs") || source.ends_with("diag.rs");
        let known = if defines { codes(&text) } else { codes(&text.replace(" = ", "")) };
        found.extend(known);
    }
    for code in &found {
        let page = root.join(format!("docs/errors/MS{code:03}.md"));
        let text = fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
        assert!(text.starts_with(&format!("# MS{code:03}: ")), "{} starts with its code", page.display());
    }
    assert!(found.len() > 30, "{found:?}");
}

#[test]
fn a_caught_error_prints_nothing() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    let wrong = || tensor![1.0, 2.0] + tensor![1.0, 2.0, 3.0];
    let here = std::thread::current().id();
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |it| {
        if std::thread::current().id() == here {
            REPORTED.fetch_add(1, Ordering::Relaxed);
        } else {
            hook(it);
        }
    }));
    let caught = ms::catch(wrong).expect_err("shapes that do not broadcast");
    assert!(caught.to_string().starts_with("error[MS100]: `add`"), "{caught}");
    assert_eq!(REPORTED.load(Ordering::Relaxed), 0, "inside `catch`");
    assert!(panic::catch_unwind(wrong).is_err());
    assert_eq!(REPORTED.load(Ordering::Relaxed), 1, "outside of it");
}

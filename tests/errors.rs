//! Every code of a run-time error has a page, and an error that is caught is a value only.

use ms::prelude::*;
use std::fs;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};

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

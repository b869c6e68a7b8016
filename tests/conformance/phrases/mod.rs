//! Runs the phrase books, which translate lines of other frameworks.
//!
//! Each row of their pages is compared with the result of that framework (`data/phrases.py` writes
//! `data/phrases_*.json`). `MS_BLESS=1` updates the tables of the pages.

mod mindspore;
mod pytorch;

use ms::prelude::*;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// A line of the other framework, its translation, and the results of the translation.
pub struct Row<'a> {
    theirs: &'static str,
    ours: &'static str,
    run: Box<dyn Fn() -> Vec<Tensor> + 'a>,
}

/// The results of a row.
pub trait Results {
    fn results(self) -> Vec<Tensor>;
}

impl Results for Tensor {
    fn results(self) -> Vec<Tensor> {
        vec![self]
    }
}

impl Results for (Tensor, Tensor) {
    fn results(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}

impl Results for Vec<Tensor> {
    fn results(self) -> Vec<Tensor> {
        self
    }
}

/// The tables of a page, by title.
pub type Tables<'a> = [(&'static str, Vec<Row<'a>>)];

/// Declares the tables as they appear on the page.
macro_rules! tables {
    ($($title:literal: { $($theirs:literal => $ours:expr;)* })*) => {
        [$((
            $title,
            vec![$(Row { theirs: $theirs, ours: stringify!($ours), run: Box::new(|| $ours.results()) },)*],
        ),)*]
    };
}
use tables;

/// The operands of the rows, equal to the operands in `data/phrases.py`.
pub struct Operands {
    x: Tensor,
    y: Tensor,
    v: Tensor,
    w: Tensor,
    b: Tensor,
    i: Tensor,
    c: Tensor,
    p: Tensor,
    m: Tensor,
    z: Tensor,
    k: Tensor,
}

impl Operands {
    fn new() -> Self {
        Self {
            x: tensor![[1., 2., 3.], [4., 5., 6.]],
            y: tensor![[0.5, -1., 2.], [3., 0.25, -2.]],
            v: tensor![1., -2., 3.],
            w: tensor![[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [-0.1, -0.2, -0.3], [0.7, 0., -0.7]],
            b: tensor![0.5, -0.5, 0.25, 0.],
            i: tensor![2, 0, 1],
            c: tensor![2, 0],
            p: tensor![[0.1, 0.7, 0.2], [0.6, 0.3, 0.9]],
            m: ops::arange_of(0, 24, 1, DType::F32).reshape([2, 3, 4]) / 8.,
            z: ops::arange_of(0, 32, 1, DType::F32).reshape([1, 2, 4, 4]) / 16.,
            k: ops::arange_of(0, 54, 1, DType::F32).reshape([3, 2, 3, 3]) / 27. - 1.,
        }
    }
}

/// Passes the tables of a page to a function.
type WithTables = fn(&dyn Fn(&Tables<'_>));

/// A page with tables of rows.
struct Book {
    framework: &'static str,
    page: &'static str,
    /// The results of the framework, as JSON.
    expected: &'static str,
    /// The tolerance of the comparison. The framework approximates some functions.
    tolerance: f64,
    with_tables: WithTables,
}

const BOOKS: [Book; 2] = [
    Book {
        framework: "PyTorch",
        page: "docs/from_pytorch.md",
        expected: include_str!("../data/phrases_pytorch.json"),
        tolerance: 1e-6,
        with_tables: pytorch::with_tables,
    },
    Book {
        framework: "MindSpore",
        page: "docs/from_mindspore.md",
        expected: include_str!("../data/phrases_mindspore.json"),
        tolerance: 4e-6,
        with_tables: mindspore::with_tables,
    },
];

#[test]
fn rows_compute_what_the_other_framework_computes() {
    for book in BOOKS {
        let expected: Value = serde_json::from_str(book.expected).expect("JSON");
        (book.with_tables)(&|tables| {
            tables.iter().flat_map(|it| &it.1).for_each(|row| check(row, &expected, book.tolerance))
        });
    }
}

fn check(row: &Row<'_>, expected: &Value, tolerance: f64) {
    let results = (row.run)();
    let all = expected[row.theirs].as_array().unwrap_or_else(|| panic!("no results of `{}`", row.theirs));
    assert_eq!(results.len(), all.len(), "results of `{}`", row.ours);
    for (result, expected) in results.iter().zip(all) {
        let numbers = |name: &str| expected[name].as_array().expect("a list").iter();
        let shape: Vec<u64> = numbers("shape").map(|it| it.as_u64().expect("a size")).collect();
        assert_eq!(result.shape().iter().map(|&it| it as u64).collect::<Vec<_>>(), shape, "`{}`", row.ours);
        let ours = result.cast(DType::F64).to_vec::<f64>();
        for (ours, theirs) in ours.iter().zip(numbers("elements").map(|it| it.as_f64().expect("a number"))) {
            let near = (ours - theirs).abs() <= tolerance + 2e-6 * theirs.abs();
            assert!(near || ours.is_nan() && theirs.is_nan(), "`{}` has {ours}, not {theirs}", row.ours);
        }
    }
}

/// Returns the page with the tables of the rows.
fn page(text: &str, framework: &str, tables: &Tables<'_>) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").expect("a string has room");
        let Some((_, rows)) = tables.iter().find(|it| line == format!("## {}", it.0)) else { continue };
        while lines.peek().is_some_and(|it| !it.starts_with('#')) {
            lines.next();
        }
        writeln!(out, "\n| {framework} | here |\n|---|---|").expect("a string has room");
        for row in rows {
            let cell = |code: &str| code.replace('|', "\\|");
            writeln!(out, "| `{}` | `{}` |", cell(row.theirs), cell(row.ours)).expect("a string has room");
        }
        if lines.peek().is_some() {
            out.push('\n');
        }
    }
    out
}

#[test]
fn the_pages_have_the_rows() {
    for book in BOOKS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(book.page);
        let text = std::fs::read_to_string(&path).expect("the page");
        (book.with_tables)(&|tables| {
            for (title, _) in tables {
                assert!(text.lines().any(|it| it == format!("## {title}")), "{} has `{title}`", book.page);
            }
            let page = page(&text, book.framework, tables);
            if std::env::var_os("MS_BLESS").is_some() {
                std::fs::write(&path, page).expect("the page is writable");
            } else {
                assert!(page == text, "{} has other rows; MS_BLESS=1 updates it", book.page);
            }
        });
    }
}

//! `docs/language.md` lists every program of the reference, and each difference from Rust names
//! one.
//! `MS_BLESS=1` updates the lists.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- the reference begins: `MS_BLESS=1 cargo test -p ms-ui-tests --test book` writes it -->\n";
const END: &str = "<!-- the reference ends -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The programs of a folder by name, with their text.
fn programs(folder: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(root().join("ui-tests").join(folder)).expect("a folder of programs");
    let paths =
        entries.map(|it| it.expect("a readable entry").path()).filter(|it| it.extension().is_some_and(|it| it == "rs"));
    let named = |path: PathBuf| {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("a readable program"))
    };
    paths.map(named).collect()
}

/// The code in a name like `P05_MS001_jit_on_struct`.
fn code(name: &str) -> Option<&str> {
    name.split('_').find(|it| it.len() == 5 && it.starts_with("MS"))
}

/// The comment at the head of a program, or the title of the page of its code.
fn about(name: &str, text: &str) -> String {
    let lines = text.lines().map_while(|it| it.strip_prefix("//! ").or_else(|| it.strip_prefix("// ")));
    let words = lines.collect::<Vec<_>>().join(" ");
    match code(name) {
        _ if !words.is_empty() => words,
        Some(code) => {
            let page = fs::read_to_string(root().join(format!("docs/errors/{code}.md"))).expect("the page of a code");
            let title = page.lines().next().and_then(|it| it.split_once(": ")).expect("a title").1.to_owned();
            format!("{}{}.", title[..1].to_uppercase(), &title[1..])
        }
        None => panic!("{name} begins with a comment that says what it shows"),
    }
}

fn reference() -> String {
    let mut out = String::new();
    let _ = writeln!(out, "### Programs that run\n\n| program | what it shows |\n|---|---|");
    for (name, text) in programs("pass") {
        let _ = writeln!(out, "| [{name}](../ui-tests/pass/{name}.rs) | {} |", about(&name, &text));
    }
    let _ = writeln!(out, "\n### Programs that are refused\n\n| program | code | what it shows |\n|---|---|---|");
    for (name, text) in programs("fail") {
        let code = code(&name).map_or_else(|| "rustc".to_owned(), |it| format!("[{it}](errors/{it}.md)"));
        let _ = writeln!(out, "| [{name}](../ui-tests/fail/{name}.rs) | {code} | {} |", about(&name, &text));
    }
    out
}

#[test]
fn the_chapter_lists_every_program() {
    let path = root().join("docs/language.md");
    let chapter = fs::read_to_string(&path).expect("the chapter");
    let (head, rest) = chapter.split_once(BEGIN).expect("the mark at which the reference begins");
    let (_, tail) = rest.split_once(END).expect("the mark at which the reference ends");
    let want = format!("{head}{BEGIN}{}{END}{tail}", reference());
    if std::env::var_os("MS_BLESS").is_some_and(|it| it == "1") {
        fs::write(&path, want).expect("the chapter can be written");
    } else {
        assert!(
            chapter == want,
            "MS_BLESS=1 cargo test -p ms-ui-tests --test book writes the lists of docs/language.md"
        );
    }
}

/// The list of differences is complete: each one has a program that shows it.
#[test]
fn every_difference_is_shown() {
    let chapter = fs::read_to_string(root().join("docs/language.md")).expect("the chapter");
    let section = chapter.split("\n## ").find(|it| it.starts_with("What differs from Rust")).expect("the section");
    let differences: Vec<&str> = section.lines().filter(|it| it.starts_with("- ")).collect();
    assert!(differences.len() > 5, "{differences:?}");
    for difference in differences {
        let linked = difference.split("](../").skip(1).filter_map(|it| it.split_once(')')).map(|it| it.0);
        let linked: Vec<&str> = linked.collect();
        assert!(!linked.is_empty(), "names no program: {difference}");
        linked.iter().for_each(|it| assert!(root().join(it).exists(), "{it} is missing"));
    }
}

#[test]
fn the_reference_is_large_enough() {
    assert!(programs("pass").len() >= 40 && programs("fail").len() >= 60);
}

//! Tests that `docs/language.md` lists every program of the reference, and that each difference from Rust names a
//! program.
//!
//! `MS_BLESS=1` updates the lists.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- the reference begins: `MS_BLESS=1 cargo test -p ms-ui-tests --test book` writes it -->\n";
const END: &str = "<!-- the reference ends -->\n";

/// The beginning of the names of programs that `docs/mistakes.md` shows.
const MISTAKE: &str = "mistake_";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the programs of a folder by name, with their text.
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

/// Returns the code in a name like `MS001_jit_on_struct`.
fn code(name: &str) -> Option<&str> {
    name.split('_').find(|it| it.len() == 5 && it.starts_with("MS"))
}

/// Returns the comment at the head of a program: a summary, and the text after an empty line.
fn head(text: &str) -> (String, String) {
    let comment = text.lines().map_while(|it| it.strip_prefix("//!").or_else(|| it.strip_prefix("//")));
    let lines: Vec<&str> = comment.map(str::trim).collect();
    let end = lines.iter().position(|it| it.is_empty()).unwrap_or(lines.len());
    (lines[..end].join(" "), lines[end..].join(" ").trim().to_owned())
}

/// Returns the summary of a program, or the title of the page of its code.
fn about(name: &str, text: &str) -> String {
    let (words, _) = head(text);
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
    for (name, text) in programs("fail").into_iter().filter(|it| !it.0.starts_with(MISTAKE)) {
        let code = code(&name).map_or_else(|| "rustc".to_owned(), |it| format!("[{it}](errors/{it}.md)"));
        let _ = writeln!(out, "| [{name}](../ui-tests/fail/{name}.rs) | {code} | {} |", about(&name, &text));
    }
    out
}

/// Compares a page with its expected text, or writes it.
fn check(page: &str, want: &str) {
    let path = root().join(page);
    if std::env::var_os("MS_BLESS").is_some_and(|it| it == "1") {
        fs::write(&path, want).expect("a page can be written");
    } else {
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(text == want, "MS_BLESS=1 cargo test -p ms-ui-tests --test book writes {page}");
    }
}

#[test]
fn the_chapter_lists_every_program() {
    let chapter = fs::read_to_string(root().join("docs/language.md")).expect("the chapter");
    let (head, rest) = chapter.split_once(BEGIN).expect("the mark at which the reference begins");
    let (_, tail) = rest.split_once(END).expect("the mark at which the reference ends");
    check("docs/language.md", &format!("{head}{BEGIN}{}{END}{tail}", reference()));
}

/// A program with a common mistake, and the message of rustc.
struct Mistake {
    name: String,
    about: String,
    /// The help, where the message does not have it.
    help: String,
    code: String,
    message: String,
}

impl Mistake {
    fn errors(&self) -> usize {
        self.message.lines().filter(|it| it.starts_with("error")).count()
    }

    fn lines(&self) -> usize {
        self.message.lines().filter(|it| !it.trim().is_empty()).count()
    }
}

/// Returns the program without its head, and without `main` unless the message points there.
fn code_of(text: &str, message: &str) -> String {
    let body = text.lines().skip_while(|it| it.starts_with("//") || it.starts_with("use ") || it.is_empty());
    let main = text.lines().position(|it| it.starts_with("fn main"));
    let place = message.split(".rs:").nth(1).and_then(|it| it.split(':').next()?.parse().ok());
    let body: Vec<&str> = match (main, place) {
        (Some(main), Some(line)) if main >= line => body.take_while(|it| !it.starts_with("fn main")).collect(),
        _ => body.collect(),
    };
    body.join("\n").trim_end().to_owned()
}

fn mistakes() -> Vec<Mistake> {
    let all = programs("fail").into_iter().filter(|it| it.0.starts_with(MISTAKE));
    let each = all.map(|(name, text)| {
        let message = fs::read_to_string(root().join(format!("ui-tests/fail/{name}.stderr"))).expect("a message");
        Mistake {
            about: about(&name, &text).trim_end_matches('.').to_owned(),
            help: head(&text).1,
            code: code_of(&text, &message),
            message: message.trim_end().to_owned(),
            name,
        }
    });
    each.collect()
}

#[test]
fn the_page_of_mistakes_shows_what_rustc_says() {
    let mistakes = mistakes();
    let (errors, lines): (usize, usize) =
        mistakes.iter().fold((0, 0), |(errors, lines), it| (errors + it.errors(), lines + it.lines()));
    let mut out = String::from("# Mistakes, and what rustc says\n\n");
    let _ = writeln!(
        out,
        "What people write in their first hours, and the messages. `MS_BLESS=1 cargo test -p ms-ui-tests --test book` \
         writes this page from [ui-tests/fail](../ui-tests/fail). {} mistakes have {errors} errors, of {} lines on \
         average.\n\n| mistake | errors | lines |\n|---|---|---|",
        mistakes.len(),
        lines / mistakes.len().max(1),
    );
    for it in &mistakes {
        let anchor = it.about.to_lowercase().replace(' ', "-");
        let anchor: String = anchor.chars().filter(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect();
        let _ = writeln!(out, "| [{}](#{anchor}) | {} | {} |", it.about, it.errors(), it.lines());
    }
    for it in &mistakes {
        let _ = write!(out, "\n## {}\n\n```rust,compile_fail\n{}\n```\n\n", it.about, it.code);
        let message = it.message.replace(&format!("fail/{}", it.name), "src/main");
        let _ = writeln!(out, "```text\n{}\n```", message.replace("$DIR/", "").replace("$WORKSPACE/", "ms/"));
        if !it.help.is_empty() {
            let _ = writeln!(out, "\n{}", it.help);
        }
    }
    check("docs/mistakes.md", &out);
}

/// One mistake gives one error.
#[test]
fn a_mistake_is_one_error() {
    let mistakes = mistakes();
    assert!(mistakes.len() >= 40);
    for it in &mistakes {
        assert!(it.errors() == 1, "{}:\n{}", it.name, it.message);
        assert!(it.lines() <= 26, "{}:\n{}", it.name, it.message);
    }
    let short = mistakes.iter().filter(|it| it.lines() <= 12).count();
    assert!(short * 3 >= mistakes.len() * 2, "{short} of {} have up to twelve lines", mistakes.len());
}

/// Each difference in the list has a program that shows it.
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

//! Tests the documentation: examples of public items, line counts of the programs beside PyTorch, the pages and links
//! of the book, the program and the table of `README.md`, and the prose of comments and pages.

mod items;
mod paths;
mod prose;
mod readme;
mod words;

use std::path::{Path, PathBuf};

/// Returns the files in a folder and its subfolders, without build outputs and hidden folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let is_source = |it: &PathBuf| {
        // Cargo marks its folders of outputs. A module may be called `target`, too.
        let is_output = it.join("CACHEDIR.TAG").exists();
        !is_output && it.file_name().is_some_and(|it| !it.to_string_lossy().starts_with('.'))
    };
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let mut paths: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).filter(is_source).collect();
    paths.sort();
    paths.into_iter().flat_map(|it| if it.is_dir() { files(&it) } else { vec![it] }).collect()
}

/// Returns the number of lines with a letter or a digit, without comments, imports and Python's docstrings.
fn code_lines(path: &Path) -> usize {
    let python = path.extension().is_some_and(|it| it == "py");
    let mut inside = false;
    let is_code = |line: &&str| {
        let line = line.trim();
        let quotes = line.matches("\"\"\"").count();
        if python && (inside || quotes > 0) {
            inside ^= quotes == 1;
            return false;
        }
        let others: &[&str] = if python { &["#", "import ", "from "] } else { &["//", "use ", "mod "] };
        line.contains(char::is_alphanumeric) && !others.iter().any(|it| line.starts_with(it))
    };
    std::fs::read_to_string(path).expect("a source").lines().filter(is_code).count()
}

#[test]
fn the_lines_of_programs_beside_pytorch_are_as_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/from_pytorch.md")).expect("a page");
    let rows: Vec<&str> = page.lines().filter(|it| it.contains("](../examples/")).collect();
    assert_eq!(rows.len(), 5, "the programs of the table");
    for row in rows {
        let name = row.split(['[', ']']).nth(1).expect("the name of a program");
        let documented: Vec<usize> = row.split('|').filter_map(|it| it.trim().parse().ok()).collect();
        let sources = [format!("examples/{name}.rs"), format!("peers/programs/{name}.py")];
        let lines = sources.map(|it| code_lines(&root.join(it)));
        assert_eq!(documented, lines, "lines of {name} here and in PyTorch");
        assert!(10 * lines[0] <= 11 * lines[1], "{name} has {lines:?} lines, more than 1.1 times those of PyTorch");
    }
}

/// Returns the text of a file.
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|it| panic!("{}: {it}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the pages of the book.
fn pages() -> Vec<PathBuf> {
    let folders = [root().join("docs"), root().join("docs/errors")];
    let entries = folders.iter().flat_map(|it| std::fs::read_dir(it).expect("a folder of pages"));
    let mut pages: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    pages.retain(|it| it.extension().is_some_and(|it| it == "md"));
    pages.sort();
    pages
}

/// Returns the lines of a page outside code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Returns the code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns a line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Returns the targets of the links of a page that are not web addresses.
fn links(page: &str) -> Vec<String> {
    let lines = prose(page).map(without_code);
    let targets = |line: String| {
        let ends = line.match_indices("](").map(|(at, _)| at + 2);
        ends.filter_map(|at| Some(line[at..].split_once(')')?.0.to_owned())).collect::<Vec<_>>()
    };
    lines.flat_map(targets).filter(|it| !it.contains("://")).collect()
}

/// Returns the anchors of the headings of a page, as GitHub and mdBook name them.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page).filter(|it| it.starts_with('#'));
    let name = |heading: &str| {
        let lower = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        lower.chars().filter(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect()
    };
    headings.map(name).collect()
}

/// Returns the broken links of a page of the folder.
fn broken(folder: &Path, page: &str) -> Vec<String> {
    let resolves = |link: &String| {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = folder.join(path);
        let exists = path.is_empty() || target.exists();
        let inside = || if path.is_empty() { page.to_owned() } else { text(&target) };
        exists && (anchor.is_empty() || anchors(&inside()).iter().any(|it| it == anchor))
    };
    links(page).into_iter().filter(|it| !resolves(it)).collect()
}

#[test]
fn links_of_pages_resolve() {
    let others = ["README.md", "ARCHITECTURE.md"].map(|it| root().join(it));
    let mut wrong = Vec::new();
    for path in pages().iter().chain(&others) {
        let page = text(path);
        let of_page = broken(path.parent().expect("a folder"), &page);
        wrong.extend(of_page.iter().map(|it| format!("{}: {it}", path.display())));
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));

    let planted =
        "# A `b` c\n[x](glossary.md) [y](#a-b-c) [z](none.md) [u](#none) [v](glossary.md#none)\n`[w](none.md)`";
    assert_eq!(broken(&root().join("docs"), planted), ["none.md", "#none", "glossary.md#none"]);
}

#[test]
fn the_book_lists_every_page() {
    let folder = root().join("docs");
    let name = |it: &PathBuf| it.strip_prefix(&folder).expect("a page of the book").to_string_lossy().into_owned();
    let mut expected: Vec<String> = pages().iter().map(name).filter(|it| it != "SUMMARY.md").collect();
    let mut listed = links(&text(&folder.join("SUMMARY.md")));
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected, "docs/SUMMARY.md");
}

#[test]
fn the_index_of_errors_has_every_title() {
    let index = text(&root().join("docs/errors.md"));
    let pages = pages().into_iter().filter(|it| it.parent().is_some_and(|it| it.ends_with("errors")));
    let mut missing = Vec::new();
    for path in pages {
        let page = text(&path);
        let heading = page.lines().next().and_then(|it| it.strip_prefix("# ")?.split_once(": "));
        let (code, title) = heading.unwrap_or_else(|| panic!("{} has no title", path.display()));
        let row = format!("| [{code}](errors/{code}.md) | {title} |");
        if !index.lines().any(|it| it == row) {
            missing.push(row);
        }
    }
    assert!(missing.is_empty(), "docs/errors.md lacks\n{}", missing.join("\n"));
}

/// Returns the codes of errors that a text names, such as `MS100`.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("ms explain MS").filter_map(|(at, _)| text.get(at + 11..at + 16))
}

#[test]
fn every_code_that_a_message_names_has_a_page() {
    let folders = ["ms-core", "ms-macros/src", "ms-backends", "src", "ui-tests/fail"];
    let files = folders.iter().flat_map(|it| files(&root().join(it)));
    let (mut named, mut missing) = (0, Vec::new());
    for path in files.filter(|it| it.extension().is_some_and(|it| it == "rs" || it == "stderr")) {
        // A Rust string may continue in the next line.
        let text = text(&path).split("\\\n").map(str::trim_start).collect::<String>();
        for code in codes(&text).filter(|it| it[2..].chars().all(|it| it.is_ascii_digit())) {
            named += 1;
            if !root().join(format!("docs/errors/{code}.md")).exists() {
                missing.push(format!("{}: {code}", path.display()));
            }
        }
    }
    assert!(named > 100, "{named}");
    assert!(missing.is_empty(), "without a page:\n{}", missing.join("\n"));
}

#[test]
fn what_the_index_by_task_names_exists() {
    let page = text(&root().join("docs/by_task.md"));
    for module in ["nn", "ops"] {
        let (_, uses) = page.split_once(&format!("# use ms::{module}::{{")).expect("the page uses what it names");
        let used: Vec<&str> = uses.split("};").next().unwrap_or_default().split(',').collect();
        let used: Vec<&str> = used.iter().map(|it| it.trim_matches(['#', ' ', '\n'])).collect();
        let spans = prose(&page).flat_map(spans);
        let named: Vec<&str> = spans.filter_map(|it| it.strip_prefix(&format!("{module}::"))).collect();
        assert!(named.len() > 20, "{named:?}");
        named.iter().for_each(|it| assert!(used.contains(it), "rustc does not check {module}::{it}"));
    }
}

#[test]
fn the_page_of_features_lists_all() {
    let manifest = text(&root().join("Cargo.toml"));
    let (_, features) = manifest.split_once("[features]\n").expect("a section of features");
    let named = features.lines().take_while(|it| !it.starts_with('[')).filter_map(|it| it.split_once(" = "));
    let mut named: Vec<&str> = named.map(|it| it.0).filter(|it| !it.starts_with('#')).collect();
    let page = text(&root().join("docs/features.md"));
    let mut listed: Vec<&str> =
        page.lines().filter_map(|it| Some(it.strip_prefix("| `")?.split_once("` |")?.0)).collect();
    named.sort();
    listed.sort();
    assert_eq!(listed, named, "docs/features.md");
}

#[test]
fn the_page_of_examples_lists_all() {
    let entries = std::fs::read_dir(root().join("examples")).expect("a folder of examples");
    let names = entries.map(|it| it.expect("an entry").path()).filter(|it| it.extension().is_some_and(|it| it == "rs"));
    let name = |it: PathBuf| it.file_stem().expect("a file").to_string_lossy().into_owned();
    let mut names: Vec<String> = names.map(name).collect();
    let page = text(&root().join("docs/examples.md"));
    let row = |line: &str| Some(line.strip_prefix("| [")?.split_once("](../examples/")?.0.to_owned());
    let mut listed: Vec<String> = page.lines().filter_map(row).collect();
    names.sort();
    listed.sort();
    assert_eq!(listed, names, "docs/examples.md");
}

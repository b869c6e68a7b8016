//! The documentation of every function of an op: an example, and its errors; and the numbers of lines of the programs
//! beside PyTorch; and the book: its pages and their links.

use std::path::{Path, PathBuf};

/// The files in a folder and in those inside.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let paths = entries.map(|it| it.expect("an entry").path());
    paths.flat_map(|it| if it.is_dir() { files(&it) } else { vec![it] }).collect()
}

/// The sources of the ops.
fn sources(folder: &Path) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|it| it.extension().is_some_and(|it| it == "rs")).collect()
}

/// The free functions that return tensors, with their documentation.
fn functions(source: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = source.lines().collect();
    let starts = (0..lines.len()).filter(|&at| lines[at].starts_with("pub fn "));
    let function = |at: usize| {
        let end = lines[at..].iter().position(|it| it.ends_with('{')).expect("a function has a body");
        let signature = lines[at..=at + end].join(" ");
        let above = lines[..at].iter().rev().take_while(|it| it.starts_with("///") || it.starts_with("#["));
        let documentation: String = above.copied().collect::<Vec<_>>().join("\n");
        let result = signature.rsplit("->").next().unwrap_or_default().contains("Tensor");
        result.then(|| (signature.split(['(', '<']).next().unwrap_or_default().to_string(), documentation))
    };
    starts.filter_map(function).collect()
}

#[test]
fn every_function_of_an_op_has_an_example() {
    /// Helpers of rules and other ops, which are not public.
    const INNER: [&str; 4] = ["elementwise.rs", "rules.rs", "operand.rs", "batching.rs"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ms-core/src/ops");
    let (mut checked, mut bare) = (0, Vec::new());
    for path in sources(&folder) {
        let name = path.file_name().expect("a file").to_string_lossy().to_string();
        if INNER.contains(&&*name) || name.contains("test") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a source");
        for (function, documentation) in functions(&source) {
            checked += 1;
            if !documentation.contains("```") {
                bare.push(format!("{name}: {function}"));
            }
        }
        // Declared functions get their documentation from the declaration.
        for declaration in source.split("elementwise! {").skip(1) {
            checked += 1;
            let lines = declaration.trim_start().lines().map(str::trim);
            let documentation: Vec<&str> = lines.clone().take_while(|it| it.starts_with("///")).collect();
            let declared = lines.clone().nth(documentation.len()).unwrap_or_default();
            if !declared.is_empty() && !documentation.contains(&"/// ```") {
                bare.push(format!("{name}: {declared}"));
            }
        }
    }
    assert!(checked > 150, "only {checked} functions were found");
    assert!(bare.is_empty(), "without an example:\n{}", bare.join("\n"));
}

/// The names that a module exports from its own files.
fn exported(module: &str) -> Vec<&str> {
    let uses = module.split("pub use ").skip(1).filter_map(|it| it.split_once(';')).map(|it| it.0);
    let names = uses.filter(|it| !it.starts_with("crate::")).filter_map(|it| Some(it.split_once("::")?.1));
    names.flat_map(|it| it.split(['{', '}', ',', ' ', '\n'])).filter(|it| !it.is_empty()).collect()
}

/// The exported structs of a file without an example; those that are `parts` of others need none.
fn structs_without_example(source: &str, exported: &[&str], parts: &[&str]) -> Vec<String> {
    let lines: Vec<&str> = source.lines().collect();
    let bare = |at: usize| {
        let name = lines[at].strip_prefix("pub struct ")?.split(|it: char| !it.is_alphanumeric()).next()?;
        let mut above = lines[..at].iter().rev().take_while(|it| it.starts_with("///") || it.starts_with("#["));
        let counts = exported.contains(&name) && !parts.contains(&name);
        (counts && !above.any(|it| it.starts_with("/// ```"))).then(|| name.to_owned())
    };
    (0..lines.len()).filter_map(bare).collect()
}

#[test]
fn every_layer_optimiser_and_metric_has_an_example() {
    /// Fields, arguments and results of others, which have the examples, and what methods make.
    const PARTS: &str = "Batched DecoderCache DecoderMasks EpochRecord HookHandle Hooked LearningRate Map Repeat \
                         RunContext Sampled Samples ScheduleFn Scheduled Selected Slice Slots State Summary SummaryRow \
                         Table Term TryMap WeightDecay Zip";
    let parts: Vec<&str> = PARTS.split_whitespace().collect();
    let (mut checked, mut bare) = (0, Vec::new());
    for module in ["nn", "optim", "data", "train"] {
        let folder = root().join("src").join(module);
        let module = text(&folder.join("mod.rs"));
        let names = exported(&module);
        checked += names.len();
        for path in sources(&folder) {
            let found = structs_without_example(&text(&path), &names, &parts);
            bare.extend(found.into_iter().map(|it| format!("{}: {it}", path.display())));
        }
    }
    assert!(checked > 100, "only {checked} names were found");
    assert!(bare.is_empty(), "without an example:\n{}", bare.join("\n"));

    let planted =
        "/// A.\n/// ```\n/// ```\npub struct A {\n}\n/// B.\n#[cell]\npub struct B;\npub struct C;\npub struct D;";
    assert_eq!(structs_without_example(planted, &["A", "B", "C"], &["C"]), ["B"]);
}

/// The lines of a program with a letter or a digit, without comments, imports and Python's documentation.
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

/// A file of the repository.
fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|it| panic!("{}: {it}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the book.
fn pages() -> Vec<PathBuf> {
    let folders = [root().join("docs"), root().join("docs/errors")];
    let entries = folders.iter().flat_map(|it| std::fs::read_dir(it).expect("a folder of pages"));
    let mut pages: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    pages.retain(|it| it.extension().is_some_and(|it| it == "md"));
    pages.sort();
    pages
}

/// The lines of a page outside blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// A line without its spans of code.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of the links of a page that are not addresses.
fn links(page: &str) -> Vec<String> {
    let lines = prose(page).map(without_code);
    let targets = |line: String| {
        let ends = line.match_indices("](").map(|(at, _)| at + 2);
        ends.filter_map(|at| Some(line[at..].split_once(')')?.0.to_owned())).collect::<Vec<_>>()
    };
    lines.flat_map(targets).filter(|it| !it.contains("://")).collect()
}

/// The anchors of the headings of a page, as GitHub and mdBook name them.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page).filter(|it| it.starts_with('#'));
    let name = |heading: &str| {
        let lower = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        lower.chars().filter(|it| it.is_alphanumeric() || matches!(it, '-' | '_')).collect()
    };
    headings.map(name).collect()
}

/// The links of a page of the folder that lead nowhere.
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

/// The codes of errors that a text names, such as `MS100`.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("ms explain MS").filter_map(|(at, _)| text.get(at + 11..at + 16))
}

#[test]
fn every_code_that_a_message_names_has_a_page() {
    let folders = ["ms-core/src", "ms-macros/src", "ms-backends", "src", "ui-tests/fail"];
    let files = folders.iter().flat_map(|it| files(&root().join(it)));
    let (mut named, mut missing) = (0, Vec::new());
    for path in files.filter(|it| it.extension().is_some_and(|it| it == "rs" || it == "stderr")) {
        // A text of Rust may go on in the next line.
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
        let spans = prose(&page).flat_map(|line| line.split('`').skip(1).step_by(2));
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

//! Tests the documentation: examples of public items, line counts of the programs beside PyTorch, and the pages and
//! links of the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns the files in a folder and its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let paths = entries.map(|it| it.expect("an entry").path());
    paths.flat_map(|it| if it.is_dir() { files(&it) } else { vec![it] }).collect()
}

/// Returns the Rust sources in a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|it| it.extension().is_some_and(|it| it == "rs")).collect()
}

/// A named declaration of a source, with the documentation and attributes above it.
struct Declared {
    name: String,
    documentation: String,
    /// Whether the declaration is an item that may be exported, and not a field, a method, or an entry of a macro's
    /// list.
    is_item: bool,
}

impl Declared {
    /// Whether the documentation contains an example that is compiled.
    fn has_example(&self) -> bool {
        has_example(&self.documentation)
    }

    /// Returns the name of the item that has the example instead, by `See the example of [..]`.
    fn example_of(&self) -> Option<&str> {
        let (_, after) = self.documentation.split_once("See the example of [`")?;
        after.split('`').next()?.rsplit("::").next()
    }
}

/// Whether a text contains a block of code that rustdoc compiles.
fn has_example(documentation: &str) -> bool {
    let fences = documentation.lines().filter_map(|it| it.trim().strip_prefix("```"));
    fences.step_by(2).any(|it| ["", "no_run", "compile_fail"].contains(&it))
}

/// Returns the name that a line declares.
fn name_in(line: &str) -> &str {
    const WORDS: [&str; 11] =
        ["pub", "const", "unsafe", "async", "struct", "enum", "trait", "type", "fn", "macro_rules!", "mod"];
    let line = line.trim();
    if let Some(path) = line.strip_prefix("pub use ") {
        return path.trim_end_matches(';').rsplit("::").next().unwrap_or_default();
    }
    let mut words = line.split(' ').skip_while(|it| WORDS.contains(it));
    words.next().and_then(|it| it.split(|it: char| !it.is_alphanumeric() && it != '_').next()).unwrap_or_default()
}

/// Returns the declarations of a source that are documented or public.
fn declared(source: &str) -> Vec<Declared> {
    const ITEMS: [&str; 7] =
        ["pub struct ", "pub enum ", "pub trait ", "pub type ", "pub fn ", "pub const fn ", "pub unsafe fn "];
    let mut all = Vec::new();
    let (mut documentation, mut brackets) = (Vec::new(), 0);
    for line in source.lines() {
        let trimmed = line.trim();
        if let Some(text) = trimmed.strip_prefix("///") {
            documentation.push(text.trim());
        } else if brackets > 0 || trimmed.starts_with("#[") {
            brackets += trimmed.matches('[').count() as i32 - trimmed.matches(']').count() as i32;
            documentation.extend(["#[doc(hidden)]", "#[macro_export]"].contains(&trimmed).then_some(trimmed));
        } else if !trimmed.starts_with("//") {
            let is_macro = line.starts_with("macro_rules! ") && documentation.contains(&"#[macro_export]");
            let is_item = is_macro || ITEMS.iter().any(|it| line.starts_with(it));
            if is_item || !documentation.is_empty() {
                let (name, documentation) = (name_in(line).to_owned(), documentation.join("\n"));
                all.push(Declared { name, documentation, is_item });
            }
            documentation.clear();
        }
    }
    all
}

/// Returns the modules and names of the `pub use` items of a source; a glob has the name `*`.
fn exports(source: &str) -> Vec<(String, String)> {
    let uses = source.split("\npub use ").skip(1).filter_map(|it| it.split_once(';')).map(|it| it.0);
    let mut all = Vec::new();
    for path in uses {
        let (module, names) = path.rsplit_once("::{").or_else(|| path.rsplit_once("::")).expect("a path has a module");
        let names = names.trim_end_matches('}').split(',').map(|it| it.trim().split(' ').next().unwrap_or_default());
        all.extend(names.filter(|it| !it.is_empty()).map(|it| (module.to_owned(), it.to_owned())));
    }
    all
}

/// Returns the sources that may declare the item that `path` exports as `name`. The path is relative to a folder, or
/// names a crate.
fn declaring(path: &str, folder: &Path, name: &str) -> Vec<PathBuf> {
    let (krate, rest) = path.split_once("::").unwrap_or((path, ""));
    let of_core = |name: &str| root().join(format!("ms-core/{name}/src"));
    // The crates of the compiler, by the modules that `ms_core` exports.
    let core = || match rest.split("::").next().unwrap_or_default() {
        "error" | "environment" | "stored" => of_core("ir"),
        "tensor" | "ops" => of_core("ops"),
        "exec" | "lower" | "target" => of_core("compile"),
        "trace" | "transform" | "effects" => of_core("trace"),
        _ => of_core("runtime"),
    };
    let own = || {
        let mut cores = ["ir", "ops", "compile", "trace", "runtime"].map(of_core).into_iter();
        cores.find(|it| folder.starts_with(it)).unwrap_or_else(|| root().join("src"))
    };
    let (folder, rest) = match krate {
        "ms_core" => (&*core(), rest),
        "ms_ir" => (&*of_core("ir"), rest),
        "ms_ops" => (&*of_core("ops"), rest),
        "ms_compile" => (&*of_core("compile"), rest),
        "ms_trace" => (&*of_core("trace"), rest),
        "crate" => (&*own(), rest),
        _ => (folder, path),
    };
    let module = folder.join(rest.trim_start_matches("::").replace("::", "/"));
    if module.with_extension("rs").is_file() {
        return vec![module.with_extension("rs")];
    }
    let list = ["mod.rs", "lib.rs"].map(|it| module.join(it)).into_iter().find(|it| it.is_file());
    let exported = exports(&text(&list.unwrap_or_else(|| panic!("{path} is no module of {}", folder.display()))));
    match exported.iter().find(|it| it.1 == name) {
        Some((path, _)) => declaring(path, &module, name),
        None => {
            let of_crates = exported.iter().filter(|it| it.1 == "*" && it.0.starts_with("ms_"));
            let others = of_crates.flat_map(|it| declaring(&it.0, &module, name));
            sources(&module).into_iter().chain(others).collect()
        }
    }
}

/// The declarations of all sources, by path.
struct Sources(BTreeMap<PathBuf, Vec<Declared>>);

impl Sources {
    fn of_library() -> Self {
        let all = ["src", "ms-core"].into_iter().flat_map(|it| sources(&root().join(it)));
        let all = all.filter(|it| !it.to_string_lossy().contains("test"));
        Self(all.map(|it| (it.clone(), declared(&text(&it)))).collect())
    }

    /// Whether the item has an example or a link to one, or is hidden.
    fn is_shown(&self, it: &Declared) -> bool {
        let has = |name: &str| self.0.values().flatten().any(|it| it.name == name && it.has_example());
        it.has_example() || it.example_of().is_some_and(has) || it.documentation.contains("#[doc(hidden)]")
    }

    /// Returns the names that a source exports by `pub use` without an example.
    ///
    /// An example may be in the item's documentation, or at the `pub use`. It may also be in the module's
    /// documentation, if that mentions the name. Modules in `inner` are exempt.
    fn without_example(&self, path: &Path, source: &str, inner: &[&str]) -> Vec<String> {
        let module: Vec<&str> = source.lines().filter_map(|it| it.strip_prefix("//!")).collect();
        let module = module.join("\n");
        let words: Vec<&str> = module.split(|it: char| !it.is_alphanumeric() && it != '_').collect();
        let at_use = declared(source);
        let is_shown = |(from, name): &(String, String)| {
            if has_example(&module) && words.contains(&&**name)
                || at_use.iter().any(|it| it.name == *name && self.is_shown(it))
            {
                return true;
            }
            if from == "ms_macros" {
                return false;
            }
            let found = declaring(from, path.parent().expect("a folder"), name);
            let found = found.iter().filter_map(|it| self.0.get(it)).flatten().filter(|it| it.name == *name);
            let (items, others): (Vec<&Declared>, Vec<&Declared>) = found.partition(|it| it.is_item);
            let candidates = if items.is_empty() { others } else { items };
            candidates.into_iter().any(|it| self.is_shown(it))
        };
        let is_inner = |from: &str| from == "half" || from.starts_with("crate") || inner.contains(&from);
        let all = exports(source).into_iter().filter(|it| it.1 != "*" && !is_inner(&it.0));
        all.filter(|it| !is_shown(it)).map(|it| it.1).collect()
    }
}

#[test]
fn every_public_item_has_an_example() {
    /// The sources that export the items for programs.
    const EXPORTING: [&str; 15] = [
        "src/lib.rs",
        "src/prelude.rs",
        "src/custom.rs",
        "src/kernel.rs",
        "src/amp/mod.rs",
        "src/data/mod.rs",
        "src/fft/mod.rs",
        "src/io/mod.rs",
        "src/linalg/mod.rs",
        "src/nn/mod.rs",
        "src/optim/mod.rs",
        "src/train/mod.rs",
        "ms-core/ir/src/error/mod.rs",
        "ms-core/ir/src/data/mod.rs",
        "ms-core/ops/src/tensor/mod.rs",
    ];
    /// Sources in which every item is public: all of `ms::ops` except the files of its `core` that define ops.
    const WHOLE: [&str; 11] = [
        "src/nn/init.rs",
        "src/nn/sequential.rs",
        "src/print.rs",
        "ms-core/ir/src/error/mod.rs",
        "ms-core/ops/src/ops/api",
        "ms-core/ops/src/ops/composite",
        "ms-core/ops/src/ops/core/axis.rs",
        "ms-core/ops/src/ops/core/flops.rs",
        "ms-core/ops/src/ops/core/message.rs",
        "ms-core/ops/src/ops/core/operand.rs",
        "ms-core/ops/src/ops/primitive",
    ];
    /// Modules of `ms::error` and `ms::tensor` for backends, macros and the rules of ops. Programs do not use them.
    const INNER: [&str; 14] = [
        // The locations of errors.
        "called",
        "calls",
        "exhausted",
        // The dispatch of ops to a device or into a trace, and the checks of traced values.
        "dispatch",
        "escape",
        "hints",
        "op",
        // Memory.
        "host_array",
        "host_memory",
        "host_number",
        "literal",
        "memory",
        "memory::stream",
        "storage",
    ];
    /// Exceptions by name, with the reason.
    const EXCEPTIONS: [(&str, &str); 6] = [
        ("error random", "modules, whose items are checked"),
        ("Marked NoCall", "macros refer to them, and programs do not"),
        ("Traced Run Window WindowAxis Windows CustomVjp Lane reduced_dims", "for transforms and rules of ops"),
        ("MeanPlanes mean_planes check_classes is_float_status_watched is_host_only", "for backends"),
        (
            "Created Dependent Gathered TakenSlot WeakParameter apart is_apart with_created",
            "slots in compiled functions",
        ),
        ("abandon collecting", "errors while functions are traced"),
    ];
    let all = Sources::of_library();
    let (mut checked, mut bare) = (0, BTreeSet::new());
    let of_facade = exports(&text(&root().join("src/lib.rs")));
    for name in EXPORTING {
        let path = root().join(name);
        let source = text(&path);
        checked += exports(&source).len();
        let found = all.without_example(&path, &source, &INNER).into_iter();
        let again = |it: &String| name == "src/prelude.rs" && of_facade.iter().any(|of| of.1 == *it);
        bare.extend(found.filter(|it| !again(it)).map(|it| (it, name.to_owned())));
    }
    let is_whole = |path: &Path| WHOLE.iter().any(|it| path.starts_with(root().join(it)));
    for (path, items) in all.0.iter().filter(|it| is_whole(it.0)) {
        let source = text(path);
        // Functions that macros declare have their documentation in a list.
        let lists = ["\nelementwise! {", "\nfunctions! {"];
        let lists = lists.iter().flat_map(|it| source.split(it).skip(1)).filter_map(|it| it.split_once("\n}"));
        let listed: Vec<Declared> = lists.flat_map(|it| declared(it.0)).collect();
        for it in items.iter().filter(|it| it.is_item).chain(&listed) {
            checked += 1;
            // An item without documentation is not public, since rustc demands documentation of public items.
            if !it.documentation.is_empty() && !all.is_shown(it) {
                bare.insert((it.name.clone(), path.display().to_string()));
            }
        }
    }
    let excepted: Vec<&str> = EXCEPTIONS.iter().flat_map(|it| it.0.split(' ')).collect();
    let unused: Vec<&&str> = excepted.iter().filter(|name| !bare.iter().any(|it| it.0 == **name)).collect();
    bare.retain(|it| !excepted.contains(&&*it.0));
    assert!(checked > 700, "only {checked} items were found");
    assert!(bare.is_empty(), "neither an example nor `See the example of [..]`: {bare:#?}");
    assert!(unused.is_empty(), "these have examples, and need no exception: {unused:?}");

    let planted = "//! A module.\n\n/// Hooks.\n///\n/// ```\n/// ```\npub use ms_core::trace::Hooks;\npub use ms_core::session::At;\n\
                   pub use ms_core::trace::Marked;\npub use ms_macros::jit;\n";
    let facade = root().join("src/lib.rs");
    assert_eq!(all.without_example(&facade, planted, &[]), ["Marked", "jit"]);
    let planted = "/// A.\n/// ```\n/// ```\npub struct A {\n}\n/// B.\n#[cell(\n    skip\n)]\npub struct B;\n\
                   /// ```ignore\n/// ```\npub fn c() {}\n/// See the example of [`none`].\npub enum D {}\n";
    let shown: Vec<(String, bool)> =
        declared(planted).into_iter().map(|it| (it.name.clone(), all.is_shown(&it))).collect();
    let shown: Vec<(&str, bool)> = shown.iter().map(|it| (&*it.0, it.1)).collect();
    assert_eq!(shown, [("A", true), ("B", false), ("c", false), ("D", false)]);
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

//! The documentation of every function of an op: an example, and its errors; and the numbers of lines of the programs
//! beside PyTorch.

use std::path::{Path, PathBuf};

/// The sources of the ops.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    entries
        .map(|it| it.expect("an entry").path())
        .flat_map(|it| if it.is_dir() { sources(&it) } else { vec![it] })
        .filter(|it| it.extension().is_some_and(|it| it == "rs"))
        .collect()
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
        assert_eq!(documented, sources.map(|it| code_lines(&root.join(it))), "lines of {name} here and in PyTorch");
    }
}

//! Tests that the paths of items that pages name exist in the sources.

use crate::items::sources;
use crate::{prose, root, spans, text};
use std::path::Path;

/// A source: the modules of its path, and its text.
struct Source {
    modules: Vec<String>,
    text: String,
}

/// Returns the modules of a path: `ms-core/compile/src/lower/plan/mod.rs` has `ms_compile`, `lower` and `plan`.
fn modules(path: &Path) -> Vec<String> {
    let mut modules: Vec<String> = path.with_extension("").iter().map(|it| it.to_string_lossy().into_owned()).collect();
    if let Some(at) = modules.iter().position(|it| it == "src") {
        let name = match at.checked_sub(1).map(|it| modules[it].replace('-', "_")) {
            None => "ms".to_owned(),
            Some(folder) if folder == "runtime" => "ms_core".to_owned(),
            Some(folder) if folder.starts_with("ms_") => folder,
            Some(folder) => format!("ms_{folder}"),
        };
        modules.splice(..=at, [name]);
    }
    modules.retain(|it| it != "mod" && it != "lib");
    modules
}

/// Returns whether a text has a word.
fn has(text: &str, word: &str) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || it == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(is_part)
            && !text[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

/// Returns whether a path of modules and items exists.
fn exists(sources: &[Source], path: &[&str]) -> bool {
    // The modules of the path, and the items in them.
    (1..=path.len()).any(|count| {
        let (modules, items) = path.split_at(count);
        let below = |it: &&Source| it.modules.windows(count).any(|window| window == modules);
        let defines = |source: &Source, item: &str| {
            let declares = |keyword: &str| has(&source.text, &format!("{keyword} {item}"));
            // Only a file of the module itself declares its submodules.
            let is_module = || source.modules.iter().rev().zip(modules.iter().rev()).all(|(a, b)| a == b);
            match item.starts_with(char::is_uppercase) {
                true => has(&source.text, item),
                false => ["fn", "macro_rules!", "static"].into_iter().any(declares) || is_module() && declares("mod"),
            }
        };
        sources.iter().filter(below).any(|source| items.iter().all(|it| defines(source, it)))
    })
}

/// Returns the paths of items in a line of a page: those in backticks that begin with a module.
fn paths(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for code in spans(line) {
        let code = code.split('(').next().unwrap_or_default().trim_end_matches('!');
        let (base, names) = match code.split_once("::{") {
            Some((base, names)) => (base, names.trim_end_matches('}').split(", ").map(str::to_owned).collect()),
            None => (code, vec![String::new()]),
        };
        let is_name = |it: &str| !it.is_empty() && it.chars().all(|it| it.is_alphanumeric() || it == '_');
        for name in names {
            let path: Vec<String> =
                base.split("::").chain([&*name]).filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let is_path = path.len() > 1 && path.iter().all(|it| is_name(it));
            if is_path && path[0].starts_with(char::is_lowercase) && !["inventory", "std"].contains(&&*path[0]) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn paths_of_items_exist() {
    let sources: Vec<Source> = sources(root())
        .into_iter()
        .map(|it| Source { modules: modules(it.strip_prefix(root()).expect("a path below the root")), text: text(&it) })
        .collect();
    assert!(exists(&sources, &["exec", "runner"]) && exists(&sources, &["ops", "infer"]));
    assert!(!exists(&sources, &["exec", "walker"]) && !exists(&sources, &["ops", "Nowhere"]));
    let mut missing = Vec::new();
    for page in ["ARCHITECTURE.md", "docs/glossary.md", "docs/contributing.md"] {
        for line in prose(&text(&root().join(page))) {
            for path in paths(line) {
                let names: Vec<&str> = path.iter().map(|it| &**it).collect();
                if !exists(&sources, &names) {
                    missing.push(format!("{page}: `{}`", path.join("::")));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

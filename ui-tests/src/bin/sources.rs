//! Adds files of the repository to the book, as a preprocessor of mdBook.
//!
//! Files outside `docs` to which pages link become pages themselves. So the links lead to the same files in the book
//! and in the repository.
//!
//! mdBook runs this program as `book.toml` says, with the book as JSON on standard input
//! (<https://rust-lang.github.io/mdBook/for_developers/preprocessors.html>).

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The folder of the pages, in the repository.
const PAGES: &str = "docs";

/// The folder of the added pages, in the book.
const SOURCES: &str = "sources";

fn main() {
    // mdBook first asks which renderers the preprocessor supports. It supports all.
    if std::env::args().nth(1).is_some_and(|it| it == "supports") {
        return;
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("mdBook writes the book");
    let input: Value = serde_json::from_str(&text).expect("mdBook writes JSON");
    let [context, book] = input.as_array().map(Vec::as_slice).unwrap_or_default() else {
        panic!("a context and a book")
    };
    let root = context["root"].as_str().expect("the root of the repository");
    let mut book = book.clone();
    let mut sources = Sources { root: root.into(), pages: BTreeMap::new(), open: Vec::new() };
    let items = book["items"].as_array_mut().expect("the items of the book");
    items.iter_mut().for_each(|it| sources.rewrite(it));
    sources.read();
    // mdBook nests the table of contents by the numbers of chapters.
    let number = items.iter().filter(|it| it["Chapter"]["number"].is_array()).count() + 1;
    let page = |(at, (path, text)): (usize, (&PathBuf, &String))| {
        chapter(&path.display().to_string(), &page_of(path), text, json!([number, at + 1]), &["Files"], json!([]))
    };
    let pages: Vec<Value> = sources.pages.iter().enumerate().map(page).collect();
    let about = "# Files\n\nThe files of the repository that pages of this book mention.\n";
    items.push(json!({ "PartTitle": "Sources" }));
    items.push(chapter("Files", Path::new("sources/index.md"), about, json!([number]), &[], Value::Array(pages)));
    println!("{book}");
}

/// Returns a chapter of the book in mdBook's format.
fn chapter(name: &str, page: &Path, text: &str, number: Value, parents: &[&str], inside: Value) -> Value {
    json!({ "Chapter": {
        "name": name, "content": text, "number": number, "sub_items": inside,
        "path": page, "source_path": null, "parent_names": parents,
    }})
}

/// Returns the page of the book that shows a file or a folder of the repository.
fn page_of(path: &Path) -> PathBuf {
    match path.strip_prefix(PAGES) {
        Ok(page) => page.to_owned(),
        Err(_) if path.extension().is_some_and(|it| it == "md") => Path::new(SOURCES).join(path),
        Err(_) => Path::new(SOURCES).join(format!("{}.md", path.display())),
    }
}

/// Returns a path without `..`; `None` if it would leave the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.iter() {
        if part == ".." {
            if !out.pop() {
                return None;
            }
        } else {
            out.push(part);
        }
    }
    Some(out)
}

/// Returns the relative path from one page of the book to another page.
fn way(from: &Path, to: &Path) -> String {
    let up = from.components().count().saturating_sub(1);
    format!("{}{}", "../".repeat(up), to.display())
}

/// The files that have become pages.
struct Sources {
    root: PathBuf,
    /// The text of pages, by the path of the file in the repository.
    pages: BTreeMap<PathBuf, String>,
    /// Paths that are linked but not yet read.
    open: Vec<PathBuf>,
}

impl Sources {
    /// Rewrites the links of an item of the book and of its sub-items.
    fn rewrite(&mut self, item: &mut Value) {
        let Some(chapter) = item.get_mut("Chapter") else { return };
        if let Some(path) = chapter["path"].as_str().map(|it| Path::new(PAGES).join(it)) {
            let text = chapter["content"].as_str().unwrap_or_default();
            chapter["content"] = Value::String(self.with_links(&path, text));
        }
        if let Some(inside) = chapter["sub_items"].as_array_mut() {
            inside.iter_mut().for_each(|it| self.rewrite(it));
        }
    }

    /// Returns the text of a file of the repository, with links to pages of the book.
    fn with_links(&mut self, file: &Path, text: &str) -> String {
        let mut inside = false;
        let line = |line: &str| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            if inside || fence { line.to_owned() } else { self.line(file, line) }
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
    }

    /// Rewrites the links of a line outside code blocks. Code spans are every other part between backquotes. A span in
    /// the text of a link ends before the link's target begins.
    fn line(&mut self, file: &Path, line: &str) -> String {
        let mut out = String::new();
        for (at, part) in line.split('`').enumerate() {
            if at > 0 {
                out.push('`');
            }
            match at % 2 {
                0 => out += &self.part(file, part),
                _ => out += part,
            }
        }
        out
    }

    fn part(&mut self, file: &Path, text: &str) -> String {
        let mut parts = text.split("](");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out += "](";
            match part.split_once(')') {
                Some((target, rest)) => out += &format!("{}){rest}", self.target(file, target)),
                None => out += part,
            }
        }
        out
    }

    /// Returns the target of a file's link, as seen from the file's page.
    fn target(&mut self, file: &Path, target: &str) -> String {
        let (path, anchor) = target.split_once('#').map_or((target, String::new()), |(a, b)| (a, format!("#{b}")));
        let linked = file.parent().and_then(|it| normal(&it.join(path)));
        let Some(linked) = linked.filter(|it| !path.is_empty() && self.root.join(it).exists()) else {
            return target.to_owned();
        };
        let (page, is_picture) = (page_of(file), !path.ends_with(".md") && linked.starts_with(PAGES));
        if !linked.starts_with(PAGES) && !self.pages.contains_key(&linked) {
            self.pages.insert(linked.clone(), String::new());
            self.open.push(linked.clone());
        }
        let to = if is_picture { linked.strip_prefix(PAGES).unwrap_or(&linked).to_owned() } else { page_of(&linked) };
        way(&page, &to) + &anchor
    }

    /// Reads all linked files, and the files to which they link.
    fn read(&mut self) {
        while let Some(path) = self.open.pop() {
            let text = self.text(&path);
            self.pages.insert(path, text);
        }
    }

    fn text(&mut self, path: &Path) -> String {
        let place = self.root.join(path);
        let title = format!("# {}\n\n", path.display());
        if place.is_dir() {
            let entries = std::fs::read_dir(&place).expect("the folder exists");
            let mut names: Vec<String> = entries.flatten().map(|it| it.file_name().to_string_lossy().into()).collect();
            names.sort();
            return title + &names.iter().map(|it| format!("- `{it}`\n")).collect::<String>();
        }
        let text = std::fs::read_to_string(&place).unwrap_or_else(|it| panic!("{}: {it}", place.display()));
        match path.extension().and_then(|it| it.to_str()) {
            Some("md") => self.with_links(path, &text),
            language => {
                let language = match language {
                    Some("py") => "python",
                    Some("rs") => "rust,ignore",
                    _ => "text",
                };
                // The fence is longer than any fence in a comment of the file.
                format!("{title}`````{language}\n{text}`````\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut sources = Sources { root, pages: BTreeMap::new(), open: Vec::new() };
        let page = "[a `b`](../examples/vae.rs) [c](tensors.md#indices) `[d](../README.md)` [e](https://x.y)\n\
                    ```rust\n[f](../README.md)\n```\n[g](../peers/programs) [h](../none.rs) [i](#here) [j](errors/MS001.md)\n";
        let want = "[a `b`](sources/examples/vae.rs.md) [c](tensors.md#indices) `[d](../README.md)` [e](https://x.y)\n\
                    ```rust\n[f](../README.md)\n```\n\
                    [g](sources/peers/programs.md) [h](../none.rs) [i](#here) [j](errors/MS001.md)\n";
        assert_eq!(sources.with_links(Path::new("docs/page.md"), page), want);
        let inner =
            sources.with_links(Path::new("docs/errors/MS001.md"), "[a](../../ARCHITECTURE.md) [b](../tensors.md)");
        assert_eq!(inner, "[a](../sources/ARCHITECTURE.md) [b](../tensors.md)\n");
        sources.read();
        let pages: Vec<String> = sources.pages.keys().map(|it| it.display().to_string()).collect();
        assert_eq!(pages, ["ARCHITECTURE.md", "examples/vae.rs", "peers/programs"]);
        assert!(sources.pages.values().all(|it| it.starts_with("# ")));
        assert!(sources.pages[Path::new("ARCHITECTURE.md")].contains("](../glossary.md)"));
    }
}

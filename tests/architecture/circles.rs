//! Circles of files: files that import from each other, directly or through further files.

use super::{code, root, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The circles that each crate may still have. A new one is a violation, and one less must be removed from the list.
const CIRCLES: [(&str, usize); 11] = [
    ("ms-core/ir/src", 0),
    ("ms-core/ops/src", 0),
    ("ms-core/compile/src", 0),
    ("ms-core/trace/src", 0),
    ("ms-core/runtime/src", 0),
    ("ms-backends/x64/src", 0),
    ("ms-backends/cpu/src", 0),
    ("ms-backends/sim/src", 0),
    ("ms-onnx/src", 0),
    ("ms-macros/src", 1),
    ("src", 2),
];

/// The path of a module, from the root of the crate.
type Module = Vec<String>;

/// The files of a crate by their modules, with the code of each.
struct Crate(BTreeMap<Module, String>);

impl Crate {
    /// Reads files, by their paths below `src`.
    fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let module = |path: &str| -> Module {
            let parts = path.trim_end_matches(".rs").split('/').map(str::to_owned);
            parts.filter(|it| it != "mod" && it != "lib").collect()
        };
        let is_test = |path: &str| path.contains("test");
        let files = files.into_iter().filter(|it| !is_test(&it.0));
        Self(files.map(|(path, text)| (module(&path), code(&text))).collect())
    }

    /// Returns the file that an item of this path is in: of the longest prefix that is a module, or of the module from
    /// which that one exports the item.
    fn file_of(&self, path: &[String], depth: usize) -> Option<Module> {
        let (module, text) = (0..=path.len()).rev().find_map(|it| self.0.get_key_value(&path[..it]))?;
        let name = path.get(module.len());
        let exported = name.filter(|_| depth < 8).and_then(|name| {
            let uses = text.split("pub use ").skip(1).filter_map(|it| it.split_once(';'));
            let paths: Vec<Module> = uses.flat_map(|it| trees(it.0)).collect();
            let named = paths.iter().filter(|it| it.last() == Some(name));
            named.filter_map(|it| self.resolved(it, module)).find_map(|it| self.file_of(&it, depth + 1))
        });
        let globs = || {
            let uses = text.split("pub use ").skip(1).filter_map(|it| it.split_once(';'));
            let paths: Vec<Module> =
                uses.flat_map(|it| trees(it.0)).filter(|it| it.last().is_some_and(|it| it == "*")).collect();
            let declares = |module: &Module| {
                let words = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static "];
                let is_in = |text: &String| {
                    words.iter().any(|it| name.is_some_and(|name| text.contains(&format!("{it}{name}"))))
                };
                self.0.get(module).is_some_and(is_in)
            };
            let modules = paths.iter().filter_map(|it| self.resolved(&it[..it.len() - 1], module));
            modules.into_iter().find(|it| declares(it))
        };
        exported.or_else(|| name.and_then(|_| globs())).or_else(|| Some(module.clone()))
    }

    /// Returns a path from the root of the crate, for a path in a module.
    fn resolved(&self, path: &[String], module: &[String]) -> Option<Module> {
        let supers = path.iter().take_while(|it| *it == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([module.get(..module.len().checked_sub(supers)?)?, &path[supers..]].concat()),
            // A path of a child, as in `pub use child::Item`.
            first => {
                let child = [module, &[first.to_owned()]].concat();
                self.0.contains_key(&child).then(|| [module, path].concat())
            }
        }
    }

    /// Returns the files that a file imports from.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let text = &self.0[module];
        let uses = text.split("use ").skip(1).filter_map(|it| it.split_once(';'));
        let starts = |it: &str| ["crate::", "super::", "self::"].iter().any(|start| it.starts_with(start));
        let mut paths: Vec<Module> = uses.filter(|it| starts(it.0)).flat_map(|it| trees(it.0)).collect();
        for (at, _) in text.match_indices("crate::") {
            let is_part = text[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == ':');
            let end =
                text[at..].find(|it: char| !it.is_alphanumeric() && it != '_' && it != ':').unwrap_or(text.len() - at);
            if !is_part {
                paths.push(text[at..at + end].split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect());
            }
        }
        let found = paths.iter().filter_map(|it| self.file_of(&self.resolved(it, module)?, 0));
        found.filter(|it| it != module).collect()
    }

    /// Returns the circles: sets of files, each of which reaches all others by imports.
    fn circles(&self) -> Vec<BTreeSet<Module>> {
        let edges: BTreeMap<&Module, BTreeSet<Module>> = self.0.keys().map(|it| (it, self.imports(it))).collect();
        let reached = |from: &Module| {
            let (mut found, mut open) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(next) = open.pop() {
                open.extend(edges[&next].iter().filter(|it| found.insert((*it).clone())).cloned());
            }
            found
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> = self.0.keys().map(|it| (it, reached(it))).collect();
        let circle = |module: &Module| -> BTreeSet<Module> {
            let others = reached[module].iter().filter(|it| reached[it].contains(module));
            others.cloned().collect()
        };
        let all: BTreeSet<BTreeSet<Module>> = self.0.keys().map(circle).filter(|it| it.len() > 1).collect();
        all.into_iter().collect()
    }
}

/// Returns the paths of a `use` tree: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn trees(tree: &str) -> Vec<Module> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        return vec![name.split("::").map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |it| it.0);
    let head: Module = head.split("::").map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect();
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in inner.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            _ => parts.last_mut().expect("there is a part").push(letter),
        }
    }
    let parts = parts.iter().filter(|it| !it.trim().is_empty());
    parts.flat_map(|it| trees(it)).map(|it| [head.clone(), it].concat()).collect()
}

#[test]
fn files_form_no_new_circle() {
    let names = |it: &BTreeSet<Module>| it.iter().map(|it| it.join("/")).collect::<Vec<_>>().join(", ");
    let mut wrong = Vec::new();
    for (folder, limit) in CIRCLES {
        let files = sources(&root().join(folder));
        let circles = Crate::new(files.into_iter().map(|it| (it.path, it.text))).circles();
        if circles.len() != limit {
            let shown: Vec<String> = circles.iter().map(names).collect();
            wrong.push(format!("{folder} has {} circles, not {limit}:\n{}", circles.len(), shown.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn planted_circles_are_found() {
    let count =
        |files: &[(&str, &str)]| Crate::new(files.iter().map(|it| (it.0.to_owned(), it.1.to_owned()))).circles().len();
    let pair = [("a.rs", "use crate::b::B;"), ("b.rs", "use super::a::{A, Other};")];
    assert_eq!(count(&pair), 1);
    assert_eq!(count(&pair[..1]), 0);
    let exported =
        [("lib.rs", "mod a;\nmod b;\npub use a::A;"), ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::A;")];
    assert_eq!(count(&exported), 1, "through an export");
    let inline = [("a.rs", "fn f() -> crate::b::B {}"), ("b/mod.rs", "use crate::c::C;"), ("c.rs", "use crate::a::f;")];
    assert_eq!(count(&inline), 1, "of three files");
    let tree = [("a.rs", "use crate::{b::{self, B}, c};"), ("b.rs", ""), ("c.rs", "use crate::b::B;")];
    assert_eq!(count(&tree), 0);
}

//! Tests that every public item has an example, or names the item that has one.

use crate::{files, root, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns the Rust sources in a folder.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
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
    let path = path.strip_prefix("self::").unwrap_or(path);
    let (krate, rest) = path.split_once("::").unwrap_or((path, ""));
    let of_core = |name: &str| root().join(format!("ms-core/{name}/src"));
    // The crates of the compiler, by the modules that `ms_core` exports.
    let core = |path: &str| match path.split("::").next().unwrap_or_default() {
        "error" | "environment" | "stored" => of_core("ir"),
        "tensor" | "ops" => of_core("ops"),
        "exec" | "lower" | "target" => of_core("compile"),
        "trace" | "transform" | "effects" => of_core("trace"),
        _ => of_core("runtime"),
    };
    // A crate of the compiler exports modules of earlier ones as its own.
    let inside = |folder: PathBuf, path: &str| {
        let module = folder.join(path.split("::").next().unwrap_or_default());
        if module.is_dir() || module.with_extension("rs").is_file() { folder } else { core(path) }
    };
    let own = || {
        let mut cores = ["ir", "ops", "compile", "trace", "runtime"].map(of_core).into_iter();
        cores.find(|it| folder.starts_with(it)).unwrap_or_else(|| root().join("src"))
    };
    // `ms_core::ir` is the root of a crate.
    let of_ir = || rest.strip_prefix("ir").filter(|it| it.is_empty() || it.starts_with("::"));
    let (folder, rest) = match krate {
        "ms_core" | "crate" if of_ir().is_some() => (of_core("ir"), of_ir().unwrap_or_default()),
        "ms_core" => (core(rest), rest),
        "ms_ir" | "ms_ops" | "ms_compile" | "ms_trace" => (of_core(&krate[3..]), rest),
        "crate" => (inside(own(), rest), rest),
        _ => (inside(folder.to_owned(), path), path),
    };
    let module = folder.join(rest.trim_start_matches("::").replace("::", "/"));
    if module.with_extension("rs").is_file() {
        return vec![module.with_extension("rs")];
    }
    let list = ["mod.rs", "lib.rs"].map(|it| module.join(it)).into_iter().find(|it| it.is_file());
    let exported = exports(&text(&list.unwrap_or_else(|| panic!("{path} is no module of {}", folder.display()))));
    if let Some((path, _)) = exported.iter().find(|it| it.1 == name) {
        return declaring(path, &module, name);
    }
    let globs = exported.iter().filter(|it| it.1 == "*").flat_map(|it| declaring(&it.0, &module, name));
    globs.chain(sources(&module)).collect()
}

/// The declarations of all sources, by path.
struct Sources(BTreeMap<PathBuf, Vec<Declared>>);

impl Sources {
    fn of_library() -> Self {
        let all = ["src", "ms-core"].into_iter().flat_map(|it| sources(&root().join(it)));
        let is_test = |it: &Path| it.strip_prefix(root()).is_ok_and(|it| it.to_string_lossy().contains("test"));
        let all = all.filter(|it| !is_test(it));
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
        "ms-core/ir/src/op/flops.rs",
        "ms-core/ops/src/ops/core/message.rs",
        "ms-core/ops/src/ops/core/operand.rs",
        "ms-core/ops/src/ops/primitive",
    ];
    /// Modules of `ms::error` and `ms::tensor` for backends, macros and the rules of ops. Programs do not use them.
    const INNER: [&str; 16] = [
        // The locations of errors.
        "called",
        "calls",
        "exhausted",
        // The dispatch of ops to a device or into a trace, and the checks of traced values.
        "dispatch",
        "escape",
        "hints",
        "scope",
        "op",
        // The types of tensors in files.
        "file",
        // Memory.
        "host_array",
        "host_memory",
        "host_scalar",
        "literal",
        "memory",
        "memory::stream",
        "storage",
    ];
    /// Exceptions by name, with the reason.
    const EXCEPTIONS: [(&str, &str); 6] = [
        ("error random", "modules, whose items are checked"),
        ("Marked NoCall", "macros refer to them, and programs do not"),
        ("Traced Run WindowAxis Windows reduced_dims", "for transforms and rules of ops"),
        ("ChannelMeans channel_means is_float_status_monitored is_host_only", "for backends"),
        (
            "Created Dependent Gathered TakenSlot WeakParameter outside_functions is_outside_functions with_created",
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

    let planted = "//! A module.\n\n/// Hooks.\n///\n/// ```\n/// ```\npub use ms_core::trace::Hooks;\n\
                   pub use ms_core::trace::{Frozen, Marked};\npub use ms_macros::jit;\n";
    let facade = root().join("src/lib.rs");
    assert_eq!(all.without_example(&facade, planted, &[]), ["Marked", "jit"]);
    let planted = "/// A.\n/// ```\n/// ```\npub struct A {\n}\n/// B.\n#[cell(\n    skip\n)]\npub struct B;\n\
                   /// ```ignore\n/// ```\npub fn c() {}\n/// See the example of [`none`].\npub enum D {}\n";
    let shown: Vec<(String, bool)> =
        declared(planted).into_iter().map(|it| (it.name.clone(), all.is_shown(&it))).collect();
    let shown: Vec<(&str, bool)> = shown.iter().map(|it| (&*it.0, it.1)).collect();
    assert_eq!(shown, [("A", true), ("B", false), ("c", false), ("D", false)]);
}

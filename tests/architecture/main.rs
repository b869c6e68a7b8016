//! Tests the invariants in ARCHITECTURE.md.
//!
//! Each check is a function from sources to violations, and is itself tested on a planted violation.

mod circles;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file with its text. The path is relative to the searched folder.
struct Source {
    path: String,
    text: String,
}

/// Returns every Rust file below `folder`, without build outputs.
fn sources(folder: &Path) -> Vec<Source> {
    let (mut found, mut open): (Vec<PathBuf>, _) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is readable").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    let source = |path: PathBuf| Source {
        text: fs::read_to_string(&path).expect("the file is readable"),
        path: path.strip_prefix(folder).expect("below the folder").to_string_lossy().into_owned(),
    };
    found.into_iter().map(source).collect()
}

/// Checks that the sources have no violations, and that `planted` has some.
#[track_caller]
fn check(sources: &[Source], violations: impl Fn(&[Source]) -> Vec<String>, planted: &[(&str, &str)]) {
    let found = violations(sources);
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(sources.len() > 5, "the sources are found");
    for (path, text) in planted {
        let planted = Source { path: (*path).to_owned(), text: (*text).to_owned() };
        assert!(!violations(&[planted]).is_empty(), "{path}: {text} is not found");
    }
}

/// The crates in the folder `ms-core`, in order, with their modules: each crate depends only on earlier ones, and each
/// module imports only earlier ones. The modules of `ir` beside `error` and `environment` are one room.
const CRATES: [(&str, &[&str]); 5] = [
    ("ir", &["error", "environment", "data"]),
    ("compile", &["target", "optimize", "lower", "exec"]),
    ("ops", &["tensor", "ops"]),
    ("trace", &["trace", "transform", "effects", "passes"]),
    ("runtime", &["optimize", "session"]),
];

/// The sources of the crates in the folder `ms-core`, with paths that begin with the folder of the crate.
fn core_sources() -> Vec<Source> {
    let of = |name: &&str| {
        let mut all = sources(&root().join(format!("ms-core/{name}/src")));
        all.iter_mut().for_each(|it| it.path = format!("{name}/{}", it.path));
        all
    };
    CRATES.iter().map(|it| it.0).flat_map(|it| of(&it)).collect()
}

/// Returns the first segments of the paths below `crate` in a text. The paths are written as `crate::a::b` or
/// `crate::{a::b, c}`, which may span several lines.
fn crate_paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let name = |text: &str| text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect::<String>();
    for (_, after) in text.match_indices("crate::").map(|(at, it)| (at, &text[at + it.len()..])) {
        let Some(group) = after.strip_prefix('{') else {
            found.push(name(after));
            continue;
        };
        let (mut depth, mut starts) = (1, true);
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => starts = true,
                _ if depth == 1 && starts && letter.is_alphabetic() => {
                    found.push(name(&group[at..]));
                    starts = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found
}

/// Returns the text without comments and test-only code.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn modules_import_only_earlier_modules() {
    let violations = |sources: &[Source]| {
        let mut wrong = Vec::new();
        for source in sources.iter().filter(|it| !it.path.contains("test")) {
            let (name, path) = source.path.split_once('/').expect("the path begins with a crate");
            let modules = CRATES.iter().find(|it| it.0 == name).expect("a crate of the list").1;
            let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            let Some(at) = modules.iter().position(|it| *it == module) else { continue };
            let later = |it: &String| modules[at + 1..].contains(&it.as_str());
            let names = crate_paths(&code(&source.text)).into_iter().filter(later);
            wrong.extend(names.map(|it| format!("{} imports `{it}`, which stands behind it", source.path)));
        }
        wrong
    };
    let planted = [
        ("ops/tensor/array.rs", "use crate::ops::add;"),
        ("ir/error/mod.rs", "use crate::{\n    environment::number,\n    data::Array,\n};"),
        ("trace/trace/mod.rs", "fn f() -> crate::transform::Chosen {}"),
        ("compile/lower/plan.rs", "use crate::{ir::{Graph, Node}, exec};"),
    ];
    check(&core_sources(), violations, &planted);
}

/// Returns the module of a file of `lower`: its folder and its name, such as `fusion/group`. A folder inside one of the
/// folders is one module.
fn lower_module(path: &str) -> String {
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').filter(|it| *it != "mod").collect();
    parts[..parts.len().min(2)].join("/")
}

/// Returns the modules that a file of `lower` may import: the paths below `crate::lower`, and those below `super`.
fn lower_imports(source: &Source) -> Vec<String> {
    let code = code(&source.text);
    let is_name = |it: &char| it.is_alphanumeric() || *it == '_';
    let mut found = Vec::new();
    for path in code.lines().filter_map(|line| line.trim_start().strip_prefix("use ")) {
        let segments: Vec<String> = path.split("::").map(|it| it.chars().take_while(is_name).collect()).collect();
        if !path.starts_with("crate::lower::") {
            if segments[0] == "super" && segments[1] != "super" {
                let module = lower_module(&source.path);
                let folder = module.split_once('/').map_or("", |it| it.0);
                found.push(format!("{folder}/{}", segments[1]).trim_start_matches('/').to_owned());
            }
            continue;
        }
        found.push(segments[2].clone());
        found.extend(segments.get(3).map(|it| format!("{}/{it}", segments[2])));
    }
    found
}

#[test]
fn the_files_of_lower_form_no_cycle() {
    let violations = |sources: &[Source]| -> Vec<String> {
        // `lower/mod.rs` and the lists of modules in the folders import nothing themselves.
        let files = sources.iter().filter(|it| it.path != "mod.rs");
        let mut open: Vec<(String, Vec<String>)> =
            files.map(|it| (lower_module(&it.path), lower_imports(it))).collect();
        // A file without remaining imports is not part of a cycle.
        loop {
            let left: Vec<String> = open.iter().map(|it| it.0.clone()).collect();
            let before = open.len();
            open.retain(|(name, imports)| imports.iter().any(|it| it != name && left.contains(it)));
            if open.len() == before {
                return open.into_iter().map(|it| format!("`{}` is in a cycle, or imports from one", it.0)).collect();
            }
        }
    };
    let cycle = |text: &str| {
        vec![
            Source { path: "plan/mod.rs".to_owned(), text: text.to_owned() },
            Source { path: "rewrites/flatten/regions.rs".to_owned(), text: "use crate::lower::plan::Plan;".to_owned() },
        ]
    };
    assert!(violations(&cycle("use crate::lower::rewrites::flatten::Flatten;")).len() == 2, "a cycle is found");
    assert!(violations(&cycle("use crate::lower::rewrites::flat::Flat;")).is_empty());
    check(&sources(&root().join("ms-core/compile/src/lower")), violations, &[]);
}

#[test]
fn modules_with_folders_are_mod_files() {
    let violations = |sources: &[Source]| -> Vec<String> {
        let beside = |it: &&Source| {
            let folder = it.path.trim_end_matches("rs").trim_end_matches('.').to_owned() + "/";
            sources.iter().any(|other| other.path.starts_with(&folder))
        };
        sources.iter().filter(beside).map(|it| format!("{} belongs into its folder, as `mod.rs`", it.path)).collect()
    };
    let planted = ["error.rs", "error/codes.rs"].map(|path| Source { path: path.to_owned(), text: String::new() });
    assert_eq!(violations(&planted).len(), 1);
    let core = CRATES.map(|it| format!("ms-core/{}/src", it.0));
    let core = core.iter().map(String::as_str);
    let others = [
        "src",
        "ms-macros/src",
        "ms-onnx/src",
        "ms-backends/x64/src",
        "ms-backends/cpu/src",
        "ms-cli/src",
        "ms-cache/src",
    ];
    for folder in core.chain(others) {
        let sources = sources(&root().join(folder));
        let found: Vec<String> = violations(&sources);
        assert!(found.is_empty() && !sources.is_empty(), "{found:?}");
    }
}

#[test]
fn crates_depend_downwards() {
    /// The crates in order; each depends only on earlier ones.
    const ORDER: [(&str, &str); 13] = [
        ("ms-cache", "ms-cache"),
        ("ms-protobuf", "ms-protobuf"),
        ("ms-ir", "ms-core/ir"),
        ("ms-x64", "ms-backends/x64"),
        ("ms-compile", "ms-core/compile"),
        ("ms-ops", "ms-core/ops"),
        ("ms-cpu", "ms-backends/cpu"),
        ("ms-sim", "ms-backends/sim"),
        ("ms-trace", "ms-core/trace"),
        ("ms-onnx", "ms-onnx"),
        ("ms-core", "ms-core/runtime"),
        ("ms-ml", ""),
        ("ms-conformance", "ms-backends/conformance"),
    ];
    let depends = |manifest: &str, name: &str| {
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let named = |line: &str| line.split([' ', '=', '.']).next() == Some(name);
        dependencies.lines().any(named)
    };
    for (at, (name, folder)) in ORDER.iter().enumerate() {
        let path = root().join(folder).join("Cargo.toml");
        let text = fs::read_to_string(path).expect("the manifest is readable");
        assert!(text.contains("[dependencies]"), "{name} has dependencies");
        for (later, _) in &ORDER[at + 1..] {
            assert!(!depends(&text, later), "{name} depends on {later}");
        }
    }
    let ops = fs::read_to_string(root().join("ms-core/ops/Cargo.toml")).expect("the manifest is readable");
    assert!(!depends(&ops, "ms-compile"), "ms-ops depends on ms-compile");
    let macros = fs::read_to_string(root().join("ms-macros/Cargo.toml")).expect("the manifest is readable");
    for (name, _) in ORDER {
        assert!(!depends(&macros, name), "ms-macros depends on {name}");
    }
    for planted in ["[dependencies]\nms-cpu = { path = \"..\" }", "[dependencies]\nms-cpu.workspace = true"] {
        assert!(depends(planted, "ms-cpu"), "{planted}");
    }
}

#[test]
fn onnx_opens_no_file() {
    let violations = |sources: &[Source]| {
        let outside = sources.iter().filter(|it| !it.path.contains("test"));
        let opens =
            outside.filter(|it| ["std::fs", "std::path", "fs::"].iter().any(|name| code(&it.text).contains(name)));
        opens.map(|it| format!("{} reads or writes files", it.path)).collect()
    };
    check(&sources(&root().join("ms-onnx/src")), violations, &[("import/model.rs", "use std::fs::File;")]);
}

#[test]
fn the_core_names_no_backend() {
    let violations = |sources: &[Source]| {
        let names = |it: &&Source| {
            ["ms_x64", "ms_cpu", "ms_cuda", "ms_ascend", "ms_sim"].iter().any(|name| it.text.contains(name))
        };
        sources.iter().filter(names).map(|it| format!("{} names a backend", it.path)).collect()
    };
    check(&core_sources(), violations, &[("compile/exec/backend.rs", "use ms_cpu::CpuBackend;")]);
}

#[test]
fn the_compiler_names_no_tensor() {
    let violations = |sources: &[Source]| {
        let is_name = |it: &str| ["Tensor", "Parameter"].contains(&it);
        // Messages may name them, in backquotes.
        let names = |it: &&Source| {
            let code = code(&it.text).replace("`Tensor", "");
            code.split(|it: char| !it.is_alphanumeric() && it != '_').any(is_name)
        };
        sources.iter().filter(names).map(|it| format!("{} names a tensor or a parameter", it.path)).collect()
    };
    let planted = [("lower/plan.rs", "use crate::tensor::{DType, Tensor};")];
    check(&sources(&root().join("ms-core/compile/src")), violations, &planted);
    // The half of an op's definition that the compiler reads.
    let planted =
        [("op/def.rs", "pub struct OpDef {\n    /// The derivative.\n    pub pull: fn(&Tensor) -> Tensor,\n}")];
    check(&sources(&root().join("ms-core/ir/src")), violations, &planted);
}

#[test]
fn adding_an_op_touches_one_file() {
    // Other modules may use the definitions of ops, which the list exports, and `ops::core`. None of them may depend on
    // the file that contains an op.
    let violations = |sources: &[Source]| {
        let outside = sources.iter().filter(|it| !it.path.starts_with("ops/"));
        let names = outside.filter(|it| it.text.contains("ops::primitive::") || it.text.contains("ops::composite::"));
        names.map(|it| format!("{} names the file of an op", it.path)).collect()
    };
    let planted = [("compile/lower/group.rs", "use crate::ops::primitive::conv::with_groups;")];
    check(&core_sources(), violations, &planted);

    // Every file of a primitive is in the list, and every primitive in the list has a file.
    let folder = root().join("ms-core/ops/src/ops/primitive");
    let text = fs::read_to_string(folder.join("mod.rs")).expect("the list is readable");
    let list = text.split("primitives! {").nth(1).expect("the list of primitives");
    let mut listed: Vec<&str> = list.lines().filter_map(|line| Some(line.trim().split_once("::{")?.0)).collect();
    listed.sort_unstable();
    let files = fs::read_dir(&folder).expect("the folder is readable").flatten();
    let names = files.filter_map(|it| it.file_name().to_string_lossy().strip_suffix(".rs").map(str::to_owned));
    let mut files: Vec<String> = names.filter(|it| it != "mod" && !it.ends_with("tests")).collect();
    files.sort_unstable();
    assert_eq!(listed, files, "the list and the folder of primitives");
}

/// Returns the names of all ops, as the lists declare them.
fn op_names() -> Vec<String> {
    let text = fs::read_to_string(root().join("ms-core/ops/src/ops/primitive/mod.rs")).expect("the list is readable");
    let list = text.split("primitives! {").nth(1).expect("the list of primitives");
    let groups = list.lines().filter_map(|line| line.split_once("::{")?.1.split_once('}'));
    let primitives = groups.flat_map(|it| it.0.split(',').map(|name| name.trim().to_owned()));
    let text = fs::read_to_string(root().join("ms-core/ops/src/ops/composite/mod.rs")).expect("the list is readable");
    let list = text.split("\ncomposites! {").nth(1).expect("the list of composites");
    let words = list.split(|it: char| !it.is_alphanumeric() && it != '_').map(str::to_owned);
    primitives.chain(words.filter(|it| it.len() > 2 && it.chars().all(|it| !it.is_lowercase()))).collect()
}

/// Returns the words that follow `ops::` in a text, alone or in a group.
fn words_of_ops(text: &str) -> Vec<&str> {
    let is_other = |it: char| !it.is_alphanumeric() && it != '_';
    let mut found = Vec::new();
    for (at, path) in text.match_indices("ops::") {
        let after = &text[at + path.len()..];
        let mut depth = 0;
        let ends = |it: char| {
            depth += i32::from(it == '{') - i32::from(it == '}');
            depth == 0 && is_other(it)
        };
        found.extend(after[..after.find(ends).unwrap_or(after.len())].split(is_other));
    }
    found
}

#[test]
fn ops_are_named_in_ops_and_in_the_listed_files() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the page is readable");
    let rows = architecture.split("No module outside `ops/` names an op").nth(1).expect("the list of exceptions");
    let rows = rows.lines().skip(1).take_while(|it| it.is_empty() || it.starts_with("  |"));
    let listed: Vec<&str> = rows.flat_map(|it| it.split('`')).filter(|it| it.ends_with(".rs")).collect();
    assert!(listed.len() > 3 && listed.iter().all(|it| root().join(it).is_file()), "{listed:?}");

    let ops = op_names();
    assert!(ops.len() > 100 && ["WHILE", "SOFTMAX"].iter().all(|name| ops.iter().any(|it| it == name)), "{ops:?}");
    let violations = |sources: &[Source]| {
        let outside = |it: &&Source| {
            let path = it.path.as_str();
            !path.starts_with("ms-core/ops/src/ops/") && !path.contains("test") && !listed.contains(&path)
        };
        let mut wrong = Vec::new();
        for source in sources.iter().filter(outside) {
            let code: String = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            let lines = code.lines().filter(|it| !it.trim_start().starts_with("//"));
            let code = lines.collect::<Vec<_>>().join("\n");
            let names = words_of_ops(&code).into_iter().filter(|it| ops.iter().any(|name| name == it));
            wrong.extend(names.map(|it| format!("{} names `{it}`", source.path)));
            let matched = ["match op.name()", "op.name() == \"", "op.name() != \""];
            let matched = matched.into_iter().filter(|it| code.contains(it));
            wrong.extend(matched.map(|it| format!("{} compares the name of an op: `{it}`", source.path)));
        }
        wrong
    };
    let planted = [
        ("ms-core/compile/src/lower/fusion/group.rs", "use crate::ops::{\n    Lowering, WHILE,\n};"),
        ("ms-core/compile/src/optimize/cse.rs", "mod tests;\nfn f(node: &Node) -> bool { node.op == ops::PRINT.op() }"),
        ("ms-backends/cpu/src/library/pool.rs", "let run = match op.name() { \"conv\" => f };"),
        ("src/nn/dense.rs", "if node.op.name() == \"matmul\" {}"),
    ];
    let core = CRATES.map(|it| format!("ms-core/{}/src", it.0));
    let others = ["ms-backends/x64/src", "ms-backends/cpu/src", "ms-onnx/src", "src"];
    for folder in core.iter().map(String::as_str).chain(others) {
        let mut sources = sources(&root().join(folder));
        sources.iter_mut().for_each(|it| it.path = format!("{folder}/{}", it.path));
        check(&sources, violations, &planted);
    }
}

/// Returns the crates of the workspace that the facade depends on, each with its manifest, and the manifests of those
/// that depend on `ms-onnx`.
fn dependencies() -> (Vec<(String, PathBuf)>, Vec<PathBuf>) {
    let mut open = vec![root().join("Cargo.toml")];
    let mut found = Vec::new();
    let mut users_of_onnx = Vec::new();
    while let Some(manifest) = open.pop() {
        let text = fs::read_to_string(&manifest).expect("the manifest is readable");
        let table = text.split("\n[dependencies]\n").nth(1).and_then(|it| it.split("\n[").next()).unwrap_or_default();
        for name in table.lines().filter_map(|it| it.split(['.', ' ', '=']).next()).filter(|it| it.starts_with("ms-")) {
            let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest is readable");
            let entry =
                workspace.lines().find(|it| it.starts_with(&format!("{name} = "))).expect("a crate of the workspace");
            let path = entry.split("path = \"").nth(1).and_then(|it| it.split('"').next()).expect("a path");
            if name == "ms-onnx" {
                users_of_onnx.push(manifest.clone());
            }
            let manifest = root().join(path).join("Cargo.toml");
            if !found.iter().any(|it: &(String, PathBuf)| it.0 == name) {
                found.push((name.to_owned(), manifest.clone()));
                open.push(manifest);
            }
        }
    }
    (found, users_of_onnx)
}

/// The crates that decide results: their sources are in the keys of the cache.
#[test]
fn keys_of_the_cache_name_the_sources_of_every_crate() {
    let text = |path: &str| fs::read_to_string(root().join(path)).expect("the file is readable");
    let keys = [text("ms-core/runtime/src/lib.rs"), text("ms-backends/cpu/src/backend/mod.rs")];
    let keyed = |package: &str, manifest: &Path| {
        let build = fs::read_to_string(manifest.with_file_name("build.rs")).unwrap_or_default();
        let variable = build.split_once("emit_sources(\"").and_then(|it| it.1.split('"').next()).map(str::to_owned);
        let constant = format!("{}::SOURCES", package.replace('-', "_"));
        let is_read = |it: &String| {
            it.contains(&constant) || variable.iter().any(|name| it.contains(&format!("env!(\"{name}\")")))
        };
        variable.is_some() && keys.iter().any(is_read)
    };
    let (found, users_of_onnx) = dependencies();
    // The store, the macros and the wire format of files decide no result: a graph that macros build is itself in the
    // key. So is an imported one, while an export decides the results of a backend that compiles it.
    let mut exempt = vec!["ms-cache", "ms-macros", "ms-protobuf"];
    if users_of_onnx == [root().join("Cargo.toml")] {
        exempt.push("ms-onnx");
    }
    let deciding: Vec<_> = found.iter().filter(|it| !exempt.contains(&it.0.as_str())).collect();
    assert!(deciding.len() >= 7, "{deciding:?}");
    let missing: Vec<_> = deciding.iter().filter(|it| !keyed(&it.0, &it.1)).collect();
    assert!(missing.is_empty(), "the keys of the cache lack the sources of {missing:?}");
    assert!(!keyed("ms-other", &root().join("ms-cache/Cargo.toml")), "a crate without a hash is found");
}

/// Lines of these crates are not the user's, so that errors show their callers.
#[test]
fn crates_that_raise_errors_register_their_sources() {
    let registers = |manifest: &Path| {
        let library = manifest.with_file_name("src").join("lib.rs");
        let text = fs::read_to_string(library).expect("the file is readable");
        text.contains("LibrarySource::Compiler(file!())")
    };
    let silent = ["ms-cache", "ms-macros", "ms-protobuf"];
    let raising: Vec<_> = dependencies().0.into_iter().filter(|it| !silent.contains(&&*it.0)).collect();
    assert!(raising.len() >= 8, "{raising:?}");
    let missing: Vec<_> = raising.iter().filter(|it| !registers(&it.1)).collect();
    assert!(missing.is_empty(), "errors would show lines of {missing:?}");
    assert!(!registers(&root().join("ms-cache/Cargo.toml")), "a crate without a registration is found");
}

#[test]
fn files_stay_small() {
    const LIMIT: usize = 800;
    let violations = |sources: &[Source]| {
        let lines = sources.iter().map(|it| (it.text.lines().count(), &it.path));
        lines.filter(|it| it.0 > LIMIT).map(|(lines, path)| format!("{path}: {lines} lines, above {LIMIT}")).collect()
    };
    check(&sources(root()), violations, &[("long.rs", &"\n".repeat(LIMIT + 1))]);
}

#[test]
fn the_facade_exports_a_list() {
    let violations = |sources: &[Source]| {
        let globs = sources.iter().filter(|it| it.text.lines().any(|it| it.starts_with("pub use ms_core::*")));
        globs.map(|it| format!("{} exports all of `ms-core`", it.path)).collect()
    };
    check(&sources(&root().join("src")), violations, &[("lib.rs", "pub use ms_core::*;")]);
}

#[test]
fn shared_types_are_send_and_sync() {
    fn shared<T: Send + Sync + ?Sized>() {}
    shared::<ms::Tensor>();
    shared::<ms::Parameter>();
    shared::<dyn ms_core::exec::Executable>();
    shared::<dyn ms_core::exec::Backend>();
}

//! The invariants of ARCHITECTURE.md.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder`, build outputs left out.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is readable").flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file is readable")
}

#[test]
fn modules_import_only_what_stands_before_them() {
    let order = [
        "error",
        "environment",
        "stored",
        "tensor",
        "ir",
        "ops",
        "random",
        "trace",
        "transform",
        "effects",
        "optimize",
        "lower",
        "exec",
        "session",
    ];
    let base = root().join("ms-core/src");
    let mut wrong = Vec::new();
    for path in sources(&base) {
        let inside = path.strip_prefix(&base).expect("below the base");
        let module = inside.iter().next().expect("a file has a name").to_string_lossy().replace(".rs", "");
        let Some(at) = order.iter().position(|it| *it == module) else { continue };
        // Tests may look at everything.
        let text = read(&path);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if inside.to_string_lossy().contains("test") {
            continue;
        }
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for later in &order[at + 1..] {
                if line.contains(&format!("crate::{later}::")) {
                    wrong.push(format!("{}:{}: {line}", inside.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the order:\n{}", wrong.join("\n"));
}

#[test]
fn crates_depend_downwards() {
    let manifest = |path: &str| read(&root().join(path));
    let names = |text: &str, name: &str| text.lines().any(|line| line.starts_with(name));
    for (path, forbidden) in [
        ("ms-core/Cargo.toml", ["ms-cpu", "ms-macros"].as_slice()),
        ("ms-cache/Cargo.toml", &["ms-core", "ms-cpu", "ms-macros"]),
        ("ms-backends/cpu/Cargo.toml", &["ms-macros"]),
        ("ms-macros/Cargo.toml", &["ms-core", "ms-cpu", "ms-cache"]),
    ] {
        let text = manifest(path);
        let dependencies = text.split("[dev-dependencies]").next().unwrap_or_default();
        for name in forbidden {
            assert!(!names(dependencies, name), "{path} depends on {name}");
        }
    }
    for path in sources(&root().join("ms-core/src")) {
        assert!(!read(&path).contains("ms_cpu"), "{} names a backend", path.display());
    }
}

#[test]
fn adding_an_op_touches_one_file() {
    // Outside its own file and the list, a primitive's definition may be used, but nothing may
    // have to name all of them.
    let base = root().join("ms-core/src");
    let list = read(&base.join("ops/mod.rs"));
    let primitives = list.split("primitives! {").nth(1).expect("the list of primitives").lines();
    let all: Vec<String> =
        primitives.filter_map(|line| line.trim().split_once("::{")).map(|(module, _)| format!("{module}::")).collect();
    assert!(all.len() > 20, "the list is found");
    for path in sources(&base).into_iter().filter(|it| !it.starts_with(base.join("ops"))) {
        let text = read(&path);
        let named = all.iter().filter(|it| text.contains(&format!("ops::{it}"))).count();
        assert!(named < 10, "{} names {named} op modules", path.display());
    }
}

#[test]
fn files_stay_small() {
    let limit = 800;
    let long: Vec<String> = sources(root())
        .into_iter()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > limit)
        .map(|(lines, path)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "files over {limit} lines:\n{}", long.join("\n"));
}

#[test]
fn shared_types_are_send_and_sync() {
    fn shared<T: Send + Sync + ?Sized>() {}
    shared::<ms::Tensor>();
    shared::<ms::Parameter>();
    shared::<dyn ms_core::exec::Executable>();
    shared::<dyn ms_core::exec::Backend>();
}

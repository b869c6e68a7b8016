//! Tests the published packages: `deny.toml` allows the licences of their dependencies, and they have metadata.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the packages that a default build of the workspace needs on this platform, by `cargo metadata`.
fn packages() -> Vec<Value> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let arguments = ["metadata", "--offline", "--locked", "--format-version=1", "--filter-platform", &platform];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

/// Returns the packages of this repository that are published.
fn published() -> Vec<Value> {
    let mut all = packages();
    // `null` permits any registry, and an empty list none.
    all.retain(|it| it["source"].is_null() && it["publish"].is_null());
    all
}

/// Returns the licences that `deny.toml` allows.
fn allowed() -> Vec<String> {
    let rules = std::fs::read_to_string(root().join("deny.toml")).expect("the rules of dependencies");
    let line = rules.lines().find(|it| it.starts_with("allow = ")).expect("a list of licences");
    line.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an SPDX expression permits a choice of allowed licences. The expression is a conjunction of alternatives,
/// which are in parentheses if there are several.
fn permits(allowed: &[String], expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ");
    let mut alternatives = spaced.split(" AND ").map(|it| it.trim_matches(['(', ')']));
    alternatives.all(|it| it.split(" OR ").any(|licence| allowed.iter().any(|it| it == licence)))
}

#[test]
fn licences_of_dependencies_are_allowed() {
    let (packages, allowed) = (packages(), allowed());
    assert!(packages.len() > 50, "only {} packages were found", packages.len());
    let licence = |it: &Value| it["license"].as_str().unwrap_or("none").to_owned();
    let refused = packages.iter().filter(|it| !permits(&allowed, &licence(it)));
    let refused: Vec<String> = refused.map(|it| format!("{}: {}", it["name"], licence(it))).collect();
    assert!(refused.is_empty(), "licences that deny.toml does not allow:\n{}", refused.join("\n"));

    let mit = ["MIT".to_owned()];
    let planted = ["MIT", "GPL-3.0", "Unlicense/MIT", "(MIT OR Apache-2.0) AND GPL-3.0", "GPL-3.0 OR MIT", "none"];
    assert_eq!(planted.map(|it| permits(&mit, it)), [true, false, true, false, true, false]);
}

#[test]
fn packages_that_are_published_have_metadata() {
    let published = published();
    let mut names: Vec<&str> = published.iter().filter_map(|it| it["name"].as_str()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "ms-cache",
            "ms-compile",
            "ms-conformance",
            "ms-core",
            "ms-cpu",
            "ms-ir",
            "ms-macros",
            "ms-ml",
            "ms-ml-cli",
            "ms-onnx",
            "ms-ops",
            "ms-protobuf",
            "ms-sim",
            "ms-trace",
            "ms-x64"
        ]
    );
    for package in &published {
        for field in ["description", "license", "rust_version"] {
            assert!(package[field].is_string(), "{} lacks {field}", package["name"]);
        }
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        assert!(manifest.with_file_name("LICENSE").exists(), "{} lacks the text of its licence", package["name"]);
        let paths = package["dependencies"].as_array().expect("a list").iter();
        // A dependency of tests and examples is not published.
        let paths = paths.filter(|it| it["path"].is_string() && it["kind"] != "dev");
        for dependency in paths {
            assert_ne!(dependency["req"], "*", "{} needs a version of {}", package["name"], dependency["name"]);
        }
    }
}

/// The packages that README's first command builds: a new user waits for them.
#[test]
fn examples_need_few_packages() {
    const LIMIT: usize = 60;
    let arguments = ["tree", "--offline", "--locked", "-p", "ms-examples", "-e", "normal,build", "--prefix", "none"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let packages: std::collections::BTreeSet<&str> = text.lines().filter_map(|it| it.split(' ').next()).collect();
    assert!(packages.contains("ms-core"), "{packages:?}");
    assert!(packages.len() <= LIMIT, "{} packages, above {LIMIT}: {packages:?}", packages.len());
}

/// The files of the backend that `docs/backend.md` shows. The page has their numbers of lines.
const BACKEND: [&str; 6] =
    ["Cargo.toml", ".cargo/config.toml", "src/memory.rs", "src/driver.rs", "src/lib.rs", "tests/conformance.rs"];

#[test]
fn the_backend_of_the_page_is_short() {
    const LIMIT: usize = 600;
    let page = fs::read_to_string(root().join("docs/backend.md")).expect("the page");
    let lines = BACKEND.map(|name| {
        let text = fs::read_to_string(root().join("examples/backend").join(name)).expect("a file of the backend");
        let lines = text.lines().count();
        let row = format!("| `{name}` | {lines} |");
        assert!(page.contains(&row), "docs/backend.md lacks {row}");
        lines
    });
    let all: usize = lines.iter().sum();
    assert!(all <= LIMIT, "{all} lines, above {LIMIT}");
}

/// Runs a command. Its output is the test's.
fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// Makes the packages of all crates in a folder. Returns the folder of each unpacked package.
fn unpacked(folder: &Path) -> Vec<PathBuf> {
    const LIMIT: u64 = 10 << 20;
    let target = folder.join("target");
    let names = published();
    let names = names.iter().filter_map(|it| it["name"].as_str()).flat_map(|it| ["-p", it]);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--no-verify", "--allow-dirty", "--target-dir"]).arg(&target).args(names);
    run(cargo.current_dir(root()));
    let crates = folder.join("crates");
    fs::create_dir(&crates).expect("the folder is new");
    let packages = fs::read_dir(target.join("package")).expect("cargo makes packages").flatten().map(|it| it.path());
    let packages = packages.filter(|it| it.extension().is_some_and(|it| it == "crate"));
    packages
        .map(|package| {
            let bytes = package.metadata().expect("a package").len();
            assert!(bytes <= LIMIT, "{} has {bytes} bytes", package.display());
            run(Command::new("tar").arg("-xzf").arg(&package).arg("-C").arg(&crates));
            crates.join(package.file_stem().expect("a package has a name"))
        })
        .collect()
}

/// A backend elsewhere builds from the packages, without this repository, and passes the suites.
#[test]
#[ignore = "packages and builds every crate, and runs all suites: takes many minutes"]
fn a_backend_elsewhere_passes_the_suites() {
    let folder = std::env::temp_dir().join(format!("ms packages {}", std::process::id()));
    fs::create_dir(&folder).expect("no other test has this folder");
    let patches: String = unpacked(&folder)
        .iter()
        .map(|it| {
            let stem = it.file_name().expect("a package has a name").to_string_lossy();
            let name = stem.rsplit_once('-').expect("a package has a version").0;
            format!("{name} = {{ path = {it:?} }}\n")
        })
        .collect();
    let backend = folder.join("backend");
    for name in BACKEND {
        let to = backend.join(name);
        fs::create_dir_all(to.parent().expect("below the backend")).expect("the folder is writable");
        fs::copy(root().join("examples/backend").join(name), to).expect("the folder is writable");
    }
    let settings = backend.join(".cargo/config.toml");
    let text = fs::read_to_string(&settings).expect("it was copied");
    fs::write(&settings, format!("{text}\n[patch.crates-io]\n{patches}")).expect("the folder is writable");
    let mut suites = Command::new("cargo");
    run(suites.args(["test", "--test", "conformance"]).current_dir(&backend).env_remove("MS_DEVICE_TARGET"));
    fs::remove_dir_all(folder).expect("the test created it");
}

//! Tests changes that need another build of the program.
//!
//! rustc builds each program from the same sources except for one change. Each program runs with the cache that the one
//! before it has filled.

#[path = "../common/rustc.rs"]
mod rustc;

use crate::process::Scratch;
use rustc::rustc;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The text of the program: two functions, one of them pure, which use a helper crate, a module, a feature and a
/// closure.
const PROGRAM: &str = r#"
use ms::prelude::*;
mod part { use ms::prelude::*; pub fn inner(x: &Tensor) -> Tensor { x * MODULE_FACTOR } }
fn body(x: &Tensor) -> Tensor {
    let scale = |x: &Tensor| x + CLOSURE_TERM;
    let x = scale(&helper::shifted(&part::inner(x))) * helper::FACTOR;
    if cfg!(feature = "negated") { -x } else { x }
}
#[jit] fn traced(x: &Tensor) -> Tensor { body(x) }
#[jit(pure)] fn pure(x: &Tensor) -> Tensor { body(x) }
fn main() {
    let x = tensor![1.0, 2.0];
    let (a, b) = (traced(&x).to_vec::<f32>(), pure(&x).to_vec::<f32>());
    let used = ms::cache_use();
    println!("{a:?} {b:?} {} {}", used.hits, used.misses);
}
"#;

const HELPER: &str = r#"
use ms::prelude::*;
pub const FACTOR: i64 = CRATE_FACTOR;
pub fn shifted(x: &Tensor) -> Tensor { x + CRATE_TERM }
"#;

/// The parameters of one build.
#[derive(Clone, Copy)]
struct Build {
    module_factor: i64,
    closure_term: i64,
    crate_factor: i64,
    crate_term: i64,
    feature: bool,
    /// The version of the helper crate.
    version: &'static str,
    /// Whether the linker writes a fixed build ID into the program, instead of a hash.
    fixed_note: bool,
}

const FIRST: Build = Build {
    module_factor: 2,
    closure_term: 3,
    crate_factor: 5,
    crate_term: 1,
    feature: false,
    version: "1.0.0",
    fixed_note: false,
};

impl Build {
    /// Returns the expected result for `x`.
    fn want(&self, x: i64) -> f64 {
        let y = (x * self.module_factor + self.crate_term + self.closure_term) * self.crate_factor;
        if self.feature { -y as f64 } else { y as f64 }
    }

    fn make(&self, scratch: &Path) -> PathBuf {
        let helper = HELPER.replace("CRATE_FACTOR", &self.crate_factor.to_string());
        let helper = helper.replace("CRATE_TERM", &self.crate_term.to_string());
        let program = PROGRAM.replace("MODULE_FACTOR", &self.module_factor.to_string());
        let program = program.replace("CLOSURE_TERM", &self.closure_term.to_string());
        let mut options: Vec<&str> = Vec::new();
        if self.feature {
            options.extend(["--cfg", "feature=\"negated\""]);
        }
        if self.fixed_note {
            options.extend(["-C", "link-arg=-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567"]);
        }
        compile(scratch, &helper, &program, self.version, &options)
    }
}

/// Compiles a program and its helper crate of this version. `options` are further options for the program.
fn compile(scratch: &Path, helper: &str, program: &str, version: &str, options: &[&str]) -> PathBuf {
    let write = |name: &str, text: &str| {
        let path = scratch.join(name);
        std::fs::write(&path, text).expect("a writable directory");
        path
    };
    let (helper, program) = (write("helper.rs", helper), write("program.rs", program));
    let mut library = rustc(scratch);
    library.arg(&helper).args(["--crate-type", "rlib", "--crate-name", "helper", "-C"]);
    succeed(library.arg(format!("metadata={version}")));
    let mut binary = rustc(scratch);
    binary.arg(&program).args(["--extern", "helper=libhelper.rlib", "-L", ".", "-o", "program"]);
    succeed(binary.args(options));
    scratch.join("program")
}

/// Runs a program with the cache.
fn run_program(program: &Path, scratch: &Scratch) -> String {
    let mut command = Command::new(program);
    // The programs link no backend other than the CPU.
    command.env_remove("MS_DEVICE_TARGET");
    command.env("MS_COMPILER_CACHE_ENABLE", "1").env("MS_COMPILER_CACHE_PATH", scratch.cache());
    succeed(&mut command)
}

fn succeed(command: &mut Command) -> String {
    // Another thread that starts a program may hold this file open for a moment.
    let busy = |it: &std::io::Error| it.kind() == std::io::ErrorKind::ExecutableFileBusy;
    let mut output = command.output();
    while output.as_ref().is_err_and(busy) {
        std::thread::sleep(std::time::Duration::from_millis(10));
        output = command.output();
    }
    let output = output.expect("the command is there");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_changed_program_gives_the_new_answer() {
    let scratch = Scratch::new();
    let run = |build: &Build| {
        let program = build.make(scratch.path());
        let again = |program: &Path| run_program(program, &scratch);
        let want = format!("{:?}", [build.want(1), build.want(2)]);
        for hits in [None, Some(2)] {
            let text = again(&program);
            assert!(text.starts_with(&format!("{want} {want} ")), "{text}, not twice {want}");
            let counts: Vec<u64> = text.split(' ').rev().take(2).filter_map(|it| it.parse().ok()).collect();
            // The second run of a program finds both of its functions.
            assert!(hits.is_none_or(|hits| counts == [0, hits]), "{text}");
        }
        // A copy of the program finds them too.
        let copied = scratch.path().join("copied");
        std::fs::copy(&program, &copied).expect("a writable directory");
        assert_eq!(again(&copied), format!("{want} {want} 2 0"));
    };
    let changes = [
        FIRST,
        // Changes the body of a helper in another module, then in another crate, and a constant in another crate.
        Build { module_factor: 7, ..FIRST },
        Build { crate_term: 1000, ..FIRST },
        Build { crate_factor: 11, ..FIRST },
        // Changes a closure, a feature, and the version of a dependency with different behaviour.
        Build { closure_term: 30, ..FIRST },
        Build { feature: true, ..FIRST },
        Build { version: "2.0.0", crate_term: 4, ..FIRST },
        FIRST,
        // Changes functions that the pure function calls, while the build ID stays the same.
        Build { fixed_note: true, ..FIRST },
        Build { fixed_note: true, module_factor: 7, ..FIRST },
        Build { fixed_note: true, crate_term: 1000, ..FIRST },
        Build { fixed_note: true, ..FIRST },
    ];
    changes.iter().for_each(run);
}

/// The text of a program with a custom op. The derivative of the op calls the helper crate.
const PROGRAM_OF_OPS: &str = r#"
use ms::{custom::{Type, Vjp}, prelude::*};
ms::custom_op! {
    fn scaled(x: &Tensor) -> Tensor;
    VERSION
    fn types(x: &Type) -> Type { x.clone() }
    fn run(x: &[f32], y: &mut [f32]) { y.iter_mut().zip(x).for_each(|(y, x)| *y = x * RUN_FACTOR as f32); }
    fn derivative(it: &Vjp<'_>) -> Tensor { helper::shifted(it.cotangent()) }
}
#[jit] fn both(x: &Tensor) -> Tensor { ms::grad(|x: &Tensor| scaled(x).sum(()))(x) * 100 + scaled(x) }
fn main() {
    let used = |it: ms::CacheUse| format!("{} {}", it.hits, it.misses);
    println!("{:?} {} UNRELATED", both(&tensor![1.0, 2.0]).to_vec::<f32>(), used(ms::cache_use()));
}
"#;

/// Changes a custom op, or a function that it calls, and checks the results and the use of the cache.
#[test]
fn a_changed_custom_op_gives_the_new_answer() {
    struct Op {
        version: &'static str,
        run: i64,
        term: i64,
        unrelated: &'static str,
    }
    let scratch = Scratch::new();
    let run = |it: &Op| {
        let program = PROGRAM_OF_OPS.replace("VERSION", it.version).replace("RUN_FACTOR", &it.run.to_string());
        let program = program.replace("UNRELATED", it.unrelated);
        let helper = HELPER.replace("CRATE_FACTOR", "1").replace("CRATE_TERM", &it.term.to_string());
        let program = compile(scratch.path(), &helper, &program, "1.0.0", &[]);
        [run_program(&program, &scratch), run_program(&program, &scratch)]
    };
    let (none, one, two) = ("", "const VERSION: u32 = 1;", "const VERSION: u32 = 2;");
    let cases = [
        (Op { version: none, run: 2, term: 1, unrelated: "a" }, ["[202.0, 204.0] 0 1 a", "[202.0, 204.0] 1 0 a"]),
        // Without a version, every build compiles again, since the functions that the derivative calls may have
        // changed.
        (Op { version: none, run: 2, term: 1, unrelated: "b" }, ["[202.0, 204.0] 0 1 b", "[202.0, 204.0] 1 0 b"]),
        (Op { version: none, run: 2, term: 4, unrelated: "b" }, ["[502.0, 504.0] 0 1 b", "[502.0, 504.0] 1 0 b"]),
        (Op { version: none, run: 3, term: 4, unrelated: "b" }, ["[503.0, 506.0] 0 1 b", "[503.0, 506.0] 1 0 b"]),
        // With a version, changes of the declaration and of the version count.
        (Op { version: one, run: 2, term: 1, unrelated: "a" }, ["[202.0, 204.0] 0 1 a", "[202.0, 204.0] 1 0 a"]),
        (Op { version: one, run: 2, term: 1, unrelated: "b" }, ["[202.0, 204.0] 1 0 b", "[202.0, 204.0] 1 0 b"]),
        (Op { version: one, run: 3, term: 1, unrelated: "b" }, ["[203.0, 206.0] 0 1 b", "[203.0, 206.0] 1 0 b"]),
        (Op { version: two, run: 3, term: 4, unrelated: "b" }, ["[503.0, 506.0] 0 1 b", "[503.0, 506.0] 1 0 b"]),
    ];
    for (at, (op, want)) in cases.iter().enumerate() {
        assert_eq!(run(op), *want, "case {at}");
    }
}

/// Copies a folder without build outputs.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a writable directory");
    for entry in std::fs::read_dir(from).expect("a readable folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match path.is_dir() {
            true if name == "target" || name.to_string_lossy().starts_with('.') => {}
            true => copy(&path, &to.join(name)),
            false => drop(std::fs::copy(&path, to.join(name)).expect("a readable file")),
        }
    }
}

/// Builds a compiler with another implementation of an op, from a copy of this repository.
#[test]
#[ignore = "builds everything anew, which takes minutes"]
fn a_changed_op_gives_the_new_answer() {
    let scratch = Scratch::new();
    let repository = scratch.path().join("repository");
    copy(Path::new(env!("CARGO_MANIFEST_DIR")), &repository);
    let program = "//! One compiled function.
        use ms::prelude::*;
        #[jit] fn squared(x: &Tensor) -> Tensor { ops::square(x) }
        fn main() {
            let y = squared(&tensor![3.0]).item::<f32>();
            println!(\"{y} {}\", ms::cache_use().misses);
        }";
    std::fs::write(repository.join("examples/squared.rs"), program).expect("a writable directory");
    let manifest = repository.join("examples/Cargo.toml");
    let text = std::fs::read_to_string(&manifest).expect("the manifest of the examples");
    let entry = "[[example]]\nname = \"squared\"\npath = \"squared.rs\"\n\n[lints]";
    std::fs::write(manifest, text.replace("[lints]", entry)).expect("a writable directory");
    let run = || {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        command.current_dir(&repository).args(["run", "--quiet", "--offline", "--example", "squared"]);
        command.env("CARGO_TARGET_DIR", scratch.path().join("target")).env("MS_COMPILER_CACHE_ENABLE", "1");
        succeed(command.env("MS_COMPILER_CACHE_PATH", scratch.cache()))
    };
    assert_eq!([run(), run()], ["9 1", "9 0"]);
    let file = repository.join("ms-core/ops/src/ops/primitive/arithmetic.rs");
    let text = std::fs::read_to_string(&file).expect("the op is there");
    let changed = text.replace("lower body |[x]| x * x;", "lower body |[x]| x * x * x;");
    assert_ne!(changed, text, "the op is lowered there");
    std::fs::write(file, changed).expect("a writable directory");
    assert_eq!([run(), run()], ["27 1", "27 0"]);

    // The sources of every crate that decides results are a part of the key.
    let core = ["ir", "ops", "compile", "trace", "runtime"].map(|it| format!("ms-core/{it}"));
    for folder in core.into_iter().chain(["x64", "cpu"].map(|it| format!("ms-backends/{it}"))) {
        let file = repository.join(&folder).join("src/lib.rs");
        let text = std::fs::read_to_string(&file).expect("the root of the crate");
        std::fs::write(file, text + "\n// Another source.\n").expect("a writable directory");
        assert_eq!([run(), run()], ["27 1", "27 0"], "{folder}");
    }
}

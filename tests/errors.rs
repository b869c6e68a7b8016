//! Tests errors at run time.
//!
//! Every code has a page. Errors of every crate name the line of the user. A caught error prints nothing. Compiled
//! functions return errors without unwinding.

#[path = "common/program.rs"]
mod program;

use ms::prelude::*;
use program::Program;
use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Collects every file below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Returns the codes that are defined in enums (`Shape = 100`) or named in texts (`MS100`).
fn codes(text: &str) -> BTreeSet<u16> {
    let defined = text.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ")?.1.parse().ok());
    let named = text.match_indices("MS").filter_map(|(at, _)| {
        let digits = text.get(at + 2..at + 5)?;
        digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
    });
    defined.filter(|code| (1..1000).contains(code)).chain(named).collect()
}

#[test]
fn every_code_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    ["src", "ms-core", "ms-macros/src", "docs"].iter().for_each(|it| files(&root.join(it), &mut sources));
    let mut found = BTreeSet::new();
    for source in sources.into_iter().filter(|it| it.extension().is_some_and(|it| it == "rs" || it == "md")) {
        let text = fs::read_to_string(&source).expect("sources are text");
        let defines = source.ends_with("error/mod.rs") || source.ends_with("diag.rs");
        let known = if defines { codes(&text) } else { codes(&text.replace(" = ", "")) };
        found.extend(known);
    }
    for code in &found {
        let page = root.join(format!("docs/errors/MS{code:03}.md"));
        let text = fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
        assert!(text.starts_with(&format!("# MS{code:03}: ")), "{} starts with its code", page.display());
    }
    assert!(found.len() > 30, "{found:?}");
}

#[test]
fn a_caught_error_prints_nothing() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    let wrong = || tensor![1.0, 2.0] + tensor![1.0, 2.0, 3.0];
    let here = std::thread::current().id();
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |it| {
        if std::thread::current().id() == here {
            REPORTED.fetch_add(1, Ordering::Relaxed);
        } else {
            hook(it);
        }
    }));
    let caught = ms::catch(wrong).expect_err("shapes that do not broadcast");
    assert!(caught.to_string().starts_with("error[MS100]: `add`"), "{caught}");
    assert_eq!(REPORTED.load(Ordering::Relaxed), 0, "inside `catch`");
    assert!(panic::catch_unwind(wrong).is_err());
    assert_eq!(REPORTED.load(Ordering::Relaxed), 1, "outside of it");
}

/// Gathers outside of the table in compiled code.
#[jit]
fn gathered(table: &Tensor, index: &Tensor) -> Tensor {
    ops::gather(table, index, 0) * 2.0 // from ms-cpu
}

/// Needs more memory than an address space has for a value between operands and results.
#[jit]
fn enormous(x: &Tensor) -> Tensor {
    let wide = x.reshape([-1, 1, 1]).broadcast_to([1 << 20, 1 << 20, 1 << 16]);
    let (sorted, _) = wide.sort(0, false); // from ms-compile
    sorted.sum(())
}

/// Branches on a traced value where no branch can be traced.
#[jit]
fn branching(x: &Tensor) -> Tensor {
    let positive = x.sum(()).item::<f32>() > 0.0; // from ms-trace
    if positive { x + 1.0 } else { x.clone() }
}

#[test]
fn errors_of_every_crate_name_the_line_of_the_user() {
    let (two, three) = (tensor![1.0, 2.0], tensor![1.0, 2.0, 3.0]);
    let parameter = Parameter::new(two.clone(), "w");
    let refused: [(&str, &dyn Fn()); 9] = [
        ("ms-ir", &|| drop(two.broadcast_to([3]))),         // from ms-ir
        ("ms-ops", &|| assert_eq!(two.item::<f32>(), 1.0)), // from ms-ops
        ("ms-trace", &|| drop(branching(&two))),
        ("ms-trace", &|| drop(ops::assign(&parameter, &three))), // from ms-trace
        ("ms-core", &|| drop(ms::vmap(|x: &Tensor, y: &Tensor| x + y)(&two, &three))), // from ms-core
        ("ms-compile", &|| drop(enormous(&Tensor::ones([1 << 20])))),
        ("ms-cpu", &|| drop(gathered(&three, &tensor![7i64]))),
        ("ms-ml", &|| drop(ms::nn::Dense::new(2, 3).forward(&three))), // from ms-ml
        ("ms-ml", &|| drop(ms::nn::Dropout::new(2.0))),                // from ms-ml
    ];
    let source = include_str!("errors.rs");
    for (name, provoke) in refused {
        let error = ms::catch(provoke).expect_err(name);
        let report = error.report();
        let place = report.location.map(|it| format!("{}:{}", it.file(), it.line())).or_else(|| report.line.clone());
        let place = place.unwrap_or_else(|| panic!("an error of {name} has no line: {error}"));
        let line = place.split_once("errors.rs:").and_then(|it| it.1.split(':').next()?.parse::<usize>().ok());
        let line = line.unwrap_or_else(|| panic!("an error of {name} names {place}: {error}"));
        let text = source.lines().nth(line - 1).unwrap_or_default();
        assert!(text.ends_with(&format!("// from {name}")), "an error of {name} names `{text}`: {error}");
    }
}

/// Compiled with `panic = "abort"`, so that the first panic ends the program.
const ABORTING: &str = r#"
    use ms::io::ExportOptions;
    use ms::prelude::*;

    #[cell]
    struct Head {
        fc: nn::Dense,
    }

    #[cell]
    impl Head {
        #[jit(dims(x = [batch, 4]))]
        fn construct(&self, x: &Tensor) -> Tensor {
            self.fc(x)
        }
    }

    #[jit(dims(x = [batch, 4], y = [batch]))]
    fn declared(x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok(x.sum(1) + y)
    }

    #[jit]
    fn added(x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((x + y).exp().sum(()))
    }

    #[jit]
    fn gathered(x: &Tensor, at: &Tensor) -> Result<Tensor> {
        Ok(ops::gather(x, at, 0))
    }

    #[jit]
    fn asserted(x: &Tensor) -> Result<Tensor> {
        assert!(x.sum(()) > 0.0, "the sum is positive");
        Ok(x.exp())
    }

    #[jit]
    fn enormous(x: &Tensor) -> Result<Tensor> {
        let wide = x.reshape([-1, 1, 1]).broadcast_to([1 << 20, 1 << 20, 1 << 16]);
        Ok(wide.exp().sort(0, false).0.sum(()))
    }

    fn main() -> Result<()> {
        let (four, five) = (Tensor::ones([3, 4]), Tensor::ones([3, 5]));
        if std::env::args().len() > 1 {
            return ms::catch(|| &four + &five).map(drop).or(Ok(()));
        }
        let (three, two) = (Tensor::ones([3]), Tensor::ones([2]));
        let head = Head { fc: nn::Dense::new(4, 2) };
        let options = ExportOptions::new().input("x", ["batch", "_"]);
        let exported = ms::export(|x: &Tensor| head.call(x), (&four,), &options)?;
        let exported = |x: &Tensor| exported.call(&[x]).map(|it| it[0].clone());
        for _ in 0..2 {
            let cases: [(&str, Result<Tensor>); 13] = [
                ("declared", declared(&four, &three)),
                ("another number", declared(&five, &three)),
                ("another symbol", declared(&four, &two)),
                ("try_call", head.try_call(&four)),
                ("try_call of another number", head.try_call(&five)),
                ("added", added(&three, &three)),
                ("other shapes", added(&three, &two)),
                ("out of range", gathered(&three, &tensor![7i64])),
                ("in range", gathered(&three, &tensor![1i64])),
                ("asserted", asserted(&(-&three))),
                ("memory", enormous(&Tensor::ones([1 << 20]))),
                ("exported", exported(&four)),
                ("exported for another number", exported(&five)),
            ];
            for (name, result) in cases {
                let shape = result.map(|it| it.shape().to_vec()).map_err(|it| it.code().to_string());
                println!("{name}: {}", shape.map_or_else(|code| code, |it| format!("{it:?}")));
            }
        }
        Ok(())
    }
"#;

#[test]
fn errors_of_compiled_functions_need_no_unwinding() {
    let program = Program::compile("aborting", ABORTING, &["-Cpanic=abort"]);
    let run = program.run(&[]);
    let [got, printed] = [run.stdout, run.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(run.status.success(), "{got}{printed}");
    let want = [
        "declared: [3]",
        "another number: MS130",
        "another symbol: MS130",
        "try_call: [3, 2]",
        "try_call of another number: MS130",
        "added: []",
        "other shapes: MS100",
        "out of range: MS102",
        "in range: [1]",
        "asserted: MS120",
        "memory: MS114",
        "exported: [3, 2]",
        "exported for another number: MS100",
    ];
    assert_eq!(got.lines().collect::<Vec<_>>(), [want, want].concat());
    assert!(!program.run(&["catch"]).status.success(), "an op that fails outside of a function ends the program");
}

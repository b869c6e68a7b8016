//! Runs the file tests `tests/kernels/*.kernel`, whose format `src/testing/file.rs` describes. Every file runs on the
//! interpreter, which is the oracle, and on every instruction set of this machine. It runs on one thread and on
//! several. All results must be bitwise equal.
//!
//! `MS_BLESS=1` writes the interpreter's results to the files. `MS_FUZZ=1000000` sets the number of mutations of the
//! files and of the corpus of the fuzz target `kernel`.

use ms_cache::fuzzing::Mutator;
use ms_ir::Kernel;
use ms_ir::testing::Random;
use ms_x64::interp::Interpreted;
use ms_x64::loaded::Loaded;
use ms_x64::testing::{Call, File, Results, kernel};
use ms_x64::{Isa, KernelCode, codegen, threads};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, io};

/// Returns the entries of a folder of this crate, sorted by name.
fn folder(path: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("a readable folder");
    let mut paths: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn files() -> Vec<PathBuf> {
    let mut paths = folder("tests/kernels");
    paths.retain(|it| it.extension().is_some_and(|it| it == "kernel"));
    paths
}

fn interpret(file: &File<'_>) -> Results {
    let code = Interpreted::new(file.kernel.clone());
    // SAFETY: `File::run` creates its calls for the file's kernel, which `code` implements.
    file.run(|call| unsafe { call.run(&code) })
}

/// Returns the first difference of a file's results on an instruction set from `want`, the interpreter's results.
fn difference(file: &File<'_>, want: &Results, isa: Isa) -> Option<String> {
    let interpreted = isa != Isa::Interp && codegen::compile(&file.kernel, isa).is_err();
    if interpreted != file.interpreted.contains(&isa.name()) {
        let what = if interpreted { "has no code" } else { "has code" };
        return Some(format!("the kernel {what}, and the file says otherwise (`// interpreted: {isa}`)"));
    }
    let code = Loaded::compile(isa, &Arc::new(file.kernel.clone())).code;
    // SAFETY: `File::run` creates its calls for the file's kernel, from which `code` was compiled.
    let run = |call: &mut Call| unsafe { call.run(&*code) };
    let alone = file.run(|call| threads::serial(|| run(call)));
    let partitioned =
        file.run(|call| if call.may_be_partitioned(&file.kernel) { run(call) } else { threads::serial(|| run(call)) });
    let alone = alone.difference(want).map(|it| format!("on one thread: {it}"));
    alone.or_else(|| partitioned.difference(want).map(|it| format!("on {} threads: {it}", threads::count())))
}

/// Returns the errors of a file on this machine.
fn failures(file: &File<'_>) -> Vec<String> {
    let want = interpret(file);
    let isas = Isa::ALL.into_iter().filter(|it| it.is_supported());
    let on = isas.filter_map(|isa| Some(format!("{isa}: {}", difference(file, &want, isa)?)));
    file.difference(&want).into_iter().chain(on).collect()
}

#[test]
fn all_files() {
    let bless = env::var_os("MS_BLESS").is_some_and(|it| it == "1");
    for isa in Isa::ALL.into_iter().filter(|it| !it.is_supported()) {
        // `eprintln` is not shown for tests that pass.
        writeln!(io::stderr(), "this machine has no {isa}: the files are not run on it").expect("stderr takes text");
    }
    let paths = files();
    assert!(!paths.is_empty(), "there are files");
    let mut failed = Vec::new();
    for path in paths {
        let mut text = fs::read_to_string(&path).expect("a file of text");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if bless && let Ok(file) = File::parse(&text) {
            let blessed = file.blessed(&interpret(&file));
            fs::write(&path, &blessed).expect("the file can be written");
            text = blessed;
        }
        match File::parse(&text) {
            Ok(file) => failed.extend(failures(&file).into_iter().map(|it| format!("{name}: {it}"))),
            Err(error) => failed.push(format!("{name}: {error}")),
        }
    }
    assert!(failed.is_empty(), "{}\n(MS_BLESS=1 accepts what the interpreter gives)", failed.join("\n"));
}

/// Returns a file with these runs.
fn doubled(runs: &str) -> String {
    let kernel = "in %x: f32 unit out %y: f32 unit point: x = load %x y = add x, x store %y, y";
    format!("// Twice.\nkernel par=1 lanes=parallel seq=0 {kernel}\n\n{runs}")
}

/// Checks the errors of invalid files.
#[test]
fn planted_errors_are_found() {
    let cases = [
        ("run [1, 2] %x = (1.0, nan) %y -> (2.0, nan)", ""),
        ("run [1, 2] %x = (1.0, 2.0) %y -> (2.0, 5.0)", "run 0: %y is (2.0, 4.0), not (2.0, 5.0)"),
        ("run [1, 2] %x = (1.0, 2.0) %y -> (2.0)", "run 0: %y is (2.0, 4.0), not (2.0)"),
        ("run [1, 1] %x = (0.0) %y -> (-0.0)", "run 0: %y is (0.0), not (-0.0)"),
        ("run [2, *] %y -> hash 0x1", "run 0: %y is hash 0x"),
        ("run [1, 2] %x = (1.0, ..)", "run 0: the file does not say what %y holds"),
        ("// interpreted: avx2\nrun [0, 0] %y -> ()", "avx2: the kernel has code, and the file says otherwise"),
    ];
    for (runs, want) in cases {
        let text = doubled(runs);
        let failures = failures(&File::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
        let found = failures.first().map_or("", |it| it);
        let skipped = want.starts_with("avx2") && !Isa::Avx2.is_supported();
        assert!(skipped || found.starts_with(want) && found.is_empty() == want.is_empty(), "{found}\n{text}");
    }
}

/// Finds results that differ in one bit, and writes to guards.
#[test]
fn differences_are_found() {
    let text = doubled("run [1, 3] %x = (1.0, 2.0, 3.0) run [2, *]");
    let file = File::parse(&text).expect("a good file");
    let want = interpret(&file);
    assert_eq!(interpret(&file).difference(&want), None);
    let unwritten = file.run(|_| ());
    let difference = unwritten.difference(&want).expect("nothing was written");
    assert!(difference.starts_with("run 0, extents [1, 3]: element 0 of buffer %1 is "), "{difference}");
    let triple = Kernel::parse(&text.split("run").next().expect("a kernel").replace("add x, x", "sub x, x"));
    let other = Interpreted::new(triple.expect("a good kernel"));
    // SAFETY: the other kernel has the same parameters and stages, so it accesses the same elements.
    let wrong = file.run(|call| unsafe { call.run(&other) });
    let difference = wrong.difference(&want).expect("another kernel ran");
    assert_eq!(difference, "run 0, extents [1, 3]: element 0 of buffer %1 is 0.0, not 2.0");
    for at in [-1, 12] {
        let stray = Stray { code: Interpreted::new(file.kernel.clone()), at };
        // SAFETY: the calls are made for this kernel, and the additional byte is in a guard.
        let wrong = file.run(|call| unsafe { call.run(&stray) });
        let difference = wrong.difference(&want).expect("a guard is written");
        assert_eq!(difference, "run 0, extents [1, 3]: memory around operands is written");
    }
}

/// A kernel with one input and one output that writes an additional byte at an offset from the output.
struct Stray {
    code: Interpreted,
    at: isize,
}

// SAFETY: this violates the contract on purpose. The byte that it writes is in a guard of the test's operands.
unsafe impl KernelCode for Stray {
    unsafe fn call(&self, block: &[u64]) {
        // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
        unsafe { self.code.call(block) };
        // SAFETY: operands have 128-byte guards on both sides, and `at` is at most 12 bytes past the output's start.
        unsafe { (block[5] as *mut u8).offset(self.at).write(1) };
    }
}

#[test]
fn errors_of_files_have_a_place() {
    let cases = [
        ("run [2]", "line 4, column 1: expected 2 extents, one for each loop"),
        ("run [*, 2]", "line 4, column 1: only the lanes, behind the parallel loops, are given as `*`"),
        ("run [1, -1]", "line 4, column 9: expected an extent from 0 to 2^24"),
        ("run [1, 2] %z = iota", "line 4, column 12: there is no buffer `%z`"),
        ("run [1, 2] %x = zeros", "line 4, column 17: expected `(`, `iota`, `random` or `unwritten`, found `zeros`"),
        ("run [1, 2] %x = (1.0)", "line 4, column 12: expected 2 elements, found 1"),
        ("run [1, 2] %x = iota strides [1]", "line 4, column 12: expected 2 strides, one for each loop"),
        ("run [1, 2] %x = iota axis 3 by 2", "line 4, column 12: only an indexed input has an axis"),
        ("run [1, 2] %x = iota strides [1, 2]", "line 4, column 12: the stride of the lanes is not that of `unit`"),
        ("run [1, 2] %x over %y", "line 4, column 12: an output lies where an input of its dtype and step lies"),
        ("run [1, 2] %y = iota", "line 4, column 12: an output is `unwritten` before"),
        ("run [1, 2] %y -> () %x = iota", "line 4, column 21: operands stand before results"),
        ("run [1, 2] %y -> hash 1", "line 4, column 23: expected a hash of 64 bits, as `0x..`, found `1`"),
        ("run [1, 2] x", "line 4, column 12: expected an operand, a result, or `run`, found `x`"),
    ];
    for (runs, want) in cases {
        let text = doubled(runs);
        let error = File::parse(&text).map(|_| ()).expect_err(&text);
        assert!(error.to_string().contains(want), "{error}\n{text}");
    }
}

#[test]
fn blessing_changes_results_only() {
    let before =
        doubled("// First.\nrun [1, 2]  %x = (1.0,  2.0) // one\n\n// Second.\nrun [1, *]\n %y -> (7)\n// End.\n");
    let file = File::parse(&before).expect("a good file");
    let blessed = file.blessed(&interpret(&file));
    let again = File::parse(&blessed).expect("a good file");
    assert_eq!(failures(&again), Vec::<String>::new());
    assert_eq!(again.blessed(&interpret(&again)), blessed);
    let want =
        "// First.\nrun [1, 2]  %x = (1.0,  2.0)\n  %y -> (2.0, 4.0) // one\n\n// Second.\nrun [1, *]\n  %y -> hash 0x";
    assert!(blessed.starts_with(&doubled(want)) && blessed.ends_with("\n// End.\n"), "{blessed}");
}

/// Runs the fuzz target for a short time. A panic shows the kernel.
#[test]
fn the_corpus_finds_nothing() {
    let paths = folder("../../fuzz/corpus/kernel").into_iter().chain(files());
    let corpus: Vec<Vec<u8>> = paths.map(|it| fs::read(it).expect("a readable file")).collect();
    let kernels = corpus.iter().filter(|it| kernel(it)).count();
    assert_eq!(kernels, corpus.len(), "all of them are kernels");
    let executions = env::var("MS_FUZZ").map_or(300, |it| it.parse().expect("MS_FUZZ is a number"));
    let (mut mutator, mut random) = (Mutator::new(1), Random::Seed(1));
    for _ in 0..executions {
        kernel(&mutator.mutate(&corpus));
        let choices: Vec<u8> = (0..random.below(300)).map(|_| random.bits() as u8).collect();
        assert!(kernel(&choices), "choices are a kernel");
    }
}

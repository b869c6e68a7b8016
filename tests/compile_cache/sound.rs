//! Checks that a later process computes the right answer, and uses the cache if nothing changed.

use crate::process::{self, Scratch, command, compiles_kernels, executes_code, outcome, run, run_without};
use std::path::Path;
use std::process::Command;

/// Runs a program cold, then warm. The second process compiles nothing and has the same result.
fn check_warm(program: &[&str]) {
    let scratch = Scratch::new();
    let want = run_without(program);
    assert_eq!((want.hits, want.misses), (0, 0), "{want:?}");
    let cold = run(program, &scratch.cache());
    assert_eq!((&cold.result, cold.hits, cold.misses > 0), (&want.result, 0, true), "{program:?}: {cold:?}");
    let warm = run(program, &scratch.cache());
    assert_eq!((&warm.result, warm.hits, warm.misses), (&want.result, cold.misses, 0), "{program:?}: {warm:?}");
    assert!(!warm.stderr.contains("warning"), "{warm:?}");
}

/// With the cache enabled by the environment, a second process runs code that the first one compiled.
#[test]
fn a_second_process_compiles_nothing() {
    let programs: [&[&str]; 10] = [
        &["func", "200"],
        &["constant", "3"],
        &["field", "4"],
        &["makes"],
        &["gradient"],
        &["tape"],
        &["tape twice"],
        &["product"],
        &["precision", "0"],
        // This integer has the bits of a former handle of a symbolic size.
        &["given", "-9223372036854775807"],
    ];
    programs.into_iter().for_each(check_warm);
    assert_eq!(run_without(&["given", "-9223372036854775807"]).result, "f32 [4.0, 6.0, 8.0]");
    let scratch = Scratch::new();
    assert_eq!(run(&["func", "200"], &scratch.cache()).result, "f32 [601.0]");
}

/// The key is the graph as it was traced: on a hit no gradient is expanded, and nothing is
/// optimised, lowered or compiled. One file holds all of it.
#[test]
fn hits_are_not_expanded() {
    for program in [&["gradient"][..], &["func", "200"], &["captures", "5"]] {
        let scratch = Scratch::new();
        let steps = ["expand, optimize, compile, load", "load"];
        for steps in steps.map(|it| format!("trace, effects, key, look up, {it}")) {
            let outcome = run(program, &scratch.cache());
            assert_eq!(outcome.stages, steps, "{program:?}: {outcome:?}");
        }
        let store = ms_cache::Store::open(scratch.cache(), &Default::default()).expect("the directory is ours");
        let entries = store.entries().expect("a readable directory").entries;
        assert_eq!(entries.len(), 1, "{program:?}");
        let entry = store.get(&entries[0].key).expect("the entry just listed");
        assert!(!entry.data().is_empty());
        assert_eq!(entry.code().is_empty(), !compiles_kernels(), "{program:?}");
    }
}

/// A function of symbolic sizes has one plan for each size. Its kernels are compiled and looked up once for all sizes.
#[test]
fn sizes_share_their_kernels() {
    let scratch = Scratch::new();
    for (hits, misses) in [(0, 10), (10, 0)] {
        let outcome = run(&["sized"], &scratch.cache());
        let want = "f32 [3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0, 19.0, 21.0]";
        assert_eq!((&*outcome.result, outcome.hits, outcome.misses), (want, hits, misses), "{outcome:?}");
        if executes_code() {
            // Small code is copied out of an entry.
            assert_eq!(outcome.code, [0, 1], "{outcome:?}");
        }
    }
}

/// Settings of the context take precedence over settings of the environment.
#[test]
fn the_context_takes_precedence_over_the_environment() {
    let scratch = Scratch::new();
    let other = scratch.path().join("my compile cache/of two levels");
    let program = |enable: &str| {
        let path = other.to_str().expect("a path in the directory of temporary files").to_owned();
        ["context".to_owned(), enable.to_owned(), path]
    };
    let run = |enable: &str, environment: &str| {
        let program = program(enable);
        let mut command = command(&program.each_ref().map(|it| &**it), &scratch.cache());
        command.env("MS_COMPILER_CACHE_ENABLE", environment);
        outcome(command)
    };
    let off = run("0", "1");
    assert_eq!((off.hits, off.misses, other.exists()), (0, 0, false));
    assert_eq!(run("1", "0").misses, 1);
    assert_eq!(run("1", "0").hits, 1);
    assert!(other.exists() && !scratch.cache().exists());
}

/// A change between two processes. The result of the second process is the same as without a cache.
struct Change<'a> {
    before: &'a [&'a str],
    after: &'a [&'a str],
    /// The result of the second process.
    want: &'a str,
    /// An environment variable that is set for the second process only.
    environment: Option<(&'a str, &'a str)>,
    /// Whether the second process hits the entry of the first one.
    hit: bool,
}

fn check(change: &Change<'_>) {
    let scratch = Scratch::new();
    let with = |mut command: Command| {
        if let Some((name, value)) = change.environment {
            command.env(name, value);
        }
        outcome(command)
    };
    run(change.before, &scratch.cache());
    let after = with(command(change.after, &scratch.cache()));
    assert_eq!(after.result, change.want, "{:?}: {after:?}", change.after);
    assert_eq!(after.misses == 0, change.hit, "{:?}: {after:?}", change.after);
    let mut without = command(change.after, Path::new("/nowhere"));
    without.env("MS_COMPILER_CACHE_ENABLE", "0");
    assert_eq!(with(without).result, change.want, "{:?} without a cache", change.after);
    let again = with(command(change.after, &scratch.cache()));
    assert_eq!((&*again.result, again.misses), (change.want, 0), "{:?} again", change.after);
}

/// Changes of the program or its settings that need no other build. `rebuild.rs` has the others.
#[test]
fn a_change_gives_the_new_answer() {
    let plain = |before, after, want| Change { before, after, want, environment: None, hit: false };
    let changes = [
        // Changes the loop count (through a static), the shape, the order, a constant argument, and the dtype.
        plain(&["func", "200"], &["func", "100"], "f32 [301.0]"),
        plain(&["shape", "1"], &["shape", "3"], "f32 [2.0, 2.0, 2.0]"),
        Change { hit: true, ..plain(&["order", "0"], &["order", "1"], "f32 [2.0, 4.0, 6.0, 101.0, 102.0, 103.0]") },
        plain(&["constant", "2"], &["constant", "5"], "f32 [5.0, 10.0, 15.0]"),
        plain(&["dtype", "0"], &["dtype", "1"], "i32 [2.0, 4.0, 6.0]"),
        // Changes a field of a cell.
        plain(&["field", "4"], &["field", "5"], "f32 [6.0, 12.0, 18.0]"),
        // Changes a tensor that the function creates and that is part of its entry.
        plain(&["captures", "0"], &["captures", "1000"], "f32 [2001.0, 2.0, 5.0]"),
        // Changes a variable of the environment that is read while tracing.
        Change {
            environment: Some(("FACTOR", "3")),
            ..plain(&["environment"], &["environment"], "f32 [3.0, 6.0, 9.0]")
        },
        // Changes the precision mode.
        plain(&["precision", "0"], &["precision", "1"], "f32 [8.0]"),
        // Changes the instruction set of the code, which a device without code does not depend on.
        Change {
            environment: Some(("MS_CPU_ISA", "interp")),
            hit: !compiles_kernels(),
            ..plain(&["product"], &["product"], "f32 [64.0]")
        },
        Change {
            environment: Some(("MS_CPU_ISA", "avx2")),
            hit: !compiles_kernels(),
            ..plain(&["product"], &["product"], "f32 [64.0]")
        },
        // Changes the number of threads, which nothing in the cache depends on.
        Change {
            environment: Some(("MS_NUM_THREADS", "1")),
            hit: true,
            ..plain(&["product"], &["product"], "f32 [64.0]")
        },
    ];
    for change in &changes {
        let avx2 = change.environment == Some(("MS_CPU_ISA", "avx2"));
        if avx2 && !has_avx2_beside_another() {
            eprintln!("skipped: there is no second instruction set here");
            continue;
        }
        check(change);
    }
}

/// Entries of another compiler, backend or target, or of other settings, are never used, even if they contain another
/// function's plan and code. `rebuild.rs` tests a compiler that is really changed.
#[test]
fn entries_of_other_compilers_are_not_used() {
    let (scratch, wrong) = (Scratch::new(), Scratch::new());
    let open = |scratch: &Scratch| {
        let store = ms_cache::Store::open(scratch.cache(), &Default::default()).expect("the directory is ours");
        let key = store.entries().expect("a readable directory").entries.remove(0).key;
        (store, key)
    };
    run(&["constant", "9"], &wrong.cache());
    run(&["constant", "3"], &scratch.cache());
    let ((wrong, wrong_key), (store, key)) = (open(&wrong), open(&scratch));
    let wrong = wrong.get(&wrong_key).expect("the entry just written");
    let contents = ms_cache::Contents { data: wrong.data(), code: wrong.code(), notes: &[] };
    let parts: Vec<&str> = key.parts().iter().map(ms_cache::Part::name).collect();
    for part in ["compiler", "backend", "target", "precision", "optimize", "signature", "graph", "piece"] {
        assert!(parts.contains(&part), "{part} is no part of {parts:?}");
    }
    for part in parts {
        store.clear().expect("the directory is ours");
        store.put(&key.with_part(part, b"another"), &contents).expect("the directory is ours");
        let outcome = run(&["constant", "3"], &scratch.cache());
        assert_eq!((&*outcome.result, outcome.misses), ("f32 [3.0, 6.0, 9.0]", 1), "{part}: {outcome:?}");
    }
    store.put(&key, &contents).expect("the directory is ours");
    let outcome = run(&["constant", "3"], &scratch.cache());
    assert_eq!(outcome.result, "f32 [9.0, 18.0, 27.0]", "what stands under the right key is believed");
    // Verification detects that the entry differs from the result of compiling.
    let mut verifying = command(&["constant", "3"], &scratch.cache());
    verifying.env("MS_CACHE_VERIFY", "1");
    let outcome = process::outcome(verifying);
    assert_eq!((&*outcome.result, outcome.misses), ("f32 [3.0, 6.0, 9.0]", 1), "{outcome:?}");
    assert!(outcome.stderr.contains("not what compiling gives now"), "{outcome:?}");
    assert_eq!(run(&["constant", "3"], &scratch.cache()).result, "f32 [3.0, 6.0, 9.0]", "it was replaced");
}

/// Whether this machine has AVX2 and also AVX-512, which is then the default.
fn has_avx2_beside_another() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// A function is traced in every process, so the side effects of tracing happen.
#[test]
fn side_effects_of_tracing_happen_in_every_process() {
    let scratch = Scratch::new();
    for misses in [1, 0] {
        let outcome = run(&["prints"], &scratch.cache());
        assert_eq!((outcome.misses, outcome.stdout.matches("traced\n").count()), (misses, 1), "{outcome:?}");
    }
}

/// A traced function reads the time of the process.
#[test]
fn what_tracing_reads_is_read_in_every_process() {
    let scratch = Scratch::new();
    for _ in 0..2 {
        let outcome = run(&["clock"], &scratch.cache());
        let (_, time) = outcome.stdout.split_once("traced at ").expect("it was traced");
        let time: i64 = time.lines().next().and_then(|it| it.parse().ok()).expect("a number");
        assert_eq!((outcome.result, outcome.misses), (format!("i64 [{:?}]", (time + 3) as f64), 1));
    }
}

/// Entries are also written when a process ends by `exit`.
#[test]
fn pending_writes_are_flushed_at_exit() {
    let scratch = Scratch::new();
    let ended = command(&["exit"], &scratch.cache()).output().expect("the test can be started again");
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(run(&["shape", "3"], &scratch.cache()).misses, 0);
}

/// `MS_CACHE_VERIFY=1` always compiles, with the same result.
#[test]
fn compiling_gives_the_same_bytes_in_every_process() {
    for program in [&["func", "200"][..], &["gradient"], &["tape twice"], &["product"], &["makes"]] {
        let scratch = Scratch::new();
        let cold = run(program, &scratch.cache());
        let mut verifying = command(program, &scratch.cache());
        verifying.env("MS_CACHE_VERIFY", "1");
        let verified = outcome(verifying);
        assert_eq!((&verified.result, verified.hits, verified.misses), (&cold.result, cold.misses, 0), "{verified:?}");
        assert!(!verified.stderr.contains("warning"), "{verified:?}");
    }
}

/// The statistics sum over all processes.
#[test]
fn hits_misses_and_saved_time_are_summed() {
    let scratch = Scratch::new();
    // Compiling this function takes longer than loading it, however busy the machine is.
    for _ in 0..3 {
        run(&["func", "1000"], &scratch.cache());
    }
    let store = ms_cache::Store::open(scratch.cache(), &Default::default()).expect("the directory is ours");
    let sums = store.statistics().expect("they were written");
    assert_eq!((sums.hits, sums.misses), (2, 1));
    assert!(!sums.saved.is_zero());
}

/// A later process does not even trace a function of `#[jit(pure)]`. The answer is right for other arguments, for
/// derivatives, and for another value of a cell's field.
#[test]
fn a_pure_function_is_not_traced_again() {
    let scratch = Scratch::new();
    let check = |program: &[&str], traces: usize, want: &str| {
        let outcome = run(program, &scratch.cache());
        let traced = outcome.stdout.matches("traced\n").count();
        assert_eq!((&*outcome.result, traced), (want, traces), "{program:?}: {outcome:?}");
        assert!(!outcome.stderr.contains("warning"), "{outcome:?}");
    };
    let first = "f32 [72.0, 24.0, 48.0, 72.0, 12.0, 24.0, 36.0]";
    let second = "f32 [108.0, 36.0, 72.0, 108.0, 18.0, 36.0, 54.0]";
    for traces in [1, 0, 0] {
        check(&["pure", "3", "3"], traces, first);
        check(&["pure", "3", "2"], traces, "f32 [48.0, 16.0, 32.0, 48.0, 8.0, 16.0, 24.0]");
        check(&["pure", "5", "3"], traces, second);
    }
    // The second process does not trace the first call, but its derivative needs the graph.
    let cubed = "f32 [36.0, 3.0, 12.0, 27.0, 36.0]";
    for _ in 0..2 {
        check(&["pure tape"], 1, cubed);
    }

    let mut verifying = command(&["pure", "3", "3"], &scratch.cache());
    verifying.env("MS_CACHE_VERIFY", "1");
    let verified = outcome(verifying);
    assert_eq!((&*verified.result, verified.stdout.matches("traced\n").count()), (first, 1));
    assert!(!verified.stderr.contains("warning"), "{verified:?}");
}

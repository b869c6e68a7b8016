//! `MS_JIT=0` as a process sees it: annotated code runs as it is written, at every call, with tensors
//! that have values.

use ms::prelude::*;
use std::cell::Cell;
use std::process::Command;

thread_local! {
    /// How often a body ran.
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

fn ran() {
    RUNS.set(RUNS.get() + 1);
}

#[jit]
fn halve(x: &Tensor, most: usize) -> Tensor {
    ran();
    let mut x = x.clone();
    for i in 0.. {
        if x < 1.0 || i == most {
            break;
        }
        x = x / 2.0;
    }
    x
}

#[jit]
fn seen(x: &Tensor) -> Tensor {
    ran();
    // What `dbg!` prints.
    println!("x is {x:?}");
    if x > 1.0 { x * 2.0 } else { x.clone() }
}

/// Says to a process that it is the child.
const CHILD: &str = "MS_TEST_ENVIRONMENT_CHILD";

/// Calls what is compiled, three times each, in a process that the test below starts.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    for x in [3.0f32, 3.0, 5.0] {
        println!("halved {}", ms::catch(|| halve(&Tensor::scalar(x), 9)).map_or(f32::NAN, |it| it.item()));
        println!("seen {}", seen(&Tensor::scalar(x)).item::<f32>());
    }
    println!("ran {}", RUNS.get());
}

/// What the child prints.
fn child_prints(jit: &str) -> String {
    let program = std::env::current_exe().expect("a test has a path");
    let output = Command::new(program)
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, "1")
        .env("MS_JIT", jit)
        .output()
        .expect("a test runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn without_jit_code_runs_as_it_is_written() {
    let eager = child_prints("0");
    for line in ["halved 0.75", "halved 0.625", "seen 6", "seen 10", "ran 6"] {
        assert!(eager.contains(line), "{line} is not in\n{eager}");
    }
    let shown =
        |text: &str| -> Vec<String> { text.lines().filter(|it| it.starts_with("x is ")).map(str::to_owned).collect() };
    assert_eq!(shown(&eager), ["3.0", "3.0", "5.0"].map(|it| format!("x is Tensor<f32[]> {it}")));
    // The loop without an end is refused at every call; the other function is traced once, and has
    // no value to show while it is.
    let compiled = child_prints("1");
    for line in ["halved NaN", "seen 6", "seen 10", "ran 4"] {
        assert!(compiled.contains(line), "{line} is not in\n{compiled}");
    }
    assert_eq!(shown(&compiled), ["x is Tensor<traced f32[]>"]);
}

//! Tests the settings of the process.
//!
//! With `MS_JIT=0` annotated code runs eagerly at every call, with tensors that have values.

use ms::prelude::*;
use std::cell::Cell;
use std::process::Command;

thread_local! {
    /// The number of executions of a body.
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
    // The line stands for the output of `dbg!`.
    println!("x is {x:?}");
    if x > 1.0 { x * 2.0 } else { x.clone() }
}

/// Marks a process as the child.
const CHILD: &str = "MS_TEST_ENVIRONMENT_CHILD";

/// Calls compiled functions, three times each, in a process that the test below starts.
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

/// Returns the output of the child.
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
fn without_jit_code_runs_eagerly() {
    let eager = child_prints("0");
    for line in ["halved 0.75", "halved 0.625", "seen 6", "seen 10", "ran 6"] {
        assert!(eager.contains(line), "{line} is not in\n{eager}");
    }
    let shown =
        |text: &str| -> Vec<String> { text.lines().filter(|it| it.starts_with("x is ")).map(str::to_owned).collect() };
    assert_eq!(shown(&eager), ["3.0", "3.0", "5.0"].map(|it| format!("x is Tensor<f32[]> {it}")));
    // The infinite loop is an error at every call. The other function is traced once, and has no value to print while
    // it is traced.
    let compiled = child_prints("1");
    for line in ["halved NaN", "seen 6", "seen 10", "ran 4"] {
        assert!(compiled.contains(line), "{line} is not in\n{compiled}");
    }
    assert_eq!(shown(&compiled), ["x is Tensor<traced f32[]>"]);
}

#[jit]
fn snapshots(w: &Parameter, x: &Tensor) -> Tensor {
    let a = w.value().sin();
    w.set(x);
    a + w.value().cos()
}

#[cell]
struct Block {
    fc: nn::Dense,
}

#[cell]
impl Block {
    fn construct(&self, x: &Tensor) -> Tensor {
        ops::layer_norm(x * 0.5 + self.fc(x).tanh(), None, None, -1, 1e-5)
    }
}

#[jit]
fn blocks(net: &[Block; 3], x: &Tensor) -> Tensor {
    net.iter().fold(x.clone(), |x, block| block.call(&x))
}

/// Compiles with the settings of the process.
#[test]
fn child_of_settings() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let told = |stage: &str| {
        let report = ms::compile_report().pop().expect("just compiled");
        report.stage(stage).and_then(|it| it.graph).expect("a graph")
    };
    snapshots(&Parameter::new(Tensor::scalar(2.0), ""), &Tensor::scalar(3.0));
    println!("precision {}.", ms::context().precision);
    println!("copies {}", told("effects").moves);
    blocks(&std::array::from_fn(|_| Block { fc: nn::Dense::new(2, 2) }), &Tensor::ones([1, 2]));
    println!("calls {}", told("expand").calls);
}

/// Uses the library, and prints errors.
#[test]
fn child_of_any() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let told = |what: &str, refused: ms::Result<()>| match refused {
        Ok(()) => println!("{what} runs"),
        Err(error) => println!("{what} is refused with {}\n{error}", error.code()),
    };
    for again in ["", " again"] {
        told(&format!("an op{again}"), ms::catch(|| drop((Tensor::ones([2]) + 1.0).to_vec::<f32>())));
        told(&format!("a call{again}"), ms::catch(|| drop(seen(&Tensor::scalar(0.5)))));
        told(&format!("the context{again}"), ms::catch(|| drop(ms::context())));
    }
}

/// Valid values of a variable are accepted. With any other value nothing runs, and the error names the variable, the
/// value and the valid values.
#[test]
fn invalid_values_of_variables_are_errors() {
    let run = |name: &str, variables: &[(&str, &str)]| {
        let program = std::env::current_exe().expect("a test has a path");
        let mut command = Command::new(program);
        command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").envs(variables.iter().copied());
        let output = command.output().expect("a test runs");
        assert!(output.status.success(), "{variables:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let uses = ["an op", "a call", "the context", "an op again", "a call again", "the context again"];
    let refused: [(&str, &str, &str); 15] = [
        ("MS_PRECISION", "fast", "strict, highest, high, medium"),
        ("MS_JIT", "maybe", "0, false, no or off"),
        ("MS_DEVICE_TARGET", "c u", "a device: cpu"),
        ("MS_NUM_THREADS", "abc", "a number from 1 to 256"),
        ("MS_NUM_THREADS", "0", "a number from 1 to 256"),
        ("MS_CPU_ISA", "sse2", "interp"),
        ("MS_COMPILER_CACHE_ENABLE", "2", "1, true, yes or on"),
        ("MS_COMPILER_CACHE_MAX_SIZE", "much", "500M"),
        ("MS_CACHE_VERIFY", "y", "1, true, yes or on"),
        ("MS_DEV_SHARE_GRAPHS", "x", "0, false, no or off"),
        ("MS_DEV_SIDE_EFFECT_LOAD_ELIM", "9", "from 0 to 3"),
        ("MS_DEV_SAVE_GRAPHS", "4", "from 0 to 3"),
        ("MS_DEV_SAVE_GRAPHS", "true", "from 0 to 3"),
        ("MS_DEV_DUMP_IR_PASSES", "cse,dec", "dce"),
        ("MS_DEV_PERF_MAP", "all", "1, true, yes or on"),
    ];
    for (name, value, allowed) in refused {
        let printed = run("child_of_any", &[(name, value)]);
        for it in uses {
            assert!(printed.contains(&format!("{it} is refused with MS151")), "{name}={value}: {it}\n{printed}");
        }
        for it in [name, &format!("`{value}`"), allowed] {
            assert!(printed.contains(it), "{name}={value}: {it} is not in\n{printed}");
        }
    }
    let both = run("child_of_any", &[("MS_JIT", "2"), ("MS_NUM_THREADS", "-1")]);
    assert!(both.contains("2 environment variables") && both.contains("is `2`") && both.contains("is `-1`"), "{both}");
    let taken: [(&str, &str); 10] = [
        ("MS_PRECISION", " Medium "),
        ("MS_JIT", ""),
        ("MS_DEVICE_TARGET", " CPU "),
        ("MS_NUM_THREADS", " 3 "),
        ("MS_CPU_ISA", "interp"),
        ("MS_COMPILER_CACHE_ENABLE", "No"),
        ("MS_COMPILER_CACHE_MAX_SIZE", "10g"),
        ("MS_CACHE_VERIFY", "off"),
        ("MS_DEV_SAVE_GRAPHS", "0"),
        ("MS_DEV_DUMP_IR_PASSES", "cse, dce,"),
    ];
    for variable in taken {
        let printed = run("child_of_any", &[variable]);
        uses.iter().for_each(|it| assert!(printed.contains(&format!("{it} runs")), "{variable:?}: {it}\n{printed}"));
    }
    // The program has no backend for this device: its settings can be read and changed, but nothing runs.
    let printed = run("child_of_any", &[("MS_DEVICE_TARGET", "GPU:1")]);
    for it in ["an op", "a call", "an op again", "a call again"] {
        assert!(printed.contains(&format!("{it} is refused with MS160")), "{it}\n{printed}");
    }
    for it in ["`cuda:1`", "this program has backends for cpu", "the context runs"] {
        assert!(printed.contains(it), "{it} is not in\n{printed}");
    }
    for (word, ran) in [("false", "ran 6"), ("OFF", "ran 6"), ("no", "ran 6"), ("true", "ran 4"), ("on", "ran 4")] {
        let printed = run("child", &[("MS_JIT", word)]);
        assert!(printed.contains(ran), "MS_JIT={word}: {ran} is not in\n{printed}");
    }
}

/// Tests `MS_DEV_SIDE_EFFECT_LOAD_ELIM`, `MS_DEV_SHARE_GRAPHS` and the variables of saved graphs in a process.
#[test]
fn settings_of_graphs() {
    let folder = std::env::temp_dir().join(format!("ms-settings-{}", std::process::id()));
    let run = |variables: &[(&str, &str)]| {
        let program = std::env::current_exe().expect("a test has a path");
        let mut command = Command::new(program);
        command.args(["--exact", "child_of_settings", "--nocapture"]).env(CHILD, "1");
        let output = command.envs(variables.iter().copied()).output().expect("a test runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let elim = "MS_DEV_SIDE_EFFECT_LOAD_ELIM";
    let cases: [(&[(&str, &str)], &str); 10] = [
        (&[], "copies 0"),
        (&[], "precision highest."),
        (&[("MS_PRECISION", "strict")], "precision strict."),
        (&[("MS_PRECISION", "HIGH")], "precision high."),
        (&[(elim, "0")], "copies 2"),
        (&[(elim, "1")], "copies 2"),
        (&[(elim, "2")], "copies 0"),
        (&[(elim, "3")], "copies 0"),
        (&[("MS_DEV_SHARE_GRAPHS", "1")], "calls 3"),
        (&[("MS_DEV_SHARE_GRAPHS", "0")], "calls 0"),
    ];
    for (variables, line) in cases {
        let printed = run(variables);
        assert!(printed.contains(line), "{variables:?}: {line} is not in\n{printed}");
        assert!(!folder.exists(), "graphs are saved only where that is asked for");
    }
    let path = folder.to_str().expect("a folder for temporary files has a plain name");
    run(&[("MS_DEV_SAVE_GRAPHS", "3"), ("MS_DEV_SAVE_GRAPHS_PATH", path), ("MS_DEV_DUMP_IR_PASSES", "cse,dce")]);
    let names = |folder: &std::path::Path| {
        let entries = std::fs::read_dir(folder).expect("it was made").flatten();
        let mut names: Vec<String> = entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let compilations = names(&folder);
    assert_eq!(compilations, ["0000_snapshots", "0001_blocks"]);
    let all: Vec<String> = compilations.iter().flat_map(|it| names(&folder.join(it))).collect();
    for file in ["00_trace.msir", "00_trace.dot", "00_trace.html"] {
        assert_eq!(all.iter().filter(|it| *it == file).count(), 2, "{file} is not in {all:?}");
    }
    let passes: Vec<&String> = all.iter().filter(|it| it.contains("_pass_")).collect();
    let wanted = |it: &&String| it.contains("_pass_cse_") || it.contains("_pass_dce_");
    assert!(!passes.is_empty() && passes.iter().all(wanted), "{all:?}");
    std::fs::remove_dir_all(&folder).expect("it was made here");
}

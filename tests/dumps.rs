//! What is told of a compilation: reports, and graphs as files.

#[path = "common/gpt.rs"]
mod gpt;

use gpt::lazy;
use ms::prelude::*;
use std::path::Path;

#[jit]
fn forward(net: &lazy::Gpt, tokens: &Tensor) -> Tensor {
    net.call(tokens)
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder was made").flatten();
    let mut names: Vec<String> = entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn reports_and_files_of_one_compilation() {
    let folder = std::env::temp_dir().join(format!("ms-dumps-{}", std::process::id()));
    let context = |level: u8, passes: &[&str]| Context {
        save_graphs: level,
        save_graphs_path: Some(folder.join(level.to_string())),
        save_graphs_passes: passes.iter().map(|it| it.to_string()).collect(),
        ..ms::context()
    };
    // Another number of tokens for each, so that each is compiled.
    let run = |level: u8, passes: &[&str]| {
        let net = lazy::Gpt::new(3, 7, 8);
        let tokens = random::randint([1, 2 + level as usize], 0, 7);
        ms::with_context(context(level, passes), || forward(&net, &tokens));
    };

    run(0, &[]);
    let report = ms::compile_report().into_iter().rev().find(|it| it.name == "forward").expect("it was compiled");
    let stages: Vec<&str> = report.stages.iter().map(|it| it.name).collect();
    assert_eq!(stages, ["trace", "effects", "key", "expand", "optimize", "lower", "compile", "load"]);
    let trace = report.stage("trace").and_then(|it| it.graph).expect("a graph");
    // The network, and three blocks that are calls of one graph.
    assert_eq!((trace.calls, trace.size.graphs), (4, 2));
    assert!(trace.size.unshared > 2 * trace.size.nodes, "{trace:?}");
    let text = report.to_string();
    for part in ["`forward` in", "unshared", "optimize", "cse"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }

    assert!(!folder.join("0").exists(), "level 0 writes nothing");
    let stems = ["00_trace", "01_effects", "02_expand", "03_optimize"];
    for (level, passes) in [(1, &[][..]), (2, &[]), (3, &["dce"])] {
        run(level, passes);
        let place = folder.join(level.to_string());
        let compilations = files(&place);
        let [name] = &compilations[..] else { panic!("one compilation in {compilations:?}") };
        assert!(name.ends_with("_forward"), "{name}");
        let all = files(&place.join(name));
        let is_pass = |it: &&String| it.contains("_pass_");
        let written: Vec<&String> = all.iter().filter(|it| !is_pass(it)).collect();
        match level {
            1 | 2 => {
                assert_eq!(all[..4], stems.map(|it| format!("{it}.msir")));
                let texts: &[&str] = if level == 1 { &["04_report.txt"] } else { &["04_plan.txt", "05_report.txt"] };
                assert_eq!(all[4..], *texts);
            }
            _ => {
                assert!(all.iter().filter(is_pass).count() > 0, "{all:?}");
                assert!(all.iter().filter(is_pass).all(|it| it.contains("_pass_dce_")), "{all:?}");
                for (stem, kind) in [("00_trace", "dot"), ("00_trace", "html"), ("00_trace", "msir")] {
                    assert!(written.iter().any(|it| **it == format!("{stem}.{kind}")), "{written:?}");
                }
            }
        }
        let report = all.iter().find(|it| it.ends_with("_report.txt")).expect("every compilation has one");
        let report = std::fs::read_to_string(place.join(name).join(report)).expect("it was written");
        let told = ms::compile_report().into_iter().rev().find(|it| it.name == "forward").expect("just compiled");
        assert_eq!(report, told.to_string());
        for file in all.iter().filter(|it| it.ends_with(".msir")) {
            let text = std::fs::read_to_string(place.join(name).join(file)).expect("it was written");
            let graph = ops::parse_graph(&text).expect("what is written can be read");
            ops::verify(&graph).expect("and is a graph");
        }
    }
    std::fs::remove_dir_all(&folder).expect("it was made here");
}

#[jit(dims(x = [n, _]))]
fn sized(x: &Tensor) -> Tensor {
    ops::softmax(x, 0) + ops::sum(x, 0, true)
}

/// What further sizes take is told, and what is not done again is not.
#[test]
fn reports_of_further_sizes() {
    let stages = |n: usize| -> Vec<&str> {
        sized(&Tensor::ones([n, 3]));
        let report = ms::compile_report().into_iter().rev().find(|it| it.name == "sized").expect("just compiled");
        report.stages.iter().map(|it| it.name).collect()
    };
    let first = ["trace", "effects", "key", "expand", "sizes", "optimize", "specialize", "lower", "compile", "load"];
    assert_eq!(stages(4), first);
    for n in [5, 9] {
        assert_eq!(stages(n), ["sizes", "specialize", "lower", "compile", "load"]);
    }
}

#[jit]
fn compiled_on_its_thread(x: &Tensor) -> Tensor {
    x * 2.0
}

/// What other threads compile is told to them.
#[test]
fn a_thread_is_told_what_it_compiled() {
    let told = |n: usize| {
        compiled_on_its_thread(&Tensor::ones([n]));
        ms::compile_report().iter().filter(|it| it.name == "compiled_on_its_thread").count()
    };
    assert_eq!(told(1), 1);
    std::thread::scope(|scope| assert_eq!(scope.spawn(|| told(2)).join().expect("nothing is refused"), 1));
    assert_eq!((told(2), told(3)), (1, 2));
}

//! Graphs and the plans they become: `lower/*.msir` beside `lower/*.plan`.
//!
//! `MS_BLESS=1` writes the plans anew.

use ms_core::lower::{LowerOptions, Plan, PlanStep, lower};
use ms_core::ops::parse_graph;
use std::fmt::Write;
use std::path::Path;

fn plan(text: &str) -> Plan {
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    let options = LowerOptions { exact: false, ..LowerOptions::default() };
    lower(&graph, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn kernels(plan: &Plan) -> usize {
    plan.main().steps.iter().filter(|it| matches!(it, PlanStep::Kernel { .. })).count()
}

#[test]
fn snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lower");
    let bless = std::env::var_os("MS_BLESS").is_some_and(|it| it == "1");
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of cases is part of the crate") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|it| it != "msir") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a case can be read");
        let found = plan(&text).display().to_string();
        let expected = path.with_extension("plan");
        if bless {
            std::fs::write(&expected, &found).expect("the folder can be written");
        } else if std::fs::read_to_string(&expected).ok().as_ref() != Some(&found) {
            stale.push(format!("{} should be\n{found}", expected.display()));
        }
    }
    assert!(stale.is_empty(), "{}\nMS_BLESS=1 takes these over", stale.join("\n"));
}

#[test]
fn numbers_of_steps() {
    let cases = [
        ("adam", 1, include_str!("lower/adam.msir")),
        ("softmax", 1, include_str!("lower/softmax.msir")),
        ("softmax_columns", 1, include_str!("lower/softmax_columns.msir")),
        ("layer_norm", 1, include_str!("lower/layer_norm.msir")),
        ("dense_backward", 3, include_str!("lower/dense_backward.msir")),
        ("views", 1, include_str!("lower/views.msir")),
        ("reshapes", 1, include_str!("lower/reshapes.msir")),
        ("loss", 1, include_str!("lower/loss.msir")),
        ("calls", 2, include_str!("lower/calls.msir")),
        ("batch_norm", 1, include_str!("lower/batch_norm.msir")),
        ("product_of_transposes", 2, include_str!("lower/product_of_transposes.msir")),
        ("train_step", 16, include_str!("lower/train_step.msir")),
        ("short_rows", 2, include_str!("lower/short_rows.msir")),
    ];
    for (name, steps, text) in cases {
        let plan = plan(text);
        assert_eq!(plan.main().steps.len(), steps, "{name}\n{}", plan.display());
    }
}

/// Six hundred ops on one element are one kernel.
#[test]
fn a_long_chain_is_one_kernel() {
    let mut text = String::from("graph @chain(%x: f32[1], %y: f32[1]) -> (f32[1]) {\n  %0 = neg %x : f32[1]\n");
    for i in (0..600).step_by(3) {
        writeln!(text, "%{} = mul %x, %y : f32[1]", i + 1).expect("strings take all");
        writeln!(text, "%{} = add %x, %{} : f32[1]", i + 2, i + 1).expect("strings take all");
        writeln!(text, "%{} = add %{}, %{i} : f32[1]", i + 3, i + 2).expect("strings take all");
    }
    text += "return %600\n}";
    let plan = plan(&text);
    assert_eq!(kernels(&plan), 1);
    // What is computed again and again is computed once.
    assert!(plan.kernels[0].insts.len() < 210, "{} instructions", plan.kernels[0].insts.len());
}

//! Writes random programs: blocks of assignments, branches and loops over a few numbers.
//!
//! A program has a native form, on `f32`, and an annotated one, on tensors of one `f32`. Both have
//! the same statements in the same order, and use only operations that round identically.

mod decisions;
mod loops;
mod random;
mod references;
mod value;
mod writer;
mod writes;

use std::fmt::Write as _;
use std::ops::Range;
use writer::Writer;

/// The nesting depth of blocks.
const DEPTH: usize = 4;

/// The approximate number of statements of a program.
const STATEMENTS: usize = 12;

/// The maximum number of iterations of a loop.
const ROUNDS: usize = 4;

/// Writes the program of a seed in both forms. Returns also whether it may be an error.
pub fn program(seed: u64) -> (String, bool) {
    let mut writer = Writer::new(seed);
    writer.body();
    let refusable = writer.refusable;
    let [native, annotated] = writer.text;
    let heads = [
        format!(
            "fn native_{seed}(net: &Numbers, x: f32, y: f32, k: usize, flag: bool) -> ms::Result<f32> {{
    let (mut x, mut y, mut z) = (x, y, x - y);"
        ),
        format!(
            "#[jit]
fn annotated_{seed}(net: &Net, x: &Tensor, y: &Tensor, k: usize, flag: bool) -> ms::Result<Tensor> {{
    let (mut x, mut y, mut z) = (x.clone(), y.clone(), x - y);"
        ),
    ];
    let [one, other] = &heads;
    (format!("{one}\n{native}}}\n\n{other}\n{annotated}}}\n\n"), refusable)
}

/// Returns a file of programs, with a table of them.
pub fn file(seeds: Range<u64>) -> String {
    let (mut text, mut table) = (String::new(), String::new());
    for seed in seeds {
        let (program, refusable) = program(seed);
        text.push_str(&program);
        let forms = format!("native: native_{seed}, annotated: annotated_{seed}");
        let _ = writeln!(table, "    Program {{ seed: {seed}, refusable: {refusable}, {forms} }},");
    }
    format!("{text}/// Every program: its seed, and both forms.\nconst PROGRAMS: &[Program] = &[\n{table}];\n")
}

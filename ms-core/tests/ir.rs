//! File tests of graphs: `tests/ir/*.msir`.
//!
//! A file names passes in its first lines (`// pass: cse, dce`; `// pass: optimize` for the whole
//! pipeline; none to read, verify and print only), then holds a graph, and behind a line `// ----`
//! what comes out: a graph, or an error as comments. `MS_BLESS=1` writes what comes out into
//! the files. Whatever a pass makes of a graph is also evaluated, on operands with every kind
//! of special value, and has to give the same bits.

use ms_core::ir::Graph;
use ms_core::optimize::{Pass, PassContext, optimize, optimize_with, pass_by_name};
use ms_core::tensor::{Array, DType, Scalar};
use ms_core::{Code, Error, ops, with_element};
use std::fs;
use std::path::{Path, PathBuf};

const SEPARATOR: &str = "// ----\n";

#[test]
fn files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ir");
    let entries = fs::read_dir(&folder).expect("the folder of the files");
    let mut paths: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "msir"));
    paths.sort();
    assert!(!paths.is_empty(), "there are files");
    let bless = std::env::var_os("MS_BLESS").is_some_and(|it| it == "1");
    let mut failed = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("a file of text");
        let (input, want) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
        let got = match run(input) {
            Ok(graph) => graph.to_string(),
            Err(error) => error.to_string().lines().map(|line| format!("// {line}\n")).collect(),
        };
        if got.trim() == want.trim() {
            continue;
        }
        if bless {
            let blessed = format!("{}\n\n{SEPARATOR}{got}", input.trim_end());
            fs::write(&path, blessed).expect("the file can be written");
        } else {
            failed.push(format!("{}\nwanted:\n{}\ngot:\n{got}", path.display(), want.trim_start()));
        }
    }
    assert!(failed.is_empty(), "{}\n(MS_BLESS=1 accepts what comes out)", failed.join("\n"));
}

/// What the passes that a file names make of its graph.
fn run(text: &str) -> Result<Graph, Error> {
    let graph = ops::parse_graph(text)?;
    ops::verify(&graph)?;
    let setting = |name: &str| {
        let line =
            text.lines().take_while(|line| line.starts_with("//")).find_map(|line| line[2..].trim().strip_prefix(name));
        line.map(str::trim)
    };
    let mut context = PassContext::default();
    if let Some(limit) = setting("inline_limit:") {
        context.inline_limit = limit.parse().expect("a number");
    }
    let new = match setting("pass:") {
        None => graph.clone(),
        Some("optimize") => optimize(graph.clone(), &context),
        Some(names) => {
            let pass = |name: &str| {
                let unknown = || Error::new(Code::Argument, format!("there is no pass `{name}`"));
                pass_by_name(name.trim()).ok_or_else(unknown)
            };
            let passes: Vec<&dyn Pass> = names.split(',').map(pass).collect::<Result<_, _>>()?;
            // Once each: a file shows what one run does.
            context.rounds = 1;
            optimize_with(graph.clone(), &passes, &context).0
        }
    };
    ops::verify(&new)?;
    same_bits(&graph, &new);
    Ok(new)
}

/// Holds two graphs to the same outputs, bit for bit; any nan is as good as another.
fn same_bits(old: &Graph, new: &Graph) {
    for seed in 0..4 {
        let inputs: Vec<Array> = old
            .inputs()
            .iter()
            .enumerate()
            .map(|(i, &id)| {
                let ty = old.ty(id);
                operand(&ty.shape().expect("files hold constant shapes"), ty.dtype, seed + 7 * i)
            })
            .collect();
        let inputs: Vec<&Array> = inputs.iter().collect();
        let Ok(want) = ops::evaluate_graph(old, &inputs) else { continue };
        let got = ops::evaluate_graph(new, &inputs).expect("the new graph runs where the old one does");
        for (i, (want, got)) in want.iter().zip(&got).enumerate() {
            assert_eq!(want.ty(), got.ty(), "output {i} of\n{new}");
            for (want, got) in want.scalars().into_iter().zip(got.scalars()) {
                let nan = matches!((want, got), (Scalar::Float(a), Scalar::Float(b)) if a.is_nan() && b.is_nan());
                let same = want.as_f64().to_bits() == got.as_f64().to_bits() && want.as_i64() == got.as_i64();
                assert!(nan || same, "output {i} is {got}, not {want}:\n{old}\n{new}");
            }
        }
    }
}

/// An array of special values and some between them.
fn operand(shape: &[usize], dtype: DType, seed: usize) -> Array {
    const FLOATS: [f64; 13] =
        [-0.0, 0.0, 1.0, f64::INFINITY, -1.0, f64::NAN, 0.1, f64::NEG_INFINITY, 3e38, -1e-40, 2.5, -7.0, 65504.0];
    const INTS: [i64; 9] = [0, -1, 1, i64::MAX, i64::MIN, 2, 255, -128, 1 << 31];
    let mut out = Array::uninit(shape, dtype);
    with_element!(dtype, T => {
        for (i, to) in out.as_mut_slice::<T>().iter_mut().enumerate() {
            let scalar = if dtype.is_float() {
                Scalar::Float(FLOATS[(i * 5 + seed) % FLOATS.len()])
            } else {
                Scalar::Int(INTS[(i * 4 + seed) % INTS.len()])
            };
            *to = <T as ms_core::tensor::Element>::from_scalar(scalar);
        }
    });
    out
}

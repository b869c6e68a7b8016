//! Tests graphs against the files `tests/ir/*.msir`.
//!
//! The first lines of a file name the passes to run: `// pass: cse, dce`, or `// pass: optimize` for the whole
//! pipeline. Without such a line, the graph is only read, verified and printed. `// images: channels last` sets the
//! order of axes that the target of the pass `layout` prefers. Then follow a graph, a line `// ----`, and the expected
//! output: a graph, or an error as comments. `MS_BLESS=1` writes the actual output into the files.
//!
//! The result of every pass is also evaluated on operands with every kind of special value, and has to give the same
//! bits. Random graphs are tested in the same way.

use ms_core::ir::{Graph, Node, Type, ValueId};
use ms_core::ops::AxisOrder;
use ms_core::optimize::{Pass, PassContext, optimize, optimize_with, pass_by_name};
use ms_core::target::{Contracted, Images};
use ms_core::tensor::{Array, Attr, Attrs, DType, Literal, Scalar};
use ms_core::{Code, Error, ops, with_element};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Runs the passes that a file names on its graph.
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
    if let Some(order) = setting("images:") {
        let order = match order {
            "channels first" => AxisOrder::ChannelsFirst,
            "channels last" => AxisOrder::ChannelsLast,
            other => panic!("images are not `{other}`"),
        };
        context.images = Images { contracted: Contracted::All, order };
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
            // A file shows the effect of one run, so each pass runs once.
            context.rounds = 1;
            optimize_with(graph.clone(), &passes, &context).0
        }
    };
    ops::verify(&new)?;
    same_bits(&graph, &new);
    Ok(new)
}

/// Checks that two graphs have the same outputs bit for bit. All NaNs count as equal.
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
            for (want, got) in want
                .on_host()
                .expect("the elements are readable")
                .scalars()
                .into_iter()
                .zip(got.on_host().expect("the elements are readable").scalars())
            {
                let nan = matches!((want, got), (Scalar::Float(a), Scalar::Float(b)) if a.is_nan() && b.is_nan());
                let same = want.as_f64().to_bits() == got.as_f64().to_bits() && want.as_i64() == got.as_i64();
                assert!(nan || same, "output {i} is {got}, not {want}:\n{old}\n{new}");
            }
        }
    }
}

/// Returns an array of special values and of some values between them.
fn operand(shape: &[usize], dtype: DType, seed: usize) -> Array {
    const FLOATS: [f64; 13] =
        [-0.0, 0.0, 1.0, f64::INFINITY, -1.0, f64::NAN, 0.1, f64::NEG_INFINITY, 3e38, -1e-40, 2.5, -7.0, 65504.0];
    const INTS: [i64; 9] = [0, -1, 1, i64::MAX, i64::MIN, 2, 255, -128, 1 << 31];
    let mut out = Array::zeros(shape, dtype);
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

/// A generator of random numbers that depend on the seed only (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const OPS: [&str; 22] = [
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "abs",
    "relu",
    "sign",
    "maximum",
    "minimum",
    "select",
    "less",
    "logical_not",
    "reshape",
    "broadcast_to",
    "permute",
    "slice",
    "cast",
    "sum",
    "constant",
    "full",
    "call",
];

/// Builds a random graph of ops that passes rewrite, on operands that fit them.
fn random_graph(random: &mut Random, nodes: usize, callee: Option<&Arc<Graph>>) -> Graph {
    const DTYPES: [DType; 6] = [DType::F32, DType::F32, DType::I32, DType::Bool, DType::F16, DType::U8];
    const SHAPES: [&[usize]; 6] = [&[], &[2], &[2, 3], &[1, 3], &[3, 1, 2], &[0, 2]];
    let mut graph = Graph::new("random");
    for _ in 0..3 {
        graph.add_input(Type::of(random.pick(&DTYPES), random.pick(&SHAPES)));
    }
    for _ in 0..nodes {
        let value = |random: &mut Random, graph: &Graph| ValueId(random.below(graph.value_count()) as u32);
        let x = value(random, &graph);
        let shape: Vec<usize> = graph.ty(x).shape().expect("made of constants").to_vec();
        let name = random.pick(&OPS);
        let mut attrs = Vec::new();
        let mut inputs = vec![x];
        match name {
            "reshape" => {
                let numel: usize = shape.iter().product();
                let shapes = [vec![numel], vec![1, numel], vec![numel, 1], vec![2, numel / 2], shape];
                attrs.push(shapes[random.below(shapes.len())][..].into());
            }
            "broadcast_to" => {
                let mut to = shape.clone();
                to.iter_mut().filter(|it| **it == 1).for_each(|it| *it = random.pick(&[1, 4]));
                if random.below(2) == 0 && to.len() < 4 {
                    to.insert(0, random.pick(&[1, 2]));
                }
                attrs.push(to[..].into());
            }
            "permute" => {
                let mut axes: Vec<usize> = (0..shape.len()).collect();
                for i in (1..axes.len()).rev() {
                    axes.swap(i, random.below(i + 1));
                }
                attrs.push(axes[..].into());
            }
            "slice" => {
                let steps: Vec<i64> = shape.iter().map(|_| random.pick(&[1, -1])).collect();
                let backwards =
                    steps.iter().zip(&shape).map(|(&step, &size)| if step < 0 { size as i64 - 1 } else { 0 });
                let starts: Vec<i64> = backwards.map(|it| it.max(0)).collect();
                let sizes: Vec<usize> = shape.iter().map(|&size| size - random.below(2).min(size / 2)).collect();
                attrs.extend([starts[..].into(), sizes[..].into(), steps[..].into()]);
            }
            "cast" => attrs.push(random.pick(&DType::ALL).into()),
            "sum" => {
                let axes: Vec<usize> = (0..shape.len()).filter(|_| random.below(2) == 0).collect();
                attrs.extend([axes[..].into(), (random.below(2) == 0).into()]);
            }
            "constant" | "full" => {
                let dtype = random.pick(&DTYPES);
                let element = operand(&[], dtype, random.below(13));
                inputs.clear();
                if name == "full" {
                    attrs.extend([
                        Attr::Literal(Literal::from_array(&element).expect("the elements are readable")),
                        random.pick(&SHAPES).into(),
                    ]);
                } else {
                    let array = operand(random.pick(&SHAPES), dtype, random.below(13));
                    attrs.push(Attr::Literal(Literal::from_array(&array).expect("the elements are readable")));
                }
            }
            "call" => {
                let Some(callee) = callee else { continue };
                let fits = |&id: &ValueId| {
                    let mut same =
                        (0..graph.value_count() as u32).map(ValueId).filter(|&it| graph.ty(it) == callee.ty(id));
                    same.next_back()
                };
                let Some(all) = callee.inputs().iter().map(fits).collect::<Option<Vec<_>>>() else { continue };
                inputs = all;
            }
            "select" => inputs.extend([value(random, &graph), value(random, &graph)]),
            "neg" | "abs" | "relu" | "sign" | "logical_not" => {}
            // Equal operands fit each other more often than any two.
            _ => inputs.push(if random.below(4) == 0 { x } else { value(random, &graph) }),
        }
        let def = ops::by_name(name).expect("an op of this crate");
        let mut node = Node::new(def.op(), Attrs::new(attrs), inputs);
        if name == "call" {
            node.regions.extend(callee.cloned());
        }
        let types: Vec<&Type> = node.inputs.iter().map(|&id| graph.ty(id)).collect();
        if let Ok(types) = ops::infer(def, &node.attrs, &node.regions, &types) {
            graph.add_node(node, types);
        }
    }
    let outputs: Vec<_> = (0..4).map(|_| ValueId(random.below(graph.value_count()) as u32)).collect();
    graph.set_outputs(outputs);
    graph
}

#[test]
fn random_graphs_keep_their_bits() {
    let (mut before, mut after) = (0, 0);
    for seed in 1..=400u64 {
        let random = &mut Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let callee = Arc::new(random_graph(random, 10, None));
        let graph = random_graph(random, 60, Some(&callee));
        ops::verify(&graph).expect("random graphs hold");
        let new = optimize(graph.clone(), &PassContext::default());
        ops::verify(&new).expect("optimised graphs hold");
        same_bits(&graph, &new);
        let text = new.to_string();
        assert_eq!(ops::parse_graph(&text).expect(&text).to_string(), text);
        (before, after) = (before + graph.len(), after + new.len());
    }
    assert!(after * 2 < before, "{before} nodes, then {after}");
}

/// Builds a chain of many small layers that contain everything that passes look for.
fn large_graph(layers: usize) -> Graph {
    let text = "
        graph @layer(%x: f32[8, 16], %b: f32[16]) -> (f32[8, 16]) {
          %row = reshape %b {shape = [1, 16]} : f32[1, 16]
          %rows = broadcast_to %row {shape = [8, 16]} : f32[8, 16]
          %sum = add %x, %rows : f32[8, 16]
          %again = add %x, %rows : f32[8, 16]
          %one = constant {value = f32[](1)} : f32[]
          %two = add %one, %one : f32[]
          %same = mul %again, %one : f32[8, 16]
          %double = mul %sum, %two : f32[8, 16]
          %out = add %double, %same : f32[8, 16]
          %unused = neg %out : f32[8, 16]
          return %out
        }";
    let layer = ops::parse_graph(text).expect(text);
    let mut graph = Graph::new("large");
    let mut x = graph.add_input(Type::of(DType::F32, &[8, 16]));
    let b = graph.add_input(Type::of(DType::F32, &[16]));
    for _ in 0..layers {
        let mut map = vec![x, b];
        for (_, node) in layer.nodes() {
            let inputs = node.inputs.iter().map(|id| map[id.0 as usize]).collect();
            let types: Vec<_> = node.outputs.iter().map(|&id| layer.ty(id).clone()).collect();
            let id = graph.add_node(Node { inputs, ..node.clone() }, types);
            map.push(graph.node(id).outputs[0]);
        }
        x = map[layer.outputs()[0].0 as usize];
    }
    graph.set_outputs([x]);
    graph
}

#[test]
fn large_graphs_are_optimised_in_no_time() {
    // Depth is not a problem in either build. The time matters only where code is optimised.
    let layers = if cfg!(debug_assertions) { 2_000 } else { 13_500 };
    let run = || {
        let graph = large_graph(layers);
        let start = Instant::now();
        let (graph, report) = optimize_with(graph, ms_core::optimize::PASSES, &PassContext::default());
        assert_eq!(graph.len(), 3 * layers + 1);
        (start.elapsed(), report.to_string())
    };
    // Takes the fastest of a few runs, since other work of the machine slows down the rest.
    let runs = if cfg!(debug_assertions) { 1 } else { 5 };
    let (time, report) = (0..runs).map(|_| run()).min().expect("at least one run");
    println!("{time:?}\n{report}");
    assert!(cfg!(debug_assertions) || time < Duration::from_secs(1), "{time:?}\n{report}");
}

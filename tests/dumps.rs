//! Tests compile reports, and graphs saved as files.

#[path = "common/gpt.rs"]
mod gpt;

use gpt::lazy;
use ms::prelude::*;
use std::collections::HashMap;
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
    // Each run has another number of tokens, so that it is compiled.
    let run = |level: u8, passes: &[&str]| {
        let net = lazy::Gpt::new(3, 7, 8);
        let tokens = random::randint([1, 2 + level as usize], 0, 7);
        ms::with_context(context(level, passes), || forward(&net, &tokens));
    };

    run(0, &[]);
    let report = ms::compile_report().into_iter().rev().find(|it| it.name == "forward").expect("it was compiled");
    let stages: Vec<&str> = report.stages.iter().map(|it| it.name).collect();
    assert_eq!(stages, ["trace", "effects", "key", "expand", "optimize", "compile", "load"]);
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
    ops::softmax(x, 0) + ops::sum(x, keepdims(0))
}

/// The report includes the time of compiling further sizes, and omits stages that are not repeated.
#[test]
fn reports_of_further_sizes() {
    let stages = |n: usize| -> Vec<&str> {
        sized(&Tensor::ones([n, 3]));
        let report = ms::compile_report().into_iter().rev().find(|it| it.name == "sized").expect("just compiled");
        report.stages.iter().map(|it| it.name).collect()
    };
    let first = ["trace", "effects", "key", "sizes", "expand", "sizes", "optimize", "specialize", "compile", "load"];
    assert_eq!(stages(4), first);
    for n in [5, 9] {
        assert_eq!(stages(n), ["sizes", "sizes", "specialize", "compile", "load"]);
    }
}

#[jit]
fn compiled_on_its_thread(x: &Tensor) -> Tensor {
    x * 2.0
}

/// A compilation is reported to the thread that compiled.
#[test]
fn compilations_are_reported_to_their_thread() {
    let told = |n: usize| {
        compiled_on_its_thread(&Tensor::ones([n]));
        ms::compile_report().iter().filter(|it| it.name == "compiled_on_its_thread").count()
    };
    assert_eq!(told(1), 1);
    std::thread::scope(|scope| assert_eq!(scope.spawn(|| told(2)).join().expect("nothing is refused"), 1));
    assert_eq!((told(2), told(3)), (1, 2));
}

#[jit]
fn train_step(opt: &Adam, net: &lazy::Gpt, tokens: &Tensor) -> Tensor {
    let loss =
        |net: &lazy::Gpt, tokens: &Tensor| ops::cross_entropy(net.call(tokens).reshape([-1, 7]), tokens.reshape([-1]));
    let (loss, gradients) = ms::value_and_grad(loss)(net, tokens);
    opt.update(&gradients);
    loss
}

/// Composites are also nodes in the gradients of a network, until the graph is optimised for a target for which they
/// are not legal.
#[test]
fn composites_are_nodes_after_differentiation() {
    let files = dumped("train_step", 1, || {
        let net = lazy::Gpt::new(2, 7, 8);
        let opt = Adam::new(0.1);
        opt.prepare(&net.trainable_parameters());
        train_step(&opt, &net, &random::randint([2, 3], 0, 7));
    });
    let find = |stage: &str| files.iter().find(|it| it.0.ends_with(stage)).expect("every stage is written").1;
    let composites =
        ["layer_norm", "dense", "scaled_dot_product_attention", "gelu", "cross_entropy", "embedding", "adam_update"];
    for name in composites {
        let is_node = |stage: &str| find(stage).contains(&format!(" = {name} "));
        assert!(is_node("00_trace.msir"), "{name} in\n{}", find("00_trace.msir"));
        assert!(is_node("_expand.msir"), "{name} in\n{}", find("_expand.msir"));
        assert!(!is_node("_optimize.msir"), "{name} in\n{}", find("_optimize.msir"));
    }
}

#[cell]
struct Mlp {
    fc1: nn::Dense,
    fc2: nn::Dense,
}

#[cell]
impl Mlp {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc2(&ops::relu(self.fc1(x)))
    }
}

impl Mlp {
    fn small() -> Self {
        Self { fc1: nn::Dense::new(4, 3), fc2: nn::Dense::new(3, 2) }
    }
}

#[jit]
fn classify(net: &Mlp, x: &Tensor) -> Tensor {
    net.call(x)
}

/// Returns the files of the compilation of `name` that `run` causes, by name.
fn dumped(name: &str, level: u8, run: impl FnOnce()) -> HashMap<String, String> {
    let folder = std::env::temp_dir().join(format!("ms-dumps-{}-{name}", std::process::id()));
    let settings = Context {
        save_graphs: level,
        save_graphs_path: Some(folder.clone()),
        save_graphs_passes: vec![],
        ..ms::context()
    };
    ms::with_context(settings, run);
    let found = files(&folder).into_iter().find(|it| it.ends_with(&format!("_{name}"))).expect("it was compiled");
    let place = folder.join(found);
    let read = |it: String| (it.clone(), std::fs::read_to_string(place.join(it)).expect("it was written"));
    let all = files(&place).into_iter().map(read).collect();
    std::fs::remove_dir_all(&folder).expect("it was made here");
    all
}

/// Returns the first line of each graph of a text, without types.
fn heads(text: &str) -> Vec<String> {
    let head = |line: &str| {
        let (inputs, _) = line.strip_prefix("graph ")?.split_once(") -> ")?;
        let (name, inputs) = inputs.split_once('(')?;
        let inputs: Vec<&str> = inputs.split('%').skip(1).filter_map(|it| Some(it.split_once(": ")?.0)).collect();
        Some(format!("{name}({})", inputs.join(", ")))
    };
    text.lines().filter_map(head).collect()
}

#[test]
fn parameters_and_arguments_have_their_names() {
    let files = dumped("classify", 3, || drop(classify(&Mlp::small(), &Tensor::ones([5, 4]))));
    let want = "\
graph @classify(%x: f32[5, 4], %fc1.bias: f32[3], %fc1.weight: f32[3, 4], %fc2.bias: f32[2], %fc2.weight: f32[2, 3]) -> (f32[5, 2]) {
  %5 = dense %x, %fc1.weight, %fc1.bias : f32[5, 3]
  %6 = relu %5 : f32[5, 3]
  %7 = dense %6, %fc2.weight, %fc2.bias : f32[5, 2]
  return %7
}
";
    assert_eq!(files["00_trace.msir"], want);
    assert!(files["00_trace.dot"].contains("label = \"%fc1.weight: f32[3, 4]\""), "{}", files["00_trace.dot"]);
    assert!(files["00_trace.html"].contains("[\"%fc1.weight\",\"f32[3, 4]\""), "the page names it");
    let plan = files.iter().find(|it| it.0.ends_with("_plan.txt")).expect("from level 2 on").1;
    let inputs: Vec<&str> = plan.lines().filter(|it| it.contains("= input ")).collect();
    let want = [
        "  b0 = input 0 %x, 80 bytes",
        "  b1 = input 2 %fc1.weight, 48 bytes",
        "  b3 = input 1 %fc1.bias, 12 bytes",
        "  b5 = input 4 %fc2.weight, 24 bytes",
        "  b7 = input 3 %fc2.bias, 8 bytes",
    ];
    assert_eq!(inputs, want);
    for (name, text) in files.iter().filter(|it| it.0.ends_with(".msir")) {
        let named = ["%x: ", "%fc1.weight: ", "%fc1.bias: ", "%fc2.weight: ", "%fc2.bias: "];
        assert!(named.iter().all(|it| text.contains(it)), "{name}: {text}");
    }
}

#[cell]
struct Deep {
    blocks: Vec<Mlp>,
}

#[cell]
impl Deep {
    fn construct(&self, x: &Tensor, scale: (Tensor, Tensor)) -> Tensor {
        let y = self.blocks.iter().fold(x * &scale.0, |x, block| wide(block, &x));
        y * &scale.1
    }
}

#[no_inline]
fn wide(block: &Mlp, h: &Tensor) -> Tensor {
    h + ops::sum(block.call(h), keepdims(-1))
}

#[jit]
fn deep(net: &Deep, x: &Tensor, scale: (Tensor, Tensor)) -> Tensor {
    net.call(x, scale)
}

/// Equal calls share a graph. Names of its parameters start at the call.
#[test]
fn a_shared_graph_has_names_of_its_own() {
    let files = dumped("deep", 2, || {
        let net = Deep { blocks: vec![Mlp::small(), Mlp::small()] };
        drop(deep(&net, &Tensor::ones([5, 4]), (Tensor::ones([4]), Tensor::ones([4]))));
    });
    let routine = "@wide(h, fc1.bias, fc1.weight, fc2.bias, fc2.weight)";
    let blocks = ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"].map(|it| format!("blocks[0].{it}"));
    let blocks = [blocks.join(", "), blocks.join(", ").replace("[0]", "[1]")].join(", ");
    let main = format!("@deep(x, scale[0], scale[1], {blocks})");
    for stage in ["00_trace", "03_optimize"] {
        assert_eq!(heads(&files[&format!("{stage}.msir")]), [routine, &main], "{stage}");
    }
    let plan = &files["04_plan.txt"];
    assert_eq!(plan.lines().filter(|it| it.contains("= input ") && it.contains("%fc1.weight,")).count(), 1, "{plan}");
}

#[derive(Clone, Tree)]
struct Hidden {
    h: Tensor,
    parts: Vec<Tensor>,
}

#[jit]
fn arguments(batch: (Tensor, Tensor), state: Hidden, w: &Parameter, by: f64) -> Tensor {
    let mut sum = &batch.0 * &w.value() + &state.h * by;
    while ops::sum(&sum, ()).lt(10.0) {
        sum = sum * &batch.1 + &state.parts[1];
    }
    sum
}

#[test]
fn arguments_are_named_by_their_paths() {
    let files = dumped("arguments", 1, || {
        let ones = || Tensor::ones([2]);
        let state = Hidden { h: ones(), parts: vec![ones(), ones()] };
        drop(arguments((ones(), ones()), state, &Parameter::new(ones(), ""), 2.0));
    });
    let want = [
        "@condition(sum, batch[1], state.parts[1])",
        "@body(sum, batch[1], state.parts[1])",
        "@arguments(batch[0], batch[1], state.h, state.parts[0], state.parts[1], w)",
    ];
    assert_eq!(heads(&files["00_trace.msir"]), want);
}

#[jit]
fn gradient(net: &Deep, x: &Tensor, scale: (Tensor, Tensor)) -> Tensor {
    ms::grad(|x: &Tensor| ops::mean(net.call(x, scale.clone()), ()))(x)
}

#[jit]
fn lanes(net: &Mlp, xs: &Tensor, limit: &Tensor) -> Tensor {
    let one = |x: &Tensor, limit: &Tensor| {
        let mut sum = net.call(x);
        while ops::sum(&sum, ()).lt(limit) {
            sum = sum + 1.0;
        }
        sum
    };
    ms::vmap(one).in_axes((Some(0), None))(xs, limit)
}

#[no_inline]
fn until(layer: &nn::Dense, h: &Tensor, limit: &Tensor) -> Tensor {
    let mut sum = layer.call(h);
    while ops::sum(&sum, ()).lt(limit) {
        sum = layer.call(&sum) + h;
    }
    sum
}

#[jit]
fn loops(layer: &nn::Dense, x: &Tensor, limit: &Tensor) -> Tensor {
    until(layer, x, limit)
}

#[jit(dims(x = [n, _]))]
fn sizes(net: &Mlp, x: &Tensor) -> Tensor {
    net.call(x)
}

/// Transforms keep the names of their graphs' parameters. Inputs that they add have no names.
#[test]
fn names_outlive_transforms() {
    let deep = || Deep { blocks: vec![Mlp::small(), Mlp::small()] };
    let ones = || Tensor::ones([4]);
    let two = |x: Tensor| (x.clone(), x);
    type Run<'a> = &'a dyn Fn();
    let cases: [(&str, Run<'_>, &[&str], &[&str]); 5] = [
        (
            "gradient",
            &|| drop(gradient(&deep(), &Tensor::ones([5, 4]), two(ones()))),
            &[
                "@wide(h, fc1.bias, fc1.weight, fc2.bias, fc2.weight)",
                "@grad(x, scale[0], blocks[0].fc1.bias, blocks[0].fc1.weight, blocks[0].fc2.bias, blocks[0].fc2.weight, \
                 blocks[1].fc1.bias, blocks[1].fc1.weight, blocks[1].fc2.bias, blocks[1].fc2.weight)",
                "@gradient(x, scale[0], scale[1], blocks[0].fc1.bias, blocks[0].fc1.weight, blocks[0].fc2.bias, \
                 blocks[0].fc2.weight, blocks[1].fc1.bias, blocks[1].fc1.weight, blocks[1].fc2.bias, blocks[1].fc2.weight)",
            ],
            &[
                "@wide(h, fc1.bias, fc1.weight, fc2.bias, fc2.weight)",
                "@wide_backward(fc1.weight, fc2.weight, 2, 3)",
                "@gradient(x, scale[0], scale[1], blocks[0].fc1.bias, blocks[0].fc1.weight, blocks[0].fc2.bias, \
                 blocks[0].fc2.weight, blocks[1].fc1.bias, blocks[1].fc1.weight, blocks[1].fc2.bias, blocks[1].fc2.weight)",
            ],
        ),
        (
            "lanes",
            &|| drop(lanes(&Mlp::small(), &Tensor::ones([5, 4]), &Tensor::scalar(1.0))),
            &[
                "@condition(sum, limit)",
                "@body(sum, limit)",
                "@vmap(xs, fc1.bias, fc1.weight, fc2.bias, fc2.weight, limit)",
                "@lanes(xs, limit, fc1.bias, fc1.weight, fc2.bias, fc2.weight)",
            ],
            &[
                "@condition(0, sum, limit)",
                "@body(0, sum, limit)",
                "@lanes(xs, limit, fc1.bias, fc1.weight, fc2.bias, fc2.weight)",
            ],
        ),
        (
            "loops",
            &|| drop(loops(&nn::Dense::new(4, 4), &Tensor::ones([5, 4]), &Tensor::scalar(1.0))),
            &[
                "@condition(sum, limit, bias, weight, h)",
                "@body(sum, limit, bias, weight, h)",
                "@until(h, bias, weight, limit)",
                "@loops(x, limit, bias, weight)",
            ],
            &[
                "@condition(sum, limit, bias, weight, h)",
                "@body(sum, limit, bias, weight, h)",
                "@until(h, bias, weight, limit)",
                "@loops(x, limit, bias, weight)",
            ],
        ),
        (
            "sizes",
            &|| drop(sizes(&Mlp::small(), &Tensor::ones([5, 4]))),
            &["@sizes(x, fc1.bias, fc1.weight, fc2.bias, fc2.weight)"],
            &["@sizes(x, fc1.bias, fc1.weight, fc2.bias, fc2.weight)"],
        ),
        (
            "Optimizer__step",
            &|| {
                let (net, batch) = (Mlp::small(), (Tensor::ones([5, 4]), Tensor::ones([5, 2])));
                SGD::new(0.1).momentum(0.5).step(&net, &batch, |net, (x, y)| ops::mse_loss(net.call(x), y));
            },
            &[
                "@grad(fc1.weight, fc1.bias, fc2.weight, fc2.bias, batch[0], batch[1])",
                "@\"Optimizer::step\"(batch[0], batch[1], fc1.weight, fc1.bias, fc2.weight, fc2.bias, rate, momentum, \
                 velocity[0], velocity[1], velocity[2], velocity[3])",
            ],
            &["@\"Optimizer::step\"(batch[0], batch[1], fc1.weight, fc1.bias, fc2.weight, fc2.bias, rate, momentum, \
                 velocity[0], velocity[1], velocity[2], velocity[3])"],
        ),
    ];
    for (name, run, traced, optimized) in cases {
        let files = dumped(name, 1, run);
        let find = |stage: &str| files.iter().find(|it| it.0.ends_with(stage)).expect("every stage is written").1;
        assert_eq!(heads(find("00_trace.msir")), traced, "{name}");
        assert_eq!(heads(find("_optimize.msir")), optimized, "{name}");
    }
}

#[jit]
fn of_x(x: &Tensor) -> Tensor {
    ops::sqrt(x * 3.0) + 0.125
}

#[jit]
fn of_y(y: &Tensor) -> Tensor {
    ops::sqrt(y * 3.0) + 0.125
}

/// Functions with equal graphs are compiled once, whatever the names of their arguments.
#[test]
fn names_are_no_part_of_a_graph() {
    let x = Tensor::ones([11]);
    assert_eq!(of_x(&x).to_vec::<f32>(), of_y(&x).to_vec::<f32>());
    let compiled: Vec<String> = ms::compile_report().into_iter().map(|it| it.name).collect();
    assert_eq!(compiled.iter().filter(|it| it.starts_with("of_")).collect::<Vec<_>>(), ["of_x"]);
}

//! Tests convolutions as contractions and channels-last (NHWC) activations against the bits of the library's loops.

use ms_compile::exec::{Backend, CompileOptions};
use ms_compile::lower::{LowerOptions, Plan, PlanStep, lower};
use ms_compile::target::{Contracted, Images};
use ms_compile::target::{EpilogueSupport, Producers, Target};
use ms_core::optimize::{PassContext, optimize};
use ms_core::trace::build;
use ms_core::transform::value_and_grad;
use ms_cpu::{CpuBackend, Isa, TARGET};
use ms_ir::{Graph, Node, Precision, Type};
use ms_ops::ops::{self, AxisOrder, CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD, OpDef, by_name, infer, parse_graph};
use ms_ops::tensor::{Array, Attr, Attrs, DType, Op, Scalar, Tensor, apply1};

type Random = ms_ir::testing::Random<'static>;

/// Returns numbers of both signs and many magnitudes. With `special`, they include zeros of both signs, infinities and
/// NaNs.
fn array(random: &mut Random, ty: &Type, special: bool) -> Array {
    const SPECIAL: [f32; 5] = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let shape = ty.shape().expect("the dimensions are constants");
    let mut number = || match random.below(if special { 24 } else { 12 }) {
        at @ 12..17 => SPECIAL[at - 12],
        0 => -0.0,
        _ => (random.below(4001) as f32 / 1000.0 - 2.0) * [1.0, 1e-3, 1e3][random.below(3)],
    };
    let array = Array::from_slice(&shape, &(0..shape.iter().product()).map(|_| number()).collect::<Vec<f32>>());
    let cast = by_name("cast").expect("cast is a primitive");
    (cast.eval)(&Attrs::new([ty.dtype.into()]), &[&array]).expect("anything casts").remove(0)
}

const SETTINGS: [Images; 3] = [
    Images { contracted: Contracted::Patches, order: AxisOrder::ChannelsFirst },
    Images { contracted: Contracted::All, order: AxisOrder::ChannelsFirst },
    Images { contracted: Contracted::All, order: AxisOrder::ChannelsLast },
];

fn plan(graph: &Graph, images: Images, precision: Precision) -> Plan {
    let graph = optimize(graph.clone(), &PassContext { images, precision, ..PassContext::default() });
    let options = LowerOptions { precision, ..LowerOptions::default() };
    lower(&graph, &options, &TARGET).unwrap_or_else(|error| panic!("{error}\n{graph}"))
}

fn run(plan: &Plan, isa: Isa, inputs: &[Array]) -> Vec<Array> {
    let backend = CpuBackend::with_isa(isa).expect("the instruction set is one of this machine");
    let options = CompileOptions::default();
    let artifact = backend.compile_plan(plan.clone(), &options).expect("the plan compiles");
    // SAFETY: the plan was lowered from a valid graph by `lower`.
    let executable = unsafe { backend.load(&artifact) }.expect("the artifact is the backend's");
    let outputs = executable.run(&inputs.iter().collect::<Vec<_>>());
    outputs.unwrap_or_else(|error| panic!("{error}\n{}", plan.display())).into_vec()
}

/// Returns the bits of the elements. All NaNs count as equal.
fn bits(array: &Array) -> Vec<u64> {
    let scalars = array.on_host().expect("the elements are readable").scalars();
    scalars.into_iter().map(|it| it.as_f64()).map(|it| if it.is_nan() { 0 } else { it.to_bits() }).collect()
}

/// Runs a graph in strict precision with every setting and instruction set. Compares the results with the library's,
/// and returns the plans.
fn check(graph: &Graph, seed: u64) -> Vec<Plan> {
    let mut random = Random::Seed(seed);
    let inputs: Vec<Array> =
        graph.inputs().iter().map(|&it| array(&mut random, graph.ty(it), seed.is_multiple_of(4))).collect();
    let library = plan(graph, Images::default(), Precision::Strict);
    let want: Vec<Vec<u64>> = run(&library, Isa::detect(), &inputs).iter().map(bits).collect();
    let plans: Vec<Plan> = SETTINGS.map(|it| plan(graph, it, Precision::Strict)).into();
    for plan in &plans {
        for isa in Isa::ALL.iter().copied().filter(|it| it.is_supported()) {
            for (at, (got, want)) in run(plan, isa, &inputs).iter().zip(&want).enumerate() {
                let got = bits(got);
                let differs = got.iter().zip(want).position(|(a, b)| a != b);
                let [a, b] = [&got, want].map(|it| differs.map_or(0.0, |at| f64::from_bits(it[at])));
                assert!(
                    differs.is_none(),
                    "output {at}: {a:e}, not {b:e}, on {isa}, seed {seed}\n{graph}\n{}",
                    plan.display()
                );
            }
        }
    }
    plans
}

/// Counts the steps of a plan that are the library op `op`, and those that are contractions.
fn steps(plan: &Plan, op: Op) -> [usize; 2] {
    let count = |of: &dyn Fn(&PlanStep) -> bool| plan.main().steps.iter().filter(|it| of(it)).count();
    [
        count(&|it| matches!(it, PlanStep::Library { op: own, .. } if **own == op)),
        count(&|it| matches!(it, PlanStep::Contraction(_))),
    ]
}

/// A convolution over one to three spatial axes.
#[derive(Clone, Debug)]
struct Case {
    batch: usize,
    groups: usize,
    /// The number of input channels of a group.
    channels: usize,
    /// The number of output channels of a group.
    outputs: usize,
    /// For each spatial axis: size, kernel size, stride, dilation, and padding before and after.
    axes: Vec<[usize; 6]>,
}

impl Case {
    fn random(random: &mut Random) -> Self {
        let axis = |random: &mut Random| {
            let (kernel, dilation) = (1 + random.below(4), 1 + random.below(3));
            let (before, after) = (random.below(4), random.below(4));
            let reach = (kernel - 1) * dilation + 1;
            let size = reach.saturating_sub(before + after).max(1) + random.below(7);
            [size, kernel, 1 + random.below(3), dilation, before, after]
        };
        let rank = [2, 2, 1, 3][random.below(4)];
        Self {
            batch: 1 + random.below(3),
            groups: [1, 1, 2, 3][random.below(4)],
            channels: 1 + random.below(4),
            outputs: 1 + random.below(4),
            axes: (0..rank).map(|_| axis(random)).collect(),
        }
    }

    /// Builds a graph of one of the three convolution ops.
    fn graph(&self, def: &'static OpDef, dtype: DType) -> Graph {
        let list = |at: usize| self.axes.iter().map(|it| it[at]).collect::<Vec<usize>>();
        let (sizes, kernel) = (list(0), list(1));
        let counts = self.axes.iter().map(|[size, kernel, stride, dilation, before, after]| {
            (size + before + after - (kernel - 1) * dilation - 1) / stride + 1
        });
        let of = |n: usize, c: usize, rest: &[usize]| [&[n, c], rest].concat();
        let x = of(self.batch, self.groups * self.channels, &sizes);
        let w = of(self.groups * self.outputs, self.channels, &kernel);
        let y = of(self.batch, self.groups * self.outputs, &counts.collect::<Vec<_>>());
        let (operands, extra) = match def.op() {
            it if it == CONV.op() => ([x, w], None),
            it if it == CONV_INPUT_GRAD.op() => ([y, w], Some(sizes)),
            _ => ([x, y], Some(kernel)),
        };
        let lists = [2, 3, 4, 5].map(|at| Attr::from(&list(at)[..]));
        let extra = extra.map(|it| Attr::from(&it[..]));
        let attrs = Attrs::new(lists.into_iter().chain([self.groups.into()]).chain(extra));
        let types = operands.map(|it| Type::of(dtype, &it));
        let mut graph = Graph::new(def.name());
        let inputs = types.clone().map(|it| graph.add_input(it));
        let results =
            infer(def, &attrs, &[], &[&types[0], &types[1]]).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        let id = graph.add_node(Node::new(def.op(), attrs, inputs), results);
        let outputs = graph.node(id).outputs.clone();
        graph.set_outputs(outputs);
        graph
    }
}

const OPS: [&OpDef; 3] = [&CONV, &CONV_INPUT_GRAD, &CONV_WEIGHT_GRAD];

fn check_case(case: &Case, dtype: DType, seed: u64) {
    for def in OPS {
        let plans = check(&case.graph(def, dtype), seed);
        for plan in &plans[1..] {
            assert_eq!(steps(plan, def.op()), [0, 1], "{}", plan.display());
        }
    }
}

#[test]
fn random_convolutions_have_the_bits_of_the_library() {
    let mut random = Random::Seed(7);
    for seed in 0..150 {
        let dtype = [DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16][seed % 5];
        check_case(&Case::random(&mut random), dtype, seed as u64);
    }
}

/// Elementwise kernels that read the result of a convolution and other inputs.
const FOLLOWERS: [fn(&Tensor, &[Tensor]) -> Tensor; 4] = [
    |y, _| ops::relu(y),
    |y, it| ops::relu(ops::add(ops::mul(y, &it[2]), it[3].cast(y.dtype()))),
    |y, it| ops::cast(ops::mul(ops::tanh(y), &it[2]), DType::BF16),
    |y, it| ops::add(ops::mul(y, y), ops::greater(it[3].cast(y.dtype()), y).cast(y.dtype())),
];

/// Epilogues of convolutions run on tiles of the result, with the bits of separate steps. This covers every convolution
/// algorithm, and epilogues that overwrite the result that they read.
#[test]
fn epilogues_have_the_bits_of_kernels() {
    // The cases are small, depthwise, tiled, with windows over several images, with im2col, pointwise, and with one and
    // three axes.
    let same = |size: usize| [size, 3, 1, 1, 1, 1];
    let of = |[batch, groups, channels, outputs]: [usize; 4], axes: Vec<[usize; 6]>| Case {
        batch,
        groups,
        channels,
        outputs,
        axes,
    };
    let cases = [
        of([2, 4, 3, 5], vec![same(9); 2]),
        of([2, 9, 1, 1], vec![[11, 3, 1, 1, 1, 2]; 2]),
        of([1, 1, 16, 30], vec![same(40); 2]),
        of([1, 1, 64, 70], vec![same(7); 2]),
        of([2, 1, 8, 16], vec![[40, 3, 2, 1, 1, 1]; 2]),
        of([9, 1, 40, 24], vec![same(3); 2]),
        of([2, 2, 4, 3], vec![[30, 3, 3, 4, 2, 1]; 2]),
        of([3, 1, 20, 33], vec![[12, 1, 1, 1, 0, 0]; 2]),
        of([3, 1, 5, 6], vec![[70, 4, 1, 2, 3, 3]]),
        of([1, 1, 4, 9], vec![same(8); 3]),
        of([2, 1, 2, 3], vec![[1, 3, 1, 1, 1, 1]; 2]),
    ];
    static ALL: &[EpilogueSupport] =
        &[EpilogueSupport { producers: Producers::Library(&[CONV.op()]), ..EpilogueSupport::ELEMENTWISE }];
    for (seed, case) in cases.iter().enumerate() {
        for (dtype, follow) in FOLLOWERS.iter().enumerate().map(|(at, it)| ([DType::F32, DType::F64][at % 2], it)) {
            let conv = case.graph(&CONV, dtype);
            let [x, w] = [0, 1].map(|it| conv.ty(conv.inputs()[it]).clone());
            let node = conv.nodes().next().expect("it has a node").1.clone();
            let y = conv.ty(conv.outputs()[0]).clone();
            let scale = Type::new(
                dtype,
                y.dims.iter().enumerate().map(|(at, &it)| if at == 1 { it } else { 1.into() }).collect(),
            );
            // A result that is computed in place of an input is not written while a step may fail.
            let types = [x, w, scale, Type::new(DType::I8, y.dims)];
            let graph = build("f", &types, |inputs| {
                let y = apply1(CONV.op(), &node.attrs, &[&inputs[0], &inputs[1]]);
                Ok(vec![follow(&y, inputs)])
            });
            let graph = graph.expect("the shapes fit");
            let mut random = Random::Seed(seed as u64);
            let inputs: Vec<Array> = types.iter().map(|it| array(&mut random, it, seed == 4)).collect();
            for precision in [Precision::Strict, Precision::Highest, Precision::Medium] {
                let [with, without] = [ALL, &[]].map(|epilogues| {
                    let target = Target { epilogues, ..TARGET.clone() };
                    lower(&graph, &LowerOptions { precision, ..LowerOptions::default() }, &target).expect("it lowers")
                });
                let count = |plan: &Plan| plan.main().steps.iter().map(epilogues).sum::<usize>();
                assert_eq!([&with, &without].map(count), [1, 0], "{}", with.display());
                for isa in Isa::ALL.iter().copied().filter(|it| it.is_supported()) {
                    let [got, want] = [&with, &without].map(|it| bits(&run(it, isa, &inputs)[0]));
                    assert!(got == want, "{case:?} on {isa} in {precision}\n{}", with.display());
                }
            }
        }
    }
}

/// Returns the number of epilogues of a library step.
fn epilogues(step: &PlanStep) -> usize {
    if let PlanStep::Library { epilogues, .. } = step { epilogues.len() } else { 0 }
}

/// Covers reduction dimensions beyond one accumulation chain, and kernels with more taps than a planned kernel has
/// operands.
#[test]
fn long_sums_have_the_bits_of_the_library() {
    let plain = Case { batch: 1, groups: 1, channels: 2, outputs: 2, axes: vec![[5, 3, 1, 1, 1, 1]; 2] };
    let cases = [
        Case { channels: 260, ..plain.clone() },
        Case { outputs: 1030, axes: vec![[3, 2, 1, 1, 0, 0]; 2], ..plain.clone() },
        Case { batch: 5, axes: vec![[18, 3, 1, 1, 1, 1]; 2], ..plain.clone() },
        Case { axes: vec![[13, 11, 4, 1, 2, 2]; 2], ..plain.clone() },
        Case { axes: vec![[5, 4, 1, 1, 1, 2]; 3], ..plain.clone() },
        // Several taps reach an input of one element.
        Case { axes: vec![[1, 3, 1, 1, 2, 2]; 2], ..plain },
    ];
    for (seed, case) in cases.iter().enumerate() {
        check_case(case, DType::F32, 1 + seed as u64);
    }
}

/// Only windows that tile the input, or that are single elements, become patches.
#[test]
fn patches_are_contractions_on_the_cpu() {
    let plain = Case { batch: 2, groups: 1, channels: 3, outputs: 2, axes: vec![[6, 2, 2, 1, 0, 0]; 2] };
    let single = [6, 1, 2, 1, 0, 0];
    for (case, is_contraction) in [
        (plain.clone(), true),
        (Case { axes: vec![single; 2], ..plain.clone() }, true),
        (Case { axes: vec![single, [7, 2, 2, 1, 0, 0]], ..plain.clone() }, true),
        (Case { axes: vec![[6, 2, 1, 1, 0, 0]; 2], ..plain.clone() }, false),
        (Case { axes: vec![[6, 2, 2, 2, 0, 0]; 2], ..plain.clone() }, false),
        (Case { axes: vec![[6, 2, 2, 1, 1, 1]; 2], ..plain.clone() }, false),
        (Case { groups: 2, ..plain }, false),
    ] {
        let graph = case.graph(&CONV, DType::F32);
        let steps = steps(&plan(&graph, TARGET.images, Precision::Highest), CONV.op());
        assert_eq!(steps, [usize::from(!is_contraction), usize::from(is_contraction)], "{case:?}");
    }
}

/// The derivatives of first and second order of every image op have the bits of the library.
#[test]
fn derivatives_have_the_bits_of_the_library() {
    let names =
        ["conv", "conv_input_grad", "conv_weight_grad", "conv_bias", "max_pool", "avg_pool", "adaptive_avg_pool"];
    for (seed, def) in names.iter().map(|it| by_name(it).expect("an op")).enumerate() {
        for (at, sample) in (def.samples)().iter().enumerate() {
            let operands = sample.inputs.len();
            let types: Vec<Type> = sample.inputs.iter().map(|it| Type::of(it.dtype, &it.shape)).collect();
            // Pooling prefers a layout only next to a convolution.
            let graph = build("f", &types, |inputs| {
                let x = convolved(&inputs[0]);
                let inputs: Vec<&Tensor> = std::iter::once(&x).chain(&inputs[1..]).collect();
                Ok(vec![convolved(&apply1(def.op(), &sample.attrs, &inputs))])
            });
            let graph = graph.expect("a sample fits");
            let wrt: Vec<usize> = (0..operands).collect();
            let first = value_and_grad(&graph, &wrt, 1, true, true).expect("it has a derivative");
            let wrt: Vec<usize> = (0..first.inputs().len()).collect();
            let second = value_and_grad(&first, &wrt, first.outputs().len(), true, true).expect("it has a derivative");
            for graph in [&first, &second] {
                check(graph, (13 * seed + 2 * at) as u64 | 1);
            }
        }
    }
}

/// Applies a depthwise convolution with one weight for all channels.
fn convolved(x: &Tensor) -> Tensor {
    let (shape, spatial) = (x.shape(), x.shape().len() - 2);
    let weight = ops::full_of([&[shape[1], 1], &vec![1; spatial][..]].concat(), Scalar::Float(0.5), x.dtype());
    ops::conv(x, weight, None, &ops::ConvOptions::new(spatial).groups(shape[1]))
}

/// Covers networks of random image ops, and their gradients.
#[test]
fn random_networks_have_the_bits_of_the_library() {
    let (mut random, mut moved) = (Random::Seed(11), 0);
    for seed in 0..40 {
        let graph = network(&mut random);
        let wrt: Vec<usize> = (0..graph.inputs().len()).collect();
        let gradients = value_and_grad(&graph, &wrt, graph.outputs().len(), true, true).expect("it has a derivative");
        for graph in [&graph, &gradients] {
            check(graph, 2 * seed + 1);
            let last = PassContext { images: SETTINGS[2], ..PassContext::default() };
            let graph = optimize(graph.clone(), &last);
            let is_last = |it: &Node| it.op.name() == "max_pool" && graph.ty(it.outputs[0]).rank() == windows(it) + 1;
            moved += graph.nodes().filter(|it| is_last(it.1)).count();
        }
    }
    assert!(moved > 10, "{moved} images are pooled with channels last");
}

/// Activations that cross the borders of calls, branches and loops have the bits of the library, whichever branch runs
/// and however often a loop does. So do their gradients.
#[test]
fn images_across_borders_have_the_bits_of_the_library() {
    let files = [
        include_str!("../../../ms-core/runtime/tests/ir/layout_regions.msir"),
        include_str!("../../../ms-core/runtime/tests/ir/layout_volumes.msir"),
    ];
    for text in files {
        let source = text.split("// ----").next().expect("a file has a graph");
        let graph = parse_graph(source).unwrap_or_else(|error| panic!("{error}"));
        for seed in 0..6 {
            check(&graph, seed);
        }
        let wrt: Vec<usize> =
            (0..graph.inputs().len()).filter(|&it| graph.ty(graph.inputs()[it]).dtype.is_float()).collect();
        let results = graph.outputs().len();
        let gradients = value_and_grad(&graph, &wrt, results, true, true).expect("it has a derivative");
        (1..4).for_each(|seed| _ = check(&gradients, seed));
    }
}

/// Returns the number of spatial axes of a `max_pool`.
fn windows(node: &Node) -> usize {
    match &node.attrs.as_slice()[0] {
        Attr::Ints(kernel) => kernel.len(),
        _ => unreachable!("a kernel is a list"),
    }
}

fn network(random: &mut Random) -> Graph {
    let spatial = [2, 2, 1, 3][random.below(4)];
    let sizes: Vec<usize> = (0..spatial).map(|_| 5 + random.below(if spatial == 3 { 2 } else { 5 })).collect();
    let x = [&[1 + random.below(3), 2 + random.below(3)], &sizes[..]].concat();
    let types = [Type::of(DType::F32, &x), Type::of(DType::F32, &[400])];
    let graph = build("network", &types, |inputs| {
        let mut values = vec![convolved(&inputs[0])];
        for _ in 0..4 + random.below(6) {
            let new = layer(random, &values, &inputs[1], spatial);
            values.push(new);
        }
        Ok(values.split_off(values.len() - 2.min(values.len())))
    });
    graph.expect("the layers fit")
}

/// Applies a random op to one of the last values.
fn layer(random: &mut Random, values: &[Tensor], weights: &Tensor, spatial: usize) -> Tensor {
    let [x, y] = [0; 2].map(|_| values[values.len() - 1 - random.below(values.len().min(3))].clone());
    let shape = x.shape();
    let channels = shape[1];
    let weight = |random: &mut Random, shape: &[usize]| {
        let len: usize = shape.iter().product();
        ops::reshape(ops::slice(weights, &[random.below(401 - len)], &[len]), shape)
    };
    match random.below(12) {
        0..3 if channels <= 8 => {
            let kernel: Vec<usize> = shape[2..].iter().map(|&it| 1 + random.below(it.min(3))).collect();
            let groups = if channels.is_multiple_of(2) && random.below(3) == 0 { 2 } else { 1 };
            let w = weight(random, &[&[2 * groups, channels / groups], &kernel[..]].concat());
            let options = ops::ConvOptions::new(spatial).stride(1 + random.below(2)).padding(random.below(2));
            ops::conv(&x, w, None, &options.groups(groups))
        }
        3..5 if shape[2..].iter().all(|&it| it >= 2) => {
            let options = ops::PoolOptions::new(spatial, 2).stride(1 + random.below(2)).padding(random.below(2));
            if random.below(2) == 0 { ops::max_pool(&x, &options) } else { ops::avg_pool(&x, &options) }
        }
        5 => ops::relu(&x),
        6 if y.shape() == shape => x + y,
        6 => x + weight(random, &[&[channels], &vec![1; spatial][..]].concat()),
        7 => &x - ops::sum(&x, ops::keepdims(&[0isize, 2][..])),
        8 => &x * ops::max(&x, ops::keepdims(&[-1isize][..])),
        9 if y.shape() == shape => ops::concat(&[x, y], 1 - random.below(2) as isize),
        9 => ops::permute(&x, (0..2).chain((2..2 + spatial).rev()).collect::<Vec<_>>()),
        10 => {
            let pads: Vec<(usize, usize)> = (0..2 + spatial).map(|at| (at % 2, random.below(2))).collect();
            ops::pad(&x, &pads, ops::PadMode::Constant(Scalar::Float(0.5)))
        }
        _ => {
            let starts: Vec<usize> = shape.iter().map(|&it| random.below(it)).collect();
            let sizes: Vec<usize> = shape.iter().zip(&starts).map(|(size, at)| size - at).collect();
            ops::slice(&x, &starts, &sizes)
        }
    }
}

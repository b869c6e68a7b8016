//! Tests wrappers around the update of a parameter: groups, masks, clipping, averages, accumulation and auxiliary
//! results.
//!
//! `pytorch.py` prints the expected numbers of PyTorch 2.15.0.

use ms::Gradients;
use ms::optim::{Hyperparameter, LearningRate, State, UpdateRule};
use ms::prelude::*;
use ms::{context, with_context};

/// Returns gradients of four elements, as in `pytorch.py`.
fn gradients(steps: usize) -> Vec<[f64; 4]> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / 8388608.0 - 1.0
    };
    (0..steps).map(|t| [1.0, uniform(), uniform() / 4096.0, if t % 3 == 0 { uniform() } else { 0.0 }]).collect()
}

#[jit]
pub fn update<O: Optimizer + 'static>(optimizer: &O, parameters: &Vec<Parameter>, gradients: &Vec<Tensor>) {
    optimizer.update(&Gradients::new(parameters.clone(), gradients.clone()));
}

/// Runs a case in both modes, in strict precision, so that they have the same bits.
pub fn both<R: PartialEq + std::fmt::Debug>(name: &str, run: impl Fn() -> R) -> R {
    let in_mode = |jit| with_context(Context { jit, precision: Precision::Strict, ..context() }, &run);
    let (eager, compiled) = (in_mode(false), in_mode(true));
    assert_eq!(eager, compiled, "{name}");
    eager
}

/// Compares two vectors of two elements with values of PyTorch, after one step and after ten. The steps run in f64 and
/// f32, eagerly and compiled. The gradients are scaled.
fn follows<O: Optimizer + 'static>(name: &str, scale: f64, make: impl Fn(&[Parameter]) -> O, want: [[f64; 4]; 2]) {
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 1e-5)] {
        let got = both(name, || {
            let vector = |it: [f64; 2]| Parameter::new(Tensor::from(it).cast(dtype), "");
            let parameters = vec![vector([0.0, 1.0]), vector([-2.0, 0.5])];
            let optimizer = make(&parameters);
            optimizer.prepare(&parameters);
            let values = |it: &Vec<Parameter>| -> Vec<f64> {
                it.iter().flat_map(|it| it.value().cast(DType::F64).to_vec::<f64>()).collect()
            };
            let step = |gradient: &[f64; 4]| {
                let parts = [[gradient[0], gradient[1]], [gradient[2], gradient[3]]];
                let parts = parts.map(|it| Tensor::from(it.map(|it| it * scale)).cast(dtype)).to_vec();
                update(&optimizer, &parameters, &parts);
                values(&parameters)
            };
            let all: Vec<Vec<f64>> = gradients(10).iter().map(step).collect();
            [all[0].clone(), all[9].clone()]
        });
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{name}, {dtype}: {got}, not {want}");
        }
    }
}

#[test]
fn clipping_and_groups_are_those_of_pytorch() {
    let momentum = || SGD::new(0.1).momentum(0.9);
    follows(
        "by value",
        3.0,
        |_| momentum().clip_by_value(0.75),
        [
            [-0.07500000000000001, 1.0460745215415954, -2.0000013780372683, 0.425],
            [-3.103579470675, 1.6697234115568114, -2.00077721003296, 0.4855329730214339],
        ],
    );
    follows(
        "by the global norm",
        3.0,
        |_| momentum().clip_by_global_norm(1.5),
        [
            [-0.14226927550261625, 1.0218499626628417, -2.0000006535078794, 0.4577860431582075],
            [-5.587118956321758, 1.4235414603970924, -2.000334257770678, 0.5919952487060584],
        ],
    );
    // AdamW has two groups. It equals one optimiser with a mask, as far as the numbers agree.
    let groups = |it: &[Parameter]| {
        let second = Adam::new(0.02).betas(0.8, 0.9).decoupled_weight_decay(0.0);
        ParameterGroups::new(Adam::new(0.01).decoupled_weight_decay(0.1)).group(&it[1..], second)
    };
    follows(
        "groups",
        1.0,
        groups,
        [
            [-0.009999999900000002, 1.008999999348881, -2.0199565543947458, 0.48000000067403903],
            [-0.09955119690700578, 1.032497412057868, -2.135641549860862, 0.4973086412514798],
        ],
    );
}

#[test]
fn masks_take_parameters_out_of_the_decay() {
    fn run<O: Optimizer + 'static>(make: impl Fn(&[Parameter]) -> O) -> Vec<f32> {
        both("masks", || {
            let parameters = vec![Parameter::new(tensor![1.0], ""), Parameter::new(tensor![1.0], "")];
            let optimizer = make(&parameters);
            optimizer.prepare(&parameters);
            (0..2).for_each(|_| update(&optimizer, &parameters, &vec![tensor![0.0], tensor![0.0]]));
            parameters.iter().map(|it| it.value().item::<f32>()).collect()
        })
    }
    let near = |got: Vec<f32>, want: [f32; 2]| {
        assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6), "{got:?}, not {want:?}");
    };
    let decayed = 0.95 * 0.95;
    near(run(|it| SGD::new(0.5).weight_decay(0.1).without_decay_of(&it[1..])), [decayed, 1.0]);
    near(run(|it| SGD::new(0.5).without_decay_of(&it[..1]).weight_decay(0.1)), [1.0, decayed]);
    near(run(|it| Adam::new(0.5).decoupled_weight_decay(0.1).without_decay_of(&it[1..])), [decayed, 1.0]);
    near(run(|it| Lion::new(0.5).weight_decay(0.1).without_decay_of(it)), [1.0, 1.0]);
}

#[test]
fn norms_of_each_gradient_and_of_many_are_limited() {
    let run = |optimizer: &dyn Fn() -> ms::optim::Clipped<SGD>, scale: f32| {
        both("norms", || {
            let parameters = vec![Parameter::new(tensor![0.0, 0.0], ""), Parameter::new(tensor![0.0], "")];
            update(&optimizer(), &parameters, &vec![tensor![3.0, 4.0] * scale, tensor![12.0] * scale]);
            parameters.iter().flat_map(|it| it.value().to_vec::<f32>()).collect::<Vec<_>>()
        })
    };
    let near = |got: Vec<f32>, want: [f32; 3]| {
        assert!(got.iter().zip(want).all(|(got, want)| (got + want).abs() <= 1e-5 * want), "{got:?}, not -{want:?}");
    };
    near(run(&|| SGD::new(1.0).clip_by_norm(10.0), 1.0), [3.0, 4.0, 10.0]);
    near(run(&|| SGD::new(1.0).clip_by_global_norm(6.5), 1.0), [1.5, 2.0, 6.0]);
    near(run(&|| SGD::new(1.0).clip_by_global_norm(100.0), 1.0), [3.0, 4.0, 12.0]);
    near(run(&|| SGD::new(1.0).clip_by_norm(10.0), 0.0), [0.0; 3]);
    near(run(&|| SGD::new(1.0).clip_by_global_norm(10.0), 0.0), [0.0; 3]);
}

pub fn net() -> nn::Sequential {
    random::set_seed(3);
    nn::sequential![nn::Dense::new(3, 4), nn::Tanh, nn::Dense::new(4, 1)]
}

/// Returns inputs and targets.
pub fn batch() -> Batch {
    let x = random::uniform([8, 3], -1.0, 1.0);
    let y = x.sum(keepdims(-1));
    (x, y)
}

pub fn loss(net: &nn::Sequential, (x, y): &Batch) -> Tensor {
    ops::mse_loss(net.call(x), y)
}

pub fn weights(net: &impl Cell) -> Vec<f32> {
    net.parameters().iter().flat_map(|it| it.value().to_vec::<f32>()).collect()
}

/// Every number that changes between steps is an input, so each step compiles once.
#[test]
fn a_number_that_changes_compiles_nothing_again() {
    let compiled = || ms::compile_report().len();
    let (net, batch) = (net(), batch());
    let decayed = SGD::new(0.1).momentum(0.9).weight_decay(0.1);
    let bias: Vec<Parameter> = net.parameters().into_iter().filter(|it| it.load().shape().len() == 1).collect();
    let opt =
        ParameterGroups::new(Adam::new(1e-2).weight_decay(0.01)).group(&bias, decayed.schedule(CosineDecay::new(9)));
    let opt = opt.clip_by_global_norm(1.0).schedule(WarmUp::new(3)).average(0.99);
    let before = compiled();
    opt.step(&net, &batch, loss);
    assert_eq!(compiled(), before + 1);
    for step in 0..12 {
        opt.optimizer.optimizer.limit.set(1.0 + step as f64);
        opt.decay.set(0.5);
        opt.set_learning_rate(0.1 / (1.0 + step as f64));
        opt.step(&net, &batch, loss);
    }
    assert_eq!(compiled(), before + 1, "of rates, limits and decays");

    let adam = Adam::new(0.1).weight_decay(0.1);
    adam.step(&net, &batch, loss);
    let before = compiled();
    for number in [0.3, 0.2] {
        adam.beta1.set(number);
        adam.beta2.set(number);
        adam.epsilon.set(number);
        adam.weight_decay.set(number);
        adam.rate.set(number);
        adam.step(&net, &batch, loss);
    }
    assert_eq!(compiled(), before, "of Adam");
    // Switching off a decay gives another graph, which compiles once.
    for number in [0.0, 0.1, 0.0, 0.2] {
        adam.weight_decay.set(number);
        adam.step(&net, &batch, loss);
    }
    assert_eq!(compiled(), before + 1, "without a decay");
}

#[test]
fn parts_of_a_batch_are_the_whole_batch() {
    let run = |parts: usize| {
        both("parts", || {
            let (net, opt, batch) = (net(), SGD::new(0.1).momentum(0.5), batch());
            let losses: Vec<f32> = (0..3)
                .map(|_| match parts {
                    1 => opt.step(&net, &batch, loss).item::<f32>(),
                    _ => opt.step_in_parts(parts, &net, &batch, loss).item::<f32>(),
                })
                .collect();
            [losses, weights(&net)].concat()
        })
    };
    let whole = run(1);
    for parts in [2, 4, 8] {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-5;
        assert!(run(parts).iter().zip(&whole).all(near), "{parts} parts");
    }
    for (parts, code) in [(3, ms::Code::Shape), (0, ms::Code::Argument)] {
        let refused = ms::catch(|| SGD::new(0.1).step_in_parts(parts, &net(), &batch(), loss));
        assert_eq!(refused.expect_err("there are no such parts").code(), code);
    }
}

/// Every part updates the statistics of a normalisation.
#[test]
fn parts_of_a_batch_write_buffers_in_turn() {
    let got = both("buffers", || {
        let norm = nn::BatchNorm::new(1);
        let x = tensor![[1.0], [3.0], [5.0], [7.0]];
        SGD::new(0.0).step_in_parts(2, &norm, &x, |norm, x| norm.call(x).square().mean(()));
        norm.moving_mean.value().item::<f32>()
    });
    assert!((got - (0.9 * 0.2 + 0.1 * 6.0)).abs() < 1e-6, "{got}");
}

#[test]
fn gradients_are_accumulated_over_steps() {
    let run = |accumulated: bool| {
        both("accumulation", || {
            let (net, (x, y)) = (net(), batch());
            let adam = || Adam::new(0.1).clip_by_global_norm(0.5);
            if accumulated {
                let opt = adam().accumulate(4);
                for part in (0..3).flat_map(|_| 0..4) {
                    let rows = part * 2..part * 2 + 2;
                    opt.step(&net, &(x.i(rows.clone()), y.i(rows)), loss);
                }
            } else {
                let opt = adam();
                (0..3).for_each(|_| drop(opt.step(&net, &(x.clone(), y.clone()), loss)));
            }
            weights(&net)
        })
    };
    let (parts, whole) = (run(true), run(false));
    assert!(parts.iter().zip(&whole).all(|(a, b)| (a - b).abs() < 1e-4), "{parts:?}, not {whole:?}");
}

/// The outer wrapper applies first.
#[test]
fn hooks_and_clips_apply_from_the_outside_in() {
    fn moved<O: Optimizer + 'static>(make: impl Fn() -> O) -> f32 {
        both("order", || {
            let weight = vec![Parameter::new(tensor![0.0], "")];
            update(&make(), &weight, &vec![tensor![3.0]]);
            -weight[0].value().item::<f32>()
        })
    }
    assert_eq!(moved(|| SGD::new(1.0).clip_by_value(4.0).hook(|_, gradient| gradient * 2.0)), 4.0);
    assert_eq!(moved(|| SGD::new(1.0).hook(|_, gradient| gradient * 2.0).clip_by_value(4.0)), 6.0);
    // A hook receives the parameter.
    let by_rank = |parameter: &Parameter, gradient: &Tensor| gradient * parameter.load().shape().len() as f64;
    assert_eq!(moved(|| SGD::new(1.0).hook(by_rank)), 3.0);
}

/// A loss of several elements is refused, since training would minimise its sum.
#[test]
fn a_loss_is_one_number() {
    let each = |net: &nn::Sequential, (x, y): &Batch| (net.call(x) - y).square();
    let plain = || SGD::new(0.1);
    type Run<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let runs: Vec<Run<'_>> = vec![
        ("step", Box::new(|| drop(plain().step(&net(), &batch(), each)))),
        ("step_eagerly", Box::new(|| drop(plain().step_eagerly(&net(), &batch(), each)))),
        ("in parts", Box::new(|| drop(plain().step_in_parts(2, &net(), &batch(), each)))),
        ("around", Box::new(|| drop(plain().accumulate(2).clip_by_norm(1.0).step(&net(), &batch(), each)))),
        (
            "scaled",
            Box::new(|| {
                let opt = plain().loss_scale(ms::amp::DynamicLossScaler::new(4.0));
                drop(opt.step(&net(), &batch(), each));
            }),
        ),
        (
            "with aux",
            Box::new(|| {
                drop(plain().step_with_aux(&net(), &batch(), |net, (x, y)| ((net.call(x) - y).square(), x.clone())));
            }),
        ),
    ];
    for (name, run) in &runs {
        for jit in [false, true] {
            let context = ms::Context { jit, ..ms::context() };
            let error = ms::with_context(context, || ms::catch(run)).expect_err(name);
            let said = error.to_string();
            assert_eq!(error.code(), ms::Code::Shape, "{name}: {said}");
            for part in ["the loss is f32[", "minimises one number", "`.mean(())`, or `.sum(())`", "steps.rs"] {
                assert!(said.contains(part), "{name}: {said}\nhas no {part}");
            }
        }
    }
    // One element is one number, whatever its axes.
    let one = plain().step(&net(), &batch(), |net, (x, y)| (net.call(x) - y).square().sum(ops::keepdims(())));
    assert_eq!(one.numel(), 1);
}

#[test]
fn averages_follow_their_parameters() {
    let (decay, rate) = (0.75, 0.5);
    let got = both("averages", || {
        let net = nn::Dense::new(1, 1).without_bias();
        net.weight.set(&tensor![[4.0]]);
        let opt = SGD::new(rate).average(decay);
        for _ in 0..3 {
            opt.step(&net, &tensor![[1.0]], |net, x| net.call(x).square().sum(()) * 0.5);
        }
        let averaged = opt.with_averages(&net, || net.weight.value().item::<f32>());
        [averaged, opt.average_of(&net.weight).item::<f32>(), net.weight.value().item::<f32>()]
    });
    let (mut p, mut a) = (4.0, f64::NAN);
    for step in 0..3 {
        p -= rate * p;
        // The first value begins the average.
        a = if step == 0 { p } else { decay * a + (1.0 - decay) * p };
    }
    assert_eq!(got, [a as f32, a as f32, p as f32]);
}

#[test]
fn auxiliary_results_are_not_differentiated() {
    let run = |aux: bool| {
        both("aux", || {
            let (net, opt, batch) = (net(), SGD::new(0.1), batch());
            let with_aux = |net: &nn::Sequential, (x, y): &Batch| {
                let out = net.call(x);
                (ops::mse_loss(&out, y), (out.square().sum(()) * 1e3, out))
            };
            let first = match aux {
                true => {
                    let (loss, (_, out)) = opt.step_with_aux(&net, &batch, with_aux);
                    assert_eq!(out.shape(), [8, 1]);
                    loss
                }
                false => opt.step(&net, &batch, loss),
            };
            [vec![first.item::<f32>()], weights(&net)].concat()
        })
    };
    assert_eq!(run(true), run(false));
}

/// The function around the step declares the sizes.
#[test]
fn a_step_of_any_batch_size_compiles_once() {
    #[jit(dims(x = [batch, _], y = [batch, _]))]
    fn train(net: &nn::Sequential, opt: &Adam, x: &Tensor, y: &Tensor) -> Tensor {
        opt.step(net, &(x.clone(), y.clone()), loss)
    }
    let (net, opt, (x, y)) = (net(), Adam::new(0.1), batch());
    opt.prepare(&net.trainable_parameters());
    let traces = || ms::compile_report().iter().filter(|it| it.name == "train" && it.stage("trace").is_some()).count();
    for rows in [8, 3, 5, 1] {
        let want = loss(&net, &(x.i(..rows), y.i(..rows))).item::<f32>();
        let got = train(&net, &opt, &x.i(..rows), &y.i(..rows)).item::<f32>();
        assert!((got - want).abs() < 1e-5, "{rows} rows: {got}, not {want}");
    }
    assert_eq!(traces(), 1);
}

/// Updates `v ← momentum v + sign(g)`, `p ← p - lr v`.
#[cell]
struct SignDescent {
    rate: LearningRate,
    momentum: Hyperparameter,
    velocity: State,
}

impl UpdateRule for SignDescent {
    type Step = [Tensor; 2];

    fn learning_rate(&self) -> &LearningRate {
        &self.rate
    }

    fn begin(&self) -> [Tensor; 2] {
        [self.rate.value(), self.momentum.value()]
    }

    fn apply(&self, step: &[Tensor; 2], parameter: &Parameter, value: Tensor, gradient: Tensor) -> Tensor {
        let [rate, momentum] = step;
        let velocity = self.velocity.of(parameter);
        let next = &velocity * momentum + ops::sign(gradient);
        velocity.set(&next);
        value - next * rate
    }
}

#[test]
fn own_optimisers_have_everything_that_others_have() {
    let make = || SignDescent {
        rate: LearningRate::new("SignDescent", 0.25),
        momentum: Hyperparameter::new("SignDescent", "momentum", 0.5, &ops::rules::Interval::DECAY),
        velocity: State::zeros(),
    };
    let got = both("own", || {
        let (net, opt) = (nn::Dense::new(2, 1).without_bias(), make().accumulate(2));
        net.weight.set(&tensor![[1.0, 2.0]]);
        for _ in 0..4 {
            opt.step(&net, &tensor![[3.0, -1.0]], |net, x| net.call(x).sum(()));
        }
        weights(&net)
    });
    assert_eq!(got, [1.0 - 0.25 - 0.375, 2.0 + 0.25 + 0.375]);
    let (net, opt) = (nn::Dense::new(2, 1).without_bias(), make());
    opt.step(&net, &tensor![[3.0, -1.0]], |net, x| net.call(x).sum(()));
    let dict = (&net, &opt).state_dict();
    assert!(dict.get("[1].velocity[\"[0].weight\"]").is_some(), "{:?}", dict.names().collect::<Vec<_>>());
    let resumed = make();
    (&net, &resumed).load_state_dict(&dict, &LoadOptions::new()).expect("its state is created");
}

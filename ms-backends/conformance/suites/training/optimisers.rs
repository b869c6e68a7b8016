//! Tests optimisers beyond the golden cases.
//!
//! Each optimiser has the same result compiled and eagerly, in every float dtype, uses a changed learning rate, and
//! accepts new parameters.

use ms::Gradients;
use ms::prelude::*;
use ms::{Context, context, with_context};

/// Minimises `Σ (p - 3)²` from 1 and 2. A second parameter joins after two steps.
fn train<O: Optimizer + 'static>(optimizer: O, dtype: DType, jit: bool) -> Vec<f64> {
    #[jit]
    fn update<O: Optimizer + 'static>(optimizer: &O, parameters: &Vec<Parameter>) {
        let gradients = parameters.iter().map(|it| (it.value() - 3.0) * 2.0).collect();
        optimizer.update(&Gradients::new(parameters.clone(), gradients));
    }
    with_context(Context { jit, precision: Precision::Strict, ..context() }, || {
        let mut parameters = vec![Parameter::new(tensor![1.0, 2.0].cast(dtype), "first")];
        for step in 0..6 {
            if step == 2 {
                parameters.push(Parameter::new(tensor![4.0].cast(dtype), "second"));
            }
            if step == 4 {
                optimizer.set_learning_rate(0.001);
            }
            optimizer.prepare(&parameters);
            update(&optimizer, &parameters);
        }
        let values = parameters.iter().map(|it| {
            assert_eq!(it.value().dtype(), dtype);
            it.value().cast(DType::F64).to_vec::<f64>()
        });
        values.flatten().collect()
    })
}

fn check<O: Optimizer + 'static>(name: &str, make: impl Fn() -> O) {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let (eager, compiled) = (train(make(), dtype, false), train(make(), dtype, true));
        assert_eq!(eager, compiled, "{name}, {dtype}");
        let far = [2.0, 1.0, 1.0];
        let nearer = eager.iter().zip(far).all(|(it, far)| (it - 3.0).abs() < far);
        assert!(nearer && eager.len() == 3, "{name}, {dtype}: {eager:?}");
    }
}

#[test]
fn every_optimiser_steps_compiled_as_it_does_eagerly() {
    check("SGD", || SGD::new(0.1));
    check("SGD, decay", || SGD::new(0.1).weight_decay(0.1));
    check("SGD, dampened", || SGD::new(0.1).momentum(0.9).dampening(0.5));
    check("Momentum", || Momentum::new(0.1, 0.9));
    check("Momentum, Nesterov", || Momentum::new(0.1, 0.9).nesterov(true));
    check("Adam", || Adam::new(0.1));
    check("AMSGrad", || Adam::new(0.1).amsgrad(true));
    check("AdamW", || Adam::new(0.1).decoupled_weight_decay(0.1));
    check("AdamWeightDecay", || AdamWeightDecay::new(0.1).weight_decay(0.1));
    check("RMSProp", || RMSProp::new(0.1).epsilon(1e-4));
    check("RMSProp, all", || RMSProp::new(0.1).epsilon(1e-2).centered(true).momentum(0.9));
    check("Adagrad", || Adagrad::new(0.5).rate_decay(0.1));
    check("Adadelta", || Adadelta::new(10.0).epsilon(1e-3));
    check("Lion", || Lion::new(0.1).weight_decay(0.1));
    check("Lamb", || Lamb::new(0.1).weight_decay(0.1));
    check("Adafactor", || Adafactor::new(0.1));
    check("LBFGS", || LBFGS::new(0.1));
}

/// A parameter without a gradient is unchanged, even if ε underflows in its dtype.
#[test]
fn half_precision_parameters_have_wide_state() {
    for dtype in [DType::F16, DType::BF16] {
        let parameter = Parameter::new(tensor![1.0, 2.0].cast(dtype), "p");
        let gradient = tensor![0.0, 1e-4].cast(dtype);
        Adam::new(0.1).update(&Gradients::new(vec![parameter.clone()], vec![gradient]));
        let values = parameter.value().cast(DType::F32).to_vec::<f32>();
        assert!(values[0] == 1.0 && (values[1] - 1.9).abs() < 0.01, "{dtype}: {values:?}");
    }
}

/// The test follows MindSpore's formula, step by step in f64.
#[test]
fn adam_weight_decay_takes_averages_as_they_are() {
    let (rate, b1, b2, epsilon, decay) = (0.05, 0.8, 0.95, 1e-6, 0.1);
    let parameter = Parameter::new(Tensor::scalar(1.5).cast(DType::F64), "p");
    let optimizer = AdamWeightDecay::new(rate).betas(b1, b2).epsilon(epsilon).weight_decay(decay);
    let (mut p, mut m, mut v) = (1.5f64, 0.0, 0.0);
    for g in [0.5, -1.0, 2.0, 0.25] {
        let gradient = Tensor::scalar(g).cast(DType::F64);
        optimizer.update(&Gradients::new(vec![parameter.clone()], vec![gradient]));
        (m, v) = (b1 * m + (1.0 - b1) * g, b2 * v + (1.0 - b2) * g * g);
        p -= rate * (m / (v.sqrt() + epsilon) + decay * p);
        let got = parameter.value().item::<f64>();
        assert!((got - p).abs() < 1e-12, "{got}, not {p}");
    }
}

/// Returns gradients of four elements: constant, random, random and small, and mostly zero. All are exact in f32.
fn gradients(steps: usize) -> Vec<[f64; 4]> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / 8388608.0 - 1.0
    };
    (0..steps).map(|t| [1.0, uniform(), uniform() / 4096.0, if t % 3 == 0 { uniform() } else { 0.0 }]).collect()
}

/// Compares a vector after 1, 10 and 1000 steps with values in f64. The optimiser runs compiled, in f64 and f32.
fn follows<O: Optimizer + 'static>(name: &str, make: impl Fn() -> O, want: [[f64; 4]; 3]) {
    follows_as(name, &[4], make, want);
}

/// Runs [`follows`] for a parameter of a given shape.
fn follows_as<O: Optimizer + 'static>(name: &str, shape: &[usize], make: impl Fn() -> O, want: [[f64; 4]; 3]) {
    #[jit]
    fn step<O: Optimizer + 'static>(optimizer: &O, parameter: &Parameter, gradient: &Tensor) {
        optimizer.update(&Gradients::new(vec![parameter.clone()], vec![gradient.clone()]));
    }
    let gradients = gradients(1000);
    // A thousand updates of a number near ten accumulate a relative rounding error below 5e-5 in f32.
    for (dtype, tolerance) in [(DType::F64, 1e-12), (DType::F32, 5e-5)] {
        let parameter = Parameter::new(Tensor::from([0.0, 1.0, -2.0, 0.5]).reshape(shape).cast(dtype), "p");
        let optimizer = make();
        optimizer.prepare(std::slice::from_ref(&parameter));
        let mut steps = 0;
        for (until, want) in [1, 10, 1000].into_iter().zip(want) {
            for gradient in &gradients[steps..until] {
                step(&optimizer, &parameter, &Tensor::from(*gradient).reshape(shape).cast(dtype));
            }
            steps = until;
            let got = parameter.value().cast(DType::F64).to_vec::<f64>();
            for (at, (got, want)) in got.iter().zip(want).enumerate() {
                let near = (got - want).abs() <= tolerance * want.abs().max(1.0);
                assert!(near, "{name}, {dtype}, element {at} after {until} steps: {got}, not {want}");
            }
        }
    }
}

/// The values are PyTorch's in f64. PyTorch does not have `AdamWeightDecay`, `Lion` and `Lamb`, so their values come
/// from their formulas in f64. `pytorch.py` prints the values of the last four for PyTorch 2.15.0.
#[test]
fn a_thousand_steps_follow_those_in_f64() {
    follows(
        "SGD",
        || SGD::new(0.01).weight_decay(0.1),
        [
            [-0.01, 1.0005358173847199, -1.9980000459345757, 0.49653281283378603],
            [-0.0995511979025179, 0.99198870192745, -1.9800962733857195, 0.4971495408939484],
            [-6.323045752290354, 0.2925341376791425, -0.7354040739424583, 0.21635110071596667],
        ],
    );
    follows(
        "SGD dampened",
        || SGD::new(0.01).momentum(0.9).dampening(0.5),
        [
            [-0.01, 1.0015358173847198, -2.0000000459345757, 0.49703281283378603],
            [-0.23947137604000002, 1.0243946319472519, -2.000013103091447, 0.49778566178086214],
            [-49.599999999999234, 0.36738749861116604, -2.0001455532607433, 0.7185054958368733],
        ],
    );
    follows(
        "Momentum",
        || Momentum::new(0.01, 0.9).weight_decay(0.01),
        [
            [-0.01, 1.0014358173847198, -1.9998000459345757, 0.49698281283378604],
            [-0.41344933648285714, 1.0345960693066498, -1.9917568981974056, 0.5128353398516078],
            [-63.228895549921575, -0.4640754345971961, -0.7355419751582756, 0.5910698120590957],
        ],
    );
    follows(
        "Nesterov",
        || Momentum::new(0.01, 0.9).nesterov(true),
        [
            [-0.019, 1.0029180530309678, -2.000000087275694, 0.4943623443841934],
            [-0.472429536481, 1.0369069848860588, -2.0000298568897903, 0.5155486507860686],
            [-99.18999999999848, -0.2738509991277101, -2.000291978745483, 0.9591563523719424],
        ],
    );
    follows(
        "Adam",
        || Adam::new(0.01),
        [
            [-0.009999999900000002, 1.009999999348881, -2.009978277197373, 0.4900000003370195],
            [-0.09999999899999987, 1.0427428020851517, -2.0681836799842808, 0.4957030713614061],
            [-9.999999899999874, 0.8179866397722749, -2.271635370874372, 0.6556029368305536],
        ],
    );
    follows(
        "Adam decay",
        || Adam::new(0.003).betas(0.8, 0.95).weight_decay(0.1),
        [
            [-0.0029999999700000006, 1.0029999994401078, -1.9970000001500035, 0.49700000008652545],
            [-0.02999547555575873, 1.0061024921343527, -1.9700229684424326, 0.494869836344896],
            [-2.984615823826668, 0.563497563555881, 0.00046731681112403617, 0.2246118755244751],
        ],
    );
    follows(
        "AMSGrad",
        || Adam::new(0.01).amsgrad(true),
        [
            [-0.009999999900000002, 1.009999999348881, -2.009978277197373, 0.4900000003370195],
            [-0.09999999899999987, 1.042739038623363, -2.0681836799842808, 0.495703851048722],
            [-9.999999899999874, 0.8181049013014033, -2.271620346692755, 0.655340569294706],
        ],
    );
    follows(
        "AdamW",
        || Adam::new(0.003).decoupled_weight_decay(0.1),
        [
            [-0.0029999999700000006, 1.0026999998046644, -2.002393483159212, 0.49685000010110586],
            [-0.029959532083400763, 1.0098007037903585, -2.014433114245951, 0.49722357039429643],
            [-2.5921511946456173, 0.6920834047988241, -1.544030462209294, 0.4130042461417907],
        ],
    );
    follows(
        "AdamWeightDecay",
        || AdamWeightDecay::new(0.003).weight_decay(0.1),
        [
            [-0.009486532989991666, 1.0091848800253873, -2.0006032549957675, 0.4903641779703184],
            [-0.16563611319583973, 1.0568360475857708, -2.0828637909686933, 0.5047518753304668],
            [-5.001043457843628, 0.6892985024477163, -1.6691513129524878, 0.5191703975006384],
        ],
    );
    follows(
        "RMSProp",
        || RMSProp::new(0.003),
        [
            [-0.00948683297750514, 1.0094868329609716, -2.0094861799226624, 0.49051316702960546],
            [-0.051997492878860345, 1.0185333059592308, -2.039239059373429, 0.4975439865084852],
            [-3.027425139912332, 0.9522564730647438, -2.0822756271452225, 0.5057039353281914],
        ],
    );
    follows(
        "RMSProp all",
        || RMSProp::new(0.003).decay(0.99).epsilon(0.1).momentum(0.9).centered(true).weight_decay(0.1),
        [
            [-0.015037688680140132, 1.0015260914040895, -1.9949959152291394, 0.4922663864406592],
            [-0.4436255459134714, 1.0145651235295492, -1.821821806824941, 0.47891547109851285],
            [-9.999999996104515, -0.18552419429754136, -0.00016084231679675204, 0.2825428338202798],
        ],
    );
    follows(
        "Adagrad",
        || Adagrad::new(0.1).rate_decay(0.01),
        [
            [-0.09534625891546832, 1.0436870347903562, -2.000001452578822, 0.4315745732488476],
            [-0.4762432606919021, 1.1115505557250778, -2.000197579278489, 0.5011565853077945],
            [-2.3863249204672643, 1.1020799770112049, -2.0003879955459722, 0.6467878686676456],
        ],
    );
    follows(
        "Adadelta",
        || Adadelta::new(1.0),
        [
            [-0.0031622618488986636, 1.0031616075398575, -2.000004593452715, 0.4968379019136951],
            [-0.03375125382004299, 1.0052072296577783, -2.00065343427554, 0.49994307980848396],
            [-7.605823612983321, 0.9275784393546721, -2.003035512887214, 0.5150264525411073],
        ],
    );
    follows(
        "Lion",
        || Lion::new(0.001).weight_decay(0.1),
        [
            [-0.001, 1.0009, -2.0008, 0.49895],
            [-0.009995501199790025, 1.000998150739839, -2.0059972008398397, 0.5015005244401506],
            [-0.9516710644145354, 0.7679563540611258, -1.9428192057837583, 0.615054438442883],
        ],
    );
    follows(
        "Lamb",
        || Lamb::new(0.003).weight_decay(0.1),
        [
            [-0.003784855156001799, 1.0034063484029931, -2.0023512289498493, 0.4960259108677707],
            [-0.05562543856535839, 1.014584059581879, -2.024517735266399, 0.4987292261923301],
            [-9.387838921095199, -0.2359345689207141, -0.25274813041429434, 0.7447771917996093],
        ],
    );
    follows(
        "Adafactor",
        || Adafactor::new(0.01).weight_decay(0.1),
        [
            [-0.0114564392373896, 1.0104564392373896, -2.0094564392373897, 0.4880435607626104],
            [-0.1096186614776004, 1.0073235550198232, -2.052078101142077, 0.49149416616937935],
            [-46.69548336961621, -0.5622356291682529, -1.0363012599847075, 1.351348077620242],
        ],
    );
    follows_as(
        "Adafactor of a matrix",
        &[2, 2],
        || Adafactor::new(0.01).decay(0.6).epsilon(0.2).clip(1.05),
        [
            [-0.007467120185505927, 1.003432444535822, -2.0000001169527297, 0.4773886546037164],
            [-0.10622659686350666, 1.0112597028891723, -2.000038717175214, 0.49295568552633057],
            [-125.44128190212874, -1.9872389240630868, -2.000307791592001, 4.51536085011523],
        ],
    );
}

/// With a gradient of one, each step of Adam has the length of the learning rate, except for ε.
#[test]
fn steps_of_adam_are_exact_in_f32() {
    let parameter = Parameter::new(Tensor::scalar(0.0), "p");
    let optimizer = Adam::new(1.0);
    for step in 1..=2000 {
        optimizer.update(&Gradients::new(vec![parameter.clone()], vec![Tensor::scalar(1.0)]));
        let got = parameter.value().item::<f32>();
        let want = -(step as f32);
        assert!((got - want).abs() <= 2.0 * f32::EPSILON * step as f32, "step {step}: {got}");
    }
}

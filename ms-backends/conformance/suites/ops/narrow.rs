//! Compares composites, reductions, losses and other functions on f16 and bf16 with the same functions in f64.
//!
//! Results and gradients differ by a few roundings, for operands of ordinary size and near the ends of the range.

use super::numbers;
use ms::internals::session::{Compiled, Precision};
use ms::internals::trace;
use ms::ops::{self, Lowering, Reduction, Sample, SampleInput};
use ms::prelude::*;
use ms::tensor::apply;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Computes results from operands.
type Function<'a> = &'a dyn Fn(&[Tensor]) -> Vec<Tensor>;

/// The largest magnitudes to which operands are scaled in turn. Zero leaves the original range.
const SIZES: [f64; 5] = [0.0, 300.0, 1000.0, 60000.0, 1e-4];

/// Ops with a derivative that reads the rounded result.
const READ_RESULTS: [&str; 6] =
    ["softmax", "log_softmax", "attention_weights", "blocked_attention", "blocked_attention_grad", "cross_entropy"];

/// The rounding of f32 arithmetic on numbers near one.
const ARITHMETIC: f64 = 1.0 / (1 << 24) as f64;

/// Returns the distance from one to the next number, the largest number, and the smallest positive one.
fn limits(dtype: DType) -> [f64; 3] {
    match dtype {
        DType::F16 => [2f64.powi(-10), 65504.0, 2f64.powi(-24)],
        _ => [2f64.powi(-7), 3.38e38, 2f64.powi(-133)],
    }
}

/// Returns the results, and the gradients of their weighted sum. Every dtype can represent the weights.
fn with_gradients(f: Function<'_>, operands: &[Tensor]) -> Vec<Tensor> {
    let floats: Vec<usize> = (0..operands.len()).filter(|&it| operands[it].dtype().is_float()).collect();
    let results = f(operands);
    if floats.is_empty() || !results.iter().all(|it| it.dtype().is_float()) {
        return results;
    }
    let loss = |wrt: &Vec<Tensor>| {
        let mut all = operands.to_vec();
        floats.iter().zip(wrt).for_each(|(&at, it)| all[at] = it.clone());
        let term = |y: Tensor| {
            let weights: Vec<f64> = (0..y.numel()).map(|at| (1 + at * 5 % 7) as f64 / 8.0).collect();
            let y = if y.dtype() == DType::F64 { y } else { y.cast(DType::F32) };
            let weights = Tensor::from_slice(y.shape(), &weights).cast(y.dtype());
            ops::sum(y * weights, ())
        };
        f(&all).into_iter().map(term).reduce(|a, b| a + b).expect("there is a result")
    };
    let wrt: Vec<Tensor> = floats.iter().map(|&it| operands[it].clone()).collect();
    results.into_iter().chain(ms::grad(loss)(&wrt)).collect()
}

fn compiled(f: Function<'_>, operands: &[Tensor], precision: Precision) -> Vec<Tensor> {
    let types: Vec<_> = operands.iter().map(Tensor::ty).collect();
    let graph = trace::build("narrow", &types, |it| Ok(with_gradients(f, it))).expect("the function is traced");
    Compiled::new(&graph, precision).and_then(|it| it.run(operands)).expect("the graph runs").into_vec()
}

/// Returns an error where narrow results differ from the results in f64.
fn compare(
    name: &str,
    dtype: DType,
    got: &[Tensor],
    want: &[Tensor],
    results: usize,
    operand: f64,
) -> Result<(), String> {
    let [digit, most, least] = limits(dtype);
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let (got, want) = (numbers(got), numbers(want));
        let largest = want.iter().copied().filter(|it| it.is_finite()).fold(0.0, |a: f64, b| a.max(b.abs()));
        // Operands multiply the rounding error of a result.
        let read = if at >= results && READ_RESULTS.contains(&name) { operand.max(1.0) } else { 0.0 };
        let near = |(got, want): (&f64, &f64)| {
            let beyond = want.abs() > most * (1.0 - 2.0 * digit);
            let tolerance = 4.0 * digit * (want.abs() + 0.25 * largest.min(most) + read) + 2.0 * least + ARITHMETIC;
            beyond || got == want || want.is_nan() && got.is_nan() || (got - want).abs() <= tolerance
        };
        if let Some((got, want)) = got.iter().zip(&want).find(|it| !near(*it)) {
            return Err(format!("result {at} is {got}, not {want} (largest {largest})"));
        }
    }
    Ok(())
}

/// Runs the checks, and collects the failures.
#[derive(Default)]
struct Checks {
    cases: Cell<usize>,
    failures: std::cell::RefCell<Vec<String>>,
}

impl Checks {
    /// Checks a function of the operands of a sample. Each operand in turn takes each size.
    fn sample(&self, name: &str, sample: &Sample, positive: bool, f: Function<'_>) {
        let floats: Vec<usize> = (0..sample.inputs.len()).filter(|&it| sample.inputs[it].dtype.is_float()).collect();
        for dtype in [DType::F16, DType::BF16] {
            for (&at, size) in floats.iter().flat_map(|it| SIZES.map(|size| (it, size))) {
                if size == 0.0 && at != floats[0] {
                    continue;
                }
                let mut scaled = sample.clone();
                scaled.inputs.iter_mut().filter(|it| it.dtype.is_float()).for_each(|it| it.dtype = dtype);
                let it = &mut scaled.inputs[at];
                if size != 0.0 {
                    let factor = size / it.low.abs().max(it.high.abs());
                    (it.low, it.high) = (it.low * factor, it.high * factor);
                    if positive {
                        it.low = size / 2.0;
                    }
                }
                let arrays = scaled.arrays().into_iter();
                let narrow: Vec<Tensor> = arrays.map(|it| Tensor::placed(it).expect("there is memory")).collect();
                self.operands(&format!("operand {at} to {size}"), name, dtype, &narrow, f);
            }
        }
    }

    fn operands(&self, what: &str, name: &str, dtype: DType, narrow: &[Tensor], f: Function<'_>) {
        let wide = |it: &Tensor| if it.dtype().is_float() { it.cast(DType::F64) } else { it.clone() };
        let wide: Vec<Tensor> = narrow.iter().map(wide).collect();
        let results = f(&wide).len();
        let all = wide.iter().filter(|it| it.dtype().is_float()).flat_map(numbers);
        let largest = all.filter(|it| it.is_finite()).fold(0.0, |a: f64, b| a.max(b.abs()));
        let want = with_gradients(f, &wide);
        let ways: [(&str, &dyn Fn() -> Vec<Tensor>); 3] = [
            ("eagerly", &|| with_gradients(f, narrow)),
            ("compiled", &|| compiled(f, narrow, Precision::Highest)),
            ("strictly", &|| compiled(f, narrow, Precision::Strict)),
        ];
        for (way, run) in ways {
            self.cases.set(self.cases.get() + 1);
            let got = catch_unwind(AssertUnwindSafe(run)).map_err(|_| "it panics".to_string());
            if let Err(why) = got.and_then(|got| compare(name, dtype, &got, &want, results, largest)) {
                self.failures.borrow_mut().push(format!("`{name}` of {dtype}, {what}, {way}: {why}"));
            }
        }
    }

    fn finish(self, least: usize) {
        let failures = self.failures.into_inner();
        assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), self.cases.get(), failures.join("\n"));
        assert!(self.cases.get() >= least, "{} cases", self.cases.get());
        println!("{} cases", self.cases.get());
    }
}

#[test]
fn composites_and_reductions() {
    let checks = Checks::default();
    for def in ops::definitions() {
        let results = match def.lowering {
            Lowering::Reduce(_) => 1,
            // The moments of an update and the states of a cell are results. Other results serve the derivative only.
            Lowering::Composite(_) => match def.name() {
                "adam_update" | "blocked_attention_grad" => 3,
                "momentum_update" | "lstm_cell" => 2,
                _ => 1,
            },
            _ => continue,
        };
        for sample in (def.samples)().iter().filter(|it| it.inputs.iter().all(|it| it.dtype != DType::F64)) {
            // A second moment is not negative.
            let positive = def.name() == "adam_update";
            checks.sample(def.name(), sample, positive, &|operands| {
                let all = apply(def.op(), &sample.attrs, &operands.iter().collect::<Vec<_>>()).expect("a sample runs");
                all.into_iter().take(results).collect()
            });
        }
    }
    checks.finish(3000);
}

/// Ranges of operands: any numbers, probabilities, positive numbers, signs, and three classes.
#[derive(Clone, Copy)]
enum Of {
    Numbers,
    Probabilities,
    Positive,
    Signs,
    Classes,
}

impl Of {
    fn input(self, shape: &[usize]) -> SampleInput {
        let (dtype, low, high) = match self {
            Self::Numbers => (DType::F32, -2.0, 2.0),
            Self::Probabilities => (DType::F32, 0.1, 0.9),
            Self::Positive => (DType::F32, 0.5, 2.0),
            Self::Signs => (DType::I64, 1.0, 1.0),
            Self::Classes => (DType::I64, 0.0, 2.0),
        };
        SampleInput::of(dtype, shape, low, high)
    }
}

macro_rules! functions {
    ($($name:ident($($it:ident: $of:ident $shape:expr),*) => $body:expr;)*) => {
        /// The names of the functions that are checked.
        /// The functions of the table.
        #[allow(dead_code, reason = "a test of the sources of ops reads it")]
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        fn check_functions(checks: &Checks) {
            $({
                let inputs = [$(Of::$of.input(&$shape)),*];
                // Operands that must be probabilities keep their range.
                let fixed = [$(matches!(Of::$of, Of::Probabilities)),*];
                let positive = [$(matches!(Of::$of, Of::Positive)),*].contains(&true);
                let f = |all: &[Tensor]| {
                    let [$($it),*] = all else { unreachable!("there are as many operands") };
                    vec![$body]
                };
                if fixed.contains(&true) {
                    for dtype in [DType::F16, DType::BF16] {
                        let mut sample = Sample::new(inputs.clone());
                        sample.inputs.iter_mut().filter(|it| it.dtype.is_float()).for_each(|it| it.dtype = dtype);
                        let arrays = sample.arrays().into_iter();
                        let all: Vec<Tensor> = arrays.map(|it| Tensor::placed(it).expect("there is memory")).collect();
                        checks.operands("as they are", stringify!($name), dtype, &all, &f);
                    }
                } else {
                    checks.sample(stringify!($name), &Sample::new(inputs), positive, &f);
                }
            })*
        }
    };
}

const ROWS: [usize; 2] = [3, 4];

functions! {
    silu(x: Numbers ROWS) => ops::silu(x);
    softplus(x: Numbers ROWS) => ops::softplus(x, 1.0, 20.0);
    logsigmoid(x: Numbers ROWS) => ops::logsigmoid(x);
    mish(x: Numbers ROWS) => ops::mish(x);
    elu(x: Numbers ROWS) => ops::elu(x, 0.7);
    selu(x: Numbers ROWS) => ops::selu(x);
    celu(x: Numbers ROWS) => ops::celu(x, 0.7);
    leaky_relu(x: Numbers ROWS) => ops::leaky_relu(x, 0.1);
    relu6(x: Numbers ROWS) => ops::relu6(x);
    hsigmoid(x: Numbers ROWS) => ops::hsigmoid(x);
    hswish(x: Numbers ROWS) => ops::hswish(x);
    softsign(x: Numbers ROWS) => ops::softsign(x);
    gelu(x: Numbers ROWS) => ops::gelu(x);
    gelu_tanh(x: Numbers ROWS) => ops::gelu_tanh(x);
    mean(x: Numbers ROWS) => ops::mean(x, 1);
    var(x: Numbers ROWS) => ops::var(x, 1, 1);
    std(x: Numbers ROWS) => ops::std(x, 1, 1);
    norm(x: Numbers ROWS) => ops::norm(x, 2.0, 1);
    logsumexp(x: Numbers ROWS) => ops::logsumexp(x, 1);
    addn(a: Numbers ROWS, b: Numbers ROWS, c: Numbers ROWS) => ops::addn(&[a, b, c]);
    addcmul(x: Numbers ROWS, a: Numbers ROWS, b: Numbers ROWS) => ops::addcmul(x, a, b, 0.1);
    addcdiv(x: Numbers ROWS, a: Numbers ROWS, b: Positive ROWS) => ops::addcdiv(x, a, b, 0.1);
    lerp(a: Numbers ROWS, b: Numbers ROWS) => ops::lerp(a, b, 0.3);
    log2(x: Positive ROWS) => ops::log2(x);
    log10(x: Positive ROWS) => ops::log10(x);
    logaddexp(a: Numbers ROWS, b: Numbers ROWS) => ops::logaddexp(a, b);
    interpolate(x: Numbers [1, 2, 3]) => ops::interpolate(x, &[5], ops::Interpolation::Linear { align_corners: false });
    attention_weights(q: Numbers ROWS, k: Numbers [5, 4]) => ops::attention_weights(q, k, &Default::default());
    mse_loss(x: Numbers ROWS, y: Numbers ROWS) => ops::mse_loss(x, y);
    l1_loss(x: Numbers ROWS, y: Numbers ROWS) => ops::l1_loss(x, y);
    smooth_l1_loss(x: Numbers ROWS, y: Numbers ROWS) => ops::smooth_l1_loss(x, y, 1.5, Reduction::Mean);
    huber_loss(x: Numbers ROWS, y: Numbers ROWS) => ops::huber_loss(x, y, 1.5, Reduction::None);
    binary_cross_entropy(x: Probabilities ROWS, y: Probabilities ROWS, w: Probabilities ROWS) =>
        ops::binary_cross_entropy(x, y, Some(w), Reduction::Mean);
    bce_with_logits(x: Numbers ROWS, y: Numbers ROWS, w: Numbers ROWS) =>
        ops::bce_with_logits(x, y, Some(w), Reduction::Mean);
    kl_div(x: Numbers ROWS, y: Positive ROWS) => ops::kl_div(x, y, false, Reduction::Sum);
    cosine_similarity(x: Numbers ROWS, y: Numbers ROWS) => ops::cosine_similarity(x, y, -1, 1e-8);
    cosine_embedding_loss(x: Numbers ROWS, y: Numbers ROWS, t: Signs [3]) =>
        ops::cosine_embedding_loss(x, y, t, 0.1, Reduction::Mean);
    MSELoss(x: Numbers ROWS, y: Numbers ROWS) => nn::MSELoss::new().call(x, y);
    L1Loss(x: Numbers ROWS, y: Numbers ROWS) => nn::L1Loss::new().call(x, y);
    SmoothL1Loss(x: Numbers ROWS, y: Numbers ROWS) => nn::SmoothL1Loss::new().call(x, y);
    HuberLoss(x: Numbers ROWS, y: Numbers ROWS) => nn::HuberLoss::new().call(x, y);
    BCELoss(x: Probabilities ROWS, y: Probabilities ROWS) => nn::BCELoss::new().call(x, y);
    BCEWithLogitsLoss(x: Numbers ROWS, y: Numbers ROWS) => nn::BCEWithLogitsLoss::new().call(x, y);
    KLDivLoss(x: Numbers ROWS, y: Positive ROWS) => nn::KLDivLoss::new().call(x, y);
    PoissonNLLLoss(x: Probabilities ROWS, y: Probabilities ROWS) => nn::PoissonNLLLoss::new().full(true).call(x, y);
    GaussianNLLLoss(x: Numbers ROWS, y: Numbers ROWS, v: Positive ROWS) =>
        nn::GaussianNLLLoss::new().full(true).call(x, y, v);
    SoftMarginLoss(x: Numbers ROWS, y: Signs ROWS) => nn::SoftMarginLoss::new().call(x, y);
    HingeEmbeddingLoss(x: Numbers ROWS, y: Signs ROWS) => nn::HingeEmbeddingLoss::new().call(x, y);
    CosineEmbeddingLoss(x: Numbers ROWS, y: Numbers ROWS, t: Signs [3]) =>
        nn::CosineEmbeddingLoss::new().call(x, y, t);
    MarginRankingLoss(x: Numbers ROWS, y: Numbers ROWS, t: Signs ROWS) => nn::MarginRankingLoss::new().call(x, y, t);
    TripletMarginLoss(a: Numbers ROWS, b: Numbers ROWS, c: Numbers ROWS) => nn::TripletMarginLoss::new().call(a, b, c);
    RMSELoss(x: Numbers ROWS, y: Numbers ROWS) => nn::RMSELoss.call(x, y);
    DiceLoss(x: Numbers ROWS, y: Positive ROWS) => nn::DiceLoss::default().call(x, y);
    MultiClassDiceLoss(x: Numbers ROWS, y: Positive ROWS) => nn::MultiClassDiceLoss::new().call(x, y);
    CrossEntropyLoss(x: Numbers [4, 3], y: Classes [4]) => nn::CrossEntropyLoss::new().call(x, y);
    NLLLoss(x: Numbers [4, 3], y: Classes [4]) => nn::NLLLoss::new().call(x, y);
    MultiLabelSoftMarginLoss(x: Numbers ROWS, y: Positive ROWS) => nn::MultiLabelSoftMarginLoss::new().call(x, y);
    MultiMarginLoss(x: Numbers [4, 3], y: Classes [4]) => nn::MultiMarginLoss::new().call(x, y);
    MultiLabelMarginLoss(x: Numbers [4, 3], y: Classes [4, 3]) => nn::MultiLabelMarginLoss::new().call(x, y);
    FocalLoss(x: Numbers [4, 3], y: Classes [4]) => nn::FocalLoss::new().call(x, y);
}

#[test]
fn functions_of_ops() {
    let checks = Checks::default();
    check_functions(&checks);
    checks.finish(2000);
}

/// The dtype cannot represent the squares or differences of these inputs.
#[test]
fn named_inputs() {
    let near = |got: Tensor, want: &[f64], digits: f64| {
        let got = numbers(&got);
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= digits * (1.0 + b.abs());
        assert!(got.len() == want.len() && got.iter().zip(want).all(is_near), "{got:?}, not {want:?}");
    };
    let f16 = |x: Tensor| x.cast(DType::F16);
    let pair = f16(tensor![[300., -300.]]);
    let ones = f16(tensor![1., 1.]);
    let digit = 2f64.powi(-10);
    near(ops::layer_norm(&pair, None, None, -1, 1e-5), &[1., -1.], digit);
    near(ops::rms_norm(&pair, &ones, -1, 1e-5), &[1., -1.], digit);
    let channels = pair.reshape([1, 1, 2]);
    let (one, zero) = (f16(tensor![1.]), f16(tensor![0.]));
    near(ops::group_norm(&channels, 1, &one, &zero, 1e-5), &[1., -1.], digit);
    near(ops::batch_norm(&channels, &one, &zero, None, 1e-5), &[1., -1.], digit);
    // At level O1, a layer computes in the dtype of its operand and has parameters of f32.
    near(nn::LayerNorm::new([2]).call(&pair), &[1., -1.], digit);
    let norm = nn::BatchNorm::new(1);
    near(norm.call(&channels), &[1., -1.], digit);
    near(norm.moving_variance.value(), &[0.9 + 0.1 * 180_000.0], 1e-6);
    near(
        ops::cosine_similarity(ops::full_of([2], 300.0, DType::F16), ops::full_of([2], 300.0, DType::F16), 0, 1e-8),
        &[1.],
        digit,
    );
    let x = f16(tensor![[400., 0.], [0., 400.]]);
    let options = ops::AttentionOptions { scale: Some(1.0), ..Default::default() };
    near(
        ops::scaled_dot_product_attention(&x, &x, f16(tensor![[1., 2.], [3., 4.]]), &options),
        &[1., 2., 3., 4.],
        digit,
    );
    let row = [10.01, 10.5, 9.2].map(rounded);
    let x = Tensor::from_slice([1, 3], &row).cast(DType::BF16);
    let want = numbers(&ops::layer_norm(Tensor::from_slice([1, 3], &row).cast(DType::F64), None, None, -1, 1e-5));
    near(ops::layer_norm(&x, None, None, -1, 1e-5), &want, 2f64.powi(-8));
}

/// Rounds to a number that bf16 can represent.
fn rounded(x: f64) -> f64 {
    numbers(&Tensor::from_slice([1], &[x]).cast(DType::BF16))[0]
}

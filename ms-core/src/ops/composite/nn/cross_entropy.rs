//! Cross entropy with classes or distributions.

use super::loss::Reduction;
use super::softmax::log_softmax;
use crate::error::{Code, Error, called};
use crate::ops::core::composite::first_result;
use crate::ops::core::rules::{Interval, check_dims, check_interval, may_equal};
use crate::ops::primitive::class_index::existing;
use crate::ops::{
    Batching, Derivative, Effects, OpDef, Sample, SampleInput, full_of, iota, mean, over_size, select, sum,
};
use crate::tensor::{AsTensor, Attrs, DType, Dim, Tensor, refused};
use smallvec::smallvec;

/// The cross entropy of logits with classes or distributions, and its options.
#[derive(Clone, Debug, Default)]
pub struct CrossEntropy {
    /// The reduction of the losses of examples.
    pub reduction: Reduction,
    /// Rescales the loss of each class: `[classes]`. The mean is divided by the sum of weights.
    pub weight: Option<Tensor>,
    /// Examples of this class are ignored.
    pub ignore_index: Option<i64>,
    /// The fraction of the target that is distributed evenly over all classes.
    pub label_smoothing: f64,
}

attributes! {
    /// The attributes of [`CROSS_ENTROPY`] and [`NLL_LOSS`]: the position of the reduction in [`Reduction::ALL`],
    /// whether examples of the class `ignore_index` are ignored, and the smoothing.
    struct CrossEntropyAttrs { reduction: usize, ignored: bool, ignore_index: i64, label_smoothing: f64 }
}

composite! {
    /// The cross entropy of logits with a target, with weights of classes if there is a third operand: see
    /// [`CrossEntropy::of`].
    CROSS_ENTROPY = 840: "cross_entropy", CrossEntropyAttrs::DECLARED;
    body |attrs, inputs| {
        let logs = log_softmax(inputs[0], class_axis(inputs[0]));
        smallvec![CrossEntropy::of_node(attrs, inputs).losses("cross_entropy", &logs, inputs[1])]
    };
    derivative Derivative::Body, finite: false;
    effects Effects::REFUSES;
    batching Batching::Derived;
    samples samples;
}

composite! {
    /// The negative log-likelihood of a target, with weights of classes if there is a third operand: see
    /// [`CrossEntropy::of_log_probabilities`].
    NLL_LOSS = 841: "nll_loss", CrossEntropyAttrs::DECLARED;
    body |attrs, inputs| smallvec![CrossEntropy::of_node(attrs, inputs).losses("nll_loss", inputs[0], inputs[1])];
    derivative Derivative::Body, finite: false;
    effects Effects::REFUSES;
    batching Batching::Derived;
    samples samples;
}

fn samples() -> Vec<Sample> {
    let classes = |dtype, given: CrossEntropy, weighted: bool| {
        let weight = weighted.then(|| SampleInput::of(dtype, &[4], 0.5, 1.5));
        let inputs = [SampleInput::of(dtype, &[3, 4, 2], -2.0, 2.0), SampleInput::of(DType::I64, &[3, 2], 0.0, 3.0)];
        Sample::new(inputs.into_iter().chain(weight)).attrs(given.attrs())
    };
    let smooth = |reduction| CrossEntropy { reduction, label_smoothing: 0.1, ..CrossEntropy::default() };
    let ignoring = CrossEntropy { ignore_index: Some(1), ..CrossEntropy::default() };
    let distributions = [SampleInput::f32(&[3, 4], -2.0, 2.0), SampleInput::f32(&[3, 4], 0.0, 1.0)];
    let mut samples = vec![
        classes(DType::F32, smooth(Reduction::None), true),
        classes(DType::F32, ignoring, true),
        Sample::new(distributions).attrs(smooth(Reduction::BatchMean).attrs()),
    ];
    samples.extend(
        [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| classes(it, smooth(Reduction::Mean), false)),
    );
    samples
}

/// The mean negative log-likelihood of classes: see [`CrossEntropy::of_log_probabilities`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::nll_loss(tensor![[-1., -2.], [-3., -4.]], tensor![0, 1]).to_vec::<f32>(), [2.5]);
/// ```
#[track_caller]
pub fn nll_loss(logs: impl AsTensor, target: impl AsTensor) -> Tensor {
    let _called = called("nll_loss");
    CrossEntropy::default().of_log_probabilities(logs, target)
}

/// The mean cross entropy: see [`CrossEntropy::of`].
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::cross_entropy(tensor![[200., 0.], [200., 0.]], tensor![0, 1]).to_vec::<f32>(), [100.]);
/// ```
#[track_caller]
pub fn cross_entropy(logits: impl AsTensor, target: impl AsTensor) -> Tensor {
    let _called = called("cross_entropy");
    CrossEntropy::default().of(logits, target)
}

impl CrossEntropy {
    /// `-Σ target log softmax(logits)` for logits `[n, classes, ..]` and either classes `[n, ..]`
    /// of an integer dtype or distributions `[n, classes, ..]` of a float dtype.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] if the target has neither shape or the weight is not one number for each
    /// class, [`Code::Argument`] for an `ignore_index` with distributions and a `label_smoothing` that
    /// is not from 0 to 1, and [`Code::OutOfRange`] at the caller's line, also in compiled code, for a
    /// class that does not exist, unless it is `ignore_index`.
    #[track_caller]
    pub fn of(&self, logits: impl AsTensor, target: impl AsTensor) -> Tensor {
        self.apply(&CROSS_ENTROPY, &logits.as_tensor(), &target.as_tensor())
    }

    /// [`CrossEntropy::of`] for logarithms of probabilities.
    #[track_caller]
    pub fn of_log_probabilities(&self, logs: impl AsTensor, target: impl AsTensor) -> Tensor {
        self.apply(&NLL_LOSS, &logs.as_tensor(), &target.as_tensor())
    }

    #[track_caller]
    fn apply(&self, def: &'static OpDef, x: &Tensor, target: &Tensor) -> Tensor {
        propagate_poison!(x, target);
        if let Some(weight) = &self.weight {
            propagate_poison!(weight);
        }
        if let Some(index) = self.ignore_index {
            or_poison!(Dim::plain(index).map_err(|it| it.with_op(def.name())));
        }
        let operands: Vec<&Tensor> = [x, target].into_iter().chain(&self.weight).collect();
        first_result(def, &self.attrs(), &operands)
    }

    fn attrs(&self) -> Attrs {
        let (ignored, index) = (self.ignore_index.is_some(), self.ignore_index.unwrap_or(0));
        CrossEntropyAttrs::attrs(self.reduction as usize, ignored, index, self.label_smoothing)
    }

    /// The losses of a node: those of logarithms of probabilities for its operands.
    fn of_node(attrs: &Attrs, operands: &[&Tensor]) -> Self {
        let it = CrossEntropyAttrs::of(attrs);
        Self {
            reduction: Reduction::ALL[it.reduction()],
            weight: operands.get(2).map(|&it| it.clone()),
            ignore_index: it.ignored().then(|| it.ignore_index()),
            label_smoothing: it.label_smoothing(),
        }
    }

    #[track_caller]
    fn losses(&self, name: &str, logs: &Tensor, target: &Tensor) -> Tensor {
        let axis = class_axis(logs);
        let Some(&classes) = logs.dims().get(axis as usize) else {
            return refused(Error::new(Code::Shape, format!("{} has no axis of classes", logs.ty())).with_op(name));
        };
        if let Some(weight) = &self.weight {
            or_poison!(check_dims(name, "weight", weight, &[classes]));
        }
        or_poison!(check_interval(name, "label_smoothing", self.label_smoothing, &Interval::SHARE));
        let along = |x: &Tensor| {
            let mut shape = vec![Dim::new(1); logs.rank()];
            shape[axis as usize] = classes;
            x.reshape(&*shape)
        };
        let weighted = match &self.weight {
            Some(weight) => logs * along(weight),
            None => logs.clone(),
        };
        if target.dtype().is_float() {
            or_poison!(check_dims(name, "target", target, &logs.dims()).map_err(|it| {
                let operands = [logs, target].map(|it| it.ty().to_string());
                it.with_operands(operands).help("floats are distributions over the classes; classes are integers")
            }));
            if let Some(index) = self.ignore_index {
                let message = format!("`ignore_index` is {index}, but the target {} is of distributions", target.ty());
                return refused(Error::new(Code::Argument, message).with_op(name));
            }
            let target = self.smooth(target, classes);
            let losses = -sum(&weighted * target, axis, false);
            return match self.reduction {
                Reduction::Mean => over_size(&sum(&losses, (), false), losses.ty().elements()),
                other => other.apply(&losses),
            };
        }
        let mut wanted = logs.dims();
        wanted.remove(axis as usize);
        if !may_equal(&target.dims(), &wanted) {
            let message = format!("{} takes classes of shape {wanted:?}, not {}", logs.ty(), target.ty());
            return refused(Error::new(Code::Shape, message).with_op(name));
        }
        let mut classes_of = existing(target, classes, self.ignore_index, name);
        // Checks that the numbers of classes agree.
        let fit = |it: usize| it <= 1 << (8 * classes_of.dtype().size() - 1);
        if !classes.as_const().is_some_and(fit) {
            classes_of = classes_of.cast(DType::I64);
        }
        // A mask instead of a gather, so that it is fused into an elementwise kernel.
        let hit = classes_of.expand_dims(axis).eq(along(&iota((classes,), 0, classes_of.dtype())));
        let picked = |x: &Tensor| sum(select(&hit, x, 0.0), axis, false);
        let mut losses = -picked(&weighted);
        if self.label_smoothing != 0.0 {
            let even = -over_size(&sum(&weighted, axis, false), classes);
            losses = losses * (1.0 - self.label_smoothing) + even * self.label_smoothing;
        }
        let counts = self.ignore_index.map(|index| classes_of.ne(index));
        if let Some(counts) = &counts {
            losses = select(counts, &losses, 0.0);
        }
        match (self.reduction, &self.weight, &counts) {
            (Reduction::Mean, None, None) => mean(&losses, (), false),
            (Reduction::Mean, weight, counts) => {
                let one = Tensor::ones_like(&losses);
                let share = weight.as_ref().map_or(one, |it| picked(&(along(it) * Tensor::ones_like(logs))));
                let share = counts.as_ref().map_or(share.clone(), |it| select(it, &share, 0.0));
                sum(&losses, (), false) / sum(share, (), false)
            }
            (other, ..) => other.apply(&losses),
        }
    }

    fn smooth(&self, target: &Tensor, classes: Dim) -> Tensor {
        if self.label_smoothing == 0.0 {
            return target.clone();
        }
        let even = over_size(&full_of((), self.label_smoothing, target.dtype()), classes);
        target * (1.0 - self.label_smoothing) + even
    }
}

/// The axis of the classes: the second one, if there is one.
fn class_axis(x: &Tensor) -> isize {
    if x.rank() < 2 { 0 } else { 1 }
}

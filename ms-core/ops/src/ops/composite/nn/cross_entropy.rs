//! Cross entropy with classes or distributions.

use super::loss::Reduction;
use super::softmax::LogSoftmax;
use crate::ops::core::composite::first_result;
use crate::ops::core::rules::{Interval, check_dims, check_interval, may_equal, sum_dtype};
use crate::ops::primitive::class_index::existing;
use crate::ops::{
    BatchedCall, Batching, Cotangents, Derivative, Effects, OpDef, Sample, SampleInput, Vjp, cast, exp, expand_dims,
    full_of, iota, keepdims, log, mean, over_size, select, sum, sum_axes,
};
use crate::tensor::{AsTensor, Attrs, DType, Dim, Outputs, Tensor};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result, called, raise};
use smallvec::smallvec;

/// The cross entropy of logits with classes or distributions, and its options.
///
/// ```
/// use ms_core::{ops, tensor};
/// let options = ops::CrossEntropy { ignore_index: Some(1), ..ops::CrossEntropy::default() };
/// let loss = options.of(tensor![[0.0, 0.0], [9.0, -9.0]], tensor![0, 1]);
/// assert!((loss.item::<f32>() - 2f32.ln()).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CrossEntropy {
    /// The reduction of the losses of examples.
    pub reduction: Reduction,
    /// The weights of the classes, `[classes]`, which scale their losses. The mean is divided by the sum of weights.
    pub weight: Option<Tensor>,
    /// The class whose examples are ignored.
    pub ignore_index: Option<i64>,
    /// The fraction of the target that is distributed evenly over all classes.
    pub label_smoothing: f64,
}

attributes! {
    /// The attributes of [`CROSS_ENTROPY`] and [`NLL_LOSS`]: the index of the reduction in [`Reduction::ALL`], whether
    /// examples of the class `ignore_index` are ignored, and the smoothing.
    struct CrossEntropyAttrs { reduction: usize where 0..=Reduction::ALL.len() as i64 - 1, ignored: bool, ignore_index: i64, label_smoothing: f64 }
}

composite! {
    /// Computes the cross entropy of logits with a target, with class weights if there is a third operand: see
    /// [`CrossEntropy::of`]. The derivative reads further results: the shift and the sum of `log_softmax`, and the
    /// divisor of the mean if examples have shares.
    CROSS_ENTROPY = 840: "cross_entropy", CrossEntropyAttrs::DECLARED;
    body cross_entropy_body;
    derivative Derivative::Rule(cross_entropy_gradients), finite: false;
    effects Effects::MAY_FAIL;
    batching Batching::Partial(over_lanes);
    samples samples;
}

composite! {
    /// Computes the negative log-likelihood of a target, with class weights if there is a third operand: see
    /// [`CrossEntropy::of_log_probabilities`]. The derivative reads a further result, the divisor of the mean, if
    /// examples have shares.
    NLL_LOSS = 841: "nll_loss", CrossEntropyAttrs::DECLARED;
    body |attrs, inputs| {
        Terms::of("nll_loss", &CrossEntropy::of_node(attrs, inputs), inputs[0], inputs[1]).results()
    };
    derivative Derivative::Rule(|it| {
        let options = CrossEntropy::of_node(it.attrs, &it.inputs.iter().collect::<Vec<_>>());
        loss_gradients(it, &Terms::of("nll_loss", &options, &it.inputs[0], &it.inputs[1]), 1)
    }), finite: false;
    effects Effects::MAY_FAIL;
    batching Batching::Partial(over_lanes);
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

/// Returns the mean negative log-likelihood of classes: see [`CrossEntropy::of_log_probabilities`].
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

/// Returns the mean cross entropy: see [`CrossEntropy::of`].
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
    /// Returns `-Σ target log softmax(logits)` for logits `[n, classes, ..]`. The target is classes `[n, ..]` of an
    /// integer dtype or distributions `[n, classes, ..]` of a float dtype.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] if the target has neither shape, or the weight is not one number for each class. Raises
    /// [`Code::Argument`] for an `ignore_index` with distributions, and a `label_smoothing` that is not from 0 to 1.
    /// Raises [`Code::OutOfRange`] for a class that does not exist, unless it is `ignore_index`. The error names the
    /// caller's line, also in compiled code.
    #[track_caller]
    pub fn of(&self, logits: impl AsTensor, target: impl AsTensor) -> Tensor {
        self.apply(&CROSS_ENTROPY, &logits.as_tensor(), &target.as_tensor())
    }

    /// Applies [`CrossEntropy::of`] to logarithms of probabilities.
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
        let operands: Vec<&Tensor> = [x, target].into_iter().chain(&self.weight).collect();
        first_result(def, &self.attrs(), &operands)
    }

    fn attrs(&self) -> Attrs {
        let (ignored, index) = (self.ignore_index.is_some(), self.ignore_index.unwrap_or(0));
        CrossEntropyAttrs::attrs(self.reduction as usize, ignored, index, self.label_smoothing)
    }

    /// Creates the options of a node whose operands are logarithms of probabilities.
    fn of_node(attrs: &Attrs, operands: &[&Tensor]) -> Self {
        let it = CrossEntropyAttrs::of(attrs);
        Self {
            reduction: Reduction::ALL[it.reduction()],
            weight: operands.get(2).map(|&it| it.clone()),
            ignore_index: it.ignored().then(|| it.ignore_index()),
            label_smoothing: it.label_smoothing(),
        }
    }
}

/// The operands of losses.
struct Terms<'a> {
    options: &'a CrossEntropy,
    /// The logarithms of probabilities.
    logs: &'a Tensor,
    /// The class axis.
    axis: isize,
    classes: Dim,
    target: Target,
}

enum Target {
    /// `hit`: whether a class is the class of the example. `counts`: whether an example is not ignored, if some are.
    Classes { hit: Tensor, counts: Option<Tensor> },
    /// The distributions, smoothed.
    Distributions(Tensor),
}

impl<'a> Terms<'a> {
    #[track_caller]
    fn of(name: &str, options: &'a CrossEntropy, logs: &'a Tensor, target: &Tensor) -> Self {
        let axis = class_axis(logs);
        let Some(&classes) = logs.dims().get(axis as usize) else {
            raise(Error::new(Code::Shape, format!("{} has no axis of classes", logs.ty())).with_op(name));
        };
        if let Some(weight) = &options.weight {
            check_dims(name, "weight", weight, &[classes]).or_raise();
        }
        check_interval(name, "label_smoothing", options.label_smoothing, &Interval::SHARE).or_raise();
        let target = match target.dtype().is_float() {
            true => Target::Distributions(options.distributions(name, logs, target, classes)),
            false => options.classes(name, logs, target, axis),
        };
        Self { options, logs, axis, classes, target }
    }

    /// Returns the loss, and the sum of the examples' shares if the mean is divided by it.
    #[track_caller]
    fn results(&self) -> Outputs {
        let losses = self.losses();
        match (self.options.reduction, &self.target) {
            (Reduction::Mean, Target::Distributions(_)) => {
                smallvec![over_size(&sum(&losses, ()), losses.ty().elements())]
            }
            (Reduction::Mean, Target::Classes { .. }) => match self.shares(&losses) {
                Some(shares) => {
                    let total = sum(shares, ());
                    smallvec![sum(&losses, ()) / &total, total]
                }
                None => smallvec![mean(&losses, ())],
            },
            (other, _) => smallvec![other.apply(&losses)],
        }
    }

    /// Returns the losses of the examples.
    #[track_caller]
    fn losses(&self) -> Tensor {
        let weighted = self.weighted(self.logs);
        let hit = match &self.target {
            Target::Distributions(target) => return -sum(weighted * target, self.axis),
            Target::Classes { hit, .. } => hit,
        };
        let mut losses = -self.picked(hit, &weighted);
        let smoothing = self.options.label_smoothing;
        if smoothing != 0.0 {
            let even = -over_size(&sum(&weighted, self.axis), self.classes);
            losses = losses * (1.0 - smoothing) + even * smoothing;
        }
        self.counted(losses)
    }

    /// Returns the weights of the examples in the mean, unless each counts one.
    #[track_caller]
    fn shares(&self, losses: &Tensor) -> Option<Tensor> {
        let Target::Classes { hit, counts } = &self.target else { return None };
        let shares = match (&self.options.weight, counts) {
            (None, None) => return None,
            (None, Some(_)) => Tensor::ones_like(losses),
            (Some(weight), _) => self.picked(hit, &(self.along(weight) * Tensor::ones_like(self.logs))),
        };
        Some(self.counted(shares))
    }

    /// Selects the elements of the examples' classes.
    #[track_caller]
    fn picked(&self, hit: &Tensor, x: &Tensor) -> Tensor {
        sum(select(hit, x, 0.0), self.axis)
    }

    /// Zeroes the ignored examples.
    #[track_caller]
    fn counted(&self, x: Tensor) -> Tensor {
        match &self.target {
            Target::Classes { counts: Some(counts), .. } => select(counts, x, 0.0),
            _ => x,
        }
    }

    /// Replaces the rows of ignored examples by a value, in a tensor with a class axis.
    fn counted_rows(&self, x: Tensor, ignored: f64) -> Tensor {
        match &self.target {
            Target::Classes { counts: Some(counts), .. } => select(expand_dims(counts, self.axis), x, ignored),
            _ => x,
        }
    }

    /// Aligns one number per class with the logarithms.
    fn along(&self, x: &Tensor) -> Tensor {
        along(self.axis, self.logs.rank(), x)
    }

    /// Multiplies by the class weights.
    fn weighted(&self, x: &Tensor) -> Tensor {
        self.options.weight.as_ref().map_or_else(|| x.clone(), |weight| x * self.along(weight))
    }

    /// Aligns one number per example with the logarithms.
    fn align_with_logs(&self, x: Tensor) -> Tensor {
        if x.rank() == 0 { x } else { expand_dims(x, self.axis) }
    }

    /// Returns the gradients of the logarithms, the target and the weight. `of` has the gradients of
    /// [`Terms::results`], which are `loss` and `total`.
    fn gradients(&self, of: [Option<&Tensor>; 2], loss: &Tensor, total: Option<&Tensor>) -> [Option<Tensor>; 3] {
        let [g, to_total] = of;
        let through = g.zip(total).map(|(g, total)| -(g * loss / total));
        let to_total = through.into_iter().chain(to_total.cloned()).reduce(|a, b| a + b);
        let each = g.map(|g| self.align_with_logs(self.counted(self.each(g, total))));
        let smoothing = self.options.label_smoothing;
        let to_weighted = each.as_ref().map(|each| match &self.target {
            Target::Distributions(target) => -(each * target),
            Target::Classes { hit, .. } if smoothing == 0.0 => select(hit, -each, 0.0),
            Target::Classes { hit, .. } => {
                select(hit, -(each * (1.0 - smoothing)), 0.0) - over_size(&(each * smoothing), self.classes)
            }
        });
        let to_target = match (&self.target, &each) {
            (Target::Distributions(_), Some(each)) => Some(-(each * self.weighted(self.logs)) * (1.0 - smoothing)),
            _ => None,
        };
        let by_share = match (&self.target, to_total) {
            (Target::Classes { hit, .. }, Some(to_total)) => {
                Some(select(hit, self.align_with_logs(self.counted(to_total)), 0.0))
            }
            _ => None,
        };
        let by_loss = to_weighted.as_ref().map(|it| it * self.logs);
        let to_weights = by_loss.into_iter().chain(by_share).reduce(|a, b| a + b);
        let others: Vec<usize> = (0..self.logs.rank()).filter(|&it| it != self.axis as usize).collect();
        [to_weighted.map(|it| self.weighted(&it)), to_target, to_weights.map(|it| sum_axes(&it, &others, false))]
    }

    /// Returns the gradient of each example's loss from the gradient of the result; a scalar if it is equal for all.
    fn each(&self, g: &Tensor, total: Option<&Tensor>) -> Tensor {
        let mut examples = self.logs.dims();
        examples.remove(self.axis as usize);
        // A narrow float may not represent the number of examples.
        let over = |count: Dim| cast(over_size(&cast(g, sum_dtype(g.dtype())), count), g.dtype());
        match (self.options.reduction, total) {
            (Reduction::Mean, Some(total)) => g / total,
            (Reduction::Mean, None) => over(examples.iter().copied().product()),
            (Reduction::BatchMean, _) => over(examples.first().copied().unwrap_or(Dim::new(1))),
            (Reduction::Sum | Reduction::None, _) => g.clone(),
        }
    }
}

impl CrossEntropy {
    /// Returns the target, smoothed.
    #[track_caller]
    fn distributions(&self, name: &str, logs: &Tensor, target: &Tensor, classes: Dim) -> Tensor {
        let checked = check_dims(name, "target", target, &logs.dims()).map_err(|it| {
            let operands = [logs, target].map(|it| it.ty().to_string());
            it.with_operands(operands).help("floats are distributions over the classes; classes are integers")
        });
        checked.or_raise();
        if let Some(index) = self.ignore_index {
            let message = format!("`ignore_index` is {index}, but the target {} is of distributions", target.ty());
            raise(Error::new(Code::Argument, message).with_op(name));
        }
        if self.label_smoothing == 0.0 {
            return target.clone();
        }
        let even = over_size(&full_of((), self.label_smoothing, target.dtype()), classes);
        target * (1.0 - self.label_smoothing) + even
    }

    /// Returns the classes of the target. A class that does not exist is an error at run time.
    #[track_caller]
    fn classes(&self, name: &str, logs: &Tensor, target: &Tensor, axis: isize) -> Target {
        let mut wanted = logs.dims();
        let classes = wanted.remove(axis as usize);
        if !may_equal(&target.dims(), &wanted) {
            let message = format!("{} takes classes of shape {wanted:?}, not {}", logs.ty(), target.ty());
            raise(Error::new(Code::Shape, message).with_op(name));
        }
        let mut classes_of = existing(target, classes, self.ignore_index, name);
        // Class indices that exceed the range of the target's dtype are compared as i64.
        let fit = |it: usize| it <= 1 << (8 * classes_of.dtype().size() - 1);
        if !classes.as_const().is_some_and(fit) {
            classes_of = classes_of.cast(DType::I64);
        }
        // A mask is fused into an elementwise kernel, a gather is not.
        let numbers = along(axis, logs.rank(), &iota((classes,), 0, classes_of.dtype()));
        let counts = self.ignore_index.map(|index| classes_of.ne(index));
        Target::Classes { hit: classes_of.expand_dims(axis).eq(numbers), counts }
    }
}

/// Aligns one number per class with the class axis of tensors of a rank.
fn along(axis: isize, rank: usize, x: &Tensor) -> Tensor {
    let mut shape = vec![Dim::new(1); rank];
    shape[axis as usize] = x.dims()[0];
    x.reshape(&*shape)
}

fn cross_entropy_body(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let LogSoftmax { logs, shift, sum } = LogSoftmax::of(inputs[0], class_axis(inputs[0]));
    let options = CrossEntropy::of_node(attrs, inputs);
    let terms = Terms::of("cross_entropy", &options, &logs, inputs[1]);
    let mut results = terms.results();
    // The statistics of ignored examples are replaced, so that the derivative stays finite.
    results.insert_many(1, [terms.counted_rows(shift, 0.0), terms.counted_rows(sum, 1.0)]);
    results
}

/// Returns the gradients `l - e (Σ l / s)`, where `e` are the powers with the sum `s`, and `l` is the gradient of the
/// logarithms. The logarithms of an ignored example differ from the forward ones, but its `l` is zero.
fn cross_entropy_gradients(it: &Vjp<'_>) -> Cotangents {
    let (x, [shift, powers_sum]) = (&it.inputs[0], [&it.outputs[1], &it.outputs[2]]);
    let shifted = x - shift;
    let logs = &shifted - log(powers_sum);
    let options = CrossEntropy::of_node(it.attrs, &it.inputs.iter().collect::<Vec<_>>());
    let terms = Terms::of("cross_entropy", &options, &logs, &it.inputs[1]);
    let mut all = loss_gradients(it, &terms, 3);
    let to_sum = it.cotangents[2].as_ref().map(|g| terms.counted_rows(g.clone(), 0.0));
    let to_logs = all[0].take();
    let summed = to_logs.as_ref().map(|l| -(sum(l, keepdims(class_axis(x))) / powers_sum));
    let to_powers = summed.into_iter().chain(to_sum).reduce(|a, b| a + b);
    let through = to_powers.map(|it| exp(terms.counted_rows(shifted, 0.0)) * it);
    all[0] = to_logs.into_iter().chain(through).reduce(|a, b| a + b).filter(|_| it.needs[0]);
    all
}

/// Returns the gradients of the logarithms, the target, and the weight if there is one. The result at index `total`, if
/// it exists, is the divisor of the mean.
fn loss_gradients(it: &Vjp<'_>, terms: &Terms<'_>, total: usize) -> Cotangents {
    let of = [it.cotangents[0].as_ref(), it.cotangents.get(total).and_then(Option::as_ref)];
    let all = terms.gradients(of, &it.outputs[0], it.outputs.get(total));
    let operand = |(gradient, operand): (Option<Tensor>, &Tensor)| gradient.map(|it| cast(it, operand.dtype()));
    all.into_iter().zip(it.inputs).map(operand).collect()
}

/// Computes the losses of all lanes as examples of one node, then reduces lane by lane.
fn over_lanes(it: &BatchedCall<'_>) -> Option<Result<Outputs>> {
    let (attrs, rank, distributions) = (CrossEntropyAttrs::of(it.attrs), it.rank(0), it.inputs[1].dtype().is_float());
    let reduction = Reduction::ALL[attrs.reduction()];
    // The mean of a lane is divided by the shares of its examples.
    let is_shared = !distributions && (it.inputs.len() == 3 || attrs.ignored());
    if rank == 0 || it.mapped.get(2) == Some(&true) || is_shared && matches!(reduction, Reduction::Mean) {
        return None;
    }
    let none = Reduction::None as usize;
    let each = CrossEntropyAttrs::attrs(none, attrs.ignored(), attrs.ignore_index(), attrs.label_smoothing());
    let lanes = BatchedCall { attrs: &each, ..*it };
    // Lanes of one example become examples.
    let outputs = match rank {
        1 => it.apply(&each, &[&[it.spread(0), it.spread(1)], &it.inputs[2..]].concat()),
        _ => lanes.merged_to(2),
    };
    let reduced = |losses: &Tensor| {
        let axes: Vec<usize> = (1..losses.rank()).collect();
        match reduction {
            _ if axes.is_empty() => losses.clone(),
            Reduction::None => losses.clone(),
            Reduction::Sum => sum_axes(losses, &axes, false),
            Reduction::BatchMean => over_size(&sum_axes(losses, &axes, false), losses.dims()[1]),
            Reduction::Mean if distributions => {
                over_size(&sum_axes(losses, &axes, false), losses.dims()[1..].iter().copied().product())
            }
            Reduction::Mean => mean(losses, axes.map_vec(|&it| it as isize)),
        }
    };
    Some(outputs.map(|mut outputs| {
        outputs[0] = reduced(&outputs[0]);
        outputs
    }))
}

/// Returns the class axis: the second one if it exists, else the first.
fn class_axis(x: &Tensor) -> isize {
    if x.rank() < 2 { 0 } else { 1 }
}

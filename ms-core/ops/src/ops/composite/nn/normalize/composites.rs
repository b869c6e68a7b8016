//! The normalisations as composites. Results after the first are statistics, which only derivatives read.

use super::{channels, over_axes, per_channel};
use crate::ops::core::axis::named;
use crate::ops::core::rules::to_operand;
use crate::ops::{
    Batching, Cotangents, Derivative, Sample, SampleInput, Vjp, broadcast_to, cast, keepdims, mean, over_size, rsqrt,
    var,
};
use crate::tensor::{Attrs, DType, Dim, Outputs, Tensor};
use ms_ir::error::{Code, Error, OrRaise, raise};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`LAYER_NORM`]: the first axis, the addend of variances, and whether operand 1 is `gamma`.
    pub(super) struct LayerNormAttrs { axis: usize, eps: f64, scaled: bool }
}

attributes! {
    /// The attributes of [`RMS_NORM`]: the first axis and the addend of mean squares.
    pub(super) struct RmsNormAttrs { axis: usize, eps: f64 }
}

attributes! {
    /// The attributes of normalisations of channels: the addend of variances.
    pub(super) struct EpsAttrs { eps: f64 }
}

attributes! {
    /// The attributes of [`GROUP_NORM`]: the number of groups and the addend of variances.
    pub(super) struct GroupNormAttrs { groups: usize, eps: f64 }
}

composite! {
    /// Computes `(x - mean) rstd [gamma] [+ beta]` over the axes from `axis` on, the means, and `rstd = 1 /
    /// sqrt(variance + eps)`. The operands are `x`, an optional `gamma`, and an optional `beta`.
    LAYER_NORM = 810: "layer_norm", LayerNormAttrs::DECLARED;
    body layer_norm;
    derivative Derivative::Rule(layer_norm_gradients), finite: false;
    batching Batching::Partial(|it| it.only_first().then(|| it.apply(&it.shifted("axis"), it.inputs)));
    samples layer_norm_samples;
}

composite! {
    /// Computes `x rrms gamma` over the axes from `axis` on, and `rrms = 1 / sqrt(mean(x²) + eps)`.
    RMS_NORM = 811: "rms_norm", RmsNormAttrs::DECLARED;
    body rms_norm;
    derivative Derivative::Rule(rms_norm_gradients), finite: false;
    batching Batching::Partial(|it| it.only_first().then(|| it.apply(&it.shifted("axis"), it.inputs)));
    samples rms_norm_samples;
}

composite! {
    /// Computes `(x - mean) rstd gamma + beta` per channel of `x` `[n, c, ..]`. The operands are `x`, `gamma`, `beta`,
    /// and optional means and variances. Without these, the statistics of `x` are used, and the means and `rstd = 1 /
    /// sqrt(variance + eps)` are further results.
    BATCH_NORM = 812: "batch_norm", EpsAttrs::DECLARED;
    body batch_norm;
    derivative Derivative::Rule(batch_norm_gradients), finite: false;
    // Statistics of `x` belong to a single lane.
    batching Batching::Partial(|it| (it.only_first() && it.inputs.len() == 5).then(|| it.merged_to(1)));
    samples batch_norm_samples;
}

composite! {
    /// Computes `(x - mean) rstd gamma + beta` of `x` `[n, c, ..]`, with the statistics of each of `groups` groups of
    /// channels of an example. Further results are the means and `rstd = 1 / sqrt(variance + eps)`, `[n, groups, 1]`.
    /// `gamma` and `beta` are `[c]`.
    GROUP_NORM = 813: "group_norm", GroupNormAttrs::DECLARED;
    body group_norm;
    derivative Derivative::Rule(group_norm_gradients), finite: false;
    batching Batching::Partial(|it| it.only_first().then(|| it.merged_to(1)));
    samples group_norm_samples;
}

composite! {
    /// Computes `(x - mean) rstd gamma + beta` of `x` `[n, c, ..]`, with the statistics of each channel of an example.
    /// Further results are the means and `rstd = 1 / sqrt(variance + eps)`. `gamma` and `beta` are `[c]`.
    INSTANCE_NORM = 814: "instance_norm", EpsAttrs::DECLARED;
    body instance_norm;
    derivative Derivative::Rule(instance_norm_gradients), finite: false;
    batching Batching::Partial(|it| it.only_first().then(|| it.merged_to(1)));
    samples instance_norm_samples;
}

/// `x` normalised to mean zero and variance one over some axes.
struct Standardized {
    normal: Tensor,
    mean: Tensor,
    /// The reciprocal of the standard deviation.
    rstd: Tensor,
}

impl Standardized {
    fn of(x: &Tensor, axes: &[isize], eps: f64) -> Self {
        let (mean, rstd) = (mean(x, keepdims(axes)), rsqrt(var(x, keepdims(axes), 0) + eps));
        Self { normal: (x - &mean) * &rstd, mean, rstd }
    }

    /// Normalises `x` with known statistics.
    fn known(x: &Tensor, mean: &Tensor, rstd: &Tensor) -> Self {
        Self { normal: (x - mean) * rstd, mean: mean.clone(), rstd: rstd.clone() }
    }

    /// Returns `y`, then the statistics.
    fn results(self, y: Tensor) -> Outputs {
        smallvec![y, self.mean, self.rstd]
    }

    /// Returns the gradient of `x` from the gradients of `normal`, `mean` and `rstd`.
    fn gradient(&self, axes: &[isize], [normal, centre, scale]: [Option<&Tensor>; 3]) -> Option<Tensor> {
        let Self { normal: y, rstd, .. } = self;
        let count = count(y, axes);
        let terms = [
            normal.map(|g| rstd * (g - mean(g, keepdims(axes)) - y * mean(g * y, keepdims(axes)))),
            centre.map(|g| broadcast_to(over_size(g, count), y.dims())),
            scale.map(|g| -(y * (rstd * rstd * over_size(g, count)))),
        ];
        terms.into_iter().flatten().reduce(|a, b| a + b)
    }
}

/// Returns the number of elements along axes.
fn count(x: &Tensor, axes: &[isize]) -> Dim {
    axes.iter().map(|&axis| x.dims()[axis as usize]).product()
}

/// Returns all axes from `axis` on.
fn from(axis: usize, x: &Tensor) -> Vec<isize> {
    (axis as isize..x.rank() as isize).collect()
}

/// Returns all axes but the channel axis.
fn around_channels(x: &Tensor) -> Vec<isize> {
    (0..x.rank() as isize).filter(|&it| it != 1).collect()
}

/// Sums a gradient to one entry for each channel.
fn to_channels(gradient: &Tensor, operand: &Tensor) -> Tensor {
    cast(crate::ops::sum(gradient, around_channels(gradient)), operand.dtype())
}

fn layer_norm(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let it = LayerNormAttrs::of(attrs);
    let (x, rest) = inputs.split_first().expect("operand 0 is `x`");
    let (gamma, beta) = if it.scaled() { (rest.first(), rest.get(1)) } else { (None, rest.first()) };
    for (name, operand) in [("gamma", gamma), ("beta", beta)] {
        operand.map_or(Ok(()), |operand| over_axes("layer_norm", x, it.axis(), name, operand)).or_raise();
    }
    let standard = Standardized::of(x, &from(it.axis(), x), it.eps());
    let scaled = gamma.map_or(standard.normal.clone(), |&gamma| &standard.normal * gamma);
    let y = beta.map_or(scaled.clone(), |&beta| scaled + beta);
    standard.results(y)
}

fn layer_norm_gradients(it: &Vjp<'_>) -> Cotangents {
    let attrs = LayerNormAttrs::of(it.attrs);
    let (x, g) = (&it.inputs[0], it.cotangents[0].as_ref());
    let standard = Standardized::known(x, &it.outputs[1], &it.outputs[2]);
    let gamma = if attrs.scaled() { Some(&it.inputs[1]) } else { None };
    let normal = g.map(|g| cast(gamma.map_or(g.clone(), |gamma| g * gamma), x.dtype()));
    let given = [normal.as_ref(), it.cotangents[1].as_ref(), it.cotangents[2].as_ref()];
    let mut all: Cotangents = smallvec![standard.gradient(&from(attrs.axis(), x), given)];
    all.extend(gamma.map(|gamma| g.map(|g| to_operand(&(g * &standard.normal), gamma))));
    all.extend(it.inputs.get(all.len()).map(|beta| g.map(|g| to_operand(g, beta))));
    all
}

fn layer_norm_samples() -> Vec<Sample> {
    let of = |dtype, shape: &[usize], axis: usize, scaled: bool, rest: &[&[usize]]| {
        let rest = rest.iter().map(|shape| SampleInput::of(dtype, shape, 0.5, 1.5));
        let inputs = std::iter::once(SampleInput::of(dtype, shape, -2.0, 2.0)).chain(rest);
        Sample::new(inputs).attrs(LayerNormAttrs::attrs(axis, 1e-3, scaled))
    };
    let full = |dtype| of(dtype, &[3, 4], 1, true, &[&[4], &[4]]);
    vec![
        full(DType::F32),
        of(DType::F32, &[2, 3, 2], 1, true, &[&[3, 2]]),
        of(DType::F32, &[3, 5], 1, false, &[&[5]]),
        of(DType::F32, &[2, 3], 1, true, &[&[], &[]]),
        of(DType::F32, &[4, 3], 0, false, &[]),
        full(DType::F64),
        full(DType::F16),
        full(DType::BF16),
    ]
}

fn rms_norm(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let it = RmsNormAttrs::of(attrs);
    let [x, gamma] = inputs else { unreachable!("the operands are `x` and `gamma`") };
    over_axes("rms_norm", x, it.axis(), "gamma", gamma).or_raise();
    let rrms = rsqrt(mean(x.square(), keepdims(from(it.axis(), x))) + it.eps());
    smallvec![*x * &rrms * *gamma, rrms]
}

fn rms_norm_gradients(it: &Vjp<'_>) -> Cotangents {
    let (x, gamma, rrms) = (&it.inputs[0], &it.inputs[1], &it.outputs[1]);
    let axes = from(RmsNormAttrs::of(it.attrs).axis(), x);
    let (g, normal) = (it.cotangents[0].as_ref(), x * rrms);
    let through = g.map(|g| {
        let g = cast(g * gamma, x.dtype());
        rrms * (&g - &normal * mean(&g * &normal, keepdims(&*axes)))
    });
    let scale = it.cotangents[1].as_ref().map(|g| -(&normal * (rrms * rrms * over_size(g, count(x, &axes)))));
    let to_x = [through, scale].into_iter().flatten().reduce(|a, b| a + b);
    smallvec![to_x, g.map(|g| to_operand(&(g * &normal), gamma))]
}

fn rms_norm_samples() -> Vec<Sample> {
    let of = |dtype, shape: &[usize], axis: usize, gamma: &[usize]| {
        Sample::new([SampleInput::of(dtype, shape, -2.0, 2.0), SampleInput::of(dtype, gamma, 0.5, 1.5)])
            .attrs(RmsNormAttrs::attrs(axis, 1e-3))
    };
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, &[3, 4], 1, &[4]));
    let shapes = [of(DType::F32, &[2, 3, 2], 1, &[3, 2]), of(DType::F32, &[5], 0, &[])];
    dtypes.into_iter().chain(shapes).collect()
}

fn batch_norm(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let eps = EpsAttrs::of(attrs).eps();
    let [x, gamma, beta, given @ ..] = inputs else { unreachable!("the operands are `x`, `gamma`, `beta`") };
    let names = ["gamma", "beta", "mean", "var"].into_iter().zip(inputs[1..].iter().copied());
    channels("batch_norm", x, &names.collect::<Vec<_>>()).or_raise();
    let rank = x.rank();
    let apply = |centre: &Tensor, rstd: &Tensor| {
        (*x - per_channel(centre, rank)) * per_channel(&(rstd * *gamma), rank) + per_channel(beta, rank)
    };
    match given {
        [mean, var] => smallvec![apply(mean, &rsqrt(*var + eps))],
        _ => {
            let axes = around_channels(x);
            let (mean, rstd) = (mean(*x, &*axes), rsqrt(var(*x, &*axes, 0) + eps));
            smallvec![apply(&mean, &rstd), mean, rstd]
        }
    }
}

fn batch_norm_gradients(it: &Vjp<'_>) -> Cotangents {
    let [x, gamma, beta, given @ ..] = it.inputs else { unreachable!("the operands are `x`, `gamma`, `beta`") };
    let (rank, g) = (x.rank(), it.cotangents[0].as_ref());
    let aligned = |x: &Tensor| per_channel(x, rank);
    if let [mean, var] = given {
        let g = it.cotangent();
        let rstd = rsqrt(var + EpsAttrs::of(it.attrs).eps());
        let normal = (x - aligned(mean)) * aligned(&rstd);
        let to_x = g * aligned(&(&rstd * gamma));
        let (sum, scaled) = (to_channels(g, gamma), to_channels(&(g * &normal), gamma));
        let to_mean = -(&sum * &rstd * gamma);
        let to_var = -0.5 * (&scaled * gamma * &rstd * &rstd);
        return smallvec![
            Some(cast(to_x, x.dtype())),
            Some(scaled),
            Some(cast(sum, beta.dtype())),
            Some(cast(to_mean, mean.dtype())),
            Some(cast(to_var, var.dtype())),
        ];
    }
    let standard = Standardized::known(x, &aligned(&it.outputs[1]), &aligned(&it.outputs[2]));
    let normal = g.map(|g| cast(g * aligned(gamma), x.dtype()));
    let (mean, rstd) = (it.cotangents[1].as_ref().map(aligned), it.cotangents[2].as_ref().map(aligned));
    smallvec![
        standard.gradient(&around_channels(x), [normal.as_ref(), mean.as_ref(), rstd.as_ref()]),
        g.map(|g| to_channels(&(g * &standard.normal), gamma)),
        g.map(|g| to_channels(g, beta)),
    ]
}

fn batch_norm_samples() -> Vec<Sample> {
    let of = |dtype, shape: &[usize], operands: usize| {
        let channels = [shape[1]];
        let rest = (1..operands).map(|_| SampleInput::of(dtype, &channels, 0.5, 1.5));
        Sample::new(std::iter::once(SampleInput::of(dtype, shape, -2.0, 2.0)).chain(rest)).attrs(EpsAttrs::attrs(1e-3))
    };
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, &[4, 3], 3));
    dtypes.into_iter().chain([of(DType::F32, &[2, 3, 2, 2], 3), of(DType::F32, &[2, 3, 2], 5)]).collect()
}

/// Reshapes `x` `[n, c, ..]` to `[n, groups, ..]`.
fn grouped(x: &Tensor, groups: usize) -> Tensor {
    let dims = x.dims();
    let rest: Dim = dims[1..].iter().copied().product();
    x.reshape((dims[0], groups, rest / groups))
}

fn group_norm(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let it = GroupNormAttrs::of(attrs);
    let [x, gamma, beta] = inputs else { unreachable!("the operands are `x`, `gamma` and `beta`") };
    let channels = channels("group_norm", x, &[("gamma", gamma), ("beta", beta)]).or_raise();
    let groups = it.groups();
    if groups == 0 || channels.as_const().is_some_and(|it| it % groups != 0) {
        let message = format!("`groups` is {groups}, but has to divide the {channels} channels");
        raise(named("group_norm", &[x], Error::new(Code::Argument, message)));
    }
    let standard = Standardized::of(&grouped(x, groups), &[2], it.eps());
    let normal = standard.normal.reshape(x.dims());
    let y = normal * per_channel(gamma, x.rank()) + per_channel(beta, x.rank());
    standard.results(y)
}

fn group_norm_gradients(it: &Vjp<'_>) -> Cotangents {
    let groups = GroupNormAttrs::of(it.attrs).groups();
    let x = &it.inputs[0];
    let standard = Standardized::known(&grouped(x, groups), &it.outputs[1], &it.outputs[2]);
    let normal = standard.normal.reshape(x.dims());
    channel_gradients(it, &standard, &[2], &normal, |g| grouped(g, groups))
}

fn instance_norm(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let [x, gamma, beta] = inputs else { unreachable!("the operands are `x`, `gamma` and `beta`") };
    channels("instance_norm", x, &[("gamma", gamma), ("beta", beta)]).or_raise();
    let standard = Standardized::of(x, &from(2, x), EpsAttrs::of(attrs).eps());
    let y = &standard.normal * per_channel(gamma, x.rank()) + per_channel(beta, x.rank());
    standard.results(y)
}

fn instance_norm_gradients(it: &Vjp<'_>) -> Cotangents {
    let x = &it.inputs[0];
    let standard = Standardized::known(x, &it.outputs[1], &it.outputs[2]);
    channel_gradients(it, &standard, &from(2, x), &standard.normal, Tensor::clone)
}

/// Returns the gradients of `x`, `gamma` and `beta`. `standard` normalises `x` over `axes` of another shape, to which
/// `shaped` reshapes. `normal` is its result in the shape of `x`.
fn channel_gradients(
    it: &Vjp<'_>,
    standard: &Standardized,
    axes: &[isize],
    normal: &Tensor,
    shaped: impl Fn(&Tensor) -> Tensor,
) -> Cotangents {
    let [x, gamma, beta] = it.inputs else { unreachable!("the operands are `x`, `gamma` and `beta`") };
    let g = it.cotangents[0].as_ref();
    let through = g.map(|g| shaped(&cast(g * per_channel(gamma, x.rank()), x.dtype())));
    let given = [through.as_ref(), it.cotangents[1].as_ref(), it.cotangents[2].as_ref()];
    smallvec![
        standard.gradient(axes, given).map(|it| it.reshape(x.dims())),
        g.map(|g| to_channels(&(g * normal), gamma)),
        g.map(|g| to_channels(g, beta)),
    ]
}

fn group_norm_samples() -> Vec<Sample> {
    let of =
        |dtype, shape: &[usize], groups: usize| channel_sample(dtype, shape).attrs(GroupNormAttrs::attrs(groups, 1e-3));
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, &[2, 4, 3], 2));
    dtypes.into_iter().chain([of(DType::F32, &[2, 3, 2, 2], 1)]).collect()
}

fn instance_norm_samples() -> Vec<Sample> {
    let of = |dtype, shape: &[usize]| channel_sample(dtype, shape).attrs(EpsAttrs::attrs(1e-3));
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, &[2, 3, 4]));
    dtypes.into_iter().chain([of(DType::F32, &[2, 2, 3, 2])]).collect()
}

/// Creates a sample with `x`, `gamma` and `beta`.
fn channel_sample(dtype: DType, shape: &[usize]) -> Sample {
    let channel = || SampleInput::of(dtype, &[shape[1]], 0.5, 1.5);
    Sample::new([SampleInput::of(dtype, shape, -2.0, 2.0), channel(), channel()])
}

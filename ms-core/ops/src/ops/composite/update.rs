//! Parameter updates of optimisers.

use crate::ops::core::wide::Inner;
use crate::ops::{Batching, Derivative, Sample, SampleInput, maximum};
use crate::tensor::{Attrs, DType, Outputs, Tensor, apply};
use ms_ir::error::{Code, Error, OrRaise, called, raise};
use smallvec::SmallVec;

/// A parameter update by Adam (Kingma and Ba 2015), with the scalars of a step that all parameters share. All tensors
/// have one dtype.
///
/// ```
/// use ms_core::{ops, tensor};
/// let zero = tensor![0.0];
/// // The first step, with a rate of 0.1 and without corrections.
/// let update = ops::AdamUpdate {
///     value: &tensor![1.0],
///     gradient: &tensor![2.0],
///     moments: [&zero, &zero],
///     largest: None,
///     rate: &tensor![0.1],
///     root: &tensor![1.0],
///     shares: [&tensor![1.0], &tensor![1.0]],
///     epsilon: &tensor![0.0],
///     decay: None,
/// };
/// let next = update.apply();
/// assert!((next[0].item::<f32>() - 0.9).abs() < 1e-6);
/// assert_eq!((next[1].item::<f32>(), next[2].item::<f32>()), (2.0, 4.0));
/// ```
#[derive(Clone, Copy)]
pub struct AdamUpdate<'a> {
    /// The parameter.
    pub value: &'a Tensor,
    /// The gradient.
    pub gradient: &'a Tensor,
    /// The moving averages of the gradient and of its square.
    pub moments: [&'a Tensor; 2],
    /// The largest moving average of squares so far, which replaces the average.
    pub largest: Option<&'a Tensor>,
    /// `lr / (1 - β₁ᵗ)`.
    pub rate: &'a Tensor,
    /// `sqrt(1 - β₂ᵗ)`.
    pub root: &'a Tensor,
    /// `1 - β₁` and `1 - β₂`.
    pub shares: [&'a Tensor; 2],
    /// `ε`.
    pub epsilon: &'a Tensor,
    /// The weight decay: the factor of the parameter, and the target to which the product is added.
    pub decay: Option<(&'a Tensor, Decay)>,
}

/// The target to which a weight decay is added.
///
/// ```
/// use ms_core::{ops, tensor};
/// use ops::Decay;
/// let (zero, one, rate) = (tensor![0.0], tensor![1.0], tensor![0.5]);
/// let next = |decay| {
///     let (largest, shares) = (None, [&one, &one]);
///     let moments = [&zero, &zero];
///     ops::AdamUpdate {
///         value: &tensor![4.0], gradient: &one, moments, largest, rate: &rate, root: &one, shares, epsilon: &zero,
///         decay: Some((&tensor![0.25], decay)),
///     }
///     .apply()
/// };
/// // The moment is that of the gradient 1, or of 1 + 0.25 * 4.
/// assert_eq!((next(Decay::Value)[1].item::<f32>(), next(Decay::Gradient)[1].item::<f32>()), (1.0, 2.0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decay {
    /// Adds to the gradient.
    Gradient,
    /// Adds to the parameter.
    Value,
}

attributes! {
    /// The attributes of [`ADAM_UPDATE`]. `decayed` says whether there is an operand `decay`, and `decoupled` whether
    /// it is added to the parameter instead of the gradient. `amsgrad` says whether the last operand is `largest`.
    struct AdamAttrs { decayed: bool, decoupled: bool, amsgrad: bool }
}

composite! {
    /// Computes the next value of a parameter, the moments, and the largest second moment if it is an operand: see
    /// [`AdamUpdate`]. The operands are the parameter, the gradient, the moments, the rate, the root, the shares, `ε`,
    /// the decay and the largest second moment.
    ///
    /// The op has no derivative rule. An update is differentiated only if optimisation is part of a function. The
    /// derivative then needs every intermediate value of the body, so a rule would repeat the rules of the body's ops.
    ADAM_UPDATE = 890: "adam_update", AdamAttrs::DECLARED;
    body adam;
    derivative Derivative::Body, finite: false;
    inner Inner::Wide { rounded: 4 };
    // Every result depends on the gradient.
    batching Batching::Partial(|it| it.broadcast(1));
    samples adam_samples;
}

composite! {
    /// Computes the next value of a parameter and of its velocity: `v' = momentum v + g`, `p' = p - rate v'`, or with
    /// Nesterov's step `p' = p - rate (g + momentum v')`. The operands are the parameter, the velocity, the gradient,
    /// the rate, and the momentum. The op has no derivative rule, for the reason given at [`ADAM_UPDATE`].
    MOMENTUM_UPDATE = 891: "momentum_update", MomentumAttrs::DECLARED;
    body momentum;
    derivative Derivative::Body, finite: true;
    inner Inner::Wide { rounded: 2 };
    batching Batching::Partial(|it| it.broadcast(2));
    samples momentum_samples;
}

attributes! {
    /// The attributes of [`MOMENTUM_UPDATE`].
    struct MomentumAttrs { nesterov: bool }
}

impl AdamUpdate<'_> {
    /// Returns the next value of the parameter, the moments, and the largest second moment if it is given.
    ///
    /// # Panics
    /// Raises [`Code::Shape`](crate::Code::Shape) when shapes do not broadcast.
    #[track_caller]
    pub fn apply(&self) -> Outputs {
        let Self { value, gradient, moments: [m, v], largest, rate, root, shares: [s1, s2], epsilon, decay } = *self;
        let decoupled = decay.is_some_and(|it| it.1 == Decay::Value);
        let attrs = AdamAttrs::attrs(decay.is_some(), decoupled, largest.is_some());
        let given = [value, gradient, m, v, rate, root, s1, s2, epsilon];
        let operands: SmallVec<[&Tensor; 11]> = given.into_iter().chain(decay.map(|it| it.0)).chain(largest).collect();
        apply(ADAM_UPDATE.op(), &attrs, &operands).or_raise()
    }
}

/// Returns the next value of a parameter and of its velocity, with Nesterov's step if `nesterov` is set. `rate` and
/// `momentum` are scalars. All operands have one dtype.
///
/// # Panics
/// Raises [`Code::Shape`](crate::Code::Shape) when shapes do not broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// let (rate, momentum) = (tensor![0.5], tensor![0.5]);
/// let next = ops::momentum_update(&tensor![1.], &tensor![2.], &tensor![1.], &rate, &momentum, false);
/// assert_eq!((next[0].to_vec::<f32>(), next[1].to_vec::<f32>()), (vec![0.], vec![2.]));
/// ```
#[track_caller]
pub fn momentum_update(
    value: &Tensor,
    velocity: &Tensor,
    gradient: &Tensor,
    rate: &Tensor,
    momentum: &Tensor,
    nesterov: bool,
) -> Outputs {
    let _called = called("momentum_update");
    let attrs = MomentumAttrs::attrs(nesterov);
    apply(MOMENTUM_UPDATE.op(), &attrs, &[value, velocity, gradient, rate, momentum]).or_raise()
}

fn adam(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let it = AdamAttrs::of(attrs);
    let [value, gradient, m, v, rate, root, first_share, second_share, epsilon, rest @ ..] = inputs else {
        unreachable!("only the decay and the largest moment may lack")
    };
    if rest.len() != usize::from(it.decayed()) + usize::from(it.amsgrad()) {
        let message = format!("{} operands do not fit the attributes", inputs.len());
        raise(Error::new(Code::Argument, message).with_op("adam_update"));
    }
    let (mut value, mut gradient) = ((*value).clone(), (*gradient).clone());
    if it.decayed() {
        match it.decoupled() {
            true => value = &value + &value * rest[0],
            false => gradient = gradient + &value * rest[0],
        }
    }
    let averaged = |last: &Tensor, term: &Tensor, share: &Tensor| last + (term - last) * share;
    let first = averaged(m, &gradient, first_share);
    let second = averaged(v, &gradient.square(), second_share);
    let largest = it.amsgrad().then(|| maximum(rest[rest.len() - 1], &second));
    let spread = largest.as_ref().unwrap_or(&second);
    let next = value - &first * *rate / (spread.sqrt() / *root + *epsilon);
    [next, first, second].into_iter().chain(largest).collect()
}

fn momentum(attrs: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let [value, velocity, gradient, rate, momentum] = inputs else { unreachable!("there are five operands") };
    let next = *velocity * *momentum + *gradient;
    let direction = if MomentumAttrs::of(attrs).nesterov() { *gradient + &next * *momentum } else { next.clone() };
    [*value - direction * *rate, next].into_iter().collect()
}

fn adam_samples() -> Vec<Sample> {
    let of = |dtype, decayed: bool, decoupled: bool, amsgrad: bool| {
        let any = |shape: &[usize], low, high| SampleInput::of(dtype, shape, low, high);
        let mut inputs = vec![any(&[2, 3], -1.0, 1.0), any(&[2, 3], 0.5, 1.0), any(&[2, 3], -1.0, 1.0)];
        inputs.extend([any(&[2, 3], 0.2, 1.0), any(&[], 0.1, 0.2), any(&[], 0.5, 0.9), any(&[], 0.1, 0.2)]);
        inputs.extend([any(&[], 0.1, 0.2), any(&[], 0.01, 0.02)]);
        inputs.extend(decayed.then(|| any(&[], 0.05, 0.1)));
        inputs.extend(amsgrad.then(|| any(&[2, 3], 1.5, 2.0)));
        Sample::new(inputs).attrs(AdamAttrs::attrs(decayed, decoupled, amsgrad))
    };
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, false, false, false));
    dtypes.into_iter().chain([of(DType::F32, true, true, false), of(DType::F32, true, false, true)]).collect()
}

fn momentum_samples() -> Vec<Sample> {
    let of = |dtype, nesterov: bool| {
        let shapes: [&[usize]; 5] = [&[2, 3], &[2, 3], &[2, 3], &[], &[]];
        Sample::new(shapes.map(|it| SampleInput::of(dtype, it, -1.0, 1.0))).attrs(MomentumAttrs::attrs(nesterov))
    };
    let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, false));
    dtypes.into_iter().chain([of(DType::F32, true)]).collect()
}

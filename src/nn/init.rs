//! Initialisers of parameters.
//!
//! Every function takes a shape whose first two axes are outputs and inputs, as the weights of layers have:
//! `[out, in]`, or `[out, in, kernel..]`. Pass an initialiser to a layer as a function of the shape:
//!
//! ```
//! use ms::prelude::*;
//! use ms::nn::init::{self, Fan, Gain};
//! let hidden = nn::Dense::new(8, 8).weight_init(|shape| init::he_normal(shape, Gain::ReLU, Fan::In));
//! let head = nn::Dense::new(8, 2).weight_init(|shape| init::orthogonal(shape, 1.0));
//! # let _ = (hidden, head);
//! ```

use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::{Interval, check_interval, check_positive};
use ms_core::tensor::IntoShape;
use ms_core::{Code, DType, Error, Parameter, Tensor, ops, random};

/// Returns the fan-in and the fan-out of a weight: inputs and outputs, each multiplied by the size of the kernel.
///
/// ```
/// assert_eq!(ms::nn::init::fans(&[16, 8, 3, 3]), (72, 144));
/// ```
///
/// # Panics
/// Raises [`Code::Shape`] for fewer than two axes.
#[track_caller]
pub fn fans(shape: &[usize]) -> (usize, usize) {
    let [outputs, inputs, kernel @ ..] = shape else {
        let message = format!("a weight of shape {shape:?} has no axes of outputs and inputs");
        raise(Error::new(Code::Shape, message).with_op("initializer"));
    };
    let taps: usize = kernel.iter().product();
    (inputs * taps, outputs * taps)
}

/// The divisor of a weight's variance. The fan-in keeps the variance of activations from layer to layer, and the
/// fan-out keeps the variance of gradients.
///
/// ```
/// use ms::prelude::*;
/// use ms::nn::init::{Fan, Gain, he_uniform};
/// random::set_seed(1);
/// // The fans are 4 and 64, so that the second bound is a quarter of the first one.
/// let largest = |fan| he_uniform(&[64, 4], Gain::Linear, fan).abs().max(()).item::<f32>();
/// assert!(largest(Fan::Out) < 0.5 * largest(Fan::In));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fan {
    /// The number of inputs (fan-in).
    In,
    /// The number of outputs (fan-out).
    Out,
    /// The mean of fan-in and fan-out.
    Average,
}

impl Fan {
    #[track_caller]
    fn of(self, shape: &[usize]) -> f64 {
        let (inputs, outputs) = fans(shape);
        let fan = match self {
            Self::In => inputs as f64,
            Self::Out => outputs as f64,
            Self::Average => (inputs + outputs) as f64 / 2.0,
        };
        fan.max(1.0)
    }
}

/// The activation after a layer, which determines the gain: the factor of the standard deviation that preserves the
/// variance.
///
/// See the example of [`Gain::value`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Gain {
    /// No activation, or a sigmoid: 1.
    Linear,
    /// The hyperbolic tangent: 5/3.
    Tanh,
    /// `max(x, 0)`: the square root of 2.
    ReLU,
    /// A leaky ReLU with this slope: `sqrt(2 / (1 + slope²))`.
    LeakyReLU(f64),
    /// The self-normalising activation SELU: 3/4.
    SELU,
}

impl Gain {
    /// Returns the gain, like PyTorch's `calculate_gain`.
    ///
    /// ```
    /// use ms::nn::init::Gain;
    /// assert_eq!(Gain::LeakyReLU(0.0).value(), Gain::ReLU.value());
    /// ```
    pub fn value(self) -> f64 {
        match self {
            Self::Linear => 1.0,
            Self::Tanh => 5.0 / 3.0,
            Self::ReLU => 2f64.sqrt(),
            Self::LeakyReLU(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Self::SELU => 0.75,
        }
    }
}

/// Draws from a uniform distribution with mean zero and the standard deviation `deviation`.
#[track_caller]
fn uniform_with(shape: &[usize], deviation: f64) -> Tensor {
    let bound = 3f64.sqrt() * deviation;
    random::uniform(shape, -bound, bound)
}

/// Draws from a uniform distribution with the variance `2 gain² / (fan_in + fan_out)` (Glorot and Bengio 2010,
/// "Understanding the Difficulty of Training Deep Feedforward Neural Networks").
///
/// ```
/// use ms::nn::init;
/// let bound = (6.0f32 / 20.0).sqrt();
/// assert!(init::xavier_uniform(&[8, 12], 1.0).to_vec::<f32>().iter().all(|it| it.abs() <= bound));
/// ```
///
/// # Panics
/// Raises [`Code::Shape`] for fewer than two axes.
#[track_caller]
pub fn xavier_uniform(shape: &[usize], gain: f64) -> Tensor {
    uniform_with(shape, gain / Fan::Average.of(shape).sqrt())
}

/// Draws from a normal distribution with the variance of [`xavier_uniform`].
///
/// ```
/// let weight = ms::nn::init::xavier_normal(&[100, 100], 1.0);
/// assert!((weight.to_vec::<f32>().iter().map(|it| it * it).sum::<f32>() / 10_000.0 - 0.01).abs() < 0.002);
/// ```
///
/// # Panics
/// Raises the errors of [`xavier_uniform`].
#[track_caller]
pub fn xavier_normal(shape: &[usize], gain: f64) -> Tensor {
    random::normal(shape, 0.0, gain / Fan::Average.of(shape).sqrt())
}

/// Draws from a uniform distribution with the variance `gain² / fan` (He et al. 2015, "Delving Deep into Rectifiers"),
/// like PyTorch's `kaiming_uniform_`.
///
/// ```
/// use ms::nn::init::{self, Fan, Gain};
/// let bound = (6.0f32 / 12.0).sqrt();
/// let weight = init::he_uniform(&[8, 12], Gain::ReLU, Fan::In);
/// assert!(weight.to_vec::<f32>().iter().all(|it| it.abs() <= bound));
/// ```
///
/// # Panics
/// Raises the errors of [`xavier_uniform`].
#[track_caller]
pub fn he_uniform(shape: &[usize], gain: Gain, fan: Fan) -> Tensor {
    uniform_with(shape, gain.value() / fan.of(shape).sqrt())
}

/// Draws from a normal distribution with the variance of [`he_uniform`].
///
/// ```
/// use ms::nn::init::{self, Fan, Gain};
/// let weight = init::he_normal(&[100, 100], Gain::ReLU, Fan::Out);
/// assert!((weight.to_vec::<f32>().iter().map(|it| it * it).sum::<f32>() / 10_000.0 - 0.02).abs() < 0.004);
/// ```
///
/// # Panics
/// Raises the errors of [`xavier_uniform`].
#[track_caller]
pub fn he_normal(shape: &[usize], gain: Gain, fan: Fan) -> Tensor {
    random::normal(shape, 0.0, gain.value() / fan.of(shape).sqrt())
}

/// Draws from a normal distribution truncated to `low..=high`: numbers outside of the interval are drawn again.
///
/// ```
/// use ms::nn::init;
/// let x = init::truncated_normal([100], 0.0, 1.0, -0.5, 2.0);
/// assert!(x.to_vec::<f32>().iter().all(|it| (-0.5..=2.0).contains(it)));
/// ```
///
/// # Panics
/// Raises [`Code::Argument`] for a deviation that is not positive, and if the interval holds less than one percent of
/// the normal distribution.
#[track_caller]
pub fn truncated_normal(shape: impl IntoShape, mean: f64, std: f64, low: f64, high: f64) -> Tensor {
    check_interval("truncated_normal", "std", std, &Interval::POSITIVE).or_raise();
    let below = |bound: f64| Tensor::from((mean - bound) / (std * 2f64.sqrt()));
    let share = 0.5 * (ops::erfc(below(high)) - ops::erfc(below(low))).item::<f64>();
    if share.is_nan() || share < 0.01 {
        let message = format!("of a normal distribution, {low}..={high} holds a share of {share} only");
        raise(Error::new(Code::Argument, message).with_op("truncated_normal"));
    }
    let shape = shape.into_shape();
    let mut x = random::normal(&shape, mean, std);
    loop {
        let outside = ops::logical_or(x.lt(low), x.gt(high));
        if !outside.any(()).item::<bool>() {
            return x;
        }
        x = ops::select(&outside, random::normal(&shape, mean, std), &x);
    }
}

/// Creates `gain` times a uniformly distributed matrix with orthonormal rows, or orthonormal columns if there are fewer
/// of them. All axes but the first are flattened (Saxe et al. 2014, "Exact Solutions to the Nonlinear Dynamics of
/// Learning in Deep Linear Neural Networks").
///
/// ```
/// use ms::{nn::init, ops};
/// let q = init::orthogonal(&[3, 5], 2.0);
/// let gram = ops::matmul(&q, q.permute([1, 0]));
/// assert!((gram - ops::eye(3) * 4.0).abs().max(()).item::<f32>() < 1e-5);
/// ```
///
/// # Panics
/// Raises the errors of [`xavier_uniform`].
#[track_caller]
pub fn orthogonal(shape: &[usize], gain: f64) -> Tensor {
    fans(shape);
    let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
    let (count, size) = (rows.min(columns), rows.max(columns));
    let numbers = random::default_generator().normal_of([count, size], 0.0, 1.0, DType::F64).to_vec::<f64>();
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    for row in numbers.chunks(size.max(1)) {
        let mut row = row.to_vec();
        // Orthogonalise twice: after one pass, the rounding error is as large as the component it removes.
        for other in basis.iter().chain(&basis) {
            let dot: f64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
            row.iter_mut().zip(other).for_each(|(a, b)| *a -= dot * b);
        }
        let norm = row.iter().map(|it| it * it).sum::<f64>().sqrt();
        row.iter_mut().for_each(|it| *it /= norm);
        basis.push(row);
    }
    let all: Vec<f32> = basis.iter().flatten().map(|it| (it * gain) as f32).collect();
    let matrix = Tensor::from_slice([count, size], &all);
    let matrix = if rows > columns { matrix.permute([1, 0]) } else { matrix };
    matrix.reshape(shape)
}

/// Draws from a normal distribution with mean zero, and zeroes a fraction `sparsity` of each column (Martens 2010,
/// "Deep Learning via Hessian-free Optimization").
///
/// ```
/// let weight = ms::nn::init::sparse([10, 3], 0.2, 1.0);
/// let zeros = weight.to_vec::<f32>().into_iter().filter(|it| *it == 0.0);
/// assert_eq!(zeros.count(), 2 * 3);
/// ```
///
/// # Panics
/// Raises [`Code::Shape`] unless there are two axes. Raises [`Code::Argument`] unless `sparsity` is from 0 to 1, and
/// for an invalid deviation.
#[track_caller]
pub fn sparse(shape: [usize; 2], sparsity: f64, std: f64) -> Tensor {
    check_interval("sparse", "sparsity", sparsity, &Interval::SHARE).or_raise();
    let zeros = (sparsity * shape[0] as f64).ceil() as i64;
    let order = ops::argsort(random::uniform(shape, 0.0, 1.0), 0, false);
    ops::select(order.ge(zeros), random::normal(shape, 0.0, std), 0.0)
}

/// Creates the weight `[out, in, kernel..]` of a convolution that is the identity in each group: ones at the centre of
/// the kernel.
///
/// ```
/// use ms::prelude::*;
/// let same = nn::Conv1d::new(2, 2, 3).padding(1).without_bias().weight_init(|it| nn::init::dirac(it, 1));
/// let x = tensor![[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]];
/// assert_eq!(same.call(&x).to_vec::<f32>(), x.to_vec::<f32>());
/// ```
///
/// # Panics
/// Raises [`Code::Shape`] unless there is a kernel axis, and `groups` divides the number of outputs.
#[track_caller]
pub fn dirac(shape: &[usize], groups: usize) -> Tensor {
    check_positive("dirac", "groups", groups).or_raise();
    if shape.len() < 3 || !shape[0].is_multiple_of(groups) {
        let message = format!("a weight of shape {shape:?} is no convolution of {groups} groups");
        raise(Error::new(Code::Shape, message).with_op("dirac"));
    }
    let each = shape[0] / groups;
    let (taps, centre) = shape[2..].iter().fold((1, 0), |(all, at), &it| (all * it, at * it + it / 2));
    let mut numbers = vec![0f32; shape.iter().product()];
    for output in 0..shape[0] {
        if output % each < shape[1] {
            numbers[(output * shape[1] + output % each) * taps + centre] = 1.0;
        }
    }
    Tensor::from_slice(shape, &numbers)
}

/// Draws uniformly from `±1/sqrt(fan_in)`, the default of PyTorch and MindSpore for dense, convolution and recurrent
/// layers. It equals [`he_uniform`] with a leaky ReLU of slope `sqrt(5)`.
pub(super) fn default_uniform(shape: &[usize], fan_in: usize) -> Tensor {
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    random::uniform(shape, -bound, bound)
}

/// Creates a trainable f32 parameter with values of [`default_uniform`].
#[track_caller]
pub(super) fn uniform_parameter(shape: &[usize], fan_in: usize) -> Parameter {
    parameter(shape, || default_uniform(shape, fan_in))
}

/// Creates a trainable f32 parameter.
#[track_caller]
pub(super) fn parameter(shape: &[usize], init: impl FnOnce() -> Tensor) -> Parameter {
    Parameter::init("", shape, DType::F32, init)
}

/// Creates a trainable f32 parameter filled with one number.
#[track_caller]
pub(super) fn filled_parameter(shape: &[usize], value: f64) -> Parameter {
    parameter(shape, || ops::full_of(shape, value, DType::F32))
}

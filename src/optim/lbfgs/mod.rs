//! The L-BFGS optimiser.

mod line_search;

use super::Optimizer;
use super::hyperparameter::{Hyperparameter, LearningRate};
use super::state::{State, count};
use ms_core::error::OrRaise;
use ms_core::ops::rules::{Interval, check_positive};
use ms_core::session::Gradients;
use ms_core::trace::{PerParameter, scan};
use ms_core::{DType, Parameter, Tensor, ops};
use ms_macros::cell;

/// The curvature `y·s` up to which a step is not added to the history.
const MIN_CURVATURE: f64 = 1e-10;

/// L-BFGS (Nocedal and Wright 2006, "Numerical Optimization", algorithms 7.4 and 7.5). It steps along `d = -H g`, where
/// `H` approximates the inverse Hessian from the last steps `s` and the gradient changes `y` along them. An update is
/// one iteration of PyTorch's `LBFGS` without a line search: `p ← p + t d` with `t = lr`. The first one uses
/// `t = min(1, 1 / Σ|g|) lr`.
///
/// An update takes the gradients of all parameters together. Successive steps need the gradients of the same batch.
/// [`LBFGS::minimize`] adds a line search.
///
/// ```
/// use ms::prelude::*;
/// use ms::Gradients;
/// // (x - 1)² + 10 (y + 2)²
/// let p = Parameter::new(tensor![5.0, 5.0], "p");
/// let opt = LBFGS::new(1.0);
/// for _ in 0..12 {
///     let gradient = (p.value() - tensor![1.0, -2.0]) * tensor![2.0, 20.0];
///     opt.update(&Gradients::new(vec![p.clone()], vec![gradient]));
/// }
/// assert!((p.value() - tensor![1.0, -2.0]).abs().max(()).item::<f32>() < 1e-4);
/// ```
#[cell]
pub struct LBFGS {
    /// The learning rate.
    pub rate: LearningRate,
    /// The largest gradient element up to which no update is made.
    pub gradient_tolerance: Hyperparameter,
    /// The decrease of the loss per unit of `t` up to which no update is made.
    pub change_tolerance: Hyperparameter,
    history: usize,
    /// The number of steps.
    steps: Parameter,
    /// The scale of the identity in the initial approximation of `H`.
    scale: Parameter,
    /// The values `1 / (y·s)` of the steps in the history, the latest one last; zero for empty entries.
    rho: Parameter,
    last_gradient: State,
    last_step: State,
    /// The history of steps and of gradient changes, `[history, ..]` for each parameter.
    step_history: State,
    change_history: State,
}

impl LBFGS {
    /// Creates the optimiser with a history of ten steps, and tolerances of 1e-7 for gradients and 1e-9 for changes.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn new(rate: f64) -> Self {
        Self::with_history(rate, 10)
    }

    /// Creates the optimiser with a history of this many steps; PyTorch's default is 100. The state of a parameter
    /// takes `2 history` times its size.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for an empty history, and unless `rate` is at least zero and finite.
    #[track_caller]
    pub fn with_history(rate: f64, history: usize) -> Self {
        check_positive("LBFGS", "history", history).or_raise();
        let buffer = |shape: &[usize], value: f64| {
            Parameter::buffer(shape, DType::F64, || ops::full_of(shape, value, DType::F64))
        };
        let of_history = || State::shaped(move |shape| [&[history], shape].concat());
        Self {
            rate: LearningRate::new("LBFGS", rate),
            gradient_tolerance: Hyperparameter::new("LBFGS", "gradient_tolerance", 1e-7, &Interval::RATE),
            change_tolerance: Hyperparameter::new("LBFGS", "change_tolerance", 1e-9, &Interval::RATE),
            history,
            steps: count(),
            scale: buffer(&[], 1.0),
            rho: buffer(&[history], 0.0),
            last_gradient: State::zeros(),
            last_step: State::zeros(),
            step_history: of_history(),
            change_history: of_history(),
        }
    }

    /// Sets the tolerances up to which no update is made: the largest gradient element, and the decrease of the loss
    /// per unit of length.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] unless both are at least zero and finite.
    #[track_caller]
    pub fn tolerances(self, gradient: f64, change: f64) -> Self {
        let gradient_tolerance = Hyperparameter::new("LBFGS", "gradient_tolerance", gradient, &Interval::RATE);
        let change_tolerance = Hyperparameter::new("LBFGS", "change_tolerance", change, &Interval::RATE);
        Self { gradient_tolerance, change_tolerance, ..self }
    }

    /// Computes `-H g` by the two-loop recursion (algorithm 7.4), with the latest step last in the history.
    fn direction(&self, gradient: &Tensor, steps: &Tensor, changes: &Tensor, rho: &Tensor, scale: &Tensor) -> Tensor {
        let back = |it: &Tensor| ops::flip(it, 0);
        let latest_first = (back(steps), back(changes), back(rho));
        let down = |q: &Tensor, (step, change, rho): &(Tensor, Tensor, Tensor)| {
            let alpha = dot(step, q) * rho;
            (q - change * &alpha, alpha)
        };
        let (q, alphas) = scan(down, -gradient, &latest_first);
        let up = |r: &Tensor, (step, change, rho, alpha): &(Tensor, Tensor, Tensor, Tensor)| {
            let beta = dot(change, r) * rho;
            (r + step * (alpha - beta), ())
        };
        let (r, ()) = scan(up, q * scale, &(steps.clone(), changes.clone(), rho.clone(), back(&alphas)));
        r
    }
}

/// The next step, computed from the gradients and the history. Vectors hold the elements of all parameters.
struct Proposal {
    direction: Tensor,
    /// The derivative of the loss along the direction.
    slope: Tensor,
    /// The step length for a learning rate of one.
    length: Tensor,
    /// Whether the gradient is small enough to stop.
    has_converged: Tensor,
    /// Whether a step is made.
    takes_step: Tensor,
}

impl LBFGS {
    /// Adds the gradients to the history, and computes the next step.
    fn propose(&self, gradients: &Gradients) -> Proposal {
        let parameters = gradients.parameters();
        let dtype = dtype_of_all(parameters);
        let read = |state: &State, kept: usize| flat(parameters.iter().map(|it| state.of(it).value()), kept, dtype);
        let gradient = flat(gradients.iter().map(|it| it.1.clone()), 0, dtype);
        let last_gradient = read(&self.last_gradient, 0);
        let (change, last_step) = (&gradient - &last_gradient, read(&self.last_step, 0));
        let (mut steps, mut changes) = (read(&self.step_history, 1), read(&self.change_history, 1));
        let (mut rho, mut scale) = (self.rho.value().cast(dtype), self.scale.value().cast(dtype));

        let has_converged = gradient.abs().max(()).le(self.gradient_tolerance.value().cast(dtype));
        let curvature = dot(&change, &last_step);
        let is_new = ops::logical_and(curvature.gt(MIN_CURVATURE), ops::logical_not(&has_converged));
        // The oldest entry is dropped for the latest one.
        let pushed = |history: &Tensor, latest: &Tensor| {
            let all = ops::concat(&[history.i(1..), latest.expand_dims(0)], 0);
            ops::select(&is_new, all, history)
        };
        steps = pushed(&steps, &last_step);
        changes = pushed(&changes, &change);
        rho = pushed(&rho, &(1.0 / &curvature));
        scale = ops::select(&is_new, &curvature / dot(&change, &change), scale);
        self.rho.set(&rho.cast(DType::F64));
        self.scale.set(&scale.cast(DType::F64));
        write(&self.step_history, parameters, &steps, 1);
        write(&self.change_history, parameters, &changes, 1);
        write(&self.last_gradient, parameters, &ops::select(&has_converged, last_gradient, &gradient), 0);

        let taken = self.steps.value();
        self.steps.set(&ops::select(&has_converged, &taken, &taken + 1));
        let first = ops::minimum(1.0 / ops::sum(gradient.abs(), ()), 1.0);
        let direction = self.direction(&gradient, &steps, &changes, &rho, &scale);
        let slope = dot(&gradient, &direction);
        let descends = slope.le(-self.change_tolerance.value().cast(dtype));
        Proposal {
            takes_step: ops::logical_and(descends, ops::logical_not(&has_converged)),
            length: ops::select(taken.eq(0), first, 1.0),
            has_converged,
            direction,
            slope,
        }
    }
}

fn dot(x: &Tensor, y: &Tensor) -> Tensor {
    ops::sum(x * y, ())
}

/// Returns the common dtype for vectors of the elements of all parameters.
fn dtype_of_all(parameters: &[Parameter]) -> DType {
    let is_wide = |it: &Parameter| it.load().dtype() == DType::F64;
    if parameters.iter().any(is_wide) { DType::F64 } else { DType::F32 }
}

/// Flattens all tensors, except for their first `kept` axes, and concatenates them.
fn flat(tensors: impl Iterator<Item = Tensor>, kept: usize, dtype: DType) -> Tensor {
    let all: Vec<Tensor> = tensors.map(|it| it.cast(dtype).flatten(kept)).collect();
    ops::concat(&all, kept as isize)
}

/// Splits a vector of all elements, and writes the pieces to the slots of the parameters.
fn write(state: &State, parameters: &[Parameter], all: &Tensor, kept: usize) {
    let slots: Vec<Parameter> = parameters.iter().map(|it| state.of(it)).collect();
    for (slot, part) in slots.iter().zip(split(all, parameters, kept)) {
        let like = slot.value();
        slot.set(&part.reshape(like.shape()).cast(like.dtype()));
    }
}

/// Splits a vector of all elements, after the first `kept` axes, into one piece for each parameter.
fn split(all: &Tensor, parameters: &[Parameter], kept: usize) -> Vec<Tensor> {
    let sizes: Vec<usize> = parameters.iter().map(|it| it.load().shape().iter().product()).collect();
    ops::split_sizes(all, &sizes, kept as isize)
}

impl Optimizer for LBFGS {
    fn prepare(&self, parameters: &[Parameter]) {
        for state in [&self.last_gradient, &self.last_step, &self.step_history, &self.change_history] {
            state.prepare(parameters);
        }
    }

    fn update(&self, gradients: &Gradients) {
        if gradients.is_empty() {
            return;
        }
        let parameters = gradients.parameters();
        self.prepare(parameters);
        let proposal = self.propose(gradients);
        let dtype = proposal.direction.dtype();
        let length = proposal.length * self.rate.value().cast(dtype);
        // A product with zero would give NaN for a direction that is not finite.
        let step = ops::select(&proposal.takes_step, proposal.direction * length, 0.0);
        let last_step = flat(parameters.iter().map(|it| self.last_step.of(it).value()), 0, dtype);
        write(&self.last_step, parameters, &ops::select(&proposal.has_converged, last_step, &step), 0);
        for (parameter, step) in parameters.iter().zip(split(&step, parameters, 0)) {
            let value = parameter.value();
            parameter.set(&(value.cast(dtype) + step.reshape(value.shape())).cast(value.dtype()));
        }
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        vec![&self.rate]
    }
}

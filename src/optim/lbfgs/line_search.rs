//! Minimises a loss by L-BFGS with a line search.

use super::{LBFGS, dot, dtype_of_all, flat, split, write};
use crate::optim::optimizer::{check_loss, compiled};
use ms_core::session::{Gradients, JitFn, type_key, value_and_grad};
use ms_core::trace::{Cell, Tree};
use ms_core::{DType, Parameter, Tensor};

/// The sufficient-decrease constant `c₁` of the Wolfe conditions.
const DECREASE: f64 = 1e-4;

/// The curvature constant `c₂` of the Wolfe conditions.
const CURVATURE: f64 = 0.9;

/// The maximum number of loss evaluations in a line search.
const EVALUATIONS: usize = 25;

/// The loss at a step length along the search direction.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    /// The step length.
    length: f64,
    loss: f64,
    /// The derivative of the loss with respect to the length.
    slope: f64,
}

impl LBFGS {
    /// Minimises `loss(net, batch)` on one batch by at most `iterations` iterations, and returns the last loss. The
    /// step length of each iteration satisfies the strong Wolfe conditions (Nocedal and Wright 2006, "Numerical
    /// Optimization", algorithms 3.5 and 3.6), as in PyTorch's `LBFGS(line_search_fn="strong_wolfe")`.
    ///
    /// Each iteration evaluates the loss several times; the evaluation is compiled as one graph. The search runs on the
    /// host, so it cannot be part of compiled functions. It ends early at a minimum (see the tolerances), and when no
    /// step length reduces the loss.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let (net, opt) = (nn::Dense::new(2, 1), LBFGS::new(1.0));
    /// let x = random::uniform([20, 2], -1.0, 1.0);
    /// let y = x.matmul(&tensor![[2.0], [-3.0]]) + 0.5;
    /// let loss = opt.minimize(&net, &(x, y), 30, |net, (x, y)| ops::mse_loss(&net.call(x), y));
    /// assert!(loss.item::<f32>() < 1e-8);
    /// ```
    #[track_caller]
    pub fn minimize<C, B, F>(&self, net: &C, batch: &B, iterations: usize, loss: F) -> Tensor
    where
        C: Cell + 'static,
        B: Tree,
        F: Fn(&C, &B) -> Tensor,
    {
        const { assert!(size_of::<F>() == 0, "the loss captures a value: pass it with the batch") }
        static EVALUATE: JitFn = JitFn::new("LBFGS::minimize", file!(), line!(), 0);
        static PROPOSE: JitFn = JitFn::new("LBFGS::propose", file!(), line!(), 0);
        let parameters = net.trainable_parameters();
        let dtype = dtype_of_all(&parameters);
        // Returns the loss, its slope along a direction, and the gradients.
        let evaluate = |direction: &Tensor| {
            let arguments = (batch.clone(), direction.clone());
            compiled(&EVALUATE, type_key(&loss), self, net, &arguments, &(), |(batch, direction)| {
                let (loss, gradients) = value_and_grad(|net: &C| {
                    let loss = loss(net, batch);
                    check_loss(&loss);
                    loss
                })(net);
                let gradients: Vec<Tensor> = gradients.iter().map(|it| it.1.clone()).collect();
                let slope = dot(&flat(gradients.iter().cloned(), 0, dtype), direction);
                (loss, slope.cast(DType::F64), gradients)
            })
        };
        let propose = |gradients: &Vec<Tensor>| {
            compiled(&PROPOSE, type_key(&()), self, net, gradients, &(), |gradients| {
                let proposal = self.propose(&Gradients::new(parameters.clone(), gradients.clone()));
                let length = (proposal.length * self.rate.value().cast(dtype)).cast(DType::F64);
                (proposal.direction, proposal.slope.cast(DType::F64), length, proposal.takes_step)
            })
        };
        let elements = parameters.iter().map(|it| it.load().shape().iter().product::<usize>()).sum::<usize>();
        let (mut value, _, mut gradients) = evaluate(&ms_core::ops::full_of([elements], 0.0, dtype));
        for _ in 0..iterations {
            let (direction, slope, length, takes_step) = propose(&gradients);
            if !takes_step.item::<bool>() {
                break;
            }
            let from: Vec<Tensor> = parameters.iter().map(Parameter::load).collect();
            let start = Point { length: 0.0, loss: number(&value), slope: slope.item() };
            let mut last = (0.0, value.clone(), gradients.clone());
            let mut at = |length: f64| {
                go(&parameters, &from, &direction, length);
                let (loss, slope, gradients) = evaluate(&direction);
                let point = Point { length, loss: number(&loss), slope: slope.item() };
                last = (length, loss, gradients);
                point
            };
            let found = search(&mut at, start, length.item());
            if found.length != last.0 {
                go(&parameters, &from, &direction, found.length);
                let (loss, _, gradients) = evaluate(&direction);
                last = (found.length, loss, gradients);
            }
            (_, value, gradients) = last;
            write(&self.last_step, &parameters, &(direction * found.length), 0);
            if found.length == 0.0 {
                break;
            }
        }
        value
    }
}

fn number(loss: &Tensor) -> f64 {
    loss.cast(DType::F64).item()
}

/// Moves the parameters from the values `from` along a direction.
fn go(parameters: &[Parameter], from: &[Tensor], direction: &Tensor, length: f64) {
    let dtype = direction.dtype();
    for ((parameter, from), part) in parameters.iter().zip(from).zip(split(direction, parameters, 0)) {
        let next = from.cast(dtype) + part.reshape(from.shape()) * length;
        parameter.set(&next.cast(from.dtype()));
    }
}

/// Returns a point that satisfies the strong Wolfe conditions, otherwise the lowest point found, or the start if none
/// is lower.
fn search(at: &mut dyn FnMut(f64) -> Point, start: Point, first: f64) -> Point {
    let (mut before, mut length) = (start, first);
    for left in (0..EVALUATIONS).rev() {
        let point = at(length);
        if !falls_enough(start, point) || before.length > 0.0 && point.loss >= before.loss {
            return zoom(at, start, before, point, left);
        }
        if is_flat_enough(start, point) {
            return point;
        }
        if point.slope >= 0.0 {
            return zoom(at, start, point, before, left);
        }
        before = point;
        length *= 2.0;
    }
    before
}

/// Narrows the interval between `low`, the lowest point so far, and `high`. The interval contains a point that
/// satisfies the conditions.
fn zoom(at: &mut dyn FnMut(f64) -> Point, start: Point, mut low: Point, mut high: Point, evaluations: usize) -> Point {
    for _ in 0..evaluations {
        let length = between(low, high);
        if length == low.length || length == high.length {
            break;
        }
        let point = at(length);
        if !falls_enough(start, point) || point.loss >= low.loss {
            high = point;
            continue;
        }
        if is_flat_enough(start, point) {
            return point;
        }
        if point.slope * (high.length - low.length) >= 0.0 {
            high = low;
        }
        low = point;
    }
    low
}

/// Returns whether the sufficient-decrease condition holds. It fails for a loss of NaN.
fn falls_enough(start: Point, point: Point) -> bool {
    point.loss <= start.loss + DECREASE * point.length * start.slope
}

/// Returns whether the strong curvature condition holds.
fn is_flat_enough(start: Point, point: Point) -> bool {
    point.slope.abs() <= -CURVATURE * start.slope
}

/// Returns the minimum of the cubic through two points with their slopes (equation 3.59). It stays a tenth of the
/// interval away from both ends. Returns the middle if the cubic has no minimum.
fn between(a: Point, b: Point) -> f64 {
    let distance = b.length - a.length;
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / -distance;
    let d2 = distance.signum() * (d1 * d1 - a.slope * b.slope).sqrt();
    let minimum = b.length - distance * (b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2);
    let (low, high) = (a.length.min(b.length), a.length.max(b.length));
    let margin = 0.1 * (high - low);
    if minimum.is_finite() { minimum.clamp(low + margin, high - margin) } else { (low + high) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions with their derivatives, which decrease at zero.
    type Function = fn(f64) -> (f64, f64);

    #[test]
    fn lengths_satisfy_the_wolfe_conditions() {
        let cases: [(&str, Function); 5] = [
            ("a parabola", |t| ((t - 3.0).powi(2), 2.0 * (t - 3.0))),
            ("a narrow valley", |t| (1e4 * (t - 0.01).powi(2), 2e4 * (t - 0.01))),
            ("a far minimum", |t| (-t / (1.0 + t / 1e3), -1.0 / (1.0 + t / 1e3).powi(2))),
            ("waves", |t| ((5.0 * t).sin() * -0.1 - t + 0.1 * t * t, (5.0 * t).cos() * -0.5 - 1.0 + 0.2 * t)),
            ("a wall", |t| if t < 0.7 { (-t + t * t, -1.0 + 2.0 * t) } else { (f64::NAN, f64::NAN) }),
        ];
        for (name, function) in cases {
            for first in [1e-3, 1.0, 50.0] {
                let mut evaluations = 0;
                let mut at = |length: f64| {
                    evaluations += 1;
                    let (loss, slope) = function(length);
                    Point { length, loss, slope }
                };
                let start = at(0.0);
                let found = search(&mut at, start, first);
                assert!(falls_enough(start, found) && is_flat_enough(start, found), "{name}, {first}: {found:?}");
                assert_eq!((found.loss, found.slope), function(found.length));
                assert!(evaluations <= EVALUATIONS + 1, "{name}, {first}: {evaluations} evaluations");
            }
        }
    }

    #[test]
    fn a_function_that_does_not_fall_ends_the_search() {
        let mut at = |length: f64| Point { length, loss: 1.0 + length, slope: -1.0 };
        let start = at(0.0);
        assert_eq!(search(&mut at, start, 1.0).length, 0.0);
    }

    #[test]
    fn the_minimum_of_a_cubic_is_found_from_both_sides() {
        // (t - 1)² (t + 2)
        let cubic = |t: f64| (t - 1.0).powi(2) * (t + 2.0);
        let slope = |t: f64| 3.0 * (t - 1.0) * (t + 1.0);
        let point = |length: f64| Point { length, loss: cubic(length), slope: slope(length) };
        for (a, b) in [(0.0, 2.0), (2.0, 0.0), (0.5, 3.0)] {
            let got = between(point(a), point(b));
            assert!((got - 1.0).abs() < 1e-12, "{a}, {b}: {got}");
        }
    }
}

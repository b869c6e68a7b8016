//! Minimises Rosenbrock's function by Newton's method, in a `while` loop that is compiled as a loop since its condition
//! is a tensor. Cramer's rule solves the linear system of each step.
//!
//! `cargo run --release --example newton`

use ms::prelude::*;

/// Rosenbrock's function of a point `[2]`; its minimum is 0, at (1, 1).
fn rosenbrock(point: &Tensor) -> Tensor {
    let (x, y) = (point.at(0), point.at(1));
    (1.0 - &x).square() + 100.0 * (y - x.square()).square()
}

/// Returns the minimum that Newton's method finds from a point, and the number of steps.
#[jit]
fn minimise(start: &Tensor) -> (Tensor, Tensor) {
    let mut point = start.clone();
    let mut steps = Tensor::scalar(0);
    let mut gradient = ms::grad(rosenbrock)(&point);
    while gradient.abs().max(()) > 1e-9 {
        let h = ms::hessian(rosenbrock)(&point);
        let (a, b, c, d) = (h.at((0, 0)), h.at((0, 1)), h.at((1, 0)), h.at((1, 1)));
        let (u, v) = (gradient.at(0), gradient.at(1));
        let step = ops::stack(&[&(&d * &u - &b * &v), &(&a * &v - &c * &u)], 0) / (&a * &d - &b * &c);
        point = point - step;
        gradient = ms::grad(rosenbrock)(&point);
        steps = steps + 1;
    }
    (point, steps)
}

fn main() {
    let (point, steps) = minimise(&tensor![-1.2, 1.0; f64]);
    println!("{point} after {steps} steps");
    assert!((point - 1.0).abs().max(()).item::<f64>() < 1e-9);
    assert!(steps.item::<i64>() < 10);
}

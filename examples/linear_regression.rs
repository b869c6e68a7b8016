//! Fits a line to noisy points by gradient descent, and compares it with the least squares solution.
//!
//! `cargo run --release --example linear_regression`

use ms::prelude::*;

#[cell]
struct Line {
    slope: Parameter,
    offset: Parameter,
}

#[cell]
impl Line {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * &self.slope + &self.offset
    }
}

fn main() {
    random::set_seed(1);
    let x = random::uniform([200], -1.0, 1.0);
    let y = 3.0 * &x - 0.5 + random::normal([200], 0.0, 0.1);

    let line = Line {
        slope: Parameter::new(Tensor::scalar(0.0), "slope"),
        offset: Parameter::new(Tensor::scalar(0.0), "offset"),
    };
    let opt = SGD::new(0.3);
    for step in 0..101 {
        let loss = opt.step(&line, &(x.clone(), y.clone()), |line, (x, y)| ops::mse_loss(line.call(x), y));
        if step % 20 == 0 {
            println!("step {step:3}: loss {:.5}", loss.item::<f32>());
        }
    }

    // The closed-form least-squares solution, for comparison.
    let mean = |it: &Tensor| it.mean(());
    let slope = (mean(&(&x * &y)) - mean(&x) * mean(&y)) / (mean(&x.square()) - mean(&x).square());
    let offset = mean(&y) - &slope * mean(&x);
    println!("gradient descent: y = {} x + {}", line.slope.value(), line.offset.value());
    println!("least squares:    y = {slope} x + {offset}");
    assert!((line.slope.value() - &slope).abs().item::<f32>() < 1e-3);
    assert!((line.offset.value() - &offset).abs().item::<f32>() < 1e-3);
    assert!((slope - 3.0).abs().item::<f32>() < 0.05);
}

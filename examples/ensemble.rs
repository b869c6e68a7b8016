//! An ensemble of networks, called as one by `vmap_cells`. The mean and spread of the members quantify uncertainty: far
//! from the training points they disagree.
//!
//! `cargo run --release --example ensemble`

mod common;

use common::picture;
use ms::prelude::*;

const MEMBERS: usize = 8;
const STEPS: usize = 600;

#[cell]
struct Curve {
    layers: nn::Sequential,
}

#[cell]
impl Curve {
    fn new() -> Self {
        Self { layers: nn::sequential![nn::Dense::new(1, 32), nn::Tanh, nn::Dense::new(32, 1)] }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.layers(x)
    }
}

/// Returns the mean and the standard deviation of the members' values at points `[count, 1]`.
fn predict(members: &[Curve], x: &Tensor) -> (Tensor, Tensor) {
    let all = ms::vmap_cells(members).in_axes(None)(x);
    (all.mean(0), all.std(0, 0))
}

fn main() {
    random::set_seed(3);
    let x = random::uniform([128, 1], -1.0, 1.0);
    let y = (3.0 * &x).sin() + random::normal([128, 1], 0.0, 0.05);

    let members: Vec<Curve> = (0..MEMBERS).map(|_| Curve::new()).collect();
    for member in &members {
        let opt = Adam::new(1e-2);
        for _ in 0..STEPS {
            // Each member trains on a different bootstrap sample.
            let rows = random::randint([128], 0, 128);
            let batch = (x.i(&rows), y.i(&rows));
            opt.step(member, &batch, |member, (x, y)| ops::mse_loss(member.call(x), y));
        }
    }

    let line = ops::linspace(-3.0, 3.0, 121).expand_dims(1);
    let (mean, deviation) = predict(&members, &line);
    let curve = |y: Tensor| {
        let pairs = line.to_vec::<f32>().into_iter().zip(y.to_vec::<f32>());
        pairs.map(|(x, y)| (x as f64, y as f64)).collect::<picture::Points>()
    };
    let curves = [
        ("mean and two deviations", curve(&mean + 2.0 * &deviation)),
        ("", curve(&mean - 2.0 * &deviation)),
        ("mean", curve(mean)),
        ("sin 3x", curve((3.0 * &line).sin())),
    ];
    picture::curves("ensemble", "Eight networks that learned sin 3x from -1 to 1", "x", &curves);

    let points = tensor![[-3.0], [-0.5], [0.0], [0.5], [3.0]];
    let (mean, deviation) = predict(&members, &points);
    for at in 0..5 {
        let [x, mean, deviation] = [&points, &mean, &deviation].map(|it| it.at((at, 0)).item::<f32>());
        println!("x = {x:4.1}: {mean:6.3} ± {deviation:.3}, sin 3x = {:6.3}", (3.0 * x).sin());
    }
    let inside = (&mean - (3.0 * &points).sin()).i(1..4).abs().max(()).item::<f32>();
    let (near, far) = (deviation.i(1..4).max(()), deviation.at((0, 0)));
    assert!(inside < 0.1, "{inside}");
    assert!(far.item::<f32>() > 4.0 * near.item::<f32>());
}

//! A neural ordinary differential equation: a network is the velocity of a point. A Runge-Kutta solver integrates it in
//! a loop, and gradients flow through the loop. The network learns a spiral from points along it.
//!
//! `cargo run --release --example neural_ode`

mod common;

use common::picture;
use ms::prelude::*;

const STEP: f64 = 0.1;
const POINTS: usize = 30;
const EPOCHS: usize = 400;

/// Advances a point by a fourth-order Runge-Kutta step.
fn advance(velocity: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let k1 = velocity(x);
    let k2 = velocity(&(x + 0.5 * STEP * &k1));
    let k3 = velocity(&(x + 0.5 * STEP * &k2));
    let k4 = velocity(&(x + STEP * &k3));
    x + (STEP / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
}

/// Returns the points `[POINTS, 2]` that follow a start point, one step apart.
fn solve(velocity: impl Fn(&Tensor) -> Tensor, start: &Tensor) -> Tensor {
    let steps = Tensor::zeros([POINTS]);
    let step = |x: &Tensor, _: &Tensor| {
        let next = advance(&velocity, x);
        (next.clone(), next)
    };
    ops::scan(step, start.clone(), &steps).1
}

fn main() {
    random::set_seed(2);
    let (start, turn) = (tensor![2.0, 0.0], tensor![[-0.1, 2.0], [-2.0, -0.1]]);
    let spiral = solve(|x| x.matmul(&turn), &start);

    let net = nn::sequential![nn::Dense::new(2, 32), nn::Tanh, nn::Dense::new(32, 2)];
    let opt = Adam::new(1e-2);
    let loss =
        |net: &nn::Sequential, (start, spiral): &(Tensor, Tensor)| ops::mse_loss(solve(|x| net.call(x), start), spiral);
    let mut last = f32::INFINITY;
    for epoch in 0..EPOCHS {
        last = opt.step(&net, &(start.clone(), spiral.clone()), loss).item();
        if epoch % 100 == 0 {
            println!("epoch {epoch:3}: loss {last:.5}");
        }
    }
    println!("after {EPOCHS}: loss {last:.5}");
    let learned = solve(|x| net.call(x), &start);
    for at in (0..POINTS).step_by(10) {
        println!("at {:.1}: {} and {}", STEP * (at + 1) as f64, learned.at(at), spiral.at(at));
    }
    let points = |it: &Tensor| it.to_vec::<f32>().chunks(2).map(|it| (it[0] as f64, it[1] as f64)).collect();
    let curves = [("the spiral", points(&spiral)), ("what was learned", points(&learned))];
    picture::curves("neural_ode", "A neural differential equation", "", &curves);
    assert!(last < 0.02, "{last}");
}

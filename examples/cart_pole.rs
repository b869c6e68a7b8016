//! Reinforcement learning: a policy learns to balance a pole on a cart. The simulator is written in tensors for one
//! cart, and `vmap` runs it for many. A whole update is one compiled graph. It simulates the carts in a loop, samples
//! actions from the policy, and differentiates the probabilities of the actions (REINFORCE).
//!
//! `cargo run --release --example cart_pole`

mod common;

use common::picture;
use ms::prelude::*;

const CARTS: usize = 64;
/// The number of steps of an episode, 0.02 s each.
const STEPS: usize = 200;
const UPDATES: usize = 120;

/// Returns the next state of a cart under a force: position and velocity of the cart, angle and angular velocity of the
/// pole. The equations follow Barto, Sutton and Anderson (1983) without friction. The cart weighs 1 kg; the pole weighs
/// 0.1 kg and is 1 m long.
fn advance(state: &Tensor, force: &Tensor) -> Tensor {
    let (velocity, angle, turn) = (state.at(1), state.at(2), state.at(3));
    let (sin, cos) = (angle.sin(), angle.cos());
    let push = (force + 0.05 * turn.square() * &sin) / 1.1;
    let turning = (9.8 * sin - &cos * &push) / (0.5 * (4.0 / 3.0 - 0.1 * cos.square() / 1.1));
    let acceleration = push - 0.05 / 1.1 * &turning * cos;
    state + 0.02 * ops::stack(&[&velocity, &acceleration, &turn, &turning], 0)
}

/// Returns 1 for a cart that is on the track with its pole upright, else 0.
fn is_upright(state: &Tensor) -> Tensor {
    ops::logical_and(state.at(0).abs().lt(2.4), state.at(2).abs().lt(0.2095)).cast(DType::F32)
}

/// Returns a surrogate loss: its gradient is the negated policy gradient of the expected return. Also returns the
/// mean length of the episodes that begin with the states `[CARTS, 4]`.
fn loss(policy: &nn::Sequential, start: &Tensor) -> (Tensor, Tensor) {
    let step = |(state, upright): &(Tensor, Tensor), _: &Tensor| {
        let logit = policy.call(&ops::stop_gradient(state)).squeeze(-1);
        let right = random::uniform([CARTS], 0.0, 1.0).lt(logit.sigmoid()).cast(DType::F32);
        let surprise = ops::bce_with_logits(logit, &right, None, ops::Reduction::None);
        let state = ms::vmap(advance)(state, &(20.0 * right - 10.0));
        let after = upright * ms::vmap(is_upright)(&state);
        ((state, after.clone()), (surprise * upright, after))
    };
    let (_, (surprise, rewards)) = ops::scan(step, (start.clone(), Tensor::ones([CARTS])), &Tensor::zeros([STEPS]));
    // The baseline of the return to go is its mean over all carts at the same step.
    let to_come = ops::cumsum_of(&rewards, 0, false, true);
    let advantage = &to_come - to_come.mean(keepdims(1));
    let weight = ops::stop_gradient(advantage / STEPS as f32);
    ((surprise * weight).mean(()), rewards.sum(()) / CARTS as f32)
}

fn main() {
    random::set_seed(1);
    let policy = nn::sequential![nn::Dense::new(4, 32), nn::Tanh, nn::Dense::new(32, 1)];
    let opt = Adam::new(1e-2).clip_by_global_norm(1.0);
    let mut lengths = picture::Points::new();
    for update in 0..UPDATES {
        let start = random::uniform([CARTS, 4], -0.05, 0.05);
        let (_, length) = opt.step_with_aux(&policy, &start, loss);
        lengths.push((update as f64, length.item::<f32>() as f64));
        if update % 10 == 0 {
            println!("update {update:3}: the pole stays up for {:5.1} of {STEPS} steps", lengths[update].1);
        }
    }
    let first = lengths[0].1;
    let last = lengths[UPDATES - 10..].iter().map(|it| it.1).sum::<f64>() / 10.0;
    picture::curves("cart_pole", "Cart and pole: the mean length of an episode", "update", &[("64 carts", lengths)]);
    println!("from {first:.1} to {last:.1} steps");
    assert!((15.0..30.0).contains(&first), "random actions: {first}");
    assert!(last > 180.0, "{last}");
}

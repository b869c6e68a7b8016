//! Runs MindSpore's tests, by the numbers of its cases; see `docs/conformance.md`.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

#[path = "../common/gradients.rs"]
mod gradients;

mod control;
mod effects;
mod gradient;
mod gradient_control;
mod names;
mod operators;
mod phrases;
mod sharing;
mod vmap;

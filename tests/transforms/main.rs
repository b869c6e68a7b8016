//! Derivatives of every order, and `vmap`.

// Linked for `MS_DEVICE_TARGET=sim`.
use ms_sim as _;

#[path = "../common/told.rs"]
mod told;

mod bprop_writes;
mod derivatives;
mod parts;
mod second_order;
mod second_order_rules;
mod steps;
mod vmap;
mod vmap_derivatives;

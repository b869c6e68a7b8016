//! Tests derivatives of every order, and `vmap`.

// `MS_DEVICE_TARGET=sim` needs this backend.
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

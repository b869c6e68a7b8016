//! Derivatives of every order, and `vmap`.

mod bprop_writes;
mod derivatives;
mod parts;
mod second_order;
mod second_order_rules;
mod vmap;
mod vmap_derivatives;

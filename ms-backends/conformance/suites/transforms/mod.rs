//! Tests derivatives of every order, and `vmap`.

/// Returns pseudorandom f64 values around zero in a shape.
fn scattered(shape: &[usize], seed: f64) -> ms::Tensor {
    let numel = shape.iter().product::<usize>();
    let value = |i: usize| ((i + 1) as f64 * 0.618_033_988_749_894_9 + seed).fract() * 2.0 - 1.0;
    ms::Tensor::from_slice(shape, &(0..numel).map(value).collect::<Vec<_>>())
}

mod bprop_writes;
mod derivatives;
mod parts;
mod second_order;
mod second_order_rules;
mod steps;
mod vmap;
mod vmap_derivatives;

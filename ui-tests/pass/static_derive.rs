//! `#[derive(Static)]`: host values that are part of the key as a whole.
use ms::prelude::*;

#[derive(Clone, Copy, PartialEq, Static)]
enum Activation {
    Relu,
    Leaky { slope: f32 },
}

#[derive(Clone, Static)]
struct Config<T> {
    activation: Activation,
    name: String,
    sizes: Vec<T>,
}

#[jit]
fn apply(x: &Tensor, config: &Config<usize>) -> (Tensor, Config<usize>) {
    let slope = match config.activation {
        Activation::Relu => 0.0,
        Activation::Leaky { slope } => slope,
    };
    let scaled = if config.sizes.len() > 1 { x * 10.0 } else { x.clone() };
    (ops::select(&(&scaled > 0.0), &scaled, &(&scaled * slope)), config.clone())
}

#[test]
fn main() {
    let config = |activation, sizes: &[usize]| Config { activation, name: "c".into(), sizes: sizes.into() };
    let x = tensor![1.0, -2.0];
    for _ in 0..2 {
        assert_eq!(apply(&x, &config(Activation::Relu, &[1])).0.to_vec::<f32>(), [1.0, 0.0]);
        let (y, back) = apply(&x, &config(Activation::Leaky { slope: 0.5 }, &[1, 2]));
        assert_eq!(y.to_vec::<f32>(), [10.0, -10.0]);
        assert_eq!((back.name.as_str(), back.sizes.len()), ("c", 2));
    }
}

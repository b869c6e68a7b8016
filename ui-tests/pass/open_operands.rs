//! Operands whose type only Rust's own comparison can infer.
use ms::prelude::*;

struct Limits {
    first: usize,
}

#[jit]
fn f(x: &Tensor, limits: Vec<usize>, text: &str) -> Result<Tensor> {
    let limits = Limits { first: limits[0] };
    if limits.first == text.parse().unwrap_or_default() || limits.first > limits_of(x).iter().sum() {
        return Ok(x.clone());
    }
    let number = 3.5f32;
    if number < text.parse().unwrap_or(0.0) && Some(number) != Default::default() {
        return Ok(x + 1.0);
    }
    Ok(x + 2.0)
}

fn limits_of(x: &Tensor) -> Vec<usize> {
    x.shape().to_vec()
}

#[test]
fn main() -> Result<()> {
    let x = Tensor::from_slice([4], &[1.0f32; 4]);
    assert_eq!(f(&x, vec![3], "3")?.to_vec::<f32>()[0], 1.0);
    assert_eq!(f(&x, vec![5], "3")?.to_vec::<f32>()[0], 1.0);
    assert_eq!(f(&x, vec![3], "4")?.to_vec::<f32>()[0], 2.0);
    assert_eq!(f(&x, vec![3], "x")?.to_vec::<f32>()[0], 3.0);
    Ok(())
}

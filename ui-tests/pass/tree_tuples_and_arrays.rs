//! Tuples of up to twelve parts and arrays of any length are structures of tensors.
use ms::prelude::*;

type Twelve = (Tensor, i64, bool, u8, f32, f64, String, char, usize, (), [i32; 2], Tensor);

#[jit]
fn twelve(it: &Twelve) -> (Tensor, Twelve) {
    (&it.0 + &it.11 * it.4, it.clone())
}

#[jit]
fn arrays(pairs: &[(Tensor, Tensor); 2]) -> [Tensor; 3] {
    let [(a, b), (c, d)] = pairs;
    [a + b, c + d, a - d]
}

#[test]
fn main() {
    let one = || Tensor::scalar(1.0f32);
    for factor in [2.0f32, 3.0] {
        let it = (one(), 1, true, 2, factor, 0.5, "name".to_owned(), 'c', 3, (), [1, 2], one());
        let (sum, back) = twelve(&it);
        assert_eq!(sum.item::<f32>(), 1.0 + factor);
        assert_eq!((back.1, back.6.as_str(), back.10), (1, "name", [1, 2]));
    }
    let sums = arrays(&[(one(), one()), (one(), one() + 1.0)]);
    assert_eq!(sums.map(|it| it.item::<f32>()), [2.0, 3.0, -1.0]);
}

//! `donate(x)`: a result reuses the memory of a donated argument, unless it is shared.

use ms::prelude::*;

#[derive(Clone, Tree)]
struct Moments {
    mean: Tensor,
    square: Tensor,
}

impl Moments {
    #[jit(donate(self))]
    fn update(self, x: &Tensor) -> Moments {
        Moments { mean: self.mean * 0.9 + x * 0.1, square: self.square * 0.9 + x * x * 0.1 }
    }
}

#[jit(donate(x, y))]
fn swapped(mut x: Tensor, y: Tensor, n: usize) -> (Tensor, Tensor) {
    for _ in 0..n {
        x = x * 2.0;
    }
    (y, x)
}

#[test]
fn main() {
    let place = |x: &Tensor| x.try_array().expect("an array").device_ptr();
    let mut moments = Moments { mean: Tensor::zeros([4]), square: Tensor::zeros([4]) };
    for _ in 0..3 {
        let at = place(&moments.mean);
        moments = moments.update(&Tensor::ones([4]));
        assert!([place(&moments.mean), place(&moments.square)].contains(&at));
    }
    assert!((moments.mean.i(0).item::<f32>() - 0.271).abs() < 1e-6);

    let x = tensor![1., 2.];
    let (y, twice) = swapped(x.clone(), tensor![5.], 1);
    assert_eq!((x.to_vec::<f32>(), y.to_vec::<f32>(), twice.to_vec::<f32>()), (vec![1., 2.], vec![5.], vec![2., 4.]));
}

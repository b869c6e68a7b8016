// Labels of loops and of blocks: jumps to them under conditions on tensors and on host values.
use ms::prelude::*;

/// The first power of two times `x` above `limit`, or minus one.
#[jit]
fn search(x: &Tensor, limit: &Tensor, rounds: usize) -> Tensor {
    let found = 'search: {
        let mut x = x.clone();
        for i in 0..rounds {
            if i == 6 {
                break 'search Tensor::scalar(-2.0f32);
            }
            if &x > limit {
                break 'search x;
            }
            x = x * 2.0;
        }
        Tensor::scalar(-1.0f32)
    };
    found * 10.0
}

/// Rows up to the first one that is all negative, without those that hold a zero.
#[jit]
fn rows(x: &Tensor) -> Tensor {
    let mut sum = Tensor::scalar(0.0f32);
    'rows: for row in x {
        for number in &row {
            if number == 0.0 {
                continue 'rows;
            }
            if number > 0.0 {
                sum += ops::sum(&row, ());
                continue 'rows;
            }
        }
        break 'rows;
    }
    sum
}

#[test]
fn main() {
    let scalar = |it: f32| Tensor::scalar(it);
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            for (x, limit, rounds, want) in [(1.0, 5.0, 5, 80.0), (1.0, 5.0, 2, -10.0), (1.0, 500.0, 9, -20.0)] {
                assert_eq!(search(&scalar(x), &scalar(limit), rounds).item::<f32>(), want);
            }
            let x = tensor![[1.0, 2.0], [-1.0, 0.0], [-1.0, 4.0], [-2.0, -2.0], [5.0, 5.0]];
            assert_eq!(rows(&x).item::<f32>(), 6.0);
        });
    }
}

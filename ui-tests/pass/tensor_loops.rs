// Loops on tensors: `while`, `loop` with a value, `ms::range` with numbers and tensors, the rows of a
// tensor, and jumps out of each of them.
use ms::prelude::*;

#[jit]
fn halvings(x: &Tensor) -> (Tensor, Tensor) {
    let (mut x, mut n) = (x.clone(), Tensor::scalar(0));
    while x > 1.0 && n < 10 {
        x = x / 2.0;
        n += 1;
    }
    (x, n)
}

#[jit]
fn first_power(x: &Tensor, above: &Tensor) -> Tensor {
    let mut power = x.clone();
    loop {
        if &power > above {
            break power * 10.0;
        }
        power = power * x;
    }
}

#[jit]
fn triangle(n: &Tensor) -> Tensor {
    let mut sum = Tensor::scalar(0);
    for i in ms::range(0, n) {
        for j in ms::range(0, 4).step(2) {
            if j > i {
                continue;
            }
            sum += &i + j;
        }
    }
    for i in ms::range(3, 0).step(-1) {
        sum = sum * 10 + i;
    }
    sum
}

#[jit]
fn row_sums(x: &Tensor, #[dynamic] limit: f32) -> Tensor {
    let mut sum = Tensor::scalar(0.0f32);
    for (i, row) in x.rows().enumerate() {
        let here = ops::sum(&row, ());
        if here < 0.0 {
            continue;
        }
        if here > limit {
            return -sum;
        }
        sum += here * (i + 1) as f64;
    }
    sum
}

#[test]
fn main() {
    let scalar = |it: f32| Tensor::scalar(it);
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let (x, n) = halvings(&scalar(12.0));
            assert_eq!((x.item::<f32>(), n.item::<i64>()), (0.75, 4));
            assert_eq!(first_power(&scalar(3.0), &scalar(20.0)).item::<f32>(), 270.0);
            assert_eq!([0, 3].map(|it| triangle(&Tensor::scalar(it)).item::<i64>()), [321, 7321]);
            let x = tensor![[1.0, 2.0], [-3.0, 1.0], [2.0, 2.0], [50.0, 50.0]];
            assert_eq!([10.0, 1000.0].map(|it| row_sums(&x, it).item::<f32>()), [-15.0, 415.0]);
        });
    }
}

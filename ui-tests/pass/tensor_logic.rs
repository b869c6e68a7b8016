//! `&&`, `||`, `!` and comparisons in every mix of tensors, references, numbers and bools.
use ms::prelude::*;

#[jit]
fn logic(x: &Tensor, y: &Tensor, flag: bool, n: usize) -> Vec<Tensor> {
    let tensor = |it: bool| Tensor::scalar(it);
    let mut found = vec![
        x < y,
        x <= 2.0,
        1 == y,
        0.5 < x,
        x != y && x > 0.0,
        x == y || flag,
        flag && x < y,
        !(x < y),
        &(x + 1.0) >= y,
    ];
    if flag && n > 2 || n == 7 && !flag {
        found.push(tensor(n < 3 || n > 5));
    }
    found
}

#[test]
fn main() {
    let number = |it: f32| Tensor::scalar(it);
    for jit in [true, false] {
        ms::with_context(Context { jit, ..ms::context() }, || {
            let run = |x, y, flag, n| -> Vec<bool> {
                logic(&number(x), &number(y), flag, n).iter().map(|it| it.item()).collect()
            };
            assert_eq!(run(1.0, 3.0, false, 1), [true, true, false, true, true, false, false, false, false]);
            assert_eq!(run(1.0, 1.0, true, 1), [false, true, true, true, false, true, false, true, true]);
            assert_eq!(run(3.0, 1.0, true, 7)[8..], [true, true]);
            assert_eq!(run(0.25, 1.0, true, 3)[6..], [true, false, true, false]);
        });
    }
}

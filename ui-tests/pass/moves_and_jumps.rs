// Values that are moved at the end of an arm: by the value of the arm, by a `return`, by a `break`; and their
// uses in another arm or in the next iteration.
use ms::prelude::*;

#[jit]
fn value_of_an_arm(x: &Tensor) -> Tensor {
    let mut n = Tensor::scalar(0.0f32);
    if x > 1.0 {
        n += 5.0;
        n
    } else {
        x.clone()
    }
}

#[jit]
fn behind_a_guard(x: &Tensor) -> Tensor {
    let mut n = Tensor::scalar(0.0f32);
    if x < 1.0 {
        return x.clone();
    }
    n += 1.0;
    n
}

#[jit]
fn returns_in_a_loop(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut steps = Tensor::scalar(0.0f32);
    while x < 100.0 {
        x = x * 3.0;
        steps += 1.0;
        if x > 50.0 {
            return -x;
        }
        if steps == 3.0 {
            break;
        }
    }
    steps
}

#[jit]
fn returns_before_more(x: &Tensor, y: Tensor) -> Tensor {
    let mut y = y;
    if x > 0.0 {
        if x > 10.0 {
            return -y;
        }
        y += 1.0;
    }
    y * x
}

#[jit]
fn breaks_with_values(x: &Tensor, list: &Vec<Tensor>) -> (Tensor, Vec<Tensor>) {
    let mut kept = list.clone();
    let found = 'found: {
        for (i, it) in list.iter().enumerate() {
            if it > x {
                kept[i] = it * 10.0;
                break 'found (it.clone(), kept);
            }
            kept[i] = it + 1.0;
        }
        (x.clone(), kept)
    };
    found
}

/// References stay references, with their coercions.
fn all(list: &[Tensor]) -> Tensor {
    ops::stack(list, 0)
}

#[jit]
fn references(x: &Tensor, list: &Vec<Tensor>) -> Tensor {
    let short = &list[1..];
    if x > 0.0 {
        return ops::sum(all(list), ()) * ops::sum(all(short), ());
    }
    ops::sum(all(list), ()) - ops::sum(all(short), ())
}

#[test]
fn main() {
    let scalar = |it: f32| Tensor::scalar(it);
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            assert_eq!([2.0, 0.5].map(|it| value_of_an_arm(&scalar(it)).item::<f32>()), [5.0, 0.5]);
            assert_eq!([2.0, 0.5].map(|it| behind_a_guard(&scalar(it)).item::<f32>()), [1.0, 0.5]);
            assert_eq!([7.0, 1.0, 200.0].map(|it| returns_in_a_loop(&scalar(it)).item::<f32>()), [-63.0, 3.0, 0.0]);
            let more = |x| returns_before_more(&scalar(x), scalar(2.0)).item::<f32>();
            assert_eq!([20.0, 3.0, -1.0].map(more), [-2.0, 9.0, -2.0]);
            let list = [1.0, 2.0, 3.0].map(scalar).to_vec();
            assert_eq!([1.0, -1.0].map(|it| references(&scalar(it), &list).item::<f32>()), [30.0, 1.0]);
            let list = [1.0, 5.0, 9.0].map(scalar).to_vec();
            let (found, kept) = breaks_with_values(&scalar(4.0), &list);
            assert_eq!(found.item::<f32>(), 5.0);
            assert_eq!(kept.iter().map(|it| it.item::<f32>()).collect::<Vec<_>>(), [2.0, 50.0, 9.0]);
        });
    }
}

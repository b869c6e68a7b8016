//! Tests control flow on tensors: eagerly it is plain Rust, and traced it becomes nodes with regions.
//!
//! Both have the same results.

use ms::prelude::*;
use ms_conformance::paths::{check, scalars};

#[jit]
fn statement(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x + 1.0;
    let mut y = y.clone();
    if &x < &y {
        y += &x;
    } else {
        y = y - &x;
    }
    x += 1.0;
    y + 5.0 + x * 0.0
}

#[jit]
fn value(x: &Tensor, y: &Tensor) -> Tensor {
    let z = if x < y && y < 10.0 {
        x + y
    } else if x == y {
        x * 2.0
    } else {
        x - y
    };
    z * 2.0
}

#[jit]
fn nested(x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let mut n = Tensor::scalar(0.0f32);
    let mut pair = (x.clone(), vec![y.clone()]);
    if x > 0.0 {
        n += 1.0;
        if y > 0.0 {
            n += 2.0;
            pair.0 = &pair.0 * 10.0;
        } else {
            pair.1[0] = &n + 100.0;
        }
    }
    (n, pair.0 + &pair.1[0])
}

#[test]
fn if_statements_and_values() {
    let cases: [(f32, f32, f64, f64, [f64; 2]); 4] = [
        (2.0, 5.0, 13.0, 14.0, [3.0, 25.0]),
        (5.0, 2.0, 1.0, 6.0, [3.0, 52.0]),
        (3.0, 3.0, 4.0, 12.0, [3.0, 33.0]),
        (2.0, -1.0, 1.0, 6.0, [1.0, 103.0]),
    ];
    for (x, y, a, b, [c, d]) in cases {
        let inputs = scalars(&[x, y]);
        check("statement", |it| vec![statement(&it[0], &it[1])], &inputs, &[&[a]]);
        check("value", |it| vec![value(&it[0], &it[1])], &inputs, &[&[b]]);
        let both = |it: &[Tensor]| {
            let (a, b) = nested(&it[0], &it[1]);
            vec![a, b]
        };
        check("nested", both, &inputs, &[&[c], &[d]]);
    }
}

#[jit]
fn halves(x: &Tensor, limit: &Tensor) -> (Tensor, Tensor) {
    let mut x = x.clone();
    let mut n = Tensor::scalar(0.0f32);
    while &x > limit && n < 5.0 {
        x = &x / 2.0;
        if x < 3.0 {
            n += 1.0;
        }
    }
    (x, n)
}

#[jit]
fn counted(x: &Tensor, n: &Tensor) -> Tensor {
    let mut sum = x * 0.0;
    for i in ms::range(0, 3) {
        sum += x * &i;
    }
    for i in ms::range(n, 10).step(4) {
        sum += &i;
    }
    sum
}

#[test]
fn loops() {
    for (x, limit, a, n) in [(16.0, 1.0, 1.0, 2.0), (0.5, 1.0, 0.5, 0.0), (100.0, 0.0, 100.0 / 1024.0, 5.0)] {
        let both = |it: &[Tensor]| {
            let (a, b) = halves(&it[0], &it[1]);
            vec![a, b]
        };
        check("halves", both, &scalars(&[x, limit]), &[&[a], &[n]]);
    }
    let inputs = [Tensor::scalar(2.0f32), Tensor::scalar(1i64)];
    check("counted", |it| vec![counted(&it[0], &it[1])], &inputs, &[&[6.0 + 1.0 + 5.0 + 9.0]]);
}

#[jit]
fn over_rows(x: &Tensor) -> Tensor {
    let mut sum = Tensor::zeros([2]);
    for row in x {
        if ops::sum(&row, ()) > 2.0 {
            continue;
        }
        sum = sum + row.square();
    }
    ops::sum(sum, ())
}

#[test]
fn a_for_loop_takes_the_rows_of_a_tensor() {
    let x = tensor![[1.0, 0.5], [3.0, 1.0], [-2.0, 0.0]];
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            assert_eq!(over_rows(&x).item::<f32>(), 5.25);
            assert_eq!(ms::grad(over_rows)(&x).to_vec::<f32>(), [2.0, 1.0, 0.0, 0.0, -4.0, 0.0]);
        });
    }
    let back: Vec<Vec<f32>> = x.rows().rev().map(|it| it.to_vec()).collect();
    assert_eq!((x.rows().len(), &back[0][..]), (3, &[-2.0, 0.0][..]));
    let error = ms::catch(|| over_rows(&Tensor::scalar(1.0f32))).expect_err("there is no axis");
    assert_eq!(error.code(), ms::Code::Shape, "{error}");
}

/// State that the condition reads and writes before the body does.
#[cell]
struct Slots {
    tries: Parameter,
    steps: Parameter,
}

impl Slots {
    fn reset() -> Self {
        let zero = |name| {
            let parameter = Parameter::new(Tensor::scalar(0.0f32), name);
            parameter.set(&Tensor::scalar(0.0f32));
            parameter
        };
        Self { tries: zero("tries"), steps: zero("steps") }
    }

    /// Counts the evaluations of the condition.
    fn below(&self, limit: &Tensor) -> Tensor {
        self.tries.set(&(&self.tries + 1.0));
        ms::ops::less(&self.tries, limit)
    }
}

#[jit]
fn counts_tries(slots: &Slots, x: &Tensor, limit: &Tensor) -> Tensor {
    let mut x = x.clone();
    while slots.below(limit) {
        x = x * 2.0 + &slots.tries;
    }
    x
}

#[jit]
fn writes_in_both(slots: &Slots, x: &Tensor, limit: &Tensor) -> Tensor {
    let mut x = x.clone();
    while slots.below(limit) && x < 100.0 {
        slots.steps.set(&(&slots.steps + &slots.tries));
        slots.tries.set(&(&slots.tries + 0.5));
        x += &slots.steps;
    }
    x
}

#[jit]
fn writes_on_the_right(slots: &Slots, x: &Tensor, limit: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x < 20.0 && slots.below(limit) {
        x = x * 3.0;
    }
    x
}

#[jit]
fn is_left(slots: &Slots, x: &Tensor, limit: &Tensor) -> Tensor {
    let mut x = x.clone();
    while slots.below(limit) {
        x += 1.0;
        if x == 2.0 {
            continue;
        }
        if x > 4.0 {
            break;
        }
        slots.steps.set(&(&slots.steps + &x));
    }
    x
}

#[jit]
fn is_nested(slots: &Slots, x: &Tensor, limit: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x < 10.0 {
        slots.tries.set(&(&slots.tries * 0.0 + &slots.steps));
        while slots.below(limit) {
            if x > 8.0 {
                return x + 100.0;
            }
            x += 1.0;
        }
        x += 1.0;
        slots.steps.set(&(&slots.steps + 1.0));
    }
    x
}

/// A condition that writes runs once more than the body, unless a jump leaves the loop.
#[test]
fn conditions_that_write() {
    type Program = fn(&Slots, &Tensor, &Tensor) -> Tensor;
    // The result, then the number of evaluations of the condition, and the sum in the body.
    let cases: [(&str, Program, f32, f32, [f64; 3]); 11] = [
        ("counts_tries", counts_tries, 1.0, 4.0, [19.0, 4.0, 0.0]),
        ("counts_tries", counts_tries, 1.0, 0.0, [1.0, 1.0, 0.0]),
        ("writes_in_both", writes_in_both, 1.0, 5.0, [13.0, 5.5, 7.5]),
        ("writes_in_both", writes_in_both, 1.0, 1.0, [1.0, 1.0, 0.0]),
        ("writes_on_the_right", writes_on_the_right, 1.0, 9.0, [27.0, 3.0, 0.0]),
        ("writes_on_the_right", writes_on_the_right, 1.0, 2.0, [3.0, 2.0, 0.0]),
        ("writes_on_the_right", writes_on_the_right, 30.0, 2.0, [30.0, 0.0, 0.0]),
        ("is_left", is_left, 0.0, 9.0, [5.0, 5.0, 8.0]),
        ("is_left", is_left, 0.0, 3.0, [2.0, 3.0, 1.0]),
        ("is_nested", is_nested, 0.0, 3.0, [10.0, 7.0, 7.0]),
        ("is_nested", is_nested, 7.5, 9.0, [108.5, 2.0, 0.0]),
    ];
    for (name, f, x, limit, want) in cases {
        let run = |it: &[Tensor]| {
            let slots = Slots::reset();
            let result = f(&slots, &it[0], &it[1]);
            vec![result, slots.tries.value(), slots.steps.value()]
        };
        let want: Vec<&[f64]> = want.chunks(1).collect();
        check(name, run, &scalars(&[x, limit]), &want);
    }
}

/// Gradients through such a loop are the gradients of the executed iterations.
#[test]
fn gradients_through_conditions_that_write() {
    let limit = Tensor::scalar(4.0f32);
    for jit in [true, false] {
        let of_x = ms::with_context(ms::Context { jit, ..ms::context() }, || {
            ms::grad(|x: &Tensor| counts_tries(&Slots::reset(), x, &limit))(&Tensor::scalar(1.0f32))
        });
        assert_eq!(of_x.item::<f32>(), 8.0, "compiled: {jit}");
    }
}

#[jit]
fn with_blocks(x: &Tensor, y: &Tensor) -> Tensor {
    let mut w = y.clone();
    if x > 1.0 && {
        w = &w + 1.0;
        &w > 3.0
    } {
        w = w * 10.0;
    }
    if x > 2.0 || {
        w = &w + 0.5;
        &w < 3.0
    } {
        w = w - 7.0;
    }
    w
}

/// A right operand that changes something becomes a branch. The other arm has a scalar, and this arm any shape of one
/// element.
#[test]
fn right_operands_of_one_element_have_any_shape() {
    for [x, y, want] in [[0.0f32, 5.0, 5.5], [1.5, 1.0, -4.5], [1.5, 3.0, 40.5], [2.5, 3.0, 33.0], [0.0, 1.0, -5.5]] {
        for shape in [&[][..], &[1], &[1, 1]] {
            for jit in [false, true] {
                let [x, y] = [x, y].map(|it| Tensor::full(shape, it));
                let context = ms::Context { jit, ..ms::context() };
                let got = ms::with_context(context, || with_blocks(&x, &y));
                assert_eq!((got.item::<f32>(), got.shape()), (want, shape), "{x}, {y}, compiled: {jit}");
            }
        }
    }
}

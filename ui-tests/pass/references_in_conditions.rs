//! References that a function is passed after a jump that depends on a tensor, in `match` arms, and in the operands of `&&` and `||`.

use super::common::{check, helper, number, numbers, put};
use ms::prelude::*;
use std::mem::{replace, take};

fn yes(y: &mut Tensor, x: &Tensor) -> bool {
    put(y, x);
    true
}

fn swapped(o: &mut Option<Tensor>) -> Option<Tensor> {
    o.replace(Tensor::scalar(5.0f32))
}

fn take_one(y: &mut Tensor) -> bool {
    let _ = take(&mut vec![y.clone()]);
    *y += 1.0;
    true
}

#[jit]
fn after_a_jump(y: &mut Tensor, x: &Tensor) -> Tensor {
    if x < 1.0 {
        return x.clone();
    }
    put(y, x);
    x * 2.0
}

#[jit]
fn after_a_break(y: &mut Tensor, x: &Tensor) {
    'b: {
        if x < 1.0 {
            break 'b;
        }
        put(y, x);
    }
    for i in 0..4 {
        if x < i {
            break;
        }
        helper(y, x);
    }
}

#[jit]
fn in_arms_of_a_match(y: &mut Tensor, x: &Tensor) {
    match x {
        0.5 => helper(y, x),
        n if n > 1.0 => put(y, x),
        _ => {}
    }
}

#[jit]
fn right_sides(y: &mut Tensor, x: &Tensor, z: &Tensor) -> Tensor {
    let mut w = x.clone();
    if x > 1.0 && yes(y, z) {
        w += 1.0;
    }
    if x > 1.0 && {
        w = z.clone();
        x < 3.0
    } {
        w += 1.0;
    }
    if x > 1.0 || yes(y, x) {
        w += 10.0;
    }
    w
}

#[jit]
fn right_sides_of_the_host(y: &mut Tensor, n: i32, x: &Tensor) -> Tensor {
    let large = n > 1;
    let both = large && yes(y, x);
    let either = large || {
        helper(y, x);
        x > 1.0
    };
    if either && both { x * 2.0 } else { x * 3.0 }
}

#[jit]
fn beside_patterns(y: &mut Tensor, x: &Tensor) -> Tensor {
    let (mut o, mut w) = (Some(x.clone()), x.clone());
    if let Some(it) = &o
        && x > 1.0
        && yes(y, it)
    {
        w += 1.0;
    }
    if x > 1.0
        && let Some(it) = swapped(&mut o)
    {
        w += it;
    } else {
        w += 10.0;
    }
    if let Some(it) = &mut o
        && x > 1.0
    {
        helper(it, x);
    }
    if let Some(it) = o.as_mut()
        && x > 1.0
        && yes(&mut w, it)
    {
        helper(it, x);
        w += it.clone();
    }
    w + o.unwrap()
}

#[jit]
fn of_a_condition(y: &mut Tensor, x: &Tensor) -> Tensor {
    if replace(y, x.clone()) > 2.5 && take_one(y) { x * 2.0 } else { x * 3.0 }
}

macro_rules! of_y {
    ($f:ident) => {
        |x| {
            let mut y = number(3.0);
            let _ = $f(&mut y, &number(x));
            numbers([&y])
        }
    };
}

#[test]
fn main() {
    check(&[
        ("after_a_jump", of_y!(after_a_jump), [&[3.0], &[2.0]]),
        ("after_a_break", of_y!(after_a_break), [&[1.5], &[16.0]]),
        ("in_arms_of_a_match", of_y!(in_arms_of_a_match), [&[1.5], &[2.0]]),
        (
            "right_sides",
            |x| {
                let mut y = number(3.0);
                let w = right_sides(&mut y, &number(x), &number(9.0));
                numbers([&y, &w])
            },
            [&[0.5, 10.5], &[9.0, 20.0]],
        ),
        (
            "right_sides_of_the_host",
            |x| {
                let [mut y, mut z] = [number(3.0), number(3.0)];
                let one = right_sides_of_the_host(&mut y, 1, &number(x));
                let other = right_sides_of_the_host(&mut z, 2, &number(x));
                numbers([&y, &z, &one, &other])
            },
            [&[1.5, 0.5, 1.5, 1.0], &[6.0, 2.0, 6.0, 4.0]],
        ),
        (
            "beside_patterns",
            |x| {
                let mut y = number(3.0);
                let w = beside_patterns(&mut y, &number(x));
                numbers([&y, &w])
            },
            [&[3.0, 11.0], &[2.0, 50.0]],
        ),
        (
            "of_a_condition",
            |x| {
                let mut y = number(2.0 + x);
                let out = of_a_condition(&mut y, &number(x));
                numbers([&y, &out])
            },
            [&[0.5, 1.5], &[3.0, 4.0]],
        ),
    ]);
}

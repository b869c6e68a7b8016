//! References to variables, arguments and items that a function is passed in a branch or loop on a tensor: their targets are carried, as for an explicit assignment.

use super::common::{check, helper, number, numbers, put};
use ms::prelude::*;
use std::collections::BTreeMap;
use std::mem::swap;

fn apply(mut f: impl FnMut()) {
    f()
}

fn first(v: &mut Vec<Tensor>, x: &Tensor) {
    v[0] = x.clone();
}

struct Hold<'a> {
    t: &'a mut Tensor,
}

#[jit]
fn argument(y: &mut Tensor, x: &Tensor) {
    if x > 1.0 {
        put(y, x);
    }
}

#[jit]
fn both_ways(y: &mut Tensor, x: &Tensor) {
    if x > 1.0 { put(y, x) } else { helper(y, x) }
}

#[jit]
fn two_swapped(a: &mut Tensor, b: &mut Tensor, x: &Tensor) {
    if x > 1.0 {
        swap(a, b);
    }
}

#[jit]
fn local_reference(x: &Tensor) -> Tensor {
    let mut y = x * 5.0;
    let r = &mut y;
    if x > 1.0 {
        put(r, x);
    }
    y
}

#[jit]
fn in_a_while(a: &mut Tensor, b: &mut Tensor, x: &Tensor) {
    let mut i = Tensor::scalar(0.0f32);
    while &i < x {
        swap(a, b);
        i += 1.0;
    }
}

#[jit]
fn decided_in_a_while(x: &Tensor, z: &Tensor) -> Tensor {
    let mut y = x.clone();
    let mut i = Tensor::scalar(0);
    let r = &mut y;
    while i < 3 {
        if i == 5 {
            put(r, z);
        }
        i += 1;
    }
    y
}

#[jit]
fn in_a_range(y: &mut Tensor, x: &Tensor) {
    for i in ms::range(0, 3) {
        if &i.cast(DType::F32) < x {
            helper(y, x);
        }
    }
}

#[jit]
fn items(x: &Vec<Tensor>, z: &Tensor) -> Vec<Tensor> {
    let mut v = x.clone();
    for t in v.iter_mut() {
        if &*t > 1.0 {
            put(t, z);
        }
    }
    for t in &mut v {
        if &*t > 2.0 {
            helper(t, z);
        }
    }
    v
}

#[jit]
fn numbered_items(x: &Vec<Tensor>, z: &Tensor) -> Vec<Tensor> {
    let (mut v, w) = (x.clone(), x.clone());
    for (i, t) in v.iter_mut().enumerate() {
        if &*t > 1.0 {
            helper(t, &(z * i));
        }
    }
    for ((t, g), n) in v.iter_mut().zip(w).zip(0i32..) {
        if &g > 0.6 {
            helper(t, &(g * n));
        }
    }
    v.iter_mut().for_each(|t| {
        if &*t > 3.0 {
            put(t, z);
        }
    });
    v
}

#[jit]
fn a_few_items(x: &Vec<Tensor>, z: &Tensor) -> Vec<Tensor> {
    let mut v = x.clone();
    let mut it = v.iter_mut();
    while let Some(t) = it.next() {
        if &*t > 1.0 {
            put(t, z);
            break;
        }
    }
    v
}

#[jit]
fn entries(x: &BTreeMap<String, Tensor>, z: &Tensor) -> BTreeMap<String, Tensor> {
    let mut all = x.clone();
    for (name, t) in &mut all {
        if &*t > 1.0 {
            helper(t, &(z * name.len()));
        }
    }
    all
}

#[jit]
fn element(v: &mut Vec<Tensor>, x: &Tensor) {
    if x > 1.0 {
        first(v, x);
        v[1] = x * 2.0;
    }
}

#[jit]
fn every_element(v: &mut Vec<Tensor>, x: &Tensor) {
    if x > 1.0 {
        for t in v {
            put(t, x);
        }
    }
}

#[jit]
fn closures(y: &mut Tensor, x: &Tensor) {
    let f = |t: &mut Tensor| {
        if x > 1.0 {
            put(t, x);
        }
    };
    f(y);
    if x > 1.5 {
        apply(|| helper(y, x));
        apply(move || helper(y, x));
    }
}

#[jit]
fn moved(y: &mut Tensor, x: &Tensor) {
    if x > 1.0 {
        let w = y;
        put(w, x);
    }
    if x > 1.5 {
        let h = Hold { t: y };
        helper(h.t, x);
    }
    *y += 1.0;
}

#[jit(dims(x = [n]))]
fn of_any_size(y: &mut Tensor, x: &Tensor) {
    if x.sum(0) > 1.0 {
        helper(y, &x.sum(0));
    }
}

#[jit(donate(y))]
fn donated(mut y: Tensor, x: &Tensor) -> Tensor {
    let r = &mut y;
    if x > 1.0 {
        helper(r, x);
    }
    y
}

#[jit]
fn reads_only(y: &mut Tensor, x: &Tensor) -> Tensor {
    fn twice(t: &Tensor) -> Tensor {
        t * 2.0
    }
    let mut z = x.clone();
    if x > 1.0 {
        z = twice(y);
    }
    z
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

macro_rules! of_two {
    ($f:ident) => {
        |x| {
            let (mut a, mut b) = (number(3.0), number(4.0));
            $f(&mut a, &mut b, &number(x));
            numbers([&a, &b])
        }
    };
}

macro_rules! of_list {
    ($f:ident) => {
        |x| numbers(&$f(&vec![number(x), number(0.75), number(4.0)], &number(9.0)))
    };
}

macro_rules! of_element {
    ($f:ident) => {
        |x| {
            let mut v = vec![number(3.0), number(4.0)];
            $f(&mut v, &number(x));
            numbers(&v)
        }
    };
}

#[test]
fn main() {
    check(&[
        ("argument", of_y!(argument), [&[3.0], &[2.0]]),
        ("both_ways", of_y!(both_ways), [&[1.5], &[2.0]]),
        ("two_swapped", of_two!(two_swapped), [&[3.0, 4.0], &[4.0, 3.0]]),
        ("local_reference", |x| numbers([&local_reference(&number(x))]), [&[2.5], &[2.0]]),
        ("in_a_while", of_two!(in_a_while), [&[4.0, 3.0], &[3.0, 4.0]]),
        ("decided_in_a_while", |x| numbers([&decided_in_a_while(&number(x), &number(9.0))]), [&[0.5], &[2.0]]),
        ("in_a_range", of_y!(in_a_range), [&[1.5], &[12.0]]),
        ("items", of_list!(items), [&[0.5, 0.75, 81.0], &[81.0, 0.75, 81.0]]),
        ("numbered_items", of_list!(numbered_items), [&[0.5, 0.5625, 9.0], &[0.0, 0.5625, 9.0]]),
        ("a_few_items", of_list!(a_few_items), [&[0.5, 0.75, 9.0], &[9.0, 0.75, 4.0]]),
        (
            "entries",
            |x| {
                let map = BTreeMap::from([("a".to_owned(), number(x)), ("bc".to_owned(), number(4.0))]);
                numbers(entries(&map, &number(9.0)).values())
            },
            [&[0.5, 72.0], &[18.0, 72.0]],
        ),
        ("element", of_element!(element), [&[3.0, 4.0], &[2.0, 4.0]]),
        ("every_element", of_element!(every_element), [&[3.0, 4.0], &[2.0, 2.0]]),
        ("closures", of_y!(closures), [&[3.0], &[8.0]]),
        ("moved", of_y!(moved), [&[4.0], &[5.0]]),
        (
            "of_any_size",
            |x| {
                let mut y = number(3.0);
                of_any_size(&mut y, &Tensor::from_vec(vec![x; 2]));
                of_any_size(&mut y, &Tensor::from_vec(vec![x; 3]));
                numbers([&y])
            },
            [&[4.5], &[72.0]],
        ),
        ("donated", |x| numbers([&donated(number(3.0), &number(x))]), [&[3.0], &[6.0]]),
        (
            "reads_only",
            |x| {
                let mut y = number(3.0);
                let z = reads_only(&mut y, &number(x));
                numbers([&y, &z])
            },
            [&[3.0, 0.5], &[3.0, 6.0]],
        ),
        (
            "gradients",
            |x| {
                let f = |x: &Tensor| {
                    let mut y = number(3.0) * x;
                    both_ways(&mut y, x);
                    y
                };
                numbers([&ms::grad(f)(&number(x))])
            },
            [&[3.0], &[1.0]],
        ),
        (
            "lanes",
            |x| {
                let f = |x: &Tensor| {
                    let mut y = number(3.0) * x;
                    both_ways(&mut y, x);
                    y
                };
                ms::vmap(f)(&Tensor::from_vec(vec![x, 4.0 * x])).to_vec::<f32>()
            },
            [&[0.75, 2.0], &[2.0, 8.0]],
        ),
    ]);
}

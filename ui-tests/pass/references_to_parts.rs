//! References to parts that a function is passed in a branch on a tensor: bindings of patterns, fields, methods of `&mut self`.

use super::common::{check, helper, number, numbers, put};
use ms::prelude::*;
use std::mem::swap;

#[derive(Clone, Tree)]
struct Pair {
    a: Tensor,
    b: Tensor,
}

impl Pair {
    fn flip(&mut self) {
        swap(&mut self.a, &mut self.b);
    }

    fn step(&mut self, y: &mut Tensor, x: &Tensor) {
        swap(&mut self.a, y);
        self.b = x.clone();
    }

    #[jit]
    fn passes_itself_on(&mut self, y: &mut Tensor, x: &Tensor) {
        if x > 1.0 {
            flip(self);
            self.step(y, x);
        }
    }
}

fn flip(pair: &mut Pair) {
    pair.flip();
}

struct Hold<'a> {
    t: &'a mut Tensor,
}

#[jit]
fn bound_by_patterns(x: &Tensor, z: &Tensor) -> (Tensor, Tensor) {
    let (mut o, mut a) = (Some(x.clone()), [x.clone(), x * 2.0]);
    if let Some(w) = &mut o {
        if x > 1.0 {
            put(w, z);
        }
    }
    {
        let [p, q] = &mut a;
        if x > 1.0 {
            swap(p, q);
        }
    }
    match &mut a {
        [p, _] => {
            if x > 1.0 {
                helper(p, z);
            }
        }
    }
    let [p, _] = a;
    (o.unwrap(), p)
}

#[jit]
fn bound_in_the_arm(x: &Tensor, z: &Tensor) -> (Tensor, Tensor) {
    let (mut o, mut pair) = (Some(x.clone()), (x.clone(), 1));
    if x > 1.0 {
        match o {
            Some(ref mut w) => put(w, z),
            None => {}
        }
        let (ref mut p, _) = pair;
        put(p, z);
    }
    (o.unwrap(), pair.0)
}

#[jit]
fn structure(pair: &mut Pair, x: &Tensor) {
    if x > 1.0 {
        flip(pair);
    }
    if x > 2.0 {
        pair.flip();
    }
    if x > 1.5 {
        put(&mut pair.b, x);
    }
}

#[jit]
fn a_part_and_the_whole(pair: &mut Pair, x: &Tensor) {
    if x > 1.0 {
        pair.a = x.clone();
        flip(pair);
    }
}

#[jit]
fn spelled_alike(x: &Tensor, z: &Tensor) -> (Tensor, Tensor) {
    let (mut pair, mut pair_a) = (Pair { a: x.clone(), b: x.clone() }, x * 2.0);
    if x > 1.0 {
        pair.a = z.clone();
        put(&mut pair_a, x);
    }
    (pair.a, pair_a)
}

#[jit]
fn parts(x: &Tensor, z: &Tensor) -> (Tensor, Tensor) {
    let (mut y, mut w) = (x.clone(), x.clone());
    let t = (&mut y, 1);
    let h = Hold { t: &mut w };
    if x > 1.0 {
        put(t.0, z);
        helper(h.t, z);
    }
    (y, w)
}

macro_rules! of_pair {
    ($f:ident) => {
        |x| {
            let (a, b) = $f(&number(x), &number(9.0));
            numbers([&a, &b])
        }
    };
}

#[test]
fn main() {
    check(&[
        ("bound_by_patterns", of_pair!(bound_by_patterns), [&[0.5, 0.5], &[9.0, 36.0]]),
        ("bound_in_the_arm", of_pair!(bound_in_the_arm), [&[0.5, 0.5], &[9.0, 9.0]]),
        (
            "structure",
            |x| {
                let mut pair = Pair { a: number(3.0), b: number(4.0) };
                structure(&mut pair, &number(x));
                numbers([&pair.a, &pair.b])
            },
            [&[3.0, 4.0], &[4.0, 2.0]],
        ),
        (
            "a_part_and_the_whole",
            |x| {
                let mut pair = Pair { a: number(3.0), b: number(4.0) };
                a_part_and_the_whole(&mut pair, &number(x));
                numbers([&pair.a, &pair.b])
            },
            [&[3.0, 4.0], &[4.0, 2.0]],
        ),
        ("spelled_alike", of_pair!(spelled_alike), [&[0.5, 1.0], &[9.0, 2.0]]),
        (
            "passes_itself_on",
            |x| {
                let (mut pair, mut y) = (Pair { a: number(3.0), b: number(4.0) }, number(5.0));
                pair.passes_itself_on(&mut y, &number(x));
                numbers([&pair.a, &pair.b, &y])
            },
            [&[3.0, 4.0, 5.0], &[5.0, 2.0, 4.0]],
        ),
        ("parts", of_pair!(parts), [&[0.5, 0.5], &[9.0, 18.0]]),
    ]);
}

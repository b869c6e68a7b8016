//! References that are handed on in a decision on a tensor: what they refer to is carried, as where the text assigns it.
use ms::prelude::*;
use std::collections::BTreeMap;
use std::mem::{replace, swap, take};

fn put(y: &mut Tensor, x: &Tensor) {
    *y = x.clone();
}

fn helper(y: &mut Tensor, x: &Tensor) {
    *y = &*y * x;
}

fn yes(y: &mut Tensor, x: &Tensor) -> bool {
    put(y, x);
    true
}

fn apply(mut f: impl FnMut()) {
    f()
}

fn first(v: &mut Vec<Tensor>, x: &Tensor) {
    v[0] = x.clone();
}

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
    fn hands_itself_on(&mut self, y: &mut Tensor, x: &Tensor) {
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

#[jit]
fn behind_a_jump(y: &mut Tensor, x: &Tensor) -> Tensor {
    if x < 1.0 {
        return x.clone();
    }
    put(y, x);
    x * 2.0
}

#[jit]
fn behind_a_break(y: &mut Tensor, x: &Tensor) {
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

fn swapped(o: &mut Option<Tensor>) -> Option<Tensor> {
    o.replace(Tensor::scalar(5.0f32))
}

#[jit]
fn of_a_condition(y: &mut Tensor, x: &Tensor) -> Tensor {
    if replace(y, x.clone()) > 2.5 && take_one(y) { x * 2.0 } else { x * 3.0 }
}

fn take_one(y: &mut Tensor) -> bool {
    let _ = take(&mut vec![y.clone()]);
    *y += 1.0;
    true
}

#[jit(dims(x = [n]))]
fn of_any_size(y: &mut Tensor, x: &Tensor) {
    if x.sum(0, false) > 1.0 {
        helper(y, &x.sum(0, false));
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

/// A program: of the values that it is called with, what it gives.
type Case = (&'static str, fn(f32) -> Vec<f32>, [&'static [f32]; 2]);

fn number(it: f32) -> Tensor {
    Tensor::scalar(it)
}

fn numbers<'a>(all: impl IntoIterator<Item = &'a Tensor>) -> Vec<f32> {
    all.into_iter().map(|it| it.item::<f32>()).collect()
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

macro_rules! of_pair {
    ($f:ident) => {
        |x| {
            let (a, b) = $f(&number(x), &number(9.0));
            numbers([&a, &b])
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

fn main() {
    let cases: &[Case] = &[
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
        ("bound_by_patterns", of_pair!(bound_by_patterns), [&[0.5, 0.5], &[9.0, 36.0]]),
        ("bound_in_the_arm", of_pair!(bound_in_the_arm), [&[0.5, 0.5], &[9.0, 9.0]]),
        ("element", of_element!(element), [&[3.0, 4.0], &[2.0, 4.0]]),
        ("every_element", of_element!(every_element), [&[3.0, 4.0], &[2.0, 2.0]]),
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
            "hands_itself_on",
            |x| {
                let (mut pair, mut y) = (Pair { a: number(3.0), b: number(4.0) }, number(5.0));
                pair.hands_itself_on(&mut y, &number(x));
                numbers([&pair.a, &pair.b, &y])
            },
            [&[3.0, 4.0, 5.0], &[5.0, 2.0, 4.0]],
        ),
        ("parts", of_pair!(parts), [&[0.5, 0.5], &[9.0, 18.0]]),
        ("closures", of_y!(closures), [&[3.0], &[8.0]]),
        ("moved", of_y!(moved), [&[4.0], &[5.0]]),
        ("behind_a_jump", of_y!(behind_a_jump), [&[3.0], &[2.0]]),
        ("behind_a_break", of_y!(behind_a_break), [&[1.5], &[16.0]]),
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
    ];
    let mut wrong = Vec::new();
    for (name, case, want) in cases {
        for (x, want) in [0.5, 2.0].into_iter().zip(want) {
            for jit in [false, true, true] {
                let got = ms::catch(|| ms::with_context(Context { jit, ..ms::context() }, || case(x)));
                if !got.as_ref().is_ok_and(|it| it == want) {
                    wrong.push(format!("{name} of {x}, compiled {jit}: {got:?} instead of {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! Runs MindSpore's cases of control flow in Rust, with the numbers that MindSpore documents.
//!
//! Each case runs eagerly, compiled, and by reference evaluation of its graph. Numbers are f32 where other tests take
//! their gradients.
//!
//! Omitted are three kinds of cases that Rust cannot express:
//!
//! - `while .. else`, which is a syntax error;
//! - list comprehensions, which are host iterators;
//! - changes of an argument in place in a callee, which need a `&mut`.

use ms::Code;
use ms::prelude::*;
use ms_conformance::paths::{check, scalars};

#[jit]
pub fn single_if(x: &Tensor, y: &Tensor) -> Tensor {
    let x = x + 1.0;
    let mut y = y.clone();
    if &x < &y {
        y += &x;
    } else {
        y -= &x;
    }
    y + 5.0
}

#[jit]
pub fn single_if_in_a_callee(x: &Tensor, y: &Tensor) -> Tensor {
    single_if(x, y) + single_if(x, y)
}

#[jit]
pub fn single_for(x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
    let x = x + y;
    let mut z = z.clone();
    for _ in 0..3 {
        z += &x;
    }
    z * y
}

#[jit]
fn counting_down(x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
    let x = x + y;
    let mut z = z.clone();
    for _ in ms::range(10, -5).step(-3) {
        z += &x;
    }
    z * y
}

#[cell]
pub struct Pair {
    a: Parameter,
    b: Parameter,
}

#[cell]
impl Pair {
    fn reset(&self, a: f32, b: f32) {
        self.a.set(&Tensor::scalar(a));
        self.b.set(&Tensor::scalar(b));
    }
}

fn pair() -> Pair {
    Pair { a: Parameter::new(Tensor::scalar(0.0f32), "a"), b: Parameter::new(Tensor::scalar(0.0f32), "b") }
}

#[jit]
fn assigned_in_a_loop(net: &Pair, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    net.a.set(&(x + &net.a));
    let mut f = x * 2.0;
    for _ in ms::range(0, 5) {
        f = f * 2.0;
        net.b.set(&(&net.b + 1.0));
    }
    f = f - &net.b;
    (&net.a + y + f, net.b.value())
}

#[jit]
pub fn assigned_in_turn(net: &Pair, x: &Tensor) -> Tensor {
    net.a.set(&(x + &net.a));
    net.b.set(&(x - &net.a));
    net.b.value()
}

#[jit]
fn if_in_if(net: &Pair, x: &Tensor) -> (Tensor, Tensor) {
    let mut x = x.clone();
    if net.a.value() > &net.b {
        x += 10.0;
        net.b.set(&(&net.b + 1.0));
        if net.a.value() > &net.b {
            x += 5.0;
            net.b.set(&(&net.b + 1.0));
        }
    } else if x < 10.0 {
        x = x * 0.0;
    }
    (x + &net.a, net.b.value())
}

#[jit]
fn if_in_for(net: &Pair, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let mut out = Tensor::scalar(0.0f32);
    for i in ms::range(0, 3) {
        if out <= 20.0 {
            net.a.set(&out);
            net.a.set(&i.cast(DType::F32));
            out += x * y;
        }
    }
    (out, net.a.value())
}

#[jit]
pub fn while_in_if(net: &Pair, x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0f32);
    let mut i = Tensor::scalar(0.0f32);
    if x < y {
        while i < 3.0 {
            net.a.set(&i);
            out += x * y * &net.a;
            i += 1.0;
        }
    }
    out
}

#[jit]
pub fn for_in_if(net: &Pair, x: &Tensor) -> Tensor {
    let mut x = x.clone();
    if net.a.value() > &net.b {
        x = x * 2.0;
        for _ in 0..5 {
            x = x * 2.0;
            net.b.set(&(&net.b + 1.0));
        }
    }
    x
}

#[jit]
fn loop_after_loop(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0f32);
    let mut i = Tensor::scalar(0);
    while i < 3 {
        out += x * y;
        i += 1;
    }
    for _ in ms::range(0, &i) {
        out += x * y;
    }
    out
}

#[jit]
fn loop_in_loop(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0f32);
    let mut i = Tensor::scalar(0);
    while i < 3 {
        let mut j = Tensor::scalar(0);
        while j < 3 {
            out += x * y;
            j += 1;
        }
        out += x * y;
        i += 1;
    }
    out
}

#[jit]
fn if_in_while_then_for(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0f32);
    let mut i = Tensor::scalar(0);
    while i < 3 {
        if out > 50.0 {
            out = x * y - out;
        }
        out = x * y + 1.0;
        i += 1;
    }
    for _ in 0..3 {
        out += x * y;
    }
    out
}

#[jit]
fn for_with_all_jumps(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0f32);
    for i in ms::range(0, 3) {
        if &i % 2 == 0 {
            continue;
        }
        out += x * y;
        if out == 20.0 {
            return out;
        }
        if out > 20.0 {
            break;
        }
    }
    out
}

#[jit]
fn while_with_all_jumps(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0f32);
    let mut i = Tensor::scalar(0);
    while i < 10 {
        if &i % 2 == 0 {
            i += 1;
            continue;
        }
        out += x * y;
        if out == 20.0 {
            return out;
        }
        if out > 20.0 {
            break;
        }
        i += 1;
    }
    out
}

#[jit]
pub fn early_return_behind_a_loop(net: &Pair, x: &Tensor) -> Tensor {
    let mut x = x.clone();
    for _ in 0..5 {
        if x < -3.0 {
            break;
        }
        if &x > &net.a {
            continue;
        }
        x = x - &net.b;
    }
    if x < 0.0 {
        return x;
    }
    x + &net.a
}

#[jit]
fn while_after_while_in_while(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0f32);
    let mut i = Tensor::scalar(0);
    while i < 3 {
        let mut j = Tensor::scalar(0);
        while j < 5 {
            if j == 3 {
                break;
            }
            out += x * y;
            j += 1;
        }
        i += 1;
    }
    let mut k = Tensor::scalar(0);
    loop {
        if k == 9 {
            break;
        }
        out += x * y;
        k += 1;
    }
    out
}

#[jit]
fn both_arms_leave(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x < 10.0 {
        if x > 5.0 {
            break;
        } else if x > 0.0 {
            break;
        } else {
            x += 1.0;
        }
    }
    x
}

fn steps(n: usize) -> usize {
    if n == 0 { 1 } else { steps(n - 1) + 1 }
}

#[jit]
fn recursive(x: &Tensor, n: usize) -> Tensor {
    if n == 0 { x * 0.0 + 1.0 } else { recursive(x, n - 1) + 1.0 }
}

/// Row 70: the value of a tensor terminates the recursion.
#[jit]
fn ended_by_a_tensor(x: &Tensor) -> Tensor {
    if x < 0.0 { x.clone() } else { ended_by_a_tensor(&(x - 1.0)) }
}

/// Row 71: neither arm terminates the recursion.
#[jit]
fn endless(x: &Tensor) -> Tensor {
    if x > 0 { endless(&(x - 1)) } else { endless(&(x + 1)) }
}

#[cell]
pub struct Times {
    factor: f64,
}

#[cell]
impl Times {
    fn construct(&self, t: &Tensor) -> Tensor {
        t * self.factor
    }
}

#[jit]
pub fn cell_of_a_list(cells: &nn::CellList<Times>, t: &Tensor, index: &Tensor) -> Tensor {
    let (mut index, mut out) = (index.clone(), t.clone());
    while index < 3 {
        out = out + cells.select(&index).call(t);
        index = index + 1;
    }
    out
}

pub fn times_4_5_6() -> nn::CellList<Times> {
    [4.0, 5.0, 6.0].into_iter().map(|factor| Times { factor }).collect()
}

#[jit]
pub fn doubling(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x < 10.0 {
        x = x * 2.0;
    }
    x
}

#[jit]
fn over_tensors(x: &Tensor, items: &[Tensor; 3]) -> (Tensor, Tensor) {
    let (mut all, mut some) = (x.clone(), x.clone());
    for (i, item) in items.iter().enumerate() {
        all += item;
        if item < 10.0 && i < 2 {
            some += item;
        }
    }
    (all, some)
}

struct Case {
    row: &'static str,
    run: fn(&[Tensor]) -> Vec<Tensor>,
    inputs: &'static [f32],
    want: &'static [&'static [f64]],
}

fn two((a, b): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![a, b]
}

pub fn with(a: f32, b: f32, run: impl FnOnce(&Pair) -> Vec<Tensor>) -> Vec<Tensor> {
    let net = pair();
    net.reset(a, b);
    run(&net)
}

const CASES: &[Case] = &[
    Case { row: "44", run: |x| vec![single_if(&x[0], &x[1])], inputs: &[2.0, 5.0], want: &[&[13.0]] },
    Case { row: "45", run: |x| vec![single_if_in_a_callee(&x[0], &x[1])], inputs: &[2.0, 5.0], want: &[&[26.0]] },
    Case { row: "48", run: |x| vec![single_for(&x[0], &x[1], &x[2])], inputs: &[2.0, 5.0, 4.0], want: &[&[125.0]] },
    Case { row: "49", run: |x| vec![counting_down(&x[0], &x[1], &x[2])], inputs: &[2.0, 5.0, 4.0], want: &[&[195.0]] },
    Case {
        row: "50",
        run: |x| with(5.0, 2.0, |net| two(assigned_in_a_loop(net, &x[0], &x[1]))),
        inputs: &[2.0, 5.0],
        want: &[&[133.0], &[7.0]],
    },
    Case {
        row: "51",
        run: |x| with(5.0, 2.0, |net| vec![assigned_in_turn(net, &x[0])]),
        inputs: &[2.0],
        want: &[&[-5.0]],
    },
    Case {
        row: "52, one",
        run: |x| with(5.0, 4.0, |net| two(if_in_if(net, &x[0]))),
        inputs: &[2.0],
        want: &[&[17.0], &[5.0]],
    },
    Case {
        row: "52, two",
        run: |x| with(5.0, 3.0, |net| two(if_in_if(net, &x[0]))),
        inputs: &[2.0],
        want: &[&[22.0], &[5.0]],
    },
    Case {
        row: "52, none",
        run: |x| with(5.0, 5.0, |net| two(if_in_if(net, &x[0]))),
        inputs: &[2.0],
        want: &[&[5.0], &[5.0]],
    },
    Case {
        row: "55",
        run: |x| with(5.0, 4.0, |net| two(if_in_for(net, &x[0], &x[1]))),
        inputs: &[1.0, 3.0],
        want: &[&[9.0], &[2.0]],
    },
    Case {
        row: "56",
        run: |x| with(5.0, 4.0, |net| vec![while_in_if(net, &x[0], &x[1])]),
        inputs: &[1.0, 3.0],
        want: &[&[9.0]],
    },
    Case { row: "58", run: |x| with(5.0, 4.0, |net| vec![for_in_if(net, &x[0])]), inputs: &[10.0], want: &[&[640.0]] },
    Case { row: "61, 18", run: |x| vec![loop_after_loop(&x[0], &x[1])], inputs: &[1.0, 3.0], want: &[&[18.0]] },
    Case { row: "61, 36", run: |x| vec![loop_in_loop(&x[0], &x[1])], inputs: &[1.0, 3.0], want: &[&[36.0]] },
    Case { row: "62", run: |x| vec![if_in_while_then_for(&x[0], &x[1])], inputs: &[1.0, 3.0], want: &[&[13.0]] },
    Case { row: "63", run: |x| vec![for_with_all_jumps(&x[0], &x[1])], inputs: &[1.0, 3.0], want: &[&[3.0]] },
    Case { row: "63, return", run: |x| vec![for_with_all_jumps(&x[0], &x[1])], inputs: &[4.0, 5.0], want: &[&[20.0]] },
    Case { row: "64", run: |x| vec![while_with_all_jumps(&x[0], &x[1])], inputs: &[1.0, 3.0], want: &[&[15.0]] },
    Case {
        row: "64, return",
        run: |x| vec![while_with_all_jumps(&x[0], &x[1])],
        inputs: &[2.0, 5.0],
        want: &[&[20.0]],
    },
    Case { row: "64, break", run: |x| vec![while_with_all_jumps(&x[0], &x[1])], inputs: &[3.0, 5.0], want: &[&[30.0]] },
    Case {
        row: "66",
        run: |x| with(5.0, 4.0, |net| vec![early_return_behind_a_loop(net, &x[0])]),
        inputs: &[2.0],
        want: &[&[-6.0]],
    },
    Case { row: "68", run: |x| vec![while_after_while_in_while(&x[0], &x[1])], inputs: &[1.0, 3.0], want: &[&[54.0]] },
    Case { row: "69", run: |x| vec![both_arms_leave(&x[0])], inputs: &[1.0], want: &[&[1.0]] },
    Case { row: "69, counted", run: |x| vec![both_arms_leave(&x[0])], inputs: &[-2.5], want: &[&[0.5]] },
    Case { row: "70", run: |x| vec![recursive(&x[0], steps(2))], inputs: &[3.0], want: &[&[4.0]] },
    Case {
        row: "72",
        run: |x| vec![cell_of_a_list(&times_4_5_6(), &x[0], &x[1].cast(DType::I64))],
        inputs: &[10.0, 0.0],
        want: &[&[160.0]],
    },
    Case { row: "73", run: |x| vec![doubling(&x[0])], inputs: &[1.0], want: &[&[16.0]] },
    Case {
        row: "74",
        run: |x| two(over_tensors(&x[0], &[x[1].clone(), x[2].clone(), x[3].clone()])),
        inputs: &[10.0, 5.0, 8.0, 2.0],
        want: &[&[25.0], &[23.0]],
    },
];

#[test]
fn forward_values() {
    for case in CASES {
        check(case.row, case.run, &scalars(case.inputs), case.want);
    }
}

/// The first case of row 70: a recursion that a tensor should terminate is infinite while tracing. Row 71: an infinite
/// recursion is an error eagerly, too.
#[test]
fn a_recursion_on_a_tensor_is_refused() {
    let error = ms::catch(|| ended_by_a_tensor(&Tensor::scalar(5.0f32))).expect_err("no end");
    assert_eq!(error.code(), Code::Recursion);
    assert_eq!(ms_conformance::paths::eagerly(|| ended_by_a_tensor(&Tensor::scalar(5.0f32))).item::<f32>(), -1.0);
    let x = &Tensor::from_slice([1], &[5i32]);
    for error in [ms::catch(|| endless(x)), ms_conformance::paths::eagerly(|| ms::catch(|| endless(x)))] {
        assert_eq!(error.expect_err("no end").code(), Code::Recursion);
    }
}

//! Checks the gradients of MindSpore's tests of control flow, by the numbers of its cases, eagerly and compiled.

use crate::control::{
    assigned_in_turn, cell_of_a_list, doubling, early_return_behind_a_loop, for_in_if, single_for, single_if,
    single_if_in_a_callee, times_4_5_6, while_in_if, with,
};
use crate::gradients::{case, pair, scalar};
use ms::GradOperation;
use ms::prelude::*;

#[jit]
fn stepped_for(x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
    let x = x + y;
    let mut z = z.clone();
    for _ in (-4..=10).rev().step_by(3) {
        z = z + &x;
    }
    z * y
}

#[jit]
fn assigned(a: &Parameter, b: &Parameter, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    a.set(&(x + a));
    let mut f = x * 2.0;
    for _ in 0..5 {
        f = f * 2.0;
        b.set(&(b + 1.0));
    }
    (a + y + (f - b), b.value())
}

#[jit]
fn if_in_for(w: &Parameter, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let mut out = Tensor::scalar(0.0);
    for i in 0..3 {
        if &out <= 20.0 {
            w.set(&out);
            w.set(&Tensor::scalar(i as f32));
            out = out + x * y;
        }
    }
    (out, w.value())
}

#[jit]
fn while_in_for_then_for(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0);
    for _ in 0..3 {
        let mut j = Tensor::scalar(0.0);
        while &j < 3.0 {
            out = &out + x * y;
            j = &j + 1.0;
        }
    }
    for _ in 0..3 {
        out = out + x * y;
    }
    out
}

#[jit]
fn for_break(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0);
    for i in 0..3 {
        if i % 2 == 0 {
            continue;
        }
        out = out + x * y;
        if &out == 20.0 {
            return out;
        }
        if &out > 20.0 {
            break;
        }
    }
    out
}

#[jit]
fn while_break(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0);
    let mut i = Tensor::scalar(0.0);
    while &i < 10.0 {
        i = &i + 1.0;
        if i.remainder(2.0) == 0.0 {
            continue;
        }
        out = &out + x * y;
        if &out > 20.0 {
            break;
        }
    }
    out
}

#[jit]
fn while_after_while_in_while(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = Tensor::scalar(0.0);
    let mut i = Tensor::scalar(0.0);
    while &i < 3.0 {
        let mut j = Tensor::scalar(0.0);
        while &j < 3.0 {
            out = &out + x * y;
            j = &j + 1.0;
        }
        let mut k = Tensor::scalar(0.0);
        while &k < 3.0 {
            out = &out + x * y;
            k = &k + 1.0;
        }
        i = &i + 1.0;
    }
    out
}

#[jit]
fn if_in_if(a: &Parameter, b: &Parameter, x: &Tensor) -> Tensor {
    let mut x = x.clone();
    if a.value() > b {
        x = x + 10.0;
        b.set(&(b + 1.0));
        if a.value() > b {
            x = x + 5.0;
            b.set(&(b + 1.0));
        }
    }
    x + a
}

#[jit]
fn added_until_a_break(x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
    let (mut x, mut out) = (x.clone(), z.clone());
    while x < y {
        x = x + 1.0;
        out = out + z;
        if x > 3.0 {
            break;
        }
    }
    out
}

#[test]
fn control_flow() {
    let (x, y) = (scalar(2.0), scalar(5.0));
    let of = |f: fn(&Tensor, &Tensor) -> Tensor, x: &Tensor, y: &Tensor| pair(ms::grad(f).wrt_all()(x, y));
    case("44", || of(single_if, &x, &y), &[&[1.0], &[1.0]]);
    case("45", || of(single_if_in_a_callee, &x, &y), &[&[2.0], &[2.0]]);
    let three = |f: fn(&Tensor, &Tensor, &Tensor) -> Tensor| {
        let (a, b, c) = GradOperation::new().get_all().of(f)(&tensor![2.0], &tensor![5.0], &tensor![4.0]);
        vec![a, b, c]
    };
    case("48", || three(single_for), &[&[15.0], &[40.0], &[5.0]]);
    case("49", || three(stepped_for), &[&[25.0], &[64.0], &[5.0]]);
    let slot = |value: f32| Parameter::new(scalar(value), "slot");
    let run = || {
        let (a, b) = (slot(5.0), slot(2.0));
        let f = |x: &Tensor, y: &Tensor| assigned(&a, &b, x, y);
        let (value, gradients) = ms::value_and_grad(f).wrt_all()(&x, &y);
        [pair(value), pair(gradients)].concat()
    };
    case("50", run, &[&[133.0], &[7.0], &[64.0], &[1.0]]);
    case("51", || with(5.0, 2.0, |net| vec![ms::grad(|x: &Tensor| assigned_in_turn(net, x))(&x)]), &[&[0.0]]);
    let (one, three) = (scalar(1.0), scalar(3.0));
    let run55 = || {
        let w = slot(0.0);
        let (value, gradients) =
            ms::value_and_grad(|x: &Tensor, y: &Tensor| if_in_for(&w, x, y)).wrt_all()(&one, &three);
        [pair(value), pair(gradients)].concat()
    };
    for (a, b) in [(5.0, 4.0), (5.0, 3.0), (5.0, 5.0)] {
        case("52", || vec![ms::grad(|x: &Tensor| if_in_if(&slot(a), &slot(b), x))(&x)], &[&[1.0]]);
    }
    let run = || with(5.0, 4.0, |net| vec![ms::grad(|x: &Tensor| early_return_behind_a_loop(net, x))(&x)]);
    case("66", run, &[&[1.0]]);
    let (zero, cells) = (Tensor::scalar(0i64), times_4_5_6());
    case("72", || vec![ms::grad(|x: &Tensor| cell_of_a_list(&cells, x, &zero))(&scalar(10.0))], &[&[16.0]]);
    let run = || {
        let f = |z: &Tensor| added_until_a_break(&scalar(1.0), &scalar(9.0), z) * z;
        let (value, gradient) = ms::value_and_grad(f)(&scalar(2.5));
        vec![value, gradient]
    };
    case("96", run, &[&[25.0], &[20.0]]);
    case("55", run55, &[&[9.0], &[2.0], &[9.0], &[3.0]]);
    let run = || {
        with(0.0, 0.0, |net| pair(ms::grad(|x: &Tensor, y: &Tensor| while_in_if(net, x, y)).wrt_all()(&one, &three)))
    };
    case("56", run, &[&[9.0], &[3.0]]);
    let run = || with(5.0, 4.0, |net| vec![ms::grad(|x: &Tensor| for_in_if(net, x))(&scalar(10.0))]);
    case("58", run, &[&[64.0]]);
    case("61", || of(while_in_for_then_for, &one, &three), &[&[36.0], &[12.0]]);
    case("63", || of(for_break, &one, &three), &[&[3.0], &[1.0]]);
    case("64", || of(while_break, &one, &three), &[&[15.0], &[5.0]]);
    case("68", || of(while_after_while_in_while, &one, &three), &[&[54.0], &[18.0]]);
    case("73", || vec![ms::grad(ms::grad(doubling))(&one)], &[&[0.0]]);
}

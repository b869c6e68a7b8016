//! Control flow on tensors: eagerly it runs as Rust, traced it becomes nodes with regions, and both
//! give the same.

#[path = "common/paths.rs"]
mod paths;

use ms::prelude::*;
use paths::{check, scalars};

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

#[jit]
fn jumps(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = x.clone();
    for i in 0..6 {
        if i == 1 {
            continue;
        }
        out = out + y;
        if out > 10.0 {
            break;
        }
        if out == 5.0 {
            return out * 100.0;
        }
        out += 1.0;
    }
    out
}

#[jit]
fn device_jumps(x: &Tensor, y: &Tensor) -> Tensor {
    let mut out = x.clone();
    let mut i = Tensor::scalar(0.0f32);
    while i < 6.0 {
        i += 1.0;
        if i == 2.0 {
            continue;
        }
        out = out + y;
        if out > 10.0 {
            break;
        }
        if out == 5.0 {
            return out * 100.0;
        }
        out += 1.0;
    }
    out
}

#[jit]
fn endless(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    'outer: loop {
        x += 1.0;
        loop {
            x = x * 2.0;
            if x > 100.0 {
                break 'outer;
            }
            if x > 10.0 {
                break;
            }
        }
        if x == 18.0 {
            continue;
        }
        x += 0.5;
    }
    x
}

#[jit]
fn guards(x: &Tensor) -> Result<Tensor> {
    if x < 0.0 {
        return Ok(-x);
    }
    let y = x * 2.0;
    if y > 10.0 {
        return Ok(y);
    } else if y > 8.0 {
        return Ok(y + 0.5);
    }
    Ok(y + 100.0)
}

#[jit]
fn choice(x: &Tensor) -> Tensor {
    match x {
        0 => x + 1,
        2 | 3 => x * 10,
        other => -other,
    }
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

#[test]
fn jumps_out_of_regions() {
    let native = |x: f32, y: f32, one: i32| {
        let mut out = x;
        for i in 0..6 {
            if i == one {
                continue;
            }
            out += y;
            if out > 10.0 {
                break;
            }
            if out == 5.0 {
                return out * 100.0;
            }
            out += 1.0;
        }
        out
    };
    for (x, y) in [(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (4.0, 1.0), (0.0, -2.0)] {
        let want = [native(x, y, 1) as f64];
        check("jumps", |it| vec![jumps(&it[0], &it[1])], &scalars(&[x, y]), &[&want]);
        check("device_jumps", |it| vec![device_jumps(&it[0], &it[1])], &scalars(&[x, y]), &[&want]);
    }
    for x in [0.0, 3.5, 8.0] {
        let mut native: f32 = x;
        'outer: loop {
            native += 1.0;
            loop {
                native *= 2.0;
                if native > 100.0 {
                    break 'outer;
                }
                if native > 10.0 {
                    break;
                }
            }
            if native == 18.0 {
                continue;
            }
            native += 0.5;
        }
        check("endless", |it| vec![endless(&it[0])], &scalars(&[x]), &[&[native as f64]]);
    }
    for (x, want) in [(-2.0, 2.0), (6.0, 12.0), (4.5, 9.5), (1.0, 102.0)] {
        check("guards", |it| vec![guards(&it[0]).expect("no refusal")], &scalars(&[x]), &[&[want]]);
    }
    for (x, want) in [(0, 1.0), (2, 20.0), (3, 30.0), (7, -7.0)] {
        check("choice", |it| vec![choice(&it[0])], &[Tensor::scalar(x as i64)], &[&[want]]);
    }
}

/// Counters of the host go on in a loop that a tensor ends, as long as nothing sees them after it.
#[jit]
fn host_counters(x: &Tensor, limit: &Tensor, n: usize) -> Tensor {
    let mut x = x.clone();
    let mut sum = x.clone() * 0.0;
    for k in 0..2 {
        let mut i = 0;
        while i < n {
            i += 1;
            if &x > limit {
                break;
            }
            x = x * 2.0 + k;
        }
        let mut j = 0;
        loop {
            if j >= n {
                break;
            }
            if sum > 4.0 {
                return sum + 100.0;
            }
            j += 2;
            sum += j;
        }
    }
    x + sum
}

#[test]
fn counters_of_the_host_in_loops_that_tensors_end() {
    let native = |mut x: f32, limit: f32, n: usize| {
        let mut sum = 0.0;
        for k in 0..2 {
            let mut i = 0;
            while i < n {
                i += 1;
                if x > limit {
                    break;
                }
                x = x * 2.0 + k as f32;
            }
            let mut j = 0;
            loop {
                if j >= n {
                    break;
                }
                if sum > 4.0 {
                    return sum + 100.0;
                }
                j += 2;
                sum += j as f32;
            }
        }
        x + sum
    };
    for (x, limit) in [(1.0, 5.0), (1.0, 100.0), (3.0, 0.0)] {
        for n in 0..4 {
            let want = [native(x, limit, n) as f64];
            check("host_counters", |it| vec![host_counters(&it[0], &it[1], n)], &scalars(&[x, limit]), &[&want]);
        }
    }
}

/// A counter that something sees after the loop, or that one arm alone changes, has to be a tensor.
#[test]
fn host_values_that_tensors_change_are_refused() {
    #[jit]
    fn seen(x: &Tensor) -> Tensor {
        let mut i = 0;
        while i < 3 {
            if x > 1.0 {
                break;
            }
            i += 1;
        }
        x * i
    }
    #[jit]
    fn one_arm(x: &Tensor) -> Tensor {
        let mut s = 0.0;
        if x > 1.0 {
            s = 1.0;
        }
        x * s
    }
    #[jit]
    fn skipped(x: &Tensor) -> Tensor {
        let mut x = x.clone();
        let mut i = 0;
        while i < 3 {
            i += 1;
            if x > 1.0 {
                i += 1;
                continue;
            }
            x += 1.0;
        }
        x
    }
    #[jit]
    fn grows(x: &Tensor) -> Tensor {
        let mut all = vec![x.clone()];
        while all[0] > 1.0 {
            all.push(x.clone());
        }
        all[0].clone()
    }
    #[jit]
    fn retyped(x: &Tensor) -> Tensor {
        let mut state = (x.clone(), x.clone());
        while state.0 > 1.0 {
            state.1 = state.1.reshape([1, 1]);
        }
        state.1
    }
    type Case = (&'static str, fn(&Tensor) -> Tensor, ms::Code, &'static [&'static str]);
    let cases: [Case; 5] = [
        ("seen", seen, ms::Code::HostChange, &["`i`", "i32"]),
        ("one_arm", one_arm, ms::Code::HostChange, &["`s`", "f64"]),
        ("skipped", skipped, ms::Code::HostChange, &["`i`"]),
        ("grows", grows, ms::Code::HostChange, &["`all`"]),
        ("retyped", retyped, ms::Code::TypeChange, &["`state.1`", "f32[]", "f32[1, 1]", "control_tensor.rs"]),
    ];
    for (name, f, code, parts) in cases {
        let error = ms::catch(|| f(&Tensor::scalar(2.0f32))).expect_err(name);
        assert_eq!(error.code(), code, "{name}: {error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{name}: {part} in {error}");
        }
    }
}

#[jit]
fn host_exit_and_continue(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut j = 0;
    loop {
        if j >= 4 {
            break;
        }
        j += 1;
        if x > 3.0 {
            continue;
        }
        x += 2.0;
    }
    x
}

#[test]
fn a_loop_that_the_host_ends_and_a_tensor_continues() {
    for (x, want) in [(0.0, 4.0), (5.0, 5.0), (-6.0, 2.0)] {
        check("host_exit_and_continue", |it| vec![host_exit_and_continue(&it[0])], &scalars(&[x]), &[&[want]]);
    }
}

#[jit]
fn over_rows(x: &Tensor) -> Tensor {
    let mut sum = Tensor::zeros([2]);
    for row in x {
        if ops::sum(&row, (), false) > 2.0 {
            continue;
        }
        sum = sum + row.square();
    }
    ops::sum(sum, (), false)
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

/// What is read and written in the condition, and in the body after it.
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

    /// Counts that it was asked.
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

/// A condition that writes runs once more than the body, unless the loop is left from inside.
#[test]
fn conditions_that_write() {
    type Program = fn(&Slots, &Tensor, &Tensor) -> Tensor;
    // The result, then how often the condition ran and what the body added up.
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

/// Gradients through such a loop are those of what ran.
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

//! Tests jumps that depend on tensors: `break`, `continue` and `return` out of regions and loops, with host counters.

use ms::prelude::*;
use ms_conformance::paths::{check, scalars};

twins! {
    fn jumps(x, y;) {
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

twins! {
    fn endless(x;) {
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
fn jumps_out_of_regions() {
    for (x, y) in [(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (4.0, 1.0), (0.0, -2.0)] {
        let want = [jumps::native(x, y) as f64];
        check("jumps", |it| vec![jumps(&it[0], &it[1])], &scalars(&[x, y]), &[&want]);
        check("device_jumps", |it| vec![device_jumps(&it[0], &it[1])], &scalars(&[x, y]), &[&want]);
    }
    for x in [0.0, 3.5, 8.0] {
        let want = [endless::native(x) as f64];
        check("endless", |it| vec![endless(&it[0])], &scalars(&[x]), &[&want]);
    }
    for (x, want) in [(-2.0, 2.0), (6.0, 12.0), (4.5, 9.5), (1.0, 102.0)] {
        check("guards", |it| vec![guards(&it[0]).expect("no refusal")], &scalars(&[x]), &[&[want]]);
    }
    for (x, want) in [(0, 1.0), (2, 20.0), (3, 30.0), (7, -7.0)] {
        check("choice", |it| vec![choice(&it[0])], &[Tensor::scalar(x as i64)], &[&[want]]);
    }
}

/// Host counters advance in a loop that a tensor terminates, as long as nothing uses them after it.
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
fn host_counters_in_loops_on_tensors() {
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

/// Has a host condition that leaves the loop, besides a condition on a tensor.
#[jit]
fn host_exits(x: &Tensor, n: usize) -> Tensor {
    let half = |n: usize| n.is_multiple_of(2).then_some(n / 2);
    let mut x = x.clone();
    let mut count = Tensor::scalar(0.0f32);
    'all: loop {
        if count > 3.0 {
            break;
        }
        count += 1.0;
        let Some(m) = half(n) else {
            break;
        };
        match n + m {
            6 => break 'all,
            _ if m == 0 => {
                x += 10.0;
                continue;
            }
            _ => x += 1.0,
        }
    }
    x + count
}

#[test]
fn host_exits_out_of_loops_on_tensors() {
    for (n, want) in [(0, 46.0), (1, 3.0), (2, 10.0), (4, 3.0), (6, 10.0)] {
        check("host_exits", |it| vec![host_exits(&it[0], n)], &scalars(&[2.0]), &[&[want]]);
    }
}

/// A host condition that the syntax does not show to be one.
fn is_odd(n: usize) -> bool {
    n % 2 == 1
}

twins! {
    /// Has host loops inside a loop that a tensor may have left, with jumps past them.
    fn past_host_loops(x; n: usize) {
        let mut x = x.clone();
        'all: for i in 0..3 {
            if x > 20.0 {
                break;
            }
            x += 1.0;
            let mut rounds = 0;
            let found = 'inner: loop {
                if rounds >= 2 {
                    break 2.0;
                }
                rounds += 1;
                x = x * 2.0;
                if is_odd(n) {
                    break 'inner 3.0;
                }
                if is_odd(i + n / 2) {
                    continue 'all;
                }
                if is_odd(n / 4) {
                    break 'all;
                }
            };
            x += found;
        }
        x
    }
}

#[test]
fn jumps_past_loops_of_the_host() {
    for x in [0.0, 5.0, 30.0] {
        for n in 0..8 {
            let want = [past_host_loops::native(x, n) as f64];
            check("past_host_loops", |it| vec![past_host_loops(&it[0], n)], &scalars(&[x]), &[&want]);
        }
    }
}

/// Has host loops within a branch on a tensor, and a return under host conditions that leaves them. The types of the
/// conditions are inferred, so only rustc knows that they are host values.
#[jit]
fn return_out_of_host_loops(x: &Tensor, limit: usize) -> Tensor {
    let mut z = x - 1.0;
    let Some(half) = limit.checked_div(2) else { return z };
    if x > 0.0 {
        let mut i = 0;
        loop {
            if i >= 3 {
                break;
            }
            i += 1;
            let mut j = 0;
            while j < 2 {
                j += 1;
                if half < i {
                    return x + 0.25 * j as f32;
                }
                z = &z + 1.0;
            }
            z = &z * 2.0;
        }
        return &z * 10.0;
    }
    z.clone()
}

#[test]
fn returns_leave_loops_of_the_host_around_them() {
    for (x, limit) in [(1.0f32, 0), (1.0, 2), (1.0, 4), (1.0, 9), (-1.0, 0), (-1.0, 9)] {
        let native = || {
            let mut z = x - 1.0;
            if x > 0.0 {
                for i in 1..=3 {
                    if limit / 2 < i {
                        return x + 0.25;
                    }
                    z = (z + 2.0) * 2.0;
                }
                return z * 10.0;
            }
            z
        };
        let want = [native() as f64];
        let run = |it: &[Tensor]| vec![return_out_of_host_loops(&it[0], limit)];
        check("return_out_of_host_loops", run, &[Tensor::scalar(x)], &[&want]);
    }
}

//! Tests errors about state that branches on tensors cannot change, and about jumps that cannot leave them.
//!
//! The tests check codes, and words of the messages.

mod hidden;
mod references;

use ms::Code;
use ms::prelude::*;
use std::collections::BTreeMap;

/// A program, the code of its error, and words of the message.
type Case = (&'static str, fn(&Tensor) -> Tensor, Code, &'static [&'static str]);

#[track_caller]
fn check(cases: &[Case]) {
    for (name, f, code, words) in cases {
        let error = ms::catch(|| f(&Tensor::scalar(2.0f32))).expect_err(name);
        assert_eq!(error.code(), *code, "{name}: {error}");
        for word in *words {
            assert!(error.to_string().contains(word), "{name}: {word} is not in {error}");
        }
    }
}

/// A counter that is used after the loop, or that only one arm changes, has to be a tensor.
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
    #[jit]
    fn behind_a_block(x: &Tensor) -> Tensor {
        let mut s = 0.0;
        'block: {
            if x > 1.0 {
                s = 1.0;
                break 'block;
            }
        }
        x * s
    }
    #[jit]
    fn of_a_map(x: &Tensor) -> Tensor {
        let mut state = BTreeMap::from([("sum".to_owned(), (x.clone(), 3))]);
        if x > 1.0 {
            let (sum, _) = &state["sum"];
            let sum = sum.reshape([1, 1]);
            state.insert("sum".to_owned(), (sum, 3));
        }
        state["sum"].0.clone()
    }
    check(&[
        ("seen", seen, Code::HostChange, &["`i`", "i32"]),
        ("one_arm", one_arm, Code::HostChange, &["`s`", "f64"]),
        ("behind_a_block", behind_a_block, Code::HostChange, &["`s`", "f64"]),
        ("skipped", skipped, Code::HostChange, &["`i`"]),
        ("grows", grows, Code::HostChange, &["`all`"]),
        ("of_a_map", of_a_map, Code::TypeChange, &["`state[\"sum\"][0]`", "f32[1, 1]"]),
        ("retyped", retyped, Code::TypeChange, &["`state.1`", "f32[]", "f32[1, 1]", "control/refusals/mod.rs"]),
    ]);
}

/// Only a tensor would terminate these infinite host loops, when the graph runs.
#[test]
fn host_loops_that_only_tensors_end() {
    #[jit]
    fn counts(x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for i in 0.. {
            if x > 10.0 {
                break;
            }
            x += i;
        }
        x
    }
    #[jit]
    fn returns(x: &Tensor) -> Tensor {
        for scale in (1..).map(|it| it * it) {
            if x * scale > 100 {
                return x * scale;
            }
        }
        x.clone()
    }
    #[jit]
    fn waits(x: &Tensor) -> Tensor {
        let (mut x, mut turn) = (x.clone(), 0);
        while turn < 2 {
            turn = 1 - turn;
            x += 1.0;
            if x > 10.0 {
                break;
            }
        }
        x
    }
    check(&[
        ("counts", counts, Code::HostLoop, &["MS031", "ms::range", "control/refusals/mod.rs"]),
        ("returns", returns, Code::HostLoop, &["control/refusals/mod.rs"]),
        ("waits", waits, Code::HostLoop, &["control/refusals/mod.rs"]),
    ]);
}

macro_rules! stop {
    ($label:lifetime) => {
        break $label
    };
}

macro_rules! give {
    ($value:expr) => {
        return $value
    };
}

/// A jump inside a user's macro is not rewritten, and leaves the region unfinished.
#[test]
fn jumps_that_macros_hide() {
    #[jit]
    fn out_of_a_loop(x: &Tensor) -> Tensor {
        let mut x = x.clone();
        'all: while x > 1.0 {
            x = x / 2.0;
            if x < 3.0 {
                stop!('all);
            }
        }
        x
    }
    #[jit]
    fn out_of_the_function(x: &Tensor) -> Tensor {
        if x > 1.0 {
            give!(x * 2.0)
        }
        x.clone()
    }
    #[jit]
    fn out_of_a_closure(x: &Tensor) -> Tensor {
        let parse = |text: &str| -> std::result::Result<Tensor, std::num::ParseIntError> {
            if x > 1.0 {
                text.parse::<i64>()?;
            }
            Ok(x.clone())
        };
        parse("seven").unwrap_or_else(|_| x * 2.0)
    }
    check(&[
        ("out_of_a_loop", out_of_a_loop, Code::LeftOpen, &["MS033", "control/refusals/mod.rs"]),
        ("out_of_the_function", out_of_the_function, Code::LeftOpen, &["control/refusals/mod.rs"]),
        ("out_of_a_closure", out_of_a_closure, Code::LeftOpen, &["control/refusals/mod.rs"]),
    ]);
}

/// An error that leaves the call is the result of the call.
#[test]
fn errors_of_the_host_leave_the_trace() {
    #[jit]
    fn parsed(x: &Tensor, text: &str) -> Result<Tensor> {
        let mut x = x.clone();
        while x < 10.0 {
            let step: i64 = text.parse().map_err(|_| ms::Error::new(Code::Parse, "no number"))?;
            x += step;
        }
        Ok(x)
    }
    let x = Tensor::scalar(2.0f32);
    assert_eq!(parsed(&x, "seven").expect_err("no number").code(), Code::Parse);
    assert_eq!(parsed(&x, "7").expect("a number").item::<f32>(), 16.0);
}

/// A tensor that leaves a host loop does not stop its head. The head consumes items of a host value, which must not be
/// used after the loop.
#[test]
fn heads_of_host_loops_advance() {
    fn three(x: &Tensor) -> Vec<Tensor> {
        vec![x * 1.0, x * 2.0, x * 3.0]
    }
    #[jit]
    fn next(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        while let Some(t) = it.next() {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn pop(x: &Tensor) -> Tensor {
        let mut stack = three(x);
        while let Some(t) = stack.pop() {
            if t > 1.0 {
                break;
            }
        }
        x * stack.len()
    }
    #[jit]
    fn counter(x: &Tensor) -> Tensor {
        fn step(n: &mut usize) -> bool {
            *n += 1;
            *n < 3
        }
        let mut n = 0;
        while step(&mut n) {
            if x > 1.0 {
                break;
            }
        }
        x * n
    }
    #[jit]
    fn by_ref(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        for t in it.by_ref().take(2) {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn lent(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        for (_, t) in (&mut it).enumerate() {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn reference(x: &Tensor) -> Tensor {
        let mut it = three(x).into_iter();
        let r = &mut it;
        for t in r {
            if t > 1.0 {
                break;
            }
        }
        x * it.count()
    }
    #[jit]
    fn closure(x: &Tensor) -> Tensor {
        let mut n = 0;
        let v = three(x);
        for t in v.iter().inspect(|_| n += 1) {
            if t > 1.0 {
                break;
            }
        }
        x * n
    }
    #[jit]
    fn called(x: &Tensor) -> Tensor {
        let mut stack = three(x);
        let mut take = || stack.pop();
        while let Some(t) = take() {
            if t > 1.0 {
                break;
            }
        }
        x * stack.len()
    }
    #[jit]
    fn around(x: &Tensor) -> Tensor {
        let (v, mut y) = (three(x), x.clone());
        let mut it = v.iter();
        for _ in 0..2 {
            while let Some(t) = it.next() {
                if t > 1.0 {
                    break;
                }
                y += 1.0;
            }
        }
        y
    }
    #[jit]
    fn outer(x: &Tensor) -> Tensor {
        let mut stack = three(x);
        'all: for _ in 0..2 {
            while let Some(t) = stack.pop() {
                if t > 1.0 {
                    break 'all;
                }
            }
        }
        x * stack.len()
    }
    #[jit]
    fn also_in_the_condition(x: &Tensor) -> Tensor {
        let v = three(x);
        let mut it = v.iter();
        while let Some(t) = it.next()
            && t < 1.0
        {}
        x * it.count()
    }
    check(&[
        ("next", next, Code::HostChange, &["MS041", "`it`", "head of a host loop"]),
        ("pop", pop, Code::HostChange, &["`stack`", "head of a host loop"]),
        ("counter", counter, Code::HostChange, &["`n`", "head of a host loop"]),
        ("by_ref", by_ref, Code::HostChange, &["`it`", "head of a host loop"]),
        ("lent", lent, Code::HostChange, &["`it`", "head of a host loop"]),
        ("reference", reference, Code::HostChange, &["`r`", "head of a host loop"]),
        ("closure", closure, Code::HostChange, &["`n`", "head of a host loop"]),
        ("called", called, Code::HostChange, &["`stack`", "head of a host loop"]),
        ("around", around, Code::HostChange, &["`it`", "head of a host loop"]),
        ("outer", outer, Code::HostChange, &["`stack`"]),
        ("also in the condition", also_in_the_condition, Code::HostChange, &["`it`", "head of a host loop"]),
    ]);
}

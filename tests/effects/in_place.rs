//! Compiled functions update parameters in their memory, and nobody who must not see it does.

use ms::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// More elements than a kernel keeps in registers, so that a value that is half written shows.
const LEN: usize = 10_000;

fn slot(value: f32) -> Parameter {
    Parameter::new(Tensor::full([LEN], value), "w")
}

fn address(slot: &Parameter) -> usize {
    slot.value().as_array().expect("it is not traced").device_ptr() as usize
}

#[track_caller]
fn all(tensor: &Tensor, value: f32) {
    let values = tensor.to_vec::<f32>();
    assert!(values.iter().all(|&it| it == value), "{} instead of {value}", values[0]);
}

#[jit]
fn advance(w: &Parameter) {
    w.set(&(w * 2.0 + 1.0));
}

#[jit]
fn advanced(w: &Parameter) -> Tensor {
    w.set(&(w * 2.0 + 1.0));
    w.value()
}

#[jit]
fn add(w: &Parameter, x: &Tensor) {
    w.set(&(w + x));
}

#[jit]
fn summed(w: &Parameter) -> Tensor {
    w.value().sum((), false)
}

/// Writes, then fails if the new value is not small.
#[jit]
fn checked(w: &Parameter, limit: &Tensor) {
    w.set(&(w * 2.0 + 1.0));
    ops::assert_that(&w.value().max((), false).lt(limit), "too large: {}", &[limit]);
}

/// Fails for a class that does not exist, before or after the write in program order.
#[jit]
fn looked_up(w: &Parameter, at: &Tensor, first: bool) -> Tensor {
    if first {
        let found = ops::gather(&w.value(), at, 0);
        w.set(&(w * 2.0 + 1.0));
        found
    } else {
        w.set(&(w * 2.0 + 1.0));
        ops::gather(&w.value(), at, 0)
    }
}

#[test]
fn values_stay_where_they_are() {
    let w = slot(0.0);
    advance(&w);
    let place = address(&w);
    let mut want = 1.0;
    for _ in 0..5 {
        // A version that only reads the slot caches its value.
        assert_eq!(summed(&w).item::<f32>(), want * LEN as f32);
        advance(&w);
        want = want * 2.0 + 1.0;
        assert_eq!(address(&w), place);
        all(&w.value(), want);
    }
}

#[test]
fn what_others_hold_does_not_change() {
    let w = slot(1.0);
    let before = w.value();
    advance(&w);
    all(&before, 1.0);
    all(&w.value(), 3.0);
    // A part of the old value, a result that is the new one, and a slot of the same memory.
    let (part, other) = (w.value().at(0), Parameter::new(w.value(), "other"));
    let new = advanced(&w);
    advance(&w);
    assert_eq!(part.item::<f32>(), 3.0);
    all(&other.value(), 3.0);
    all(&new, 7.0);
    all(&w.value(), 15.0);
    // An argument that is the slot's value.
    let x = w.value();
    add(&w, &x);
    all(&x, 15.0);
    all(&w.value(), 30.0);
}

#[test]
fn a_run_that_fails_writes_nothing() {
    let w = slot(1.0);
    let failed = |run: &dyn Fn()| {
        let error = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run();
            ms::synchronize().expect("the run does not fail");
        }));
        assert!(error.is_err(), "the run fails");
        all(&w.value(), 1.0);
    };
    let limit = Tensor::scalar(2.0);
    failed(&|| checked(&w, &limit));
    let nowhere = Tensor::from_slice([1], &[LEN as i64]);
    failed(&|| drop(looked_up(&w, &nowhere, true)));
    failed(&|| drop(looked_up(&w, &nowhere, false)));
    // The slot is as usable as before.
    checked(&w, &Tensor::scalar(100.0));
    all(&w.value(), 3.0);
    assert_eq!(looked_up(&w, &Tensor::from_slice([1], &[7i64]), false).item::<f32>(), 7.0);
    advance(&w);
    all(&w.value(), 15.0);
}

/// Readers see whole values only, and runs that read each other's slots do not wait for each other forever.
#[test]
fn threads_see_whole_values() {
    #[jit]
    fn from(to: &Parameter, from: &Parameter) {
        to.set(&(to * 0.5 + from * 0.5));
    }
    let (a, b) = (slot(1.0), slot(3.0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) || reads < 10 {
                for slot in [&a, &b] {
                    let values = slot.value().to_vec::<f32>();
                    assert!(values.iter().all(|&it| it == values[0]), "a value is half written");
                    assert!(summed(slot).item::<f32>() > 0.0);
                }
                reads += 1;
            }
        });
        let writers = [(&a, &b), (&b, &a)].map(|(to, by)| scope.spawn(move || (0..300).for_each(|_| from(to, by))));
        writers.into_iter().for_each(|it| it.join().expect("the writer does not fail"));
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader does not fail");
    });
    let (a, b) = (a.value().at(0).item::<f32>(), b.value().at(0).item::<f32>());
    assert!((1.0..=3.0).contains(&a) && (a - b).abs() < 1e-3, "{a} {b}");
}

//! Tests that compiled functions update parameters in place, and that other holders of the old value do not see it.

use ms::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of elements, more than a kernel can hold in registers. So a half-written value is visible.
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
    w.value().sum(())
}

/// Writes, then fails unless the new value is small.
#[jit]
fn checked(w: &Parameter, limit: &Tensor) {
    w.set(&(w * 2.0 + 1.0));
    ops::assert_that(&w.value().max(()).lt(limit), "too large: {}", &[limit]);
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
    // The holders are a part of the old value, a result that is the new value, and a slot with the same memory.
    let (part, other) = (w.value().at(0), Parameter::new(w.value(), "other"));
    let new = advanced(&w);
    advance(&w);
    assert_eq!(part.item::<f32>(), 3.0);
    all(&other.value(), 3.0);
    all(&new, 7.0);
    all(&w.value(), 15.0);
    // The argument is the slot's value.
    let x = w.value();
    add(&w, &x);
    all(&x, 15.0);
    all(&w.value(), 30.0);
}

/// One step updates several slots. Each is written over its old value, unless somebody holds that value. Slots can also
/// exchange their values.
#[test]
fn slots_are_updated_together() {
    #[jit]
    fn advance_all(a: &Parameter, b: &Parameter, c: &Parameter, by: &Tensor) {
        a.set(&(a * 2.0 + by));
        b.set(&(b * 3.0 + by));
        c.set(&(c * 4.0 + by));
    }
    #[jit]
    fn exchange(a: &Parameter, b: &Parameter) {
        let old = a.value();
        a.set(&(b * 2.0));
        b.set(&(old + 1.0));
    }
    let slots = [slot(0.0), slot(1.0), Parameter::new(Tensor::full([3, LEN], 2.0), "w")];
    let [a, b, c] = &slots;
    let by = Tensor::scalar(1.0);
    advance_all(a, b, c, &by);
    let places = slots.each_ref().map(address);
    let mut want = [1.0, 4.0, 9.0];
    for step in 0..6 {
        let held = (step == 3).then(|| (b.value(), want[1]));
        advance_all(a, b, c, &by);
        want = [want[0] * 2.0 + 1.0, want[1] * 3.0 + 1.0, want[2] * 4.0 + 1.0];
        slots.iter().zip(want).for_each(|(slot, want)| all(&slot.value(), want));
        if let Some((value, want)) = &held {
            all(value, *want);
        }
        let kept = [address(a) == places[0], address(c) == places[2]];
        assert_eq!(kept, [true, true], "in step {step}");
        assert_eq!(address(b) == places[1], step < 3, "in step {step}");
        drop(held);
    }
    let (before, after) = (want, [want[1] * 2.0, want[0] + 1.0]);
    exchange(a, b);
    [a, b].iter().zip(after).for_each(|(slot, want)| all(&slot.value(), want));
    exchange(a, b);
    all(&a.value(), before[0] * 2.0 + 2.0);
    all(&b.value(), before[1] * 2.0 + 1.0);
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
    // The slot remains usable.
    checked(&w, &Tensor::scalar(100.0));
    all(&w.value(), 3.0);
    assert_eq!(looked_up(&w, &Tensor::from_slice([1], &[7i64]), false).item::<f32>(), 7.0);
    advance(&w);
    all(&w.value(), 15.0);
}

/// Readers see whole values only. Runs that read each other's slots cause no deadlock.
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

#[jit]
fn before_a_lookup(w: &Parameter, x: &Tensor, at: &Tensor) -> Tensor {
    w.set(&(w * 2.0 + 1.0));
    ops::gather(x, at, 0)
}

#[jit]
fn before_an_assertion(w: &Parameter, x: &Tensor, _at: &Tensor) -> Tensor {
    w.set(&(w * 2.0 + 1.0));
    ops::assert_that(x.lt(100.0), "too large", &[]);
    x * 2.0
}

#[jit]
fn before_a_product(w: &Parameter, x: &Tensor, _at: &Tensor) -> Tensor {
    w.set(&(w * 2.0 + 1.0));
    let x = x.reshape([2, 2]);
    x.matmul(&x)
}

#[jit]
fn what_is_looked_up(w: &Parameter, _x: &Tensor, at: &Tensor) -> Tensor {
    w.set(&(w * 2.0 + 1.0));
    ops::gather(&w.value(), at, 0)
}

#[jit]
fn what_a_product_reads(w: &Parameter, _x: &Tensor, _at: &Tensor) -> Tensor {
    w.set(&(w * 2.0 + 1.0));
    let w = w.value().reshape([100, 100]);
    w.matmul(&w)
}

/// A slot is updated in place if all steps that may fail can run before the write, and gets fresh memory otherwise. The
/// report has the numbers.
#[test]
fn what_may_fail_comes_before_slots_are_written() {
    // Whether the slot is updated in place, and the numbers in the report. The order of assertions is a slot too, which
    // they keep as it is.
    type Case = (&'static str, fn(&Parameter, &Tensor, &Tensor) -> Tensor, bool, [usize; 2]);
    let cases: [Case; 5] = [
        ("before_a_lookup", |w, x, at| before_a_lookup(w, x, at), true, [1, 0]),
        ("before_an_assertion", |w, x, at| before_an_assertion(w, x, at), true, [2, 0]),
        ("before_a_product", |w, x, at| before_a_product(w, x, at), true, [1, 0]),
        ("what_is_looked_up", |w, x, at| what_is_looked_up(w, x, at), true, [1, 0]),
        ("what_a_product_reads", |w, x, at| what_a_product_reads(w, x, at), false, [1, 1]),
    ];
    let (x, at) = (tensor![1., 2., 3., 4.], tensor![3, 0]);
    for (name, run, in_place, [written, fresh]) in cases {
        let w = slot(0.0);
        drop(run(&w, &x, &at));
        let place = address(&w);
        drop(run(&w, &x, &at));
        all(&w.value(), 3.0);
        assert_eq!(address(&w) == place, in_place, "{name}");
        let report = ms::compile_report().into_iter().rev().find(|it| it.name == name).expect("just compiled");
        let slots = report.slots.expect("it was traced");
        assert_eq!([slots.written, slots.fresh], [written, fresh], "{name}");
        let line = format!("slots: {written} written, {fresh} of them to fresh memory");
        assert!(report.to_string().contains(&line), "{report}");
    }
}

#[cell]
struct Classifier {
    embedding: nn::Embedding,
    norm: nn::BatchNorm,
    out: nn::Dense,
}

#[cell]
impl Classifier {
    fn construct(&self, tokens: &Tensor) -> Tensor {
        let x = self.norm(&self.embedding(tokens).sum(1));
        ops::assert_that(&x.lt(1e6).all(()), "too large", &[]);
        self.out(&x.relu())
    }
}

/// A training step writes parameters, moments, running statistics and counters in place. Its classes, positions and
/// assertions may fail.
#[test]
fn a_training_step_writes_its_slots_in_place() {
    random::set_seed(1);
    let net =
        Classifier { embedding: nn::Embedding::new(50, 32), norm: nn::BatchNorm::new(32), out: nn::Dense::new(32, 10) };
    let optimizer = Adam::new(1e-2);
    let batch = (random::randint([8, 5], 0, 50), random::randint([8], 0, 10));
    let step = || {
        let loss = |net: &Classifier, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
        optimizer.step(&net, &batch, loss).item::<f32>()
    };
    let before = ms::compile_report().len();
    let first = step();
    let reports = ms::compile_report();
    assert!((0..20).map(|_| step()).fold(first, f32::min) < first);
    let slots = reports[before..].iter().find_map(|it| it.slots).expect("it was compiled");
    assert!(slots.written > 10, "{slots:?}");
    assert_eq!(slots.fresh, 0, "{slots:?}");
    let places = || net.parameters().iter().map(address).collect::<Vec<_>>();
    let place = places();
    step();
    assert_eq!(places(), place);
}

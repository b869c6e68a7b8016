//! Tests `&mut` arguments: a new value reuses the memory of the previous value, unless that is shared.

use super::memory::{bits, data, eagerly, place, strictly};
use ms::nn::KeyValueCache;
use ms::prelude::*;

/// Checks whether the new value of a `&mut` argument has the memory of the previous value.
#[track_caller]
fn check(reused: bool, f: fn(&mut Tensor), shape: &[usize]) {
    let mut want = data(shape, 1);
    eagerly(|| f(&mut want));
    // The first call only traces.
    f(&mut data(shape, 1));
    for call in 0..2 {
        let mut x = data(shape, 1);
        let at = place(&x);
        f(&mut x);
        assert_eq!(place(&x) == at, reused, "call {call}");
        assert_eq!(bits(&x), bits(&want), "call {call}");

        let mut x = data(shape, 1);
        let (kept, view, before) = (x.clone(), x.reshape([x.numel()]), bits(&x));
        f(&mut x);
        assert_ne!(place(&x), place(&kept), "call {call}: shared memory is not written");
        assert_eq!((bits(&x), bits(&kept), bits(&view)), (bits(&want), before.clone(), before), "call {call}");
    }
}

macro_rules! writing {
    ($($name:ident => |$x:ident| $body:expr;)*) => {$(
        #[jit]
        fn $name($x: &mut Tensor) {
            *$x = $body;
        }
    )*};
}

writing! {
    elementwise => |x| ops::tanh(&*x * 2.0 + 1.0);
    one_row => |x| ops::dynamic_update_slice(&*x, ops::ones([1, 4]), Tensor::from(2i64), 0);
    // The row that the second write stores depends on the first write, through ops that may fail.
    two_rows => |x| {
        let y = ops::dynamic_update_slice(&*x, ops::ones([1, 4]), Tensor::from(2i64), 0);
        let row = ops::matmul(&y, ops::transpose(&y, 0, 1)).i(..1).i((.., ..4));
        ops::dynamic_update_slice(&y, row, Tensor::from(3i64), 0)
    };
    same => |x| x.clone();
    by_position => |x| x.set_at((.., Tensor::from(-1i64)), 3.0);
    transposed => |x| ops::transpose(&*x, 0, 1) + 1.0;
    product => |x| ops::matmul(&*x, &*x);
    counted => |x| {
        let mut y = x.clone();
        for step in ms::range(0, 4) {
            y = ops::dynamic_update_slice(&y, ops::sum(&y, keepdims(0)) * 0.125, step, 0);
        }
        y
    };
    chosen => |x| {
        let mut y = x.clone();
        if ops::sum(&y, ()) < 1e6 {
            y = ops::dynamic_update_slice(&y, ops::ones([1, 4]), Tensor::from(1i64), 0);
        }
        y
    };
}

#[test]
fn new_values_take_the_memory_of_old_ones() {
    strictly(|| {
        check(true, elementwise, &[5, 7]);
        check(true, elementwise, &[]);
        check(true, elementwise, &[300, 1000]);
        check(true, same, &[5, 4]);
        check(true, one_row, &[5, 4]);
        check(true, two_rows, &[5, 4]);
        check(true, by_position, &[5, 4]);
        check(true, counted, &[4, 4]);
        check(true, chosen, &[4, 4]);
    });
}

#[test]
fn what_is_still_read_is_not_overwritten() {
    strictly(|| {
        check(false, transposed, &[4, 4]);
        check(false, product, &[8, 8]);
    });
}

/// A state with parts that are written in turn. Ops between the writes may fail.
#[derive(Clone, Tree)]
struct Caches {
    all: Vec<Tensor>,
    length: Tensor,
    name: String,
}

impl Caches {
    fn new() -> Self {
        let all = (0..4).map(|seed| data(&[6, 8], seed)).collect();
        Self { all, length: Tensor::from(2i64), name: "kept".to_owned() }
    }

    fn places(&self) -> Vec<usize> {
        self.all.iter().map(place).collect()
    }

    fn bits(&self) -> Vec<Vec<u8>> {
        self.all.iter().chain([&self.length]).map(bits).collect()
    }

    /// Writes a row of each part, computed from the part before it.
    fn extended(&mut self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for part in &mut self.all {
            *part = ops::dynamic_update_slice(&*part, &x, &self.length, 0);
            x = ops::tanh(ops::matmul(ops::matmul(&x, ops::transpose(&*part, 0, 1)), &*part));
        }
        self.length = &self.length + 1i64;
        x
    }

    #[jit]
    fn step(&mut self, x: &Tensor) -> Tensor {
        self.extended(x)
    }

    #[jit]
    fn steps(&mut self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for _ in ms::range(0, 3) {
            x = self.extended(&x);
        }
        x
    }

    /// Works like `step`, and then writes the last part once more at the position `last`.
    #[jit]
    fn try_step(&mut self, x: &Tensor, last: &Tensor) -> Result<Tensor, ms::Error> {
        let y = self.extended(x);
        self.all[3] = ops::dynamic_update_slice(&self.all[3], &y, last, 0);
        Ok(y)
    }
}

#[test]
fn structures_are_written_in_place() {
    strictly(|| {
        for step in [Caches::step, Caches::steps] {
            let x = data(&[1, 8], 9);
            let mut want = Caches::new();
            let y = eagerly(|| step(&mut want, &x));
            step(&mut Caches::new(), &x);
            for _ in 0..2 {
                let mut caches = Caches::new();
                let at = caches.places();
                let got = step(&mut caches, &x);
                assert_eq!((bits(&got), caches.bits(), caches.places()), (bits(&y), want.bits(), at));
                assert_eq!(caches.name, "kept");
            }
            let (mut caches, kept) = (Caches::new(), Caches::new().all[1].clone());
            caches.all[1] = kept.clone();
            let at = caches.places();
            step(&mut caches, &x);
            assert_eq!((caches.bits(), bits(&kept)), (want.bits(), bits(&data(&[6, 8], 1))));
            let same: Vec<bool> = caches.places().iter().zip(&at).map(|(a, b)| a == b).collect();
            assert_eq!(same, [true, false, true, true], "only what is held elsewhere is copied");
        }
    });
}

/// Returns the error of a call, which a device reports later. The arguments then have no values.
fn error_of<R>(call: impl FnOnce() -> ms::Result<R>) -> ms::Error {
    match ms::catch(call).and_then(|it| it) {
        Err(error) => error,
        Ok(_) => ms::synchronize().expect_err("the call fails"),
    }
}

#[test]
fn a_call_that_fails_gives_back_the_tensors() {
    let x = data(&[1, 8], 9);
    let last = |at: i64| Tensor::from(at);
    Caches::new().try_step(&x, &last(0)).expect("the position is inside");
    for _ in 0..2 {
        // The first write fails.
        let mut caches = Caches::new();
        caches.length = last(6);
        let (at, before) = (caches.places(), caches.bits());
        let error = error_of(|| caches.try_step(&x, &last(0)));
        assert_eq!(error.code(), ms::Code::OutOfRange);
        if !x.device().is_cpu() {
            continue;
        }
        assert_eq!((caches.places(), caches.bits()), (at, before));
        // The last write fails, after the others may have happened.
        let mut caches = Caches::new();
        let (at, kept) = (caches.places(), caches.clone());
        let error = caches.try_step(&x, &last(6)).expect_err("outside");
        assert_eq!(error.code(), ms::Code::OutOfRange);
        assert_eq!((caches.places(), caches.bits()), (at, kept.bits()), "what is held elsewhere is not written");
        drop(kept);
        let error = caches.try_step(&x, &last(6)).expect_err("outside");
        assert!(error.to_string().contains("written in place"), "{error}");
        assert_eq!((caches.length.item::<i64>(), caches.name.as_str()), (2, "kept"));
        // The step can be repeated after the failure.
        let mut want = Caches::new();
        let again = [&mut caches, &mut want].map(|it| bits(&it.try_step(&x, &last(0)).expect("inside")));
        assert_eq!((&again[0], caches.bits()), (&again[1], want.bits()));
    }
}

#[test]
fn a_panic_gives_back_the_tensors() {
    let x = data(&[1, 8], 9);
    Caches::new().step(&x);
    let mut caches = Caches::new();
    caches.length = Tensor::from(6i64);
    let before = caches.bits();
    let error = error_of(|| Ok(caches.step(&x)));
    assert_eq!((error.code(), caches.name.as_str()), (ms::Code::OutOfRange, "kept"));
    if x.device().is_cpu() {
        assert_eq!(caches.bits(), before);
    }
}

#[jit]
fn swapped(a: &mut Tensor, b: &mut Tensor, by: &Tensor) -> Tensor {
    std::mem::swap(a, b);
    *a = &*a + by;
    &*a * &*b
}

#[test]
fn arguments_that_are_one_tensor() {
    strictly(|| {
        let by = data(&[9], 3);
        let run = |same: bool| {
            let (mut a, mut b) = (data(&[9], 1), data(&[9], 2));
            if same {
                b = a.clone();
            }
            let y = swapped(&mut a, &mut b, &by);
            [bits(&a), bits(&b), bits(&y)]
        };
        for same in [false, true] {
            let want = eagerly(|| run(same));
            (0..3).for_each(|_| assert_eq!(run(same), want, "{same}"));
        }
        // The argument is also read through `&`.
        let mut a = data(&[9], 1);
        for _ in 0..3 {
            let (kept, mut b) = (a.clone(), data(&[9], 2));
            let want = eagerly(|| bits(&(&b + &kept)));
            swapped(&mut a, &mut b, &kept);
            assert_eq!((bits(&a), bits(&b)), (want, bits(&kept)));
        }
    });
}

#[jit(donate(x))]
fn beside_donated(x: Tensor, sum: &mut Tensor) -> Tensor {
    *sum = &*sum + &x;
    x * 2.0
}

#[test]
fn beside_donated_arguments() {
    strictly(|| {
        let mut sum = data(&[9], 1);
        beside_donated(data(&[9], 0), &mut sum);
        for call in 1..4 {
            let x = data(&[9], call);
            let (here, want) = (place(&sum), eagerly(|| [bits(&(&x * 2.0)), bits(&(&sum + &x))]));
            let y = beside_donated(x, &mut sum);
            assert_eq!(([bits(&y), bits(&sum)], place(&sum)), (want, here));
        }
    });
}

#[jit(dims(x = [n]))]
fn summed(sum: &mut Tensor, x: &Tensor) {
    *sum = &*sum + ops::mean(x, ());
}

#[test]
fn symbolic_sizes_gradients_and_traces_around() {
    strictly(|| {
        let mut sum = data(&[5], 1);
        let mut want = data(&[5], 1);
        for n in [3, 3, 4, 3, 4] {
            let x = data(&[n], 2);
            summed(&mut sum, &x);
            eagerly(|| summed(&mut want, &x));
            assert_eq!(bits(&sum), bits(&want));
        }
        let at = place(&sum);
        summed(&mut sum, &data(&[3], 2));
        assert_eq!(place(&sum), at);
        // The tape holds the values that derivatives need.
        let loss = |x: &Tensor| {
            let mut y = x * x;
            elementwise(&mut y);
            elementwise(&mut y);
            ops::sum(y * x, ())
        };
        let x = data(&[7], 4);
        let want = ms::grad(|x: &Tensor| {
            let y = ops::tanh(ops::tanh(x * x * 2.0 + 1.0) * 2.0 + 1.0);
            ops::sum(y * x, ())
        })(&x);
        for _ in 0..2 {
            let apart = ops::max(ops::abs(ms::grad(loss)(&x) - &want), ()).item::<f32>();
            assert!(apart < 1e-5, "{apart}");
            assert_eq!(bits(&x), bits(&data(&[7], 4)));
        }
    });
}

#[jit]
fn attend(attention: &nn::MultiheadAttention, x: &Tensor, cache: &mut KeyValueCache) -> Tensor {
    let (y, next) = attention.step(x, cache);
    *cache = next;
    y
}

/// A step does not copy the keys and values of a cache.
#[test]
fn a_cache_is_extended_in_place() {
    random::set_seed(1);
    let attention = nn::MultiheadAttention::new(8, 2).batch_first(true);
    attention.set_train(false);
    let (mut cache, mut want) = (attention.cache(1, 6), attention.cache(1, 6));
    let mut places = None;
    for step in 0..6 {
        let x = data(&[1, 1, 8], step);
        let y = attend(&attention, &x, &mut cache);
        let (eager, next) = eagerly(|| attention.step(&x, &want));
        want = next;
        assert!(ops::max(ops::abs(y - eager), ()).item::<f32>() < 1e-5, "{step}");
        let here = [place(&cache.keys), place(&cache.values)];
        if step > 0 {
            assert_eq!(*places.get_or_insert(here), here, "{step}");
        }
    }
    let before = [&cache.keys, &cache.values].map(bits);
    let error = error_of(|| Ok(attend(&attention, &data(&[1, 1, 8], 7), &mut cache)));
    assert_eq!(error.code(), ms::Code::Assertion);
    if cache.keys.device().is_cpu() {
        assert_eq!([&cache.keys, &cache.values].map(bits), before);
        assert_eq!(cache.length.item::<i64>(), 6);
    }
}

#[derive(Clone, Tree)]
struct Parts {
    all: Vec<Tensor>,
    length: Tensor,
}

/// Runs a program on the parts. Each step has four bytes: the operation, two parts and a position.
#[jit]
fn run(program: &Vec<u8>, parts: &mut Parts) -> Tensor {
    for step in program.chunks(4) {
        let (to, from, at) = (step[1] as usize % 3, step[2] as usize % 3, step[3] as i64 % 4);
        let [x, y] = [to, from].map(|it| parts.all[it].clone());
        parts.all[to] = match step[0] % 9 {
            0 => ops::tanh(&x * 0.5 + &y),
            1 => ops::dynamic_update_slice(&x, y.i((at..at + 1, ..)), Tensor::from(at), 0),
            2 => ops::dynamic_update_slice(&x, ops::sum(&y, keepdims(1)) * 0.25, &parts.length, 1),
            3 => ops::matmul(&x, ops::tanh(&y)) * 0.25,
            4 => x.set_at((.., Tensor::from(at)), 0.5),
            5 => y,
            6 => ops::transpose(&x, 0, 1) - y,
            7 => {
                let mut x = x;
                for row in ms::range(0, 4) {
                    x = ops::dynamic_update_slice(&x, ops::mean(&x, keepdims(0)), row, 0);
                }
                x
            }
            _ => {
                let mut x = x;
                if ops::sum(&y, ()) > 0.0 {
                    x = ops::dynamic_update_slice(&x, y.i((..1, ..)) * 0.5, Tensor::from(at), 0);
                }
                x
            }
        };
    }
    parts.length = ops::minimum(&parts.length + 1i64, 3i64);
    ops::sum(&parts.all[0], 0)
}

/// Calls in place give the same results as calls by value, whatever else holds a part.
#[test]
fn random_programs() {
    let mut seed = 1u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let of =
        |parts: &Parts, y: &Tensor| -> Vec<Vec<u8>> { parts.all.iter().chain([&parts.length, y]).map(bits).collect() };
    let mut in_place = 0;
    strictly(|| {
        for case in 0..150 {
            let program: Vec<u8> = (0..4 * (1 + random(5))).map(|_| random(256) as u8).collect();
            let new = || Parts { all: (0..3).map(|it| data(&[4, 4], it + case)).collect(), length: Tensor::from(1i64) };
            let (mut parts, mut want) = (new(), new());
            for call in 0..4 {
                // Some parts are held elsewhere, as a whole or by a view, and some parts are the same tensor.
                let held: Vec<Tensor> = parts.all.iter().filter(|_| random(3) == 0).cloned().collect();
                let views: Vec<Tensor> = held.iter().map(|it| it.i((1..3, ..))).collect();
                if random(4) == 0 {
                    (parts.all[1], want.all[1]) = (parts.all[0].clone(), want.all[0].clone());
                }
                let before: Vec<Vec<u8>> = held.iter().chain(&views).map(bits).collect();
                let places: Vec<usize> = parts.all.iter().map(place).collect();
                let y = run(&program, &mut parts);
                let eager = eagerly(|| run(&program, &mut want));
                assert_eq!(of(&parts, &y), of(&want, &eager), "case {case}, call {call}: {program:?}");
                let after: Vec<Vec<u8>> = held.iter().chain(&views).map(bits).collect();
                assert_eq!(after, before, "case {case}, call {call}: {program:?}");
                in_place += parts.all.iter().zip(&places).filter(|it| place(it.0) == *it.1).count();
            }
        }
    });
    assert!(in_place > 300, "{in_place} of 1800 parts were written in place");
}

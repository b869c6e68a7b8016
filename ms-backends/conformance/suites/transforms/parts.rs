//! Tests gradients of tensors that separate graphs read part by part.
//!
//! The graphs are calls, recomputation, branches, and compiled functions on an eager tape. The gradients cost as much
//! as the parts, and have the same bits as without graphs.

use super::scattered;
use ms::prelude::*;
use ms_conformance::thread_time::thread_seconds;

fn step(state: &Tensor, x: &Tensor) -> Tensor {
    (state * 0.5 + x).tanh()
}

/// Accumulates a function of the rows of `x`.
fn folded(x: &Tensor, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    let start = ops::zeros_like(x.at(0));
    let positions = (0..x.shape()[0]).map(|t| Tensor::scalar((t * 7 % x.shape()[0]) as i64));
    positions.fold(start, |state, i| f(&state, &i)).sum(())
}

#[jit]
fn reads(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    step(state, &ops::gather(x, i, 0))
}

#[jit]
#[no_inline]
fn kept(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    step(state, &ops::gather(x, i, 0))
}

/// Reads several parts of several kinds. Their gradients are added one after the other.
#[jit]
#[no_inline]
fn reads_more(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    let state = step(state, &x.at(1));
    let state = step(&state, &ops::gather_nd(x, ops::reshape(i, [1])));
    let state = step(&state, &ops::gather(x, i, 0));
    step(&state, &(x.at(0) * x.at(2)))
}

#[jit]
fn reads_in_a_loop(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    let mut state = state.clone();
    for _ in ms::range(0, 2) {
        state = step(&state, &(ops::gather(x, i, 0) - &state));
    }
    state
}

#[jit]
fn may_read(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    if state.sum(()) < 0.5 { step(state, &ops::gather(x, i, 0)) } else { state * 0.5 }
}

#[jit]
#[no_inline]
fn outer(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    let state = may_read(state, x, i);
    kept(&state, x, i) + kept(&state, x, &Tensor::scalar(1i64))
}

/// Reads the whole tensor as well.
#[jit]
#[no_inline]
fn reads_all(state: &Tensor, x: &Tensor, i: &Tensor) -> Tensor {
    step(state, &(ops::gather(x, i, 0) * x.sum(0)))
}

#[jit]
#[no_inline]
fn reads_two(state: &Tensor, a: &Tensor, b: &Tensor, i: &Tensor) -> Tensor {
    step(state, &(ops::gather(a, i, 0) * b.at(1)))
}

fn recomputed(x: &Tensor) -> Tensor {
    folded(x, |state, i| ms::recompute(|state: &Tensor| step(state, &ops::gather(x, i, 0)))(state))
}

#[jit]
fn branches(x: &Tensor) -> Tensor {
    let mut state = ops::zeros_like(x.at(0));
    for t in 0..x.shape()[0] {
        if state.sum(()) < 0.1 {
            state = step(&state, &x.at(t as isize));
        } else {
            state = &state * 0.5;
        }
    }
    state.sum(())
}

type Function = fn(&Tensor) -> Tensor;

/// A function, and whether all sums of its gradient have the same order on an eager tape, too.
type Case = (&'static str, Function, bool);

/// Functions with gradients that are linear in the number of parts.
static LINEAR: [Case; 8] = [
    ("calls", |x| folded(x, |state, i| reads(state, x, i)), true),
    ("kept calls", |x| folded(x, |state, i| kept(state, x, i)), true),
    ("several parts", |x| folded(x, |state, i| reads_more(state, x, i)), true),
    ("loops", |x| folded(x, |state, i| reads_in_a_loop(state, x, i)), true),
    ("calls with branches", |x| folded(x, |state, i| may_read(state, x, i)), true),
    ("calls in calls", |x| folded(x, |state, i| outer(state, x, i)), true),
    ("recomputed", recomputed, true),
    ("branches", branches, true),
];

static OTHERS: [Case; 2] = [
    ("all of it", |x| folded(x, |state, i| reads_all(state, x, i)), true),
    ("twice the same", |x| folded(x, |state, i| reads_two(state, x, x, i)), false),
];

fn cases() -> impl Iterator<Item = &'static Case> {
    LINEAR.iter().chain(&OTHERS)
}

fn function(at: usize) -> Function {
    cases().nth(at).expect("the number of a case").1
}

fn with<R>(jit: bool, precision: ms::Precision, f: impl FnOnce() -> R) -> R {
    ms::with_context(ms::Context { jit, precision, ..ms::context() }, f)
}

/// Returns the bits, ignoring the sign of zero.
fn bits(x: &Tensor) -> Vec<u64> {
    x.to_vec::<f64>().iter().map(|it| (it + 0.0).to_bits()).collect()
}

#[test]
fn gradients_have_the_same_bits() {
    let x = scattered(&[5, 3], 0.1);
    for (at, (name, f, in_order)) in cases().enumerate() {
        let strict = |jit, f: &dyn Fn(&Tensor) -> Tensor| with(jit, ms::Precision::Strict, || bits(&f(&x)));
        let want = strict(false, &|x| ms::grad(*f)(x));
        let inside = ms::jit(|x: &Tensor, at: &usize| ms::grad(function(*at))(x));
        assert_eq!(strict(true, &|x| inside(x, &at)), want, "{name}, compiled");
        let tape = strict(true, &|x| ms::grad(*f)(x));
        assert!(!in_order || tape == want, "{name}, on a tape: {tape:x?}, not {want:x?}");
        assert!(want.iter().any(|it| *it != 0), "{name}: a gradient");
    }
}

fn near(name: &str, how: &str, got: &Tensor, want: &Tensor) {
    let (got, want) = (got.to_vec::<f64>(), want.to_vec::<f64>());
    assert_eq!(got.len(), want.len(), "{name}, {how}");
    for (got, want) in got.iter().zip(&want) {
        assert!((got - want).abs() <= 1e-9 * (1.0 + want.abs()), "{name}, {how}: {got}, not {want}");
    }
}

#[test]
fn derivatives_of_gradients() {
    let (x, v) = (scattered(&[4, 2], 0.1), scattered(&[4, 2], 0.6));
    let all = ops::stack(&[&x, &v, &(&x * &v)], 0);
    for (at, (name, f, _)) in cases().enumerate() {
        let f = *f;
        let slope = |x: &Tensor| (ms::grad(f)(x) * &v).sum(());
        let plain = |f: &dyn Fn() -> Tensor| with(false, ms::Precision::Highest, f);
        let (first, second) = (plain(&|| ms::grad(f)(&x)), plain(&|| ms::grad(slope)(&x)));
        near(name, "a gradient", &ms::grad(f)(&x), &first);
        near(name, "the gradient of a gradient", &ms::grad(slope)(&x), &second);
        near(name, "the tangent of a gradient", &ms::jvp(ms::grad(f))(&x, &v).1, &second);
        let inside = ms::jit(|x: &Tensor, v: &Tensor, at: &usize| {
            let f = function(*at);
            let second = ms::grad(|x: &Tensor| (ms::grad(f)(x) * v).sum(()))(x);
            (ms::grad(f)(x), second, ms::jvp(ms::grad(f))(x, v).1)
        });
        let (one, two, tangent) = inside(&x, &v, &at);
        near(name, "a compiled gradient", &one, &first);
        near(name, "the compiled gradient of a gradient", &two, &second);
        near(name, "the compiled tangent of a gradient", &tangent, &second);
        let want = [0, 1, 2].map(|lane| plain(&|| ms::grad(f)(&all.at(lane))));
        let want = ops::stack(&want.iter().collect::<Vec<_>>(), 0);
        near(name, "over lanes", &ms::vmap(ms::grad(f))(&all), &want);
    }
}

/// Eight times the parts take about eight times as long, and not 64 times. They take longer than that where other tests
/// compete for the caches. A simulated device copies whole tensors, so times are those of the host.
#[test]
fn time_is_linear_in_the_number_of_parts() {
    let host = ms::Context { device_target: ms::tensor::Device::CPU.kind(), device_id: 0, ..ms::context() };
    ms::with_context(host, measure_times);
}

fn measure_times() {
    for (at, (name, f, _)) in LINEAR.iter().enumerate() {
        let compiled = ms::jit(|x: &Tensor, at: &usize| ms::grad(function(*at))(x));
        // The sizes alternate, so that other processes slow down both. The call before each measurement loads the
        // caches.
        let time = |run: &dyn Fn(&Tensor) -> Tensor| {
            let inputs = [32, 256].map(|count| scattered(&[count, 2048], 0.3));
            let mut least = [f64::INFINITY; 2];
            for _ in 0..7 {
                for (x, least) in inputs.iter().zip(&mut least) {
                    run(x);
                    let start = thread_seconds();
                    run(x);
                    *least = least.min(thread_seconds() - start);
                }
            }
            least[1] / least[0]
        };
        let times = [time(&|x| compiled(x, &at)), time(&|x| ms::grad(*f)(x))];
        assert!(
            times.iter().all(|it| *it < 40.0),
            "{name}: compiled and on a tape, eight times the parts take {times:?}"
        );
    }
}

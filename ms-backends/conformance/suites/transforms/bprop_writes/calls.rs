//! Tests backward functions that write, in calls that share graphs, in lanes, compiled functions and threads.

use super::MODES;
use super::cells::{Adds, Net};
use ms::Context;
use ms::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

static TRACED: AtomicUsize = AtomicUsize::new(0);

/// Works like [`Shared`], and counts its traces.
#[cell]
#[lazy_inline]
struct Counted {
    p: Parameter,
}

#[cell]
impl Counted {
    fn construct(&self, x: &Tensor) -> Tensor {
        TRACED.fetch_add(1, Ordering::Relaxed);
        x * 3.0
    }

    fn bprop(&self, x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        self.p.set(&(&self.p * 2.0 + dout));
        (&self.p * dout * x / x,)
    }
}

/// A call that shares the graph of an equal call writes its own parameter.
#[test]
fn shared_graphs_write_the_parameters_of_their_calls() {
    #[jit]
    fn of_all(cells: &[Counted], x: &Tensor) -> Tensor {
        ms::grad(|x: &Tensor| cells[2].call(&cells[1].call(&cells[0].call(x))))(x)
    }
    for (jit, times) in [(false, 3), (true, 1)] {
        let cells = [1.0, 10.0, 100.0].map(|it| Counted { p: Parameter::new(Tensor::scalar(it), "") });
        let before = TRACED.load(Ordering::Relaxed);
        let got = ms::with_context(Context { jit, ..ms::context() }, || of_all(&cells, &Tensor::scalar(1.0)));
        let held: Vec<f32> = cells.iter().map(|it| it.p.value().item::<f32>()).collect();
        let first = 2.0 + 201.0 * 221.0;
        assert_eq!((held, got.item::<f32>()), (vec![first, 221.0, 201.0], first * 201.0 * 221.0), "jit {jit}");
        assert_eq!(TRACED.load(Ordering::Relaxed) - before, times, "jit {jit}");
    }
}

/// Each lane has a separate parameter.
#[test]
fn lanes_write_their_own_parameters() {
    #[jit]
    fn each(ps: &Parameter, xs: &Tensor) -> Tensor {
        let one = |p: &Parameter, x: &Tensor| {
            let f = ms::custom_vjp(
                |x: &Tensor| x * 3.0,
                |_: &Tensor, _: &Tensor, dout: &Tensor| {
                    p.set(&(p * 2.0 + dout));
                    (dout * p,)
                },
            );
            ms::grad(|x: &Tensor| f(x) * x)(x)
        };
        ms::vmap(one)(ps, xs)
    }
    for (how, jit) in MODES {
        let ps = Parameter::new(tensor![1.0, 10.0], "");
        let got = ms::with_context(Context { jit, ..ms::context() }, || each(&ps, &tensor![1.0, 2.0]));
        let held = ps.value().to_vec::<f32>();
        assert_eq!((held, got.to_vec::<f32>()), (vec![3.0, 22.0], vec![3.0 + 3.0, 44.0 + 6.0]), "{how}");
    }
}

#[jit]
fn applied(cell: &Adds, x: &Tensor) -> Tensor {
    cell.call(x)
}

#[jit]
fn applied_to_both(cell: &Adds, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    (cell.call(x), y * 2.0)
}

#[jit(dims(x = [n]))]
fn applied_to_any(cell: &Adds, x: &Tensor) -> Tensor {
    cell.call(&x.sum(()))
}

/// Compiled functions, which a gradient outside records, return the writes of their backward functions.
#[test]
fn compiled_functions_pass_writes_on() {
    for (how, jit) in MODES {
        ms::with_context(Context { jit, ..ms::context() }, || {
            let net = Net::new();
            let (one, held) = (Tensor::scalar(1.0), || net.p.value().item::<f32>());
            assert_eq!((applied(&net.adds, &one).item::<f32>(), held()), (3.0, 1.0), "{how}");
            let both = |x: &Tensor| net.also.call(&applied(&net.adds, &applied(&net.adds, x)));
            assert_eq!(ms::grad(both)(&one).item::<f32>(), 27.0 * 45.0, "{how}");
            assert_eq!(held(), 45.0, "{how}");
            assert_eq!((applied(&net.adds, &one).item::<f32>(), held()), (3.0, 45.0), "{how}");

            let second = |x: &Tensor| applied_to_both(&net.adds, x, x).1;
            assert_eq!((ms::grad(second)(&one).item::<f32>(), held()), (2.0, 45.0), "{how}");
            let first = |x: &Tensor| applied_to_both(&net.adds, x, x).0;
            assert_eq!((ms::grad(first)(&one).item::<f32>(), held()), (91.0, 91.0), "{how}");

            let net = Net::new();
            for (n, want) in [(2, 3.0), (3, 7.0)] {
                let g = ms::grad(|x: &Tensor| applied_to_any(&net.adds, x))(&Tensor::ones([n]));
                assert_eq!((g.to_vec::<f32>(), net.p.value().item::<f32>()), (vec![want; n], want), "{how}");
            }
        });
    }
}

/// Each backward pass reads the value that the one before it wrote, whichever thread ran it.
#[test]
fn no_write_of_a_backward_function_is_lost() {
    #[jit]
    fn counted(count: &Parameter, x: &Tensor) -> Tensor {
        let f = ms::custom_vjp(
            |x: &Tensor| x * 2.0,
            |_: &Tensor, _: &Tensor, dout: &Tensor| {
                count.set(&(count + 1.0));
                (dout * 2.0,)
            },
        );
        ms::grad(|x: &Tensor| f(x))(x)
    }
    for (how, jit) in MODES {
        let count = Parameter::new(Tensor::scalar(0.0), "");
        let pass = |x: &Tensor| counted(&count, x).item::<f32>();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    ms::with_context(Context { jit, ..ms::context() }, || {
                        (0..25).for_each(|_| assert_eq!(pass(&Tensor::scalar(1.0)), 2.0));
                    });
                });
            }
        });
        assert_eq!(count.value().item::<f32>(), 100.0, "{how}");
    }
}

//! Tests that user code which the framework calls may use the framework.
//!
//! No thread waits for a lock that it holds itself, whatever that code writes, reads or creates.

use ms::Context;
use ms::prelude::*;
use ms_core::trace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Returns the failure of `f`, which must terminate without a panic.
fn check(name: &str, f: fn()) -> Option<String> {
    let (done, ended) = channel();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        f();
        let _nobody_waits = done.send(());
    });
    let thread = thread.expect("the system has one more thread");
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(()) => {
            thread.join().expect("it has sent its end");
            None
        }
        Err(RecvTimeoutError::Disconnected) => Some(format!("{name} panics")),
        Err(RecvTimeoutError::Timeout) => Some(format!("{name} waits for itself")),
    }
}

macro_rules! ends {
    ($($name:ident $body:block)*) => {
        $(fn $name() $body)*

        #[test]
        fn no_thread_waits_for_itself() {
            let wrong = [$(check(stringify!($name), $name)),*];
            assert_eq!(wrong.into_iter().flatten().collect::<Vec<_>>(), [""; 0]);
        }
    };
}

/// Adds one to a parameter in each backward pass.
#[cell]
struct Counts {
    p: Parameter,
}

#[cell]
impl Counts {
    fn construct(&self, x: &Tensor) -> Tensor {
        x * 2.0
    }

    fn bprop(&self, _x: &Tensor, _out: &Tensor, dout: &Tensor) -> (Tensor,) {
        ops::assign_add(&self.p, 1.0);
        (dout * 2.0,)
    }
}

#[jit]
fn compiled(cell: &Counts, x: &Tensor) -> Tensor {
    cell.call(x)
}

/// A result that writes a parameter whenever it is rebuilt.
#[derive(Clone)]
struct Writes(Tensor, Parameter);

impl trace::Arg for Writes {
    fn visit(&self, sink: &mut trace::Sink<'_>) {
        self.0.visit(sink);
    }
}

impl trace::Tree for Writes {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        let it = Self(next(&self.0), self.1.clone());
        if self.0.as_traced().is_none() {
            ops::assign_add(&self.1, 10.0);
        }
        it
    }
}

/// A number that writes a parameter when it is converted.
struct Asked<'a>(&'a Parameter);

impl ops::IntoOperand for Asked<'_> {
    fn operand(&self) -> ops::Operand<'_> {
        ops::assign_add(self.0, 10.0);
        ops::Operand::Scalar(1.0.into())
    }
}

/// A result that calls a compiled function when it is dropped, and drops versions.
#[derive(Clone, Tree)]
struct Goes {
    x: Tensor,
    last: Last,
}

#[derive(Clone, Static, Hash)]
struct Last;

static DROPS: AtomicBool = AtomicBool::new(false);

impl Drop for Last {
    fn drop(&mut self) {
        if DROPS.swap(false, Ordering::Relaxed) {
            ms::retrace(going);
            assert_eq!(ms::jit(|x: &Tensor| x + 1.0)(&Tensor::scalar(1.0)).item::<f32>(), 2.0);
        }
    }
}

#[jit]
fn going(x: &Tensor) -> Goes {
    Goes { x: x * 2.0, last: Last }
}

/// An argument that calls a compiled function whenever it is visited.
struct Looked(Tensor);

impl trace::Arg for Looked {
    fn visit(&self, sink: &mut trace::Sink<'_>) {
        let net = nn::Dense::new(1, 1);
        assert_eq!(twice(&net, &Tensor::scalar(2.0)).item::<f32>(), 4.0);
        self.0.visit(sink);
    }
}

#[jit]
fn twice(net: &nn::Dense, x: &Tensor) -> Tensor {
    let _unused = net;
    x * 2.0
}

#[jit]
fn looked_at(net: &nn::Dense, it: &Looked) -> Tensor {
    let _unused = net;
    &it.0 * 3.0
}

#[jit]
fn with_a_parameter(depth: usize, x: &Tensor) -> Tensor {
    let p = Parameter::init("p", (), DType::F32, || match depth {
        0 => Tensor::scalar(1.0),
        _ => with_a_parameter(depth - 1, &Tensor::scalar(5.0)),
    });
    x * &p
}

#[jit]
fn with_two_parameters(which: usize, x: &Tensor) -> Tensor {
    if which == 0 {
        return x * Parameter::init("first", (), DType::F32, || Tensor::scalar(2.0)).value();
    }
    x * Parameter::init("second", (), DType::F32, || with_two_parameters(0, &Tensor::scalar(3.0))).value()
}

ends! {
    compiled_and_eager_backward_functions {
        for jit in [false, true] {
            ms::with_context(Context { jit, ..ms::context() }, || {
                let cell = Counts { p: Parameter::new(Tensor::scalar(0.0), "") };
                let of = |x: &Tensor| cell.call(&compiled(&cell, &cell.call(&compiled(&cell, x))));
                assert_eq!(ms::grad(of)(&Tensor::scalar(1.0)).item::<f32>(), 16.0);
                let (_, pull) = ms::vjp(of)(&Tensor::scalar(1.0));
                assert_eq!(pull(&Tensor::scalar(1.0)).item::<f32>(), 16.0);
                assert_eq!(cell.p.value().item::<f32>(), 8.0);
            });
        }
    }

    a_result_that_writes_what_the_function_writes {
        let p = Parameter::new(Tensor::scalar(0.0), "");
        let f = ms::jit(|p: &Parameter, x: &Tensor| {
            p.set(&(p + 1.0));
            Writes(x * 2.0, p.clone())
        });
        for run in 1..=3 {
            assert_eq!(f(&p, &Tensor::scalar(1.0)).0.item::<f32>(), 2.0);
            assert!(p.value().item::<f32>() >= 11.0 * run as f32);
        }
    }

    an_operand_that_writes_what_is_assigned {
        let p = Parameter::new(Tensor::scalar(0.0), "");
        ops::assign_add(&p, Asked(&p));
        assert_eq!(p.value().item::<f32>(), 11.0);
    }

    a_result_that_forgets_what_is_compiled {
        going(&Tensor::scalar(1.0));
        DROPS.store(true, Ordering::Relaxed);
        ms::retrace(going);
    }

    an_argument_that_calls_when_it_is_looked_at {
        let net = nn::Dense::new(1, 1);
        assert_eq!(looked_at(&net, &Looked(Tensor::scalar(2.0))).item::<f32>(), 6.0);
    }

    a_parameter_that_its_own_function_gives {
        let refused = ms::catch(|| with_a_parameter(1, &Tensor::scalar(1.0))).expect_err("it is not there yet");
        assert_eq!(refused.code(), ms::Code::Created, "{refused}");
        assert_eq!(with_a_parameter(0, &Tensor::scalar(2.0)).item::<f32>(), 2.0);
        assert_eq!(with_two_parameters(1, &Tensor::scalar(2.0)).item::<f32>(), 12.0);
    }
}

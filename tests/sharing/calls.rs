//! Tests that equal calls of cells share one sub-graph, and which differences separate calls.

use ms::prelude::*;

#[jit]
fn difference(x: &Tensor, y: &Tensor) -> Tensor {
    x - y
}

#[test]
fn the_same_tensor_twice_is_another_signature() {
    let (a, b) = (&Tensor::scalar(5.0), &Tensor::scalar(3.0));
    assert_eq!(difference(a, a).item::<f32>(), 0.0);
    assert_eq!(difference(a, b).item::<f32>(), 2.0);
    assert_eq!(difference(b, b).item::<f32>(), 0.0);
    assert_eq!(difference(b, a).item::<f32>(), -2.0);
}

/// Compiles a case in several modes. Its result must not depend on the mode.
#[track_caller]
fn check<R: PartialEq + std::fmt::Debug>(name: &str, case: impl Fn() -> R) {
    let eager = ms::with_context(ms::Context { jit: false, ..ms::context() }, &case);
    for how in ["compiled", "compiled again"] {
        assert_eq!(case(), eager, "{name}, {how}");
    }
}

/// Writes a parameter, prints, reads a constant tensor that it holds, and returns two tensors and a host value.
#[cell]
struct Busy {
    scale: Parameter,
    count: Parameter,
    shift: Tensor,
    times: usize,
}

#[cell]
impl Busy {
    #[lazy_inline]
    fn new(scale: f32, shift: f32, times: usize) -> Self {
        Self {
            scale: Parameter::new(Tensor::scalar(scale), ""),
            count: Parameter::new(Tensor::scalar(0.0), ""),
            shift: Tensor::scalar(shift),
            times,
        }
    }

    fn construct(&self, x: &Tensor, y: &Tensor) -> (Tensor, Tensor, usize) {
        let mut z = x * &self.scale + &self.shift;
        for _ in 0..self.times {
            z = (&z + y) * 0.5 + &self.count;
        }
        self.count.set(&(self.count.value() + 1.0));
        ms::print!("{} {}", &self.count, &z);
        (z.clone(), z - y, self.times)
    }
}

#[cell]
struct Two {
    first: Busy,
    second: Busy,
}

#[cell]
impl Two {
    fn construct(&self, x: &Tensor) -> Tensor {
        let (a, b, n) = self.first.call(x, x);
        let (c, d, m) = self.second.call(&a, &b);
        // One tensor is passed twice, and the second cell is called a second time.
        let (e, f, _) = self.second.call(&d, &d);
        let (g, h, _) = self.first.call(&c, &e);
        g + h + f + (n + 10 * m)
    }
}

#[jit]
fn both(net: &Two, x: &Tensor) -> Tensor {
    net.call(x)
}

#[jit]
fn both_gradients(net: &Two, x: &Tensor) -> (Tensor, Vec<Tensor>) {
    let (y, g) = ms::value_and_grad(|net: &Two, x: &Tensor| net.call(x))(net, x);
    (y, g.iter().map(|it| it.1.clone()).collect())
}

#[test]
fn calls_of_lazy_cells() {
    let x = &Tensor::scalar(3.0);
    for (times, shift) in [(2, 0.25), (3, 0.25), (2, 0.75)] {
        let make = || Two { first: Busy::new(0.5, 0.25, 2), second: Busy::new(1.5, shift, times) };
        let value = || ops::capture_prints(|| both(&make(), x).item::<f32>());
        check("value", value);
        let gradients = || {
            let net = make();
            let (y, g) = both_gradients(&net, x);
            let counts = [&net.first, &net.second].map(|it| it.count.value().item::<f32>());
            (y.item::<f32>(), g.iter().map(|it| it.item::<f32>()).collect::<Vec<_>>(), counts)
        };
        check("gradients", gradients);
    }
    // One network is called again, so its parameters keep the written values.
    let net = Two { first: Busy::new(0.5, 0.25, 2), second: Busy::new(1.5, 0.25, 2) };
    let counted = [(); 2].map(|()| {
        both(&net, x);
        net.second.count.value().item::<f32>()
    });
    assert_eq!(counted, [2.0, 4.0]);
}

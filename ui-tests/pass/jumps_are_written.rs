// A jump out of a branch on a tensor must be visible in the source; a hidden one is an error (MS033).
use ms::prelude::*;

macro_rules! give {
    ($value:expr) => {
        return $value
    };
}

#[jit]
fn written(x: &Tensor) -> Tensor {
    if x > 1.0 {
        return x * 2.0;
    }
    x.clone()
}

#[jit]
fn hidden(x: &Tensor) -> Tensor {
    if x > 1.0 {
        give!(x * 2.0)
    }
    x.clone()
}

/// Where the host decides, everything is Rust's own.
#[jit]
fn of_the_host(x: &Tensor, double: bool) -> Tensor {
    if double {
        give!(x * 2.0)
    }
    x.clone()
}

#[test]
fn main() {
    let x = Tensor::scalar(2.0f32);
    assert_eq!([written(&x), of_the_host(&x, true), of_the_host(&x, false)].map(|it| it.item::<f32>()), [4.0, 4.0, 2.0]);
    assert_eq!(ms::catch(|| hidden(&x)).expect_err("traced").code(), ms::Code::LeftOpen);
    let eager = ms::Context { jit: false, ..ms::context() };
    assert_eq!(ms::with_context(eager, || hidden(&x)).item::<f32>(), 4.0);
}

// A tensor may leave a host loop that terminates by itself (MS031).
use ms::prelude::*;

#[jit]
fn up_to(x: &Tensor, rounds: usize) -> Tensor {
    let mut x = x.clone();
    for i in 0..rounds {
        if x > 10.0 {
            break;
        }
        x += i;
    }
    x
}

#[jit]
fn forever(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    for i in 0.. {
        if x > 10.0 {
            break;
        }
        x += i;
    }
    x
}

#[test]
fn main() {
    let x = Tensor::scalar(2.0f32);
    assert_eq!([up_to(&x, 3), up_to(&x, 100)].map(|it| it.item::<f32>()), [5.0, 12.0]);
    assert_eq!(ms::catch(|| forever(&x)).expect_err("traced").code(), ms::Code::HostLoop);
    let eager = ms::Context { jit: false, ..ms::context() };
    assert_eq!(ms::with_context(eager, || forever(&x)).item::<f32>(), 12.0);
}

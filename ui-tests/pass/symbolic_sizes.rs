// `#[jit(dims(..))]`: one compilation for every size.
use ms::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

static TRACES: AtomicUsize = AtomicUsize::new(0);

#[allow(deprecated)]
#[jit(dims(x = [batch, _], y = [batch]))]
fn loss(x: &Tensor, y: &Tensor) -> Tensor {
    TRACES.fetch_add(1, Ordering::Relaxed);
    let mut sum = Tensor::scalar(0.0f32);
    let mut i = Tensor::scalar(0);
    while i < 2 {
        sum += ops::sum((ops::mean(x, 1) - y).square(), ());
        i += 1;
    }
    if sum > 100.0 {
        return sum / 100.0;
    }
    sum / ops::size(x.dim(0), DType::F32)
}

#[test]
fn main() {
    for batch in 1..6 {
        let got = loss(&Tensor::ones([batch, 3]), &Tensor::zeros([batch])).item::<f32>();
        assert_eq!(got, 2.0, "{batch}");
    }
    assert_eq!(TRACES.load(Ordering::Relaxed), 1);
    let error = ms::catch(|| loss(&Tensor::ones([2, 3]), &Tensor::zeros([3]))).expect_err("they do not agree");
    assert_eq!(error.code(), ms::Code::Sizes);
}

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

/// A number is a size that every call has.
#[jit(dims(x = [batch, width], y = [3]))]
fn scaled(x: &Tensor, y: &Tensor) -> Tensor {
    x * y
}

#[test]
fn main() {
    for batch in 1..6 {
        let got = loss(&Tensor::ones([batch, 3]), &Tensor::zeros([batch])).item::<f32>();
        assert_eq!(got, 2.0, "{batch}");
    }
    assert_eq!(TRACES.load(Ordering::Relaxed), 1);
    for jit in [true, false] {
        let run = |x: &Tensor, y: &Tensor| {
            let code = |it: ms::Error| it.code();
            ms::with_context(Context { jit, ..ms::context() }, || ms::catch(|| scaled(x, y)).map_err(code))
        };
        let (two, three) = (Tensor::ones([2, 3]), Tensor::ones([3]));
        assert_eq!(run(&two, &three).map(|it| it.shape().to_vec()), Ok(vec![2, 3]));
        assert_eq!(run(&two, &Tensor::ones([4])).err(), Some(ms::Code::Sizes), "another number");
        assert_eq!(run(&two, &two).err(), Some(ms::Code::Sizes), "another number of axes");
        let both = || ms::with_context(Context { jit, ..ms::context() }, || ms::catch(|| loss(&two, &three)));
        assert_eq!(both().expect_err("they do not agree").code(), ms::Code::Sizes);
    }
}

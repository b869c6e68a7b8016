//! Functions that are compiled once for every size of an axis.

use ms::__rt::{JitFn, Size, Sizes, type_key};
use ms::{Tensor, ops};

fn data(shape: &[usize]) -> Tensor {
    let numel: usize = shape.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_slice(shape.to_vec(), &values)
}

#[test]
fn tmp() {
    static F: JitFn = JitFn::new("f", file!(), line!(), 0);
    static X: Sizes = Sizes { argument: "x", axes: &[Size::Symbol("batch"), Size::Fixed] };
    let w = data(&[5, 4]);
    let f = |x: &Tensor| -> Tensor { ops::softmax(ops::tanh(ops::matmul(x, &w)), -1) + ops::mean(x, (), false) };
    for batch in [3, 1, 7, 0, 64, 3] {
        let x = data(&[batch, 5]);
        let mut call = F.begin(type_key(&|| {}), |sink| {
            sink.sizes(Some(&X));
            ms::__rt::Arg::visit(&x, sink);
            sink.sizes(None);
        });
        let y = match call.cached::<Tensor>() {
            Some(y) => y,
            None => {
                let arg = call.enter(&x);
                call.finish(move || f(&arg))
            }
        };
        let want = f(&x);
        assert_eq!(y.shape(), want.shape());
        let distance = ops::abs(&y - &want);
        assert!(batch == 0 || ops::max(&distance, (), false).item::<f32>() < 1e-6);
    }
    assert_eq!(F.versions(), 1);
}

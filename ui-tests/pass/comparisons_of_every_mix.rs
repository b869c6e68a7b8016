// Comparisons of tensors, parameters, references to both, numbers of every kind and literals, on either
// side.
use ms::prelude::*;

#[jit]
fn all(x: &Tensor, y: Tensor, slot: &Parameter, n: usize, f: f32, d: f64, i: i32) -> Vec<Tensor> {
    let (own, twice) = (x + 0.0, &&y);
    vec![
        x < y,
        y > x,
        &own <= &y,
        own >= x.clone(),
        x == &y,
        *twice != *x,
        x < slot,
        slot >= x,
        *slot == y,
        slot != *x,
        x < n,
        n > own,
        x == f,
        f == y,
        d < x,
        x <= d,
        i != x,
        x > -i,
        x < 2,
        2.5 > y,
        -1 < slot,
        slot == 2,
        (x + 1.0) * 2.0 > &y - 1,
        x.square() == y.square() / 4.0,
    ]
}

#[test]
fn main() {
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let slot = Parameter::new(Tensor::scalar(2.0f32), "");
            let found = all(&tensor![1.0], tensor![2.0], &slot, 3, 1.0, 0.5, 1);
            let found: Vec<bool> = found.iter().map(|it| it.reshape([0usize; 0]).item()).collect();
            let got: String = found.iter().map(|&it| if it { '1' } else { '0' }).collect();
            assert_eq!(got, "111101111111101001111111");
        });
    }
}

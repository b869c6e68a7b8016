#[jit]
fn while_let(x: &Tensor, layers: &[Dense]) -> Tensor {
    let mut x = x.clone();
    let mut rest = layers.iter();
    while let Some(layer) = rest.next()
        && x < 10.0
    {
        x = layer(&x);
    }
    x
}

#[jit]
fn while_let(x: &Tensor, layers: &[Dense]) -> Tensor {
    let (mut x, mut rest) = (x.clone(), layers.iter());
    while let Some(layer) = rest.next()
        && x < 10.0
    {
        x = layer.call(&x);
    }
    x
}

#[body]
fn while_loop(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x > 1.0 {
        x = x / 2.0;
    }
    x
}

#[body]
fn range_loop(x: &Tensor, n: &Tensor) -> Tensor {
    let mut sum = x.clone();
    for i in ms::range(0, n).step(2) {
        sum += i;
    }
    sum
}

#[body]
fn while_let(x: &Tensor, mut rest: Iter<Dense>) -> Tensor {
    while let Some(layer) = rest.next()
        && x < 10.0
    {
        layer(&x);
    }
    x
}

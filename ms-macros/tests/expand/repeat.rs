#[jit]
fn while_loop(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x > 1.0 {
        x = x / 2.0;
    }
    x
}

#[jit]
fn range_loop(x: &Tensor, n: &Tensor) -> Tensor {
    let mut sum = x.clone();
    for i in ms::range(0, n).step(2) {
        sum += i;
    }
    sum
}

#[jit]
fn host_loops(x: &Tensor, names: &[String]) -> Tensor {
    let mut sum = x.clone();
    for (i, name) in names.iter().enumerate() {
        if name.is_empty() {
            continue;
        }
        sum += i;
    }
    let mut n = 0;
    while n < 3 {
        n += 1;
    }
    loop {
        if n > 5 {
            break sum;
        }
        n += 1;
    }
}

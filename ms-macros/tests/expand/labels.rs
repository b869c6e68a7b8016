#[jit]
fn labels_and_return(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    'outer: loop {
        while x < 100.0 {
            x = x * 2.0;
            if x == 64.0 {
                return x;
            }
            if x > 50.0 {
                continue 'outer;
            }
        }
        break;
    }
    x
}

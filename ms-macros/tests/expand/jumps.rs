#[jit]
fn left_by_a_tensor(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    for _ in 0..3 {
        x += 1.0;
        if x > 10.0 {
            break;
        }
        x = x * 2.0;
    }
    x
}

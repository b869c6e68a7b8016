#[jit]
fn assertions(x: &Tensor, n: usize) -> Tensor {
    assert!(x > 0.0, "x is not positive");
    assert!(n > 2);
    x / n
}

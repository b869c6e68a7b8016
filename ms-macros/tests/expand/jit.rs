#[jit]
pub fn f(x: &Tensor, mut n: usize, #[dynamic] lr: f32) -> Tensor {
    n += 1;
    helper(x, n, &lr)
}

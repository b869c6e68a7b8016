#[jit(donate(x, state))]
fn step(mut x: Tensor, rate: &Tensor, state: (Tensor, Tensor), calls: &mut Tensor) -> (Tensor, Tensor) {
    *calls = &*calls + 1;
    x = x * rate;
    (x + &state.0, state.1)
}

#[jit(donate(x, state))]
fn step(mut x: Tensor, rate: &Tensor, state: (Tensor, Tensor)) -> (Tensor, Tensor) {
    x = x * rate;
    (x + &state.0, state.1)
}

#[jit(donate(x))]
fn counted(x: Tensor, calls: &mut Tensor) -> Tensor {
    *calls = &*calls + 1;
    x + 1
}

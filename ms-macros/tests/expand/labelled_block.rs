#[jit]
fn labelled_block(x: &Tensor, y: &Tensor) -> Tensor {
    let larger = 'found: {
        if x > y {
            break 'found x * 2.0;
        }
        x + y
    };
    larger + 1.0
}

#[no_inline]
fn scaled(v: &Tensor, by: f64) -> Tensor {
    v * by + 2.0
}

#[no_inline]
#[jit(pure)]
fn halved(v: &Tensor) -> Tensor {
    v * 0.5
}

#[no_inline]
#[cell]
struct Gain {
    gain: Parameter,
}

//! An error of the library ends the outermost compiled call, and is handled around it.
use ms::prelude::*;

#[jit]
fn inner(x: &Tensor) -> Result<Tensor> {
    Ok(x + Tensor::ones([3]))
}

#[jit]
fn outer(x: &Tensor) -> Result<Tensor> {
    // Traced, the error ends the trace; run eagerly, it is a value here.
    inner(x).or_else(|_| Ok(x.clone()))
}

#[test]
fn main() {
    let run = |jit, size: usize| ms::with_context(Context { jit, ..ms::context() }, || outer(&Tensor::ones([size])));
    assert_eq!(run(true, 3).expect("shapes agree").to_vec::<f32>(), [2.0; 3]);
    assert_eq!(run(true, 2).expect_err("shapes differ").code(), ms::Code::Shape);
    assert_eq!(run(false, 2).expect("handled").to_vec::<f32>(), [1.0; 2]);
    assert_eq!(run(true, 2).or_else(|_| run(true, 3)).expect("handled outside").shape(), [3]);
}

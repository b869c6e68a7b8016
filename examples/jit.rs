//! `#[jit]`: one function, run eagerly and compiled.

use ms::prelude::*;
use std::time::Instant;

/// A host loop is unrolled into one graph of 600 operations.
#[jit]
fn func(x: &Tensor, y: &Tensor) -> Tensor {
    let mut output = x.clone();
    for _ in 0..200 {
        output = x + x * y + output;
    }
    output
}

fn main() {
    let (x, y) = (tensor![1.], tensor![2.]);
    let timed = |what: &str, context: Context| {
        let begin = Instant::now();
        let output = ms::with_context(context, || func(&x, &y));
        println!("{what:<24}{output}  {:?}", begin.elapsed());
        output
    };
    // `MS_JIT=0` in the environment does the same for the whole program.
    let eager = timed("eagerly", Context { jit: false, ..ms::context() });
    timed("compiled, first call", Context { jit: true, ..ms::context() });
    let compiled = timed("compiled, second call", Context { jit: true, ..ms::context() });

    // Closures that capture nothing compile as well.
    let doubled = ms::jit(|x: &Tensor| x * 2.)(&compiled);
    assert_eq!((eager.item::<f32>(), doubled.item::<f32>()), (601., 1202.));
}

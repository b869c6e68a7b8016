//! Tests numerics, eagerly and compiled: extreme arguments, the errors of functions, and conversions between dtypes.
//!
//! `docs/numerics.md` states the bounds of the errors.

mod accuracy;
mod conversions;
mod extremes;
mod sums;

use ms::Tensor;
use ms::internals::session::{Compiled, Precision};
use ms::internals::trace;

type Function = fn(&Tensor) -> Tensor;

/// Runs a function as a compiled graph.
fn compiled(f: impl Fn(&Tensor) -> Tensor, x: &Tensor) -> Tensor {
    let graph = trace::build("f", &[x.ty()], |x| Ok(vec![f(&x[0])])).expect("the trace is valid");
    Compiled::new(&graph, Precision::Highest)
        .and_then(|it| it.run(std::slice::from_ref(x)))
        .expect("the graph runs")
        .remove(0)
}

fn wide(x: &Tensor) -> Vec<f64> {
    x.try_array()
        .and_then(ms::tensor::Array::into_host)
        .expect("an array")
        .scalars()
        .into_iter()
        .map(|it| it.as_f64())
        .collect()
}

//! Runs programs in every execution mode.

use ms::Level;
use ms::prelude::*;

/// Runs a case eagerly, compiled, and compiled again, at every level of copies, with shared graphs and without. The
/// case creates its parameters on each run. Returns its result and its printed lines.
#[track_caller]
pub fn check<R: PartialEq + std::fmt::Debug>(name: &str, case: impl Fn() -> R) -> (R, Vec<String>) {
    let run = |context: Context| {
        random::set_seed(5);
        ms::with_context(context, || ops::capture_prints(&case))
    };
    let eager = run(Context { jit: false, ..ms::context() });
    for load_elim in [Level::Every, Level::Several, Level::Needed, Level::None] {
        for share_graphs in [true, false] {
            for again in [false, true] {
                let got = run(Context { load_elim, share_graphs, ..ms::context() });
                assert_eq!(got, eager, "{name}, {load_elim:?}, shared {share_graphs}, again {again}");
            }
        }
    }
    eager
}

/// Returns all elements of some tensors.
pub fn numbers(tensors: &[Tensor]) -> Vec<f32> {
    tensors.iter().flat_map(|it| it.to_vec::<f32>()).collect()
}

/// Returns the elements rounded to `decimals`, the precision to which eager and compiled kernels agree.
pub fn rounded(tensors: &[Tensor], decimals: i32) -> Vec<f32> {
    numbers(tensors).iter().map(|it| (it * 10f32.powi(decimals)).round()).collect()
}

/// Returns a parameter of one number.
pub fn parameter(value: f32) -> Parameter {
    Parameter::new(Tensor::scalar(value), "")
}

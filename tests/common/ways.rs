//! Programs in every way in which they run.

use ms::Level;
use ms::prelude::*;

/// Runs a case eagerly, compiled, and compiled again, at every level of copies, and with graphs that
/// are shared and not; it makes what it needs anew each time. Gives what it gives and prints.
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

/// All elements of some tensors.
pub fn numbers(tensors: &[Tensor]) -> Vec<f32> {
    tensors.iter().flat_map(|it| it.to_vec::<f32>()).collect()
}

/// To so many decimals: eager kernels and compiled ones round alike to there.
pub fn rounded(tensors: &[Tensor], decimals: i32) -> Vec<f32> {
    numbers(tensors).iter().map(|it| (it * 10f32.powi(decimals)).round()).collect()
}

/// A parameter of one number.
pub fn parameter(value: f32) -> Parameter {
    Parameter::new(Tensor::scalar(value), "")
}

//! Adaptive max pooling: windows that cover an axis evenly.

use super::convolution::ranked;
use crate::ops::core::axis::named;
use crate::ops::{PoolOptions, max_pool, wrapping};
use crate::tensor::{AsTensor, Shape, Tensor, refused};
use ms_ir::error::{Code, Error, called};

/// Returns the maxima of `output_size` windows along each spatial axis of `[n, c, spatial..]`. The windows cover the
/// axis evenly: window `i` is from `floor(i * size / count)` to `ceil((i + 1) * size / count)`.
///
/// # Panics
/// Raises [`Code::Shape`] unless there is a size for each of one to three spatial axes. Raises [`Code::Argument`] for a
/// size of zero and for an axis without elements, and [`Code::Sizes`] for an axis of symbolic size.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::adaptive_max_pool(tensor![[[1., 3., 2.]]], &[2]).to_vec::<f32>(), [3., 3.]);
/// ```
#[track_caller]
pub fn adaptive_max_pool(x: impl AsTensor, output_size: &[usize]) -> Tensor {
    let _called = called("adaptive_max_pool");
    let x = x.as_tensor();
    or_poison!(ranked("adaptive_max_pool", &x, output_size.len()));
    propagate_poison!(x);
    let refuse = |code, message: String| refused(named("adaptive_max_pool", &[&x], Error::new(code, message)));
    let Some(sizes) = x.dims()[2..].iter().map(|it| it.as_const()).collect::<Option<Shape>>() else {
        return refuse(Code::Sizes, "the windows depend on a size, which is symbolic".into());
    };
    if sizes.contains(&0) || output_size.contains(&0) {
        return refuse(Code::Argument, format!("{output_size:?} windows over axes of {sizes:?} elements"));
    }
    if sizes.iter().zip(output_size).all(|(size, count)| size % count == 0) {
        let kernel: Shape = sizes.iter().zip(output_size).map(|(size, count)| size / count).collect();
        return max_pool(&*x, &PoolOptions::new(kernel.len(), &kernel[..]));
    }
    // Reducing one axis at a time, from the last one on, gives the gradient to the first of equal elements in row-major
    // order. The last element of a window is repeated up to the size of the largest window.
    let axes = sizes.iter().zip(output_size).enumerate().rev();
    axes.fold(x.clone().into_owned(), |x, (axis, (&size, &count))| {
        let window = |i: usize| (i * size / count, ((i + 1) * size).div_ceil(count));
        let largest = (0..count).map(|i| window(i).1 - window(i).0).max().unwrap_or(1);
        let taps =
            (0..count).flat_map(|i| (0..largest).map(move |tap| (window(i).0 + tap).min(window(i).1 - 1) as i64));
        let taps = Tensor::from_slice([count * largest], &taps.collect::<Vec<_>>());
        let mut kernel = vec![1; sizes.len()];
        kernel[axis] = largest;
        max_pool(wrapping::gather(&x, taps, axis as isize + 2), &PoolOptions::new(sizes.len(), &kernel[..]))
    })
}

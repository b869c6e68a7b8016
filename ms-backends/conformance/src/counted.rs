//! Makes tensors whose elements are their positions.

/// Returns `0, 1, 2, ..` in a shape, in f32.
pub fn counted<const N: usize>(shape: [usize; N]) -> ms::Tensor {
    let count = shape.iter().product::<usize>();
    ms::Tensor::from_slice(shape, &(0..count).map(|it| it as f32).collect::<Vec<_>>())
}

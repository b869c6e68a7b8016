//! Pooling layers.

use crate::prelude::*;

/// The largest value of each window of `x: [n, c, h, w]`.
#[cell]
#[derive(Clone)]
pub struct MaxPool2d {
    kernel: usize,
    stride: usize,
}

#[cell]
impl MaxPool2d {
    /// Square windows side by side.
    pub fn new(kernel: usize) -> Self {
        Self { kernel, stride: kernel }
    }

    /// The same layer with another step between windows.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        ops::max_pool(x, &ops::PoolOptions::new(2, self.kernel).stride(self.stride))
    }
}

/// The mean of each window of `x: [n, c, h, w]`.
#[cell]
#[derive(Clone)]
pub struct AvgPool2d {
    kernel: usize,
    stride: usize,
}

#[cell]
impl AvgPool2d {
    /// Square windows side by side.
    pub fn new(kernel: usize) -> Self {
        Self { kernel, stride: kernel }
    }

    /// The same layer with another step between windows.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        ops::avg_pool(x, &ops::PoolOptions::new(2, self.kernel).stride(self.stride))
    }
}

//! Pooling layers.

use crate::prelude::*;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;

/// The largest value of each window of `x: [n, c, h, w]`.
#[cell]
#[derive(Clone)]
pub struct MaxPool2d {
    kernel: usize,
    stride: usize,
}

#[cell]
impl MaxPool2d {
    /// Adjacent square windows.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a kernel of size zero.
    #[track_caller]
    pub fn new(kernel: usize) -> Self {
        check_positive("MaxPool2d", "kernel", kernel).or_raise();
        Self { kernel, stride: kernel }
    }

    /// Sets the stride between windows.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a stride of zero.
    #[track_caller]
    pub fn stride(self, stride: usize) -> Self {
        check_positive("MaxPool2d", "stride", stride).or_raise();
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
    /// Adjacent square windows.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a kernel of size zero.
    #[track_caller]
    pub fn new(kernel: usize) -> Self {
        check_positive("AvgPool2d", "kernel", kernel).or_raise();
        Self { kernel, stride: kernel }
    }

    /// Sets the stride between windows.
    ///
    /// # Panics
    /// Raises [`ms_core::Code::Argument`] for a stride of zero.
    #[track_caller]
    pub fn stride(self, stride: usize) -> Self {
        check_positive("AvgPool2d", "stride", stride).or_raise();
        Self { stride, ..self }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        ops::avg_pool(x, &ops::PoolOptions::new(2, self.kernel).stride(self.stride))
    }
}

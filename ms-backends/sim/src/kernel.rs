//! Defines kernels of simulated devices: [`SimKernel`].

use ms_ir::{Kernel, Role};
use ms_x64::interp::Interpreted;
use smallvec::SmallVec;

/// A kernel whose argument blocks contain addresses of the device.
pub struct SimKernel {
    pub code: Interpreted,
    addresses: SmallVec<[usize; 4]>,
    results: SmallVec<[usize; 2]>,
}

impl SimKernel {
    /// Prepares a kernel.
    pub fn new(kernel: &Kernel) -> Self {
        let words = |is_one: fn(Role) -> bool| {
            let params = kernel.params.iter().enumerate().filter(move |it| is_one(it.1.role));
            params.map(|it| kernel.param_word(it.0))
        };
        Self {
            code: Interpreted::new(kernel.clone()),
            addresses: words(|it| !matches!(it, Role::Iota | Role::Immediate)).collect(),
            results: words(Role::is_written).collect(),
        }
    }

    /// Returns the words of an argument block that are addresses, in the order of the params.
    pub fn addresses(&self) -> &[usize] {
        &self.addresses
    }

    /// Returns the words of an argument block that are addresses of results.
    pub fn results(&self) -> &[usize] {
        &self.results
    }
}

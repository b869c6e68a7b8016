//! Discrete Fourier transforms; with the feature `fft`.
//!
//! There are no complex dtypes. A complex tensor has a last axis of two, the real and the imaginary part, which `axis`
//! does not count. Elements are f32 or f64.
//!
//! The functions are [custom ops](crate::custom_op) that call the crates `rustfft` and `realfft` on the host, on one
//! thread. They run eagerly, compiled, and in the lanes of [`vmap`](crate::vmap); a device waits for them. They have
//! derivatives of every order. Their last digits depend on the processor, in every precision. A transform of any size
//! takes `O(n log n)`.
//!
//! Forward transforms are sums with `exp(-2πi jk / n)`. Inverse transforms have the opposite sign and the factor
//! `1 / n`, as in NumPy.
//!
//! ```
//! use ms::{fft, prelude::*};
//! let signal = tensor![1.0, 0.0, -1.0, 0.0];
//! let spectrum = fft::rfft(&signal, -1);
//! assert_eq!(spectrum.to_vec::<f32>(), [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
//! assert_eq!(fft::irfft(&spectrum, 4, -1).to_vec::<f32>(), signal.to_vec::<f32>());
//! ```

mod plans;
mod transforms;

pub use transforms::{fft, ifft, irfft, rfft};

//! Linear algebra: decompositions, systems of equations, determinants; with the feature `linalg`.
//!
//! Operands are f32 or f64 matrices along the last two axes; the axes before them are batch axes. The functions are
//! [custom ops](crate::custom_op) that call the crate `faer` on the host, on one thread. They run eagerly, compiled,
//! and in the lanes of [`vmap`](crate::vmap); a device waits for them. Their derivatives are written with tensor ops,
//! and so exist in every order. Their last digits depend on the processor, in every precision.
//!
//! Decompositions raise [`Code::NoDecomposition`](crate::Code) for elements that are not finite, and for matrices that
//! have no decomposition.
//!
//! ```
//! use ms::{linalg, prelude::*};
//! let a = tensor![[4.0, 2.0], [2.0, 3.0]];
//! let x = linalg::solve(&a, tensor![8.0, 8.0]);
//! assert!((a.matmul(&x) - 8.0).abs().max(()).item::<f32>() < 1e-5);
//! let gradient = ms::grad(|a: &Tensor| linalg::slogdet(a).1)(&a);
//! assert!((gradient - linalg::inv(&a)).abs().max(()).item::<f32>() < 1e-6);
//! ```

mod decompositions;
mod matrices;
mod systems;

pub use decompositions::{cholesky, eigh, qr, svd};
pub use systems::{det, inv, lstsq, slogdet, solve, solve_triangular};

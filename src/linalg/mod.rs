//! Linear algebra: decompositions, systems of equations, determinants; with the feature `linalg`.
//!
//! Operands are f32 or f64 matrices along the last two axes; the axes before them are batches. The functions are
//! [custom ops](crate::custom_op) which call the crate `faer` on the host, on one thread: they run eagerly, compiled,
//! and in the lanes of [`vmap`](crate::vmap), and a device waits for them. Their derivatives are written with tensors,
//! so that they have derivatives of every order. Their last digits depend on the processor, in every precision.
//!
//! Elements that are not finite are refused by decompositions with [`Code::NoDecomposition`](crate::Code), as are
//! matrices that have none.
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

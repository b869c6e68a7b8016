//! Types for the signatures in [`custom_op!`](crate::custom_op) declarations: views, vector-Jacobian products,
//! batching.
//!
//! ```
//! use ms::custom::{AnyView, AnyViewMut, BatchedCall, Outputs, Type, View, ViewMut, Vjp};
//! use ms::prelude::*;
//!
//! ms::custom_op! {
//!     /// The sums of rows of f32.
//!     fn row_sums(x: &Tensor) -> Tensor;
//!
//!     fn types(x: &Type) -> Type {
//!         Type::new(x.dtype, x.dims[..x.rank() - 1].iter().copied().collect())
//!     }
//!
//!     fn run(x: View<'_, f32>, mut sums: ViewMut<'_, f32>) {
//!         sums.iter_mut().zip(x.rows()).for_each(|(sum, row)| *sum = row.iter().sum());
//!     }
//!
//!     fn derivative(it: &Vjp<'_>) -> Tensor {
//!         ops::broadcast_to(it.cotangent().expand_dims(-1), it.inputs[0].dims())
//!     }
//!
//!     fn batching(lanes: &BatchedCall<'_>) -> ms::Result<Outputs> {
//!         lanes.apply(lanes.attrs, &lanes.spread_all())
//!     }
//! }
//!
//! ms::custom_op! {
//!     /// Elements in the opposite order, f32 or i64.
//!     fn reversed(x: &Tensor) -> Tensor;
//!
//!     fn types(x: &Type) -> Type {
//!         x.clone()
//!     }
//!
//!     fn run(x: AnyView<'_>, mut y: AnyViewMut<'_>) -> ms::Result<()> {
//!         fn reverse<T: Copy>(x: &[T], y: &mut [T]) {
//!             y.iter_mut().rev().zip(x).for_each(|(y, x)| *y = *x);
//!         }
//!         match x.dtype() {
//!             DType::F32 => reverse(&x.typed::<f32>()?, &mut y.typed::<f32>()?),
//!             _ => reverse(&x.typed::<i64>()?, &mut y.typed::<i64>()?),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let x = tensor![[1.0, 2.0], [3.0, 4.0]];
//! assert_eq!(row_sums(&x).to_vec::<f32>(), [3.0, 7.0]);
//! assert_eq!(ms::grad(row_sums)(&x).to_vec::<f32>(), [1.0; 4]);
//! assert_eq!(ms::vmap(row_sums)(&x).to_vec::<f32>(), [3.0, 7.0]);
//! assert_eq!(reversed(&tensor![1, 2, 3]).to_vec::<i64>(), [3, 2, 1]);
//! ```

pub use ms_core::ops::custom::{AnyView, AnyViewMut, View, ViewMut};
pub use ms_core::ops::{BatchedCall, Vjp};
pub use ms_core::tensor::{Outputs, Type};

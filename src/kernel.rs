//! Scalar types for the bodies of [`kernel!`](macro@crate::kernel) declarations, and for functions that these bodies
//! call.
//!
//! [`Float`] and [`Int`] have the dtype of the operands. The other types have a fixed dtype, and [`Value::to`]
//! converts.
//!
//! ```
//! use ms::kernel::{F64, Float, Value};
//! use ms::prelude::*;
//!
//! fn softplus(x: Float) -> Float {
//!     x.lt(20.0).select(x.exp().ln_1p(), x)
//! }
//!
//! fn wide<T: Value>(x: T) -> F64 {
//!     x.to::<F64>()
//! }
//!
//! ms::kernel! {
//!     fn mish(x: Float) -> Float {
//!         x * softplus(x).tanh()
//!     }
//! }
//!
//! ms::kernel! {
//!     /// The lowest bit of integers, in their own dtype and as a truth value.
//!     fn lowest_bit(x: Int) -> (Int, Bool) {
//!         (x & 1, (x & 1).ne(0))
//!     }
//! }
//!
//! ms::kernel! {
//!     /// A word in other dtypes: narrower integers wrap.
//!     fn parts(x: U32) -> (U8, U16, U64, I8, I16, I32, I64, F32) {
//!         (x as U8, x as U16, x as U64, x as I8, x as I16, x as I32, x as I64, x as F32)
//!     }
//! }
//!
//! ms::kernel! {
//!     fn third(x: Int) -> F64 {
//!         wide(x) / 3.0
//!     }
//! }
//!
//! assert_eq!(mish(tensor![0.0]).item::<f32>(), 0.0);
//! let (bits, odd) = lowest_bit(tensor![2u8, 3]);
//! assert_eq!((bits.to_vec::<u8>(), odd.to_vec::<bool>()), (vec![0, 1], vec![false, true]));
//! let narrow = parts(tensor![300u32]);
//! assert_eq!((narrow.0.item::<u8>(), narrow.1.item::<u16>(), narrow.7.item::<f32>()), (44, 300, 300.0));
//! assert_eq!(third(tensor![1]).item::<f64>(), 1.0 / 3.0);
//! ```

pub use ms_core::ops::custom::kernel::{Bool, F32, F64, Float, I8, I16, I32, I64, Int, U8, U16, U32, U64, Value};

//! The numbers of kernels that [`kernel!`](macro@crate::kernel) declares: functions of them can be called there.
//!
//! [`Float`] and [`Int`] are of the dtype of the operands; the others are of one dtype, and [`Value::to`] converts.

pub use ms_core::ops::custom::kernel::{Bool, F32, F64, Float, I8, I16, I32, I64, Int, U8, U16, U32, U64, Value};

//! The numbers of kernels that [`kernel!`](macro@crate::kernel) declares: functions of them can be called there.

pub use ms_core::ops::custom::kernel::{Bool, Float};

//! What programs import: `use ms::prelude::*`.

pub use crate::{DType, Error, Parameter, Result, Tensor, ops, tensor};
pub use ms_core::session::{Context, Mode};
pub use ms_core::trace::{Cell, Layer, Training, Tree};
pub use ms_macros::{Static, Tree, cell, jit, jit_class, lazy_inline};

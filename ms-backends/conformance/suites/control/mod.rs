//! Tests control flow on host values and on tensors, and its errors.

/// Declares a compiled function of tensors. The module of its name has `native`, the same body on numbers, which Rust
/// runs. In the body `number` makes a tensor or a number.
macro_rules! twins {
    ($(#[$doc:meta])* fn $name:ident($($x:ident),*; $($host:ident: $ty:ty),*) $body:tt) => {
        $(#[$doc])*
        #[jit]
        fn $name($($x: &Tensor,)* $($host: $ty),*) -> Tensor $body

        mod $name {
            #[allow(unused_imports, reason = "some bodies call functions of the module")]
            use super::*;

            #[allow(dead_code, reason = "some bodies make no numbers")]
            fn number(value: f32) -> f32 {
                value
            }

            #[allow(clippy::assign_op_pattern, clippy::clone_on_copy, reason = "the body is also that of tensors")]
            pub fn native($($x: f32,)* $($host: $ty),*) -> f32 $body
        }
    };
}

mod host;
mod jumps;
mod labels;
mod refusals;
mod regions;

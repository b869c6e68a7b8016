//! Differentiates functions: by the tape outside of traces, and as graphs inside.

pub(super) mod custom;
mod custom_jvp;
pub(super) mod derived;
mod grad;
pub(super) mod grad_operation;
mod jacobian;
mod linearize;
pub(super) mod record;
mod residuals;
pub(super) mod select;
mod silent;
pub(super) mod tape;

pub use custom::{Recompute, WithVjp, custom_vjp, recompute};
pub use custom_jvp::{WithJvp, custom_jvp};
pub use derived::{Derived, Mode as DerivativeMode};
pub use grad::{Grad, Gradient, OnlyGradient, Outcome, WithAux, WithValue, grad, value_and_grad};
pub use grad_operation::{GradOperation, GradWithSens, Weighted};
pub use jacobian::{ByColumns, ByRows, Hessian, Jacobian, hessian, jacfwd, jacrev};
pub use linearize::{
    Division, FirstOfPair, Jvp, Linear, Linearize, Pullback, Pushforward, Vjp, Whole, jvp, linearize, vjp,
};
pub use residuals::{WithResiduals, custom_vjp_with_residuals};
pub use select::{All, Select};
pub use tape::Tape;

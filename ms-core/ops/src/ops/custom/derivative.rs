//! Gradients that the derivative of a custom op returns.

use super::Declaration;
use super::call::text_of;
use crate::ops::core::rules::may_equal;
use crate::ops::{Cotangents, Vjp};
use crate::tensor::Tensor;
use ms_ir::error::{Code, Error, OrRaise, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The return value of a custom op's derivative: the gradients of its operands, `None` for an operand without one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not what the derivative of a custom op returns",
    label = "not one gradient for each operand: `Tensor` or `Option<Tensor>`, or a tuple or an array of them"
)]
pub trait Gradients {
    /// Returns the gradients in the order of the operands.
    fn into_cotangents(self) -> Cotangents;
}

impl Gradients for Tensor {
    fn into_cotangents(self) -> Cotangents {
        Cotangents::from_iter([Some(self)])
    }
}

impl Gradients for Option<Tensor> {
    fn into_cotangents(self) -> Cotangents {
        Cotangents::from_iter([self])
    }
}

impl<T: Into<Option<Tensor>>, const N: usize> Gradients for [T; N] {
    fn into_cotangents(self) -> Cotangents {
        self.into_iter().map(Into::into).collect()
    }
}

impl Gradients for Vec<Option<Tensor>> {
    fn into_cotangents(self) -> Cotangents {
        self.into()
    }
}

macro_rules! gradients_of_tuples {
    ($($($part:ident)+;)*) => {$(
        impl<$($part: Into<Option<Tensor>>),+> Gradients for ($($part,)+) {
            fn into_cotangents(self) -> Cotangents {
                #[allow(non_snake_case, reason = "parts have the names of their types")]
                let ($($part,)+) = self;
                Cotangents::from_iter([$($part.into()),+])
            }
        }
    )*};
}

gradients_of_tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F; }

/// Runs a derivative rule and checks its gradients against the operands.
///
/// # Panics
/// Raises [`Code::CustomOp`] if the rule panics, if the number of gradients is wrong, or if a gradient has another type
/// than its operand.
#[track_caller]
pub fn gradients<G: Gradients>(of: &Declaration, it: &Vjp<'_>, rule: impl FnOnce() -> G) -> Cotangents {
    let given = match catch_unwind(AssertUnwindSafe(rule)) {
        Ok(given) => check(it, given.into_cotangents()),
        // Any other payload is an error that propagates to its handler.
        Err(payload) if !payload.is::<&str>() && !payload.is::<String>() => resume_unwind(payload),
        Err(payload) => Err(Error::new(Code::CustomOp, format!("the derivative panicked: {}", text_of(&*payload)))),
    };
    given.map_err(|error| error.with_op(of.path())).or_raise()
}

fn check(it: &Vjp<'_>, given: Cotangents) -> Result<Cotangents> {
    if given.len() != it.inputs.len() {
        let message = format!("the derivative gives {} gradients for {} operands", given.len(), it.inputs.len());
        return Err(Error::new(Code::CustomOp, message));
    }
    for (at, (gradient, operand)) in given.iter().zip(it.inputs).enumerate() {
        let Some(gradient) = gradient.as_ref().filter(|it| !it.is_poisoned()) else { continue };
        let (got, want) = (gradient.ty(), operand.ty());
        if got.dtype != want.dtype || !may_equal(&got.dims, &want.dims) {
            let message = format!("the derivative gives the gradient {got} for operand {at}, which is {want}");
            return Err(Error::new(Code::CustomOp, message));
        }
    }
    Ok(given)
}

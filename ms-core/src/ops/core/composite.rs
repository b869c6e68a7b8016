//! Composites: ops whose meaning is the ops that a body applies.

use super::reference::ReferenceDispatcher;
use super::{Arrays, Domain, Types};
use crate::error::{Code, Error, Result, abandon, collecting};
use crate::tensor::{Array, Attrs, OpCall, Outputs, Tensor, Type, with_dispatcher};
use smallvec::smallvec;
use std::rc::Rc;

/// The body of a composite: applies ops to the operands, which the type rule has accepted, and returns the
/// results of the composite.
pub type Body = fn(&Attrs, &[&Tensor]) -> Outputs;

/// Applies the ops of the body of a composite through the current dispatcher.
///
/// # Errors
/// Those of the ops, in the name of the composite.
pub fn apply_body(call: &OpCall<'_>, body: Body) -> Result<Outputs> {
    run(body, call.attrs, call.inputs).map_err(|error| error.of_composite(call.op.name(), call.location))
}

/// The results of the body of a composite on arrays, by the reference.
///
/// # Errors
/// Those of its ops.
pub(crate) fn evaluate_body_of(
    by: ReferenceDispatcher,
    body: Body,
    attrs: &Attrs,
    inputs: &[&Array],
) -> Result<Arrays> {
    let inputs: Vec<Tensor> = inputs.iter().map(|&it| Tensor::from_array(it.clone())).collect();
    let outputs = with_dispatcher(Rc::new(by), || run(body, attrs, &inputs.iter().collect::<Vec<_>>()))?;
    outputs.iter().map(|it| Ok(it.elements()?.on_host()?.to_contiguous())).collect()
}

/// The reference evaluation of a composite.
///
/// # Errors
/// Those of its ops.
pub(in crate::ops) fn evaluate_composite(body: Body, attrs: &Attrs, inputs: &[&Array]) -> Result<Arrays> {
    evaluate_body_of(ReferenceDispatcher::Eval, body, attrs, inputs)
}

/// The type rule of a composite of one operand of floats, whose result is of its type.
///
/// # Errors
/// [`Code::DType`] for another dtype.
pub(in crate::ops) fn same_float(x: &Type) -> Result<Types> {
    check_float(x)?;
    Ok(smallvec![x.clone()])
}

/// Checks that an operand is of floats.
///
/// # Errors
/// [`Code::DType`] otherwise.
pub(in crate::ops) fn check_float(x: &Type) -> Result<()> {
    if x.dtype.is_float() {
        return Ok(());
    }
    Err(Error::new(Code::DType, format!("takes floats, not {}", x.dtype)))
}

/// The operand as floats: bools and integers become f32.
#[track_caller]
pub(in crate::ops) fn to_float(x: &Tensor) -> Tensor {
    crate::ops::cast(x, Domain::Float.convert(x.dtype()).expect("every dtype becomes a float"))
}

fn run(body: Body, attrs: &Attrs, inputs: &[&Tensor]) -> Result<Outputs> {
    let (outputs, errors): (_, Vec<Error>) = collecting(|| body(attrs, inputs));
    match (outputs, errors.into_iter().next()) {
        (_, Some(error)) => Err(error),
        (Some(outputs), None) => Ok(outputs),
        // A tracer has recorded why.
        (None, None) => abandon(),
    }
}

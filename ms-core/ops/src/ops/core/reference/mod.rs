//! The reference executor, which runs op by op, on the host, element by element. It is the fallback without a backend,
//! and the oracle of tests.

mod body;

pub use body::evaluate_body;

use crate::ops::{Lowering, definition, evaluate_body_of, transform_rules};
use crate::tensor::{Array, Dispatcher, OpCall, Outputs, Parameter, Tensor, Type};
use ms_ir::error::{Code, Error, Result};
use smallvec::SmallVec;

/// A dispatcher that applies ops by their definitions.
#[derive(Clone, Copy, Debug, Default)]
pub enum ReferenceDispatcher {
    /// Evaluates by [`OpDef::eval`](crate::ops::OpDef::eval).
    #[default]
    Eval,
    /// Evaluates the bodies of [`Lowering::Map`] instruction by instruction, with the bits of kernels. Ops without a
    /// body are evaluated by `eval`.
    Lowered,
}

impl Dispatcher for ReferenceDispatcher {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let def = definition(call.op);
        let name = |error: Error| {
            let operands = call.inputs.iter().map(|it| it.ty().to_string());
            error.with_op(def.name()).with_operands(operands).at(call.location)
        };
        let arrays = call.inputs.iter().map(|it| it.elements()).collect::<Result<SmallVec<[Array; 3]>>>()?;
        let arrays: SmallVec<[&Array; 3]> = arrays.iter().collect();
        let types: SmallVec<[Type; 3]> = arrays.iter().map(|it| it.ty()).collect();
        let types: SmallVec<[&Type; 3]> = types.iter().collect();
        let results = (def.infer)(call.attrs, &types).map_err(name)?;
        let outputs = match (self, &def.lowering) {
            (Self::Lowered, Lowering::Map(rule)) => {
                let body = |builder: &mut _, operands: &[_]| rule(call.attrs, builder, operands);
                evaluate_body(body, results[0].dtype, &arrays).map(|it| SmallVec::from_elem(it, 1))
            }
            (Self::Lowered, Lowering::Composite(_)) => {
                let body = transform_rules(def).composite().expect("a composite has a body");
                evaluate_body_of(*self, body, call.attrs, &arrays)
            }
            _ => (def.eval)(call.attrs, &arrays),
        };
        let outputs = outputs.map_err(name)?;
        debug_assert!(outputs.iter().map(Array::ty).eq(results), "the results of `{}` are what it infers", def.name());
        Ok(outputs.into_iter().map(Tensor::from_array).collect())
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        Ok(parameter.load())
    }

    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        let (slot, new) = (parameter.load().ty(), value.ty());
        if slot != new {
            let code = if slot.dtype == new.dtype { Code::Shape } else { Code::DType };
            return Err(Error::new(code, format!("a parameter of {slot} cannot hold {new}")).with_op("set"));
        }
        parameter.store(Tensor::from_array(value.elements()?));
        Ok(())
    }
}

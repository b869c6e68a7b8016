//! Dispatches ops and reads of values while a graph is traced.

use super::Tracer;
use super::call::is_common;
use super::frame::State;
use crate::trace::body::infer_node;
use crate::trace::region::scan_carries;
use ms_ir::error::{Code, Error, Result, active_function};
use ms_ir::{Node, Type, ValueId};
use ms_ops::ops;
use ms_ops::tensor::{
    DType, DispatchMode, Dispatcher, Literal, OpCall, Outputs, Parameter, Scalar, Scan, Tensor, Traced,
    leaked_from_region,
};
use smallvec::SmallVec;
use std::any::Any;
use std::panic::Location;
use std::rc::Rc;

/// The number of poisoned results of a failed op. No op has more results.
const POISONED_RESULTS: usize = 8;

impl Tracer {
    fn try_apply(&self, state: &mut State, call: &OpCall<'_>) -> Result<Outputs> {
        let mut inputs: SmallVec<[ValueId; 3]> = SmallVec::new();
        for input in call.inputs {
            inputs.push(self.resolve(state, input)?);
        }
        let frame = state.top();
        let results = {
            let types: SmallVec<[&Type; 3]> = inputs.iter().map(|&it| frame.graph.ty(it)).collect();
            infer_node(ops::definition(call.op), call.attrs, &types)?
        };
        let mut node = Node::new(call.op, call.attrs.clone(), inputs);
        node.location = self.location.get().or(Some(call.location));
        node.called = active_function();
        let id = frame.graph.add_node(node, results);
        let outputs = frame.graph.node(id).outputs.clone();
        Ok(outputs.into_iter().map(|value| self.wrap(frame, value)).collect())
    }
}

impl Dispatcher for Tracer {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let mut state = self.state.borrow_mut();
        let poisoned = call.inputs.iter().any(|it| it.is_poisoned());
        if !poisoned {
            match self.try_apply(&mut state, &call) {
                Ok(outputs) => return Ok(outputs),
                Err(error) => {
                    let operands = call.inputs.iter().map(|it| it.ty().to_string());
                    let error = error.with_op(call.op.name()).with_operands(operands);
                    state.record(error.at(self.location.get().unwrap_or(call.location)));
                }
            }
        }
        let guess = call.inputs.first().map_or_else(|| Type::of(DType::F32, &[]), |it| it.ty());
        let frame = state.top();
        Ok((0..POISONED_RESULTS).map(|_| self.poison(frame, guess.clone())).collect())
    }

    fn number(&self, value: Scalar, dtype: DType, location: &'static Location<'static>) -> Result<Tensor> {
        let node = ops::constant_node(Literal::scalar(value, dtype));
        let mut outputs = self.apply(OpCall { op: node.op, attrs: &node.attrs, inputs: &[], location })?;
        Ok(outputs.remove(0))
    }

    fn scan(&self, scan: &Scan<'_>) -> Option<(Vec<Tensor>, Tensor)> {
        Some(scan_carries(Self::current()?, scan))
    }

    fn refused(&self, error: Error, location: &'static Location<'static>) -> Result<Tensor> {
        self.report(error.at(self.location.get().unwrap_or(location)));
        Ok(self.poisoned(Type::of(DType::F32, &[])))
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        let mut state = self.state.borrow_mut();
        let value = state.slot(parameter);
        Ok(self.wrap(state.top(), value))
    }

    #[track_caller]
    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        if value.is_poisoned() {
            return Ok(());
        }
        let held = self.state.borrow().held(parameter);
        crate::trace::check_write(&held, value)?;
        if is_common(parameter) {
            return self.bind_slot(parameter, value, true);
        }
        // The new value is a constant to gradients, as it is to the tape.
        self.bind_slot(parameter, &ops::next_version(value, parameter), true)
    }

    #[track_caller]
    fn refuse_read(&self, traced: &Traced) -> Error {
        self.refuse(
            traced,
            Error::new(Code::TracedValue, format!("the value of a traced `{}` is not known yet", traced.ty))
                .at(Location::caller())
                .help("return the tensor and read it outside, or keep the computation on tensors"),
        )
    }

    #[track_caller]
    fn refuse_shape(&self, traced: &Traced) -> ! {
        self.refuse(
            traced,
            Error::new(Code::SymbolicShape, format!("`{}` has a dimension that is not known yet", traced.ty))
                .at(Location::caller())
                .help("use `.dim(axis)`, which may be symbolic"),
        )
    }

    fn escape(&self, tensor: &Tensor) -> Option<Error> {
        self.state.borrow().is_leaked(tensor).then(|| leaked_from_region("a tensor", &tensor.ty()))
    }

    fn mode(&self) -> DispatchMode {
        DispatchMode::Trace
    }

    fn as_any(self: Rc<Self>) -> Option<Rc<dyn Any>> {
        Some(self)
    }
}

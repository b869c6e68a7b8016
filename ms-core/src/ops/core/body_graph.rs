//! Bodies of composites as graphs.

use super::composite::{Body, run};
use super::infer_node;
use crate::error::{Code, Error, Result};
use crate::ir::{Graph, Memo, Node, ValueId};
use crate::ops::{constant_node, definition};
use crate::tensor::{
    Attrs, DType, DispatchMode, Dispatcher, Literal, Op, OpCall, Outputs, Parameter, Scalar, Tensor, Traced, Type,
    with_dispatcher,
};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

/// What determines the graph of a body: op, attributes, types of the operands.
type Key = (u16, Attrs, Vec<Type>);

thread_local! {
    static BODIES: Memo<Key> = Memo::default();
}

/// The graph of the body of a composite on operands of these types, whose outputs are the results of the composite.
/// Every thread builds it once.
///
/// # Errors
/// Those of the ops of the body, in the name of the composite.
pub(crate) fn body_graph(op: Op, body: Body, attrs: &Attrs, inputs: &[&Type]) -> Result<Rc<Graph>> {
    let key = (op.number(), attrs.clone(), inputs.iter().map(|&it| it.clone()).collect());
    let record = |(_, attrs, types): &Key| Recorder::record(op.name(), body, attrs, types);
    BODIES.with(|it| it.get_or_build(key, record)).map_err(|error| error.of_composite(op.name()))
}

/// Applies ops by adding them to a graph.
struct Recorder(RefCell<Recorded>);

struct Recorded {
    graph: Graph,
    /// Arrays among the operands, with their constants.
    constants: Vec<(Tensor, ValueId)>,
}

impl Recorder {
    fn record(name: &str, body: Body, attrs: &Attrs, types: &[Type]) -> Result<Graph> {
        let mut graph = Graph::new(name);
        let input = |ty: &Type| traced(&graph.add_input(ty.clone()), ty.clone());
        let inputs: SmallVec<[Tensor; 4]> = types.iter().map(input).collect();
        let recorder = Rc::new(Self(RefCell::new(Recorded { graph, constants: Vec::new() })));
        let operands: SmallVec<[&Tensor; 4]> = inputs.iter().collect();
        let results = with_dispatcher(recorder.clone(), || run(body, attrs, &operands))?;
        let mut recorded = recorder.0.borrow_mut();
        let outputs = results.iter().map(|it| recorded.value(it)).collect::<Result<Vec<_>>>()?;
        recorded.graph.set_outputs(outputs);
        Ok(std::mem::take(&mut recorded.graph))
    }
}

/// A value of the graph that is recorded.
fn traced(value: &ValueId, ty: Type) -> Tensor {
    let shape = ty.shape();
    Tensor::from_traced(Traced { trace: 0, frame: 0, value: value.0, ty, shape, poisoned: false })
}

impl Recorded {
    fn value(&mut self, tensor: &Tensor) -> Result<ValueId> {
        if let Some(traced) = tensor.as_traced() {
            return Ok(ValueId(traced.value));
        }
        if let Some((_, value)) = self.constants.iter().find(|it| it.0.identity() == tensor.identity()) {
            return Ok(*value);
        }
        let array = tensor.as_array().expect("a tensor that is not traced is an array");
        let node = constant_node(Literal::from_array(array)?);
        let id = self.graph.add_node(node, [array.ty()]);
        let value = self.graph.node(id).outputs[0];
        self.constants.push((tensor.clone(), value));
        Ok(value)
    }
}

impl Dispatcher for Recorder {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let mut recorded = self.0.borrow_mut();
        let inputs = call.inputs.iter().map(|it| recorded.value(it)).collect::<Result<SmallVec<[ValueId; 3]>>>()?;
        let graph = &mut recorded.graph;
        let results = {
            let types: SmallVec<[&Type; 3]> = inputs.iter().map(|&it| graph.ty(it)).collect();
            infer_node(definition(call.op), call.attrs, &types).map_err(|error| error.at(call.location))?
        };
        let mut node = Node::new(call.op, call.attrs.clone(), inputs);
        node.location = Some(call.location);
        let id = graph.add_node(node, results);
        Ok(graph.node(id).outputs.iter().map(|it| traced(it, graph.ty(*it).clone())).collect())
    }

    fn number(&self, value: Scalar, dtype: DType, location: &'static Location<'static>) -> Result<Tensor> {
        let node = constant_node(Literal::scalar(value, dtype));
        let mut outputs = self.apply(OpCall { op: node.op, attrs: &node.attrs, inputs: &[], location })?;
        Ok(outputs.remove(0))
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        Err(Error::new(Code::Argument, format!("the body of a composite reads {parameter:?}")))
    }

    fn write_parameter(&self, parameter: &Parameter, _: &Tensor) -> Result<()> {
        Err(Error::new(Code::Argument, format!("the body of a composite writes {parameter:?}")))
    }

    fn mode(&self) -> DispatchMode {
        DispatchMode::Trace
    }
}

//! Implements functions with custom derivatives: `custom_vjp`, `recompute`.

use super::derived::rebuilt;
use super::grad_operation::check_seeds;
use super::record::record;
use super::select::{All, Select};
use super::tape::Tape;
use crate::session::call::JitReturn;
use crate::session::call::closure::call_closure;
use crate::session::context;
use crate::session::{Arguments, Followed, Function, TracedArguments, Transform};
use ms_ir::MapVec;
use ms_ir::error::{OrRaise, Result};
use ms_ir::{Graph, ValueId};
use ms_ops::ops::{self, Control, CustomVjp, decode_floats, encode_as_floats, encoded_type};
use ms_ops::tensor::{Parameter, Tensor, Type};
use ms_trace::trace::{Region, Sink, Tracer, Tree, build, leaves, run_nested, run_with_slots, sound};
use ms_trace::trace::{Target, Wrt};
use smallvec::smallvec;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// Returns whether eager ops are recorded.
pub(super) fn is_recorded() -> bool {
    Tape::current().is_some()
}

/// The transform behind [`recompute`].
pub struct Recompute<F> {
    f: F,
    location: &'static Location<'static>,
}

impl<Args, F> Transform<Args> for Recompute<F>
where
    Args: TracedArguments,
    F: Function<Args, Output: Tree + Send + Sync + 'static>,
{
    type Output = F::Output;
    const CAPTURES: bool = F::CAPTURES;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.f.sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> F::Output {
        if Tracer::current().is_some() {
            let recorded = record("recompute", Wrt::default(), |_| self.f.invoke(arguments), self.location);
            let (template, recording) = recorded.or_raise();
            return rebuilt(&template, recording.by(&Control::Recompute).or_raise());
        }
        match is_recorded() && context::read(|it| it.jit) {
            true => call_closure::<Args, F::Output>("recompute", arguments, |arguments| {
                <Self as Transform<Args>>::call(self, arguments)
            }),
            false => self.f.invoke(arguments),
        }
    }
}

/// Rematerialises `f` (activation checkpointing). Gradients store only the arguments and captures of `f`, and recompute
/// its intermediate values: less memory for more time.
///
/// Under a gradient the function is traced, so it must not read values of tensors.
///
/// ```
/// use ms_core::{Tensor, ops, session::{grad, recompute}};
/// let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
/// let block = |x: &Tensor| ops::mul(ops::mul(x, x), x);
/// assert_eq!(grad(recompute(block))(&x).to_vec::<f32>(), [3.0, 12.0]);
/// ```
#[track_caller]
pub fn recompute<'f, Args, F>(f: F) -> Args::Transformed<'f, Recompute<F>>
where
    Args: TracedArguments,
    F: Function<Args, Output: Tree + Send + Sync + 'static> + 'f,
{
    Args::transformed(Recompute { f, location: Location::caller() })
}

/// Calls a function with a custom derivative outside of traces. Under a tape, the call is compiled with that
/// derivative.
pub(super) fn call_untraced<Args: TracedArguments, R: JitReturn>(
    function: &impl Transform<Args, Output = R>,
    name: &'static str,
    arguments: Args::Refs<'_>,
    invoke: impl FnOnce(Args::Refs<'_>) -> R,
) -> R {
    match is_recorded() {
        true => call_closure::<Args, R>(name, arguments, |arguments| function.call(arguments)),
        false => invoke(arguments),
    }
}

/// The transform behind [`custom_vjp`].
pub struct WithVjp<Args, F, B> {
    f: F,
    backward: B,
    location: &'static Location<'static>,
    arguments: PhantomData<Args>,
}

/// The arguments of the backward function: the forward function's arguments and result, and the gradient of the result.
type Backward<Args, R> = <<Args as Followed<R>>::Longer as Followed<R>>::Longer;

impl<Args, F, B> Transform<Args> for WithVjp<Args, F, B>
where
    Args: TracedArguments + Followed<F::Output, Longer: Followed<F::Output>>,
    All: Select<Args>,
    F: Function<Args, Output: Tree + Send + Sync + 'static>,
    B: Function<Backward<Args, F::Output>, Output = <All as Select<Args>>::Gradient>,
{
    type Output = F::Output;
    const CAPTURES: bool = F::CAPTURES || B::CAPTURES;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.f.sign(sink);
        self.backward.sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> F::Output {
        if let Some(tracer) = Tracer::current() {
            let result = with_derivative::<Args, _>(&tracer, arguments, self.location, |it| self.f.invoke(it), self);
            return result.map_err(|it| it.at(self.location)).or_raise();
        }
        call_untraced(self, "custom_vjp", arguments, |it| self.f.invoke(it))
    }
}

/// Calls `then` with the arguments rebuilt from these tensors.
fn with_tensors<Args: Arguments, R>(
    arguments: Args::Refs<'_>,
    values: &[Tensor],
    then: impl FnOnce(Args::Refs<'_>) -> R,
) -> R
where
    All: Select<Args>,
{
    let (at, mut result, mut then) = (Cell::new(0), None, Some(then));
    let next = |_: &Tensor| values[at.replace(at.get() + 1)].clone();
    All.substitute(arguments, &next, &mut |arguments| {
        result = then.take().map(|then| then(arguments));
    });
    result.expect("a choice calls its continuation once")
}

impl<Args, F, B> Backwards<Args, F::Output> for WithVjp<Args, F, B>
where
    Args: TracedArguments + Followed<F::Output, Longer: Followed<F::Output>>,
    All: Select<Args>,
    F: Function<Args, Output: Tree + Send + Sync + 'static>,
    B: Function<Backward<Args, F::Output>, Output = <All as Select<Args>>::Gradient>,
{
    fn gradients<'a, 'b: 'a>(
        &self,
        arguments: Args::Refs<'b>,
        out: &'a F::Output,
        dout: &'a F::Output,
    ) -> Result<Vec<Tensor>> {
        let longer = Args::with_last(arguments, out);
        Ok(leaves(&self.backward.invoke(<Args::Longer as Followed<F::Output>>::with_last(longer, dout))))
    }
}

/// A backward function for results `R`.
pub(super) trait Backwards<Args: Arguments, R> {
    /// Returns the tensors of the gradients of all arguments, from the arguments, the result, and the gradient of the
    /// result.
    fn gradients<'a, 'b: 'a>(&self, arguments: Args::Refs<'b>, out: &'a R, dout: &'a R) -> Result<Vec<Tensor>>;
}

/// Calls `forward` on the arguments, with this derivative.
pub(super) fn with_derivative<Args: Arguments, R: Tree>(
    tracer: &Tracer,
    arguments: Args::Refs<'_>,
    location: &'static Location<'static>,
    forward: impl FnOnce(Args::Refs<'_>) -> R,
    backward: &impl Backwards<Args, R>,
) -> Result<R>
where
    All: Select<Args>,
{
    let mut wrt = Wrt::default();
    All.collect(arguments, &mut wrt);
    wrt.check()?;
    let value = |target: &Target| match target {
        Target::Tensor(tensor) => tensor.clone(),
        Target::Parameter(parameter) => parameter.value(),
    };
    let targets: Vec<Tensor> = wrt.targets().map_vec(value);
    // The tensors of arguments, without the parameters in between.
    let of_arguments = |given: &[Tensor]| -> Vec<Tensor> {
        let tensors = wrt.targets().iter().zip(given).filter(|(target, _)| matches!(target, Target::Tensor(_)));
        tensors.map(|(_, it)| it.clone()).collect()
    };
    let stand_in = |it: &Tensor| tracer.named_input(it.ty(), tracer.name_of(it));
    let enter = || targets.iter().map(stand_in).collect::<Vec<Tensor>>();
    let start = tracer.backward_reads();
    let (template, forward) = run_nested(tracer, "forward", || {
        let given = enter();
        for (target, input) in wrt.targets().iter().zip(&given) {
            if let Target::Parameter(parameter) = target {
                tracer.bind_slot(parameter, input, false)?;
            }
        }
        let result = with_tensors::<Args, _>(arguments, &of_arguments(&given), forward);
        let results = sound(leaves(&result));
        Ok((result, results))
    })?;
    let types: Vec<_> = leaves(&template).map_vec(Tensor::ty);
    let ((), backward) = run_with_slots(tracer, "backward", || {
        let given = enter();
        let results: Vec<Tensor> = types.map_vec(|ty| tracer.input(ty.clone()));
        let gradient = |result: &Tensor| match result.dtype().is_float() {
            true => tracer.input(result.ty()),
            false => ops::zeros_like(result),
        };
        let gradients: Vec<Tensor> = results.map_vec(gradient);
        let (out, dout) = (rebuilt(&template, results), rebuilt(&template, gradients));
        let gradients = with_tensors::<Args, _>(arguments, &of_arguments(&given), |arguments| {
            backward.gradients(arguments, &out, &dout)
        })?;
        let gradients = sound(gradients);
        check_seeds(&given, &gradients).map_err(|it| it.with_op("custom_vjp"))?;
        // The backward function sees the writes of the forward function as it sees its own.
        for parameter in forward.writes.iter().filter(|it| !it.is_backward() && tracer.has_slot(it)) {
            tracer.bind_slot(parameter, &parameter.value(), true)?;
        }
        Ok(((), gradients))
    })?;
    let (forward, backward) = (forward.without_backward_writes(), backward.without_backward_writes());
    let held = |parameter: &Parameter| {
        let is_it = |it: &Target| matches!(it, Target::Parameter(it) if it == parameter);
        wrt.targets().iter().position(is_it).map_or_else(|| parameter.value(), |at| targets[at].clone())
    };
    let read: Vec<&Parameter> = backward.slots.iter().filter(|it| !backward.writes.contains(it)).collect();
    tracer.note_backward_reads(start, read.iter().copied().filter(|it| !it.is_backward()).cloned());
    let slots: Vec<Tensor> = backward.writes.map_vec(|it| it.backward().value());
    let at = CustomVjp {
        targets: targets.len(),
        captured: targets.len() + slots.len() + forward.captures.len(),
        results: types.len(),
        slots: slots.len(),
    };
    let inputs: Vec<Tensor> = targets
        .iter()
        .chain(&slots)
        .chain(&forward.captures)
        .cloned()
        .chain(read.into_iter().map(held))
        .chain(backward.captures.iter().cloned())
        .collect();
    let graph = pass_slots_through(&forward.graph, targets.len(), types.len(), &slots);
    let regions = smallvec![graph, thread_writes(&backward)?];
    let mut outputs = tracer.control(&Control::CustomVjp(at), regions, &inputs, location)?;
    let slots = backward.writes.iter().map(Parameter::backward).chain(forward.writes);
    for (slot, value) in slots.zip(outputs.split_off(types.len())) {
        tracer.bind_slot(&slot, &value, true)?;
    }
    Ok(rebuilt(&template, outputs))
}

/// Adds pass-through slots to a forward region: extra inputs after the `targets`, and outputs after its `results`.
fn pass_slots_through(region: &Arc<Graph>, targets: usize, results: usize, slots: &[Tensor]) -> Arc<Graph> {
    if slots.is_empty() {
        return region.clone();
    }
    let mut graph = (**region).clone();
    let own = graph.inputs().len();
    let added: Vec<ValueId> = slots.map_vec(|it| graph.add_input(it.ty()));
    let order: Vec<usize> = (0..targets).chain(own..own + slots.len()).chain(targets..own).collect();
    graph.reorder_inputs(&order);
    let mut outputs = graph.outputs().to_vec();
    outputs.splice(results..results, added);
    graph.set_outputs(outputs);
    Arc::new(graph)
}

/// Threads written parameters through a backward region: as inputs after the declared ones, and as outputs. Both hold
/// current values.
fn thread_writes(region: &Region) -> Result<Arc<Graph>> {
    let Region { graph, slots, captures, writes } = region;
    if writes.is_empty() {
        return Ok(graph.clone());
    }
    let inputs: Vec<&Type> = graph.inputs().map_vec(|&it| graph.ty(it));
    let declared = inputs.len() - slots.len() - captures.len();
    let gradients = graph.outputs().len() - writes.len();
    let held: Vec<&Type> = graph.outputs()[gradients..].map_vec(|&it| graph.ty(it));
    // The position of each input of the region.
    let (mut places, mut types): (Vec<usize>, Vec<Type>) =
        ((0..declared).collect(), inputs[..declared].iter().copied().cloned().collect());
    types.extend(held.iter().map(|it| encoded_type(it)));
    for (at, &ty) in inputs.iter().enumerate().skip(declared) {
        let written = slots.get(at - declared).and_then(|slot| writes.iter().position(|it| it == slot));
        places.push(written.map_or(types.len(), |it| declared + it));
        if written.is_none() {
            types.push(ty.clone());
        }
    }
    let mut built = build(graph.name(), &types, |inputs| {
        let mut inputs = inputs.to_vec();
        for (input, ty) in inputs[declared..].iter_mut().zip(&held) {
            *input = decode_floats(input, ty.dtype);
        }
        let operands: Vec<Tensor> = places.map_vec(|&at| inputs[at].clone());
        let tracer = Tracer::current().expect("the graph is built by one");
        let mut outputs = tracer.inline(graph, &operands)?;
        outputs[gradients..].iter_mut().for_each(|it| *it = encode_as_floats(it));
        Ok(outputs)
    })?;
    built.name_inputs_like(graph, places);
    Ok(Arc::new(built))
}

/// Gives the function `f` a custom derivative. `backward` takes the arguments, the result, and the gradient of the
/// result, and returns the gradients of all arguments as a tuple. Captures of either function have no gradient.
///
/// Derivatives of any order, in both modes, differentiate the result by `backward`. A derivative of the gradient
/// differentiates the ops of `backward` by their own rules. Forward mode uses the transpose of `backward`, and fails if
/// `backward` is not linear in the gradient of the result.
///
/// Under a gradient both functions are traced, so they must not read values of tensors.
///
/// `backward` runs when gradients are pulled back, if a gradient reaches the result. Afterwards parameters hold the
/// values that it writes; of several calls, the backward function of the last one runs first. Parameters that either
/// function writes have their current values in `backward`, and all others their values at the call.
///
/// ```
/// use ms_core::{Tensor, ops, session::{custom_vjp, grad}};
/// let clipped = custom_vjp(
///     |x: &Tensor| ops::mul(x, x),
///     |x: &Tensor, _: &Tensor, g: &Tensor| (ops::minimum(ops::mul(g, x), 2.0),),
/// );
/// let x = Tensor::from_slice([2], &[1.0f32, 5.0]);
/// assert_eq!(grad(clipped)(&x).to_vec::<f32>(), [1.0, 2.0]);
/// ```
///
/// # Errors
/// A traced call raises [`Code::Shape`](crate::Code::Shape) or [`Code::DType`](crate::Code::DType) if the type of a
/// gradient differs from its argument's. A gradient raises [`Code::BackwardWrites`](crate::Code::BackwardWrites) if
/// `backward` writes a parameter in an undetermined order. Forward mode raises
/// [`Code::CustomTangent`](crate::Code::CustomTangent) if `backward` is not linear.
#[track_caller]
pub fn custom_vjp<'f, Args, F, B>(f: F, backward: B) -> Args::Transformed<'f, WithVjp<Args, F, B>>
where
    Args: TracedArguments + Followed<F::Output, Longer: Followed<F::Output>>,
    All: Select<Args>,
    F: Function<Args, Output: Tree + Send + Sync + 'static> + 'f,
    B: Function<Backward<Args, F::Output>, Output = <All as Select<Args>>::Gradient> + 'f,
{
    Args::transformed(WithVjp { f, backward, location: Location::caller(), arguments: PhantomData })
}

//! Implements `vmap`: maps a function over many lanes.

mod axes;
mod ensemble;

pub use axes::{Axes, IntoLanes};
pub use ensemble::{Member, vmap_cells};

use super::call::closure;
use super::call::jit::{call_compiled, site};
use super::call::{JitFn, JitReturn};
use super::context;
use crate::session::{Function, TracedArguments, Transform, Transformed};
use axes::{Seen, place};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result, in_call};
use ms_ops::ops::{self, Control, Lane};
use ms_ops::tensor::{Dim, Parameter, Tensor, Type, is_host_only};
use ms_trace::trace::{Arg, Sink, Tracer, Tree, run_nested, type_key};
use smallvec::smallvec;
use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;

/// The transform behind [`vmap`].
pub struct Vmap<F> {
    f: F,
    in_axes: Axes,
    out_axes: Axes,
    /// The parameters of a list of cells, by their position in a cell, one for each lane.
    stacks: Vec<Vec<Parameter>>,
    /// The table of versions, for a function without captures.
    function: Option<&'static JitFn>,
    location: &'static Location<'static>,
}

/// Maps `f` over many lanes. Called with arguments that have one more axis, it returns, for each position along it, the
/// result of `f`, with the axis in the results. It is one compiled program, in which every op works on all lanes at
/// once.
///
/// ```
/// use ms_core::{Tensor, ops, session::vmap};
/// let dot = |x: &Tensor, y: &Tensor| ops::matmul(x, y);
/// let (rows, y) = (Tensor::from_slice([2, 2], &[1.0f32, 2.0, 3.0, 4.0]), Tensor::from_slice([2], &[1.0f32, 10.0]));
/// assert_eq!(vmap(dot).in_axes((0, None))(&rows, &y).to_vec::<f32>(), [21.0, 43.0]);
/// ```
///
/// `vmap` nests with itself, `grad` and `jit` in any order. Where lanes take different branches, an `if` selects for
/// each lane, and a `while` runs until the last lane ends. Each lane draws separate random numbers. [`vmap_cells`] maps
/// a list of cells.
///
/// The function is traced, so it must not read values of tensors. A function with captures is traced at every call, so
/// that it sees changes of the captured values. A parameter that is passed as an argument is mapped like one. All
/// others are shared by the lanes, and a value written to one must be the same for all lanes.
///
/// # Errors
/// A call raises [`Code::LaneCount`] when mapped axes have different sizes or there are none, and [`Code::Axes`] when
/// axes do not fit. It raises [`Code::Mapped`] when one value is needed and the lanes differ.
#[track_caller]
pub fn vmap<'f, Args, F>(f: F) -> Args::Transformed<'f, Vmap<F>>
where
    Args: TracedArguments,
    F: Function<Args, Output: JitReturn + 'f> + 'f,
{
    let location = Location::caller();
    let function = (!F::CAPTURES).then(|| site(type_key(&f), location));
    Args::transformed(Vmap { function, ..Vmap::new(f, Vec::new(), location) })
}

impl<'f, Args, F> Transformed<'f, Args, Vmap<F>>
where
    Args: TracedArguments,
    F: Function<Args, Output: JitReturn + 'f> + 'f,
{
    /// Sets the axes of the arguments; default: axis 0 of all. One entry applies to all of them, or there is one for
    /// each.
    pub fn in_axes(self, axes: impl IntoLanes) -> Self {
        Self::new(Vmap { in_axes: axes.into_lanes(), ..self.into_transform() })
    }

    /// Sets the axes of the lanes in the results; default: axis 0 of all. `None` is for a result that is equal for all
    /// lanes.
    pub fn out_axes(self, axes: impl IntoLanes) -> Self {
        Self::new(Vmap { out_axes: axes.into_lanes(), ..self.into_transform() })
    }
}

impl<Args, F> Transform<Args> for Vmap<F>
where
    Args: TracedArguments,
    F: Function<Args, Output: JitReturn>,
{
    type Output = F::Output;
    const CAPTURES: bool = F::CAPTURES;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.f.sign(sink);
        self.in_axes.sign(sink);
        self.out_axes.sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> F::Output {
        if let Some(tracer) = Tracer::current() {
            return self.in_trace(&tracer, arguments).unwrap_or_else(|error| F::Output::refuse(error));
        }
        let here = |arguments: Args::Refs<'_>| <Self as Transform<Args>>::call(self, arguments);
        let Some(function) = self.function.filter(|_| context::read(|it| it.jit)) else {
            let call = || closure::call_closure::<Args, F::Output>("vmap", arguments, here);
            // Errors of a device are reported at the location of this call.
            return if is_host_only() { call() } else { in_call("vmap", None, self.location, call) };
        };
        let sign = |sink: &mut Sink<'_>| <Self as Transform<Args>>::sign(self, sink);
        call_compiled::<Args, _>(function, type_key(&self.f), sign, arguments, here)
    }
}

/// The operands of a node over lanes.
struct Operands {
    /// The tensors, with the lanes as their first axis.
    tensors: Vec<Tensor>,
    size: Dim,
}

impl Operands {
    /// Adds a value with lanes along an axis.
    fn add(&mut self, value: &Tensor, axis: isize) -> Result<usize> {
        let axis = place(axis, value.rank(), "in_axes")?;
        let size = value.dims()[axis];
        if !self.tensors.is_empty() && self.size != size {
            let message = format!("mapped axes of sizes {} and {size}: every lane needs a part of each", self.size);
            let operands = [self.tensors[0].ty().to_string(), value.ty().to_string()];
            return Err(Error::new(Code::LaneCount, message).with_op("vmap").with_operands(operands));
        }
        self.size = size;
        self.tensors.push(ops::move_axis(value, axis as isize, 0));
        Ok(self.tensors.len() - 1)
    }
}

/// A parameter with a separate value for each lane.
enum Slot {
    /// A slot that contains all values along an axis.
    Along(Parameter, isize),
    /// A slot per lane. The first represents all of them in the function.
    Stack(Vec<Parameter>),
}

impl Slot {
    fn parameter(&self) -> &Parameter {
        match self {
            Self::Along(parameter, _) => parameter,
            Self::Stack(parameters) => &parameters[0],
        }
    }

    /// Writes the values of all lanes, along the first axis.
    fn write(&self, tracer: &Tracer, value: &Tensor) -> Result<()> {
        match self {
            Self::Along(parameter, axis) => {
                let axis = place(*axis, value.rank(), "in_axes")?;
                tracer.bind_slot(parameter, &ops::move_axis(value, 0, axis as isize), true)
            }
            Self::Stack(parameters) => parameters
                .iter()
                .enumerate()
                .try_for_each(|(lane, parameter)| tracer.bind_slot(parameter, &value.at(lane as isize), true)),
        }
    }
}

impl<F> Vmap<F> {
    fn new(f: F, stacks: Vec<Vec<Parameter>>, location: &'static Location<'static>) -> Self {
        Self { f, in_axes: Axes::Axis(0), out_axes: Axes::Axis(0), stacks, function: None, location }
    }

    /// Adds the function to the trace as a node.
    fn in_trace<Args>(&self, tracer: &Rc<Tracer>, arguments: Args::Refs<'_>) -> Result<F::Output>
    where
        Args: TracedArguments,
        F: Function<Args, Output: JitReturn>,
    {
        let at = |error: Error| error.at(self.location);
        let seen = Seen::of(|sink| Args::visit(arguments, sink));
        let axes = seen.assign(&self.in_axes, "in_axes", "arguments").map_err(at)?;
        let (operands, tensors, slots) = self.operands(&seen, &axes).map_err(at)?;

        // Inside, the tensors of an argument occur in the order in which they were visited, except those that cannot be
        // substituted.
        let places = seen.arguments();
        let met: Vec<Cell<usize>> = places.map_vec(|_| Cell::new(0));
        let mut refused = None;
        let traced = run_nested(tracer, "vmap", || {
            let lane = |it: &Tensor| {
                let ty = Type::new(it.dtype(), it.dims()[1..].into());
                tracer.named_input(ty, tracer.name_of(it))
            };
            let lanes: Vec<Tensor> = operands.tensors.map_vec(lane);
            let own = operands.tensors.len() - slots.len();
            for (slot, lane) in slots.iter().zip(&lanes[own..]) {
                tracer.bind_slot(slot.parameter(), lane, false)?;
            }
            let mut next = |argument: usize, tensor: &Tensor| {
                let (places, met) = (&places[argument], &met[argument]);
                let behind = &places[met.get()..];
                let Some(skipped) = behind.iter().position(|&it| seen.tensors[it].identity() == tensor.identity())
                else {
                    return tensor.clone();
                };
                met.set(met.get() + skipped + 1);
                tensors[behind[skipped]].map_or_else(|| tensor.clone(), |it| lanes[it].clone())
            };
            match Args::enter(arguments, &mut next, |arguments| self.f.invoke(arguments)).split() {
                Ok(tree) => {
                    let results = ms_trace::trace::leaves(&tree);
                    Ok((tree, results))
                }
                Err(result) => {
                    refused = Some(result);
                    Err(Error::new(Code::Argument, "the function refused"))
                }
            }
        });
        if let Some(result) = refused {
            return Ok(result);
        }
        let (tree, region) = traced?;
        // Lanes are unordered, so their backward functions have no order of writes.
        let region = region.without_backward_writes();
        if ms_trace::trace::leaves(&tree).iter().any(Tensor::is_poisoned) {
            return Ok(F::Output::join(tree.rebuild(&mut |it| tracer.poisoned(it.ty()))));
        }

        let results = Seen::of(|sink| tree.visit(sink));
        let out = results.assign(&self.out_axes, "out_axes", "results").map_err(at)?.tensors;
        let lane_of = |own: bool| if own { Lane::Mapped } else { Lane::Shared };
        let mut lanes: Vec<Lane> = out.map_vec(|it| lane_of(it.is_some()));
        lanes.extend(region.writes.iter().map(|it| match slots.iter().any(|slot| slot.parameter() == it) {
            true => Lane::Mapped,
            false if ops::random::is_state(it) || it == ops::order() => Lane::Max,
            false => Lane::Shared,
        }));
        let mut inputs = operands.tensors;
        let own = vec![Lane::Mapped; inputs.len()];
        let shared = vec![Lane::Shared; region.captures.len()];
        inputs.extend(region.captures);
        let vmap = ops::TransformNode::Vmap { size: operands.size, operands: [own, shared].concat(), results: lanes };
        let mut outputs =
            tracer.control(&Control::TransformNode(vmap), smallvec![region.graph], &inputs, self.location)?;
        let written = outputs.split_off(out.len());
        for (parameter, value) in region.writes.iter().zip(written) {
            match slots.iter().find(|slot| slot.parameter() == parameter) {
                Some(slot) => slot.write(tracer, &value)?,
                None => tracer.bind_slot(parameter, &value, true)?,
            }
        }
        let placed = outputs.into_iter().zip(&out).map(|(value, axis)| match axis {
            Some(axis) => Ok(ops::move_axis(&value, 0, place(*axis, value.rank(), "out_axes").map_err(at)? as isize)),
            None => Ok(value),
        });
        let mut placed = placed.collect::<Result<Vec<Tensor>>>()?.into_iter();
        Ok(F::Output::join(tree.rebuild(&mut |_| placed.next().expect("one for each tensor of the result"))))
    }

    /// Returns the mapped values, first tensors, then parameters; the index of each visited tensor; and the parameters.
    fn operands(&self, seen: &Seen, axes: &axes::Assigned) -> Result<(Operands, Vec<Option<usize>>, Vec<Slot>)> {
        let mut operands = Operands { tensors: Vec::new(), size: Dim::new(0) };
        let mut tensors = vec![None; seen.tensors.len()];
        for (at, axis) in axes.tensors.iter().enumerate() {
            if let Some(axis) = axis {
                tensors[at] = Some(operands.add(&seen.tensors[at], *axis)?);
            }
        }
        let mut slots: Vec<Slot> = Vec::new();
        for (parameter, axis) in seen.parameters.iter().zip(&axes.parameters) {
            let known = slots.iter().any(|it| it.parameter() == parameter);
            if let (Some(axis), false) = (axis, known) {
                operands.add(&parameter.value(), *axis)?;
                slots.push(Slot::Along(parameter.clone(), *axis));
            }
        }
        for stack in &self.stacks {
            let values: Vec<Tensor> = stack.map_vec(Parameter::value);
            operands.add(&ops::stack(&values, 0), 0)?;
            slots.push(Slot::Stack(stack.clone()));
        }
        if operands.tensors.is_empty() {
            let message = "nothing is mapped: there is no number of lanes";
            let help = "give at least one argument an axis in `in_axes`";
            return Err(Error::new(Code::LaneCount, message).with_op("vmap").help(help));
        }
        Ok((operands, tensors, slots))
    }
}

//! Executes ops eagerly: one op at a time, through the same kernels as compiled graphs.
//!
//! Views and constants run no code. Every other op is one [step](eager::Step), or, if its result consists of its
//! operands, one step for each of them. A step's code is looked up by a key without extents and strides ([`step`]). For
//! recent ops on the same layouts it is known without a key ([`repeat`]). Two fast paths have separate tables with
//! shorter keys.

mod fast_path;
mod gather;
mod origin;
mod repeat;
mod step;
#[cfg(test)]
mod tests;

use crate::session::context::settings;
use crate::session::devices::{self, Submission};
use ms_compile::exec::{self, Backend, Work};
use ms_compile::lower::eager::{self, Source, StepKey};
use ms_ir::error::{Result, in_op};
use ms_ops::ops::host::check_positions;
use ms_ops::ops::{self, Body, Effects, Lowering, OpDef, SliceRule, Types};
use ms_ops::tensor::{
    Array, Device, DispatchMode, Dispatcher, EagerDispatcher, Eagerly, HostNumber, Layout, MemorySpace, OpCall,
    Outputs, Parameter, StreamKind, Tensor, Type, Value, dispatch_mode, is_host_only, with_dispatcher, with_stream,
};
use ms_trace::trace::check_write;
use origin::Applied;
pub(super) use origin::in_composite;
use smallvec::SmallVec;
use std::rc::Rc;
use std::slice;
use step::{Ready, ready};

/// Executes ops one by one.
struct Eager;

inventory::submit! { EagerDispatcher(&Eager) }

/// The operands of an op.
#[derive(Default)]
struct Operands<'a> {
    /// The operands in memory, in order.
    arrays: Arrays<'a>,
    /// The host scalars, in order, with their operand numbers.
    numbers: SmallVec<[(usize, &'a HostNumber); 3]>,
}

type Arrays<'a> = SmallVec<[&'a Array; 3]>;

impl<'a> Operands<'a> {
    /// Appends the values of tensors.
    #[inline]
    fn extend(&mut self, inputs: &[&'a Tensor]) -> Result<()> {
        for (at, input) in inputs.iter().enumerate() {
            match input.as_value()? {
                Value::Array(array) => self.arrays.push(array),
                Value::Number(number) => self.numbers.push((at, number)),
            }
        }
        Ok(())
    }

    /// Returns all operands, in order.
    fn values(&self) -> SmallVec<[Value<'a>; 3]> {
        let mut values: SmallVec<[Value<'a>; 3]> = self.arrays.iter().map(|it| Value::Array(it)).collect();
        self.numbers.iter().for_each(|&(at, number)| values.insert(at, Value::Number(number)));
        values
    }

    /// Returns all operands as arrays, in order.
    fn to_arrays(&self) -> Arrays<'a> {
        self.values().into_iter().map(Value::to_array).collect()
    }

    /// Returns the bits of the host scalars.
    fn bits(&self) -> SmallVec<[u64; 3]> {
        self.numbers.iter().map(|it| it.1.bits()).collect()
    }
}

fn infer(def: &OpDef, call: &OpCall<'_>) -> Result<Types> {
    let types: SmallVec<[Type; 3]> = call.inputs.iter().map(|it| it.ty()).collect();
    ops::infer(def, call.attrs, &[], &types.iter().collect::<SmallVec<[&Type; 3]>>())
}

/// Returns the result of an op on arrays in host memory that needs no loop nest.
#[inline(always)]
fn run_fast(backend: &dyn Backend, def: &'static OpDef, call: &OpCall<'_>, operands: &Operands<'_>) -> Option<Tensor> {
    match def.lowering {
        Lowering::Map(_) => fast_path::map(backend, def, call, operands),
        Lowering::Gather(axis) => gather::dense(backend, def, operands, axis(call.attrs)),
        _ => None,
    }
}

/// Runs the body of a composite, op by op, and returns its results.
#[inline(never)]
fn run_body(body: Body, call: &OpCall<'_>) -> Result<Outputs> {
    let run = || in_composite(call, || ops::unwatched(|| ops::apply_body(call, body)));
    match dispatch_mode() {
        DispatchMode::Eager => run(),
        DispatchMode::Tape | DispatchMode::Trace => with_dispatcher(Rc::new(Eagerly), run),
    }
}

/// Returns whether a composite is legal on the host's backend for these operands.
fn is_kept(def: &'static OpDef, call: &OpCall<'_>, operands: &Operands<'_>) -> bool {
    let keeps = |backend: &dyn Backend| {
        let target = backend.target();
        let types = || call.inputs.iter().map(|it| it.ty()).collect::<SmallVec<[Type; 4]>>();
        target.composites.iter().any(|it| it.op == def.op())
            && target.keeps(def.op(), &types().iter().collect::<SmallVec<[&Type; 4]>>(), settings().precision)
    };
    operands.arrays.iter().all(|it| it.space().is_host()) && exec::host_backend().is_some_and(|it| keeps(&**it))
}

/// Runs an op on the device of the operands. The results are unshared arrays.
fn run(def: &'static OpDef, call: &OpCall<'_>, operands: &Operands<'_>) -> Result<Outputs> {
    if let Lowering::Composite(_) = def.lowering
        && let Some(body) = ops::transform_rules(def).composite()
        && !is_kept(def, call, operands)
    {
        return run_body(body, call);
    }
    if is_host_only() {
        return run_in(exec::host_backend().map(|it| &**it), def, call, operands);
    }
    let (device, arrays) = devices::gathered(&operands.arrays, |_| false)?;
    let numbers = operands.numbers.iter().map(|&(at, number)| (at, number)).collect();
    let operands = Operands { arrays: arrays.iter().collect(), numbers };
    if device.is_cpu() {
        let backend = exec::host_backend().map(|it| &**it);
        let run = || match backend.and_then(|it| run_fast(it, def, call, &operands)) {
            Some(out) => Ok(Outputs::from_buf([out])),
            None => run_in(backend, def, call, &operands),
        };
        return recorded(def, call, run);
    }
    let backend = &**exec::backend(device)?;
    let submit = || {
        Submission::make(
            backend.memory(),
            || Applied::new(call),
            |work| {
                work.reads(&arrays)?;
                let mut outputs = run_in(Some(backend), def, call, &operands)?;
                if def.effects.any_of(Effects::ORDERED) {
                    // The stream defines the order, so the work after a failed op does not need its token.
                    outputs[0] = Tensor::from_array(arrays[0].clone());
                }
                work.submitted(&arrays, outputs.iter().filter_map(Tensor::as_array), &[])?;
                Ok(outputs)
            },
        )
    };
    recorded(def, call, || {
        let outputs = submit()?;
        if let (true, MemorySpace::Device(memory)) = (exec::is_watched(), backend.memory()) {
            with_stream(memory, StreamKind::Compute, |stream| memory.wait(memory.fence(stream)))?;
        }
        Ok(outputs)
    })
}

/// Runs an op, and records it if this thread is profiled and the op is not only a view or a constant.
fn recorded(def: &'static OpDef, call: &OpCall<'_>, run: impl FnOnce() -> Result<Outputs>) -> Result<Outputs> {
    if let Lowering::Constant(_) | Lowering::View(_) = def.lowering {
        return run();
    }
    let what = |outputs: &Outputs| {
        let operands: SmallVec<[Type; 3]> = call.inputs.iter().map(|it| it.ty()).collect();
        let operands: SmallVec<[&Type; 3]> = operands.iter().collect();
        let results: SmallVec<[Type; 1]> = outputs.iter().map(Tensor::ty).collect();
        let work = Work::of_op(call.op, call.attrs, &operands, &results);
        (exec::op_name(call.op, &operands), work, Some(call.location.to_string()))
    };
    exec::record_op(what, run)
}

/// Implements [`run`] on operands in the memory of a backend, or, without one, of the host.
fn run_in(
    backend: Option<&dyn Backend>,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    match (&def.lowering, backend) {
        (Lowering::Map(_), Some(backend)) => {
            let out = in_op(|| one_step(backend, def, call, operands))?;
            Ok(Outputs::from_buf([Tensor::from_array(out)]))
        }
        _ => run_others(backend, def, call, operands),
    }
}

/// Implements [`run_any`] with host scalars copied to memory.
fn run_others(
    backend: Option<&dyn Backend>,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    let outputs = in_op(|| {
        if operands.numbers.is_empty() {
            return run_any(backend, def, call, operands);
        }
        let space = backend.map_or(MemorySpace::Host, Backend::memory);
        let arrays = operands.to_arrays().into_iter().map(|it| it.to_space(space));
        let arrays: SmallVec<[Array; 3]> = arrays.collect::<Result<_>>()?;
        if let MemorySpace::Device(memory) = space {
            // Another stream copies the scalars.
            with_stream(memory, StreamKind::Compute, |it| {
                arrays.iter().try_for_each(|x| x.storage().await_written(it))
            })?;
        }
        run_any(backend, def, call, &Operands { arrays: arrays.iter().collect(), ..Operands::default() })
    })?;
    Ok(outputs.into_iter().map(Tensor::from_array).collect())
}

/// Implements [`run`] for ops that are not elementwise, on arrays in the memory of a backend, or, without one, of the
/// host.
fn run_any(
    backend: Option<&dyn Backend>,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Result<SmallVec<[Array; 1]>> {
    if let Some(backend) = backend.filter(|_| is_one_step(def)) {
        return Ok(SmallVec::from_iter([one_step(backend, def, call, operands)?]));
    }
    let operands = &operands.arrays;
    let types = infer(def, call)?;
    let space = backend.map_or(MemorySpace::Host, Backend::memory);
    match &def.lowering {
        Lowering::Constant(data) => return Ok(SmallVec::from_iter([data(call.attrs).to_array().to_space(space)?])),
        Lowering::View(view) => {
            let dense;
            let (array, layout) = match view(call.attrs, operands[0].layout()) {
                Some(layout) => (operands[0], layout),
                None => {
                    dense = contiguous(backend, operands[0])?;
                    let layout = view(call.attrs, dense.layout()).expect("a row-major operand has every view");
                    (&dense, layout)
                }
            };
            return Ok(SmallVec::from_iter([array.with_layout(layout)]));
        }
        _ => {}
    }
    let Some(backend) = backend else {
        return (def.eval)(call.attrs, operands);
    };
    let mut outputs: SmallVec<[Array; 1]> = SmallVec::with_capacity(types.len());
    for ty in &types {
        let shape = ty.shape().expect("arrays have constant shapes");
        // SAFETY: steps write every element of their results (the slices of a result cover it), or return an error.
        outputs.push(unsafe { Array::uninit_in(space, &shape, ty.dtype)? });
    }
    match &def.lowering {
        Lowering::Slices(rule) => slices(backend, *rule, call, operands, &outputs[0])?,
        Lowering::Position(_) => positions(backend, def, call, operands, &outputs[0])?,
        _ => {
            let ready = ready(backend, &StepKey::whole(def, call.attrs, operands, settings().precision))?;
            // SAFETY: the op's type rule accepted the operands and returned the types of the outputs. These are fresh,
            // so they are not shared.
            unsafe { ready.code.run(&[], operands, &outputs)? };
        }
    }
    Ok(outputs)
}

/// Returns an array, or a row-major copy of a strided view, in the same memory.
pub(super) fn contiguous(backend: Option<&dyn Backend>, array: &Array) -> Result<Array> {
    let backend = match backend {
        _ if array.layout().is_contiguous() => return Ok(array.clone()),
        Some(backend) if !array.space().is_host() => backend,
        _ => return Ok(array.on_host()?.to_contiguous()),
    };
    // SAFETY: the kernel writes every element before the array is returned.
    let out = unsafe { Array::uninit_in(array.space(), array.shape(), array.dtype())? };
    if out.numel() > 0 {
        let call = eager::prepare_copy(array.layout(), array.dtype());
        let ready = ready(backend, &call.key)?;
        // SAFETY: the call was prepared for this operand, which is live, and this fresh result.
        unsafe { ready.launch(&call, [array.device_ptr() as u64], &[], out.device_ptr())? };
    }
    Ok(out)
}

/// Fails if indices of a gather are out of range. On a device this is a step before the gather.
fn check(backend: &dyn Backend, axis: usize, operands: &Arrays<'_>) -> Result<()> {
    if backend.memory().is_host() {
        return check_positions(operands[1], axis, operands[0].shape());
    }
    let ready = ready(backend, &StepKey::Check { axis })?;
    // SAFETY: the arrays have the types of the check and are live during the call; there are no results.
    unsafe { ready.code.run(&[], operands, &[]) }
}

/// Runs an op of [`Lowering::Position`].
fn positions(
    backend: &dyn Backend,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Arrays<'_>,
    out: &Array,
) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let scalar = Layout::contiguous(&[]);
    let (mut described, mut addresses) = (SmallVec::<[_; 3]>::new(), SmallVec::<[u64; 4]>::new());
    // The address of an iota's first element.
    addresses.push(0);
    for operand in operands {
        for offset in operand.layout().offsets() {
            described.push((&scalar, operand.dtype()));
            addresses.push(operand.storage().device_ptr() as u64 + (offset * operand.dtype().size()) as u64);
        }
    }
    let prepared = eager::prepare(def, call.attrs, &described, &out.ty(), settings().precision);
    let prepared = prepared.expect("arrays have constant shapes");
    let ready = ready(backend, &prepared.key)?;
    // SAFETY: the call was prepared for elements of these operands, which are live, and for this fresh result.
    unsafe { ready.launch(&prepared, addresses, &[], out.device_ptr()) }
}

/// Returns whether an op is one kernel or one contraction.
fn is_one_step(def: &OpDef) -> bool {
    use Lowering::{Contraction, Gather, Generate, Map, Reduce};
    matches!(def.lowering, Contraction(_) | Gather(_) | Generate(_) | Map(_) | Reduce(_))
}

/// Runs an op that [is one step](is_one_step) on operands of any layout.
fn one_step(backend: &dyn Backend, def: &'static OpDef, call: &OpCall<'_>, operands: &Operands<'_>) -> Result<Array> {
    let in_range = || match def.lowering {
        Lowering::Gather(axis) => check(backend, axis(call.attrs), &operands.arrays),
        _ => Ok(()),
    };
    if let Some(known) = repeat::find(backend, call, operands) {
        in_range()?;
        return known.run(backend, operands);
    }
    let ty = infer(def, call)?.remove(0);
    in_range()?;
    let shape = ty.shape().expect("arrays have constant shapes");
    // SAFETY: the step writes every element of its result before it is returned.
    let out = unsafe { Array::uninit_in(backend.memory(), &shape, ty.dtype)? };
    // A loop around an empty one takes time, too.
    if out.numel() == 0 {
        return Ok(out);
    }
    if let Lowering::Contraction(_) = def.lowering {
        let ready = ready(backend, &StepKey::whole(def, call.attrs, &operands.arrays, settings().precision))?;
        // SAFETY: the type rule accepted the operands, which are live, and returned the type of the fresh result.
        unsafe { ready.code.run(&[], &operands.arrays, slice::from_ref(&out))? };
        repeat::insert(backend, call, operands, &out, None, ready);
        return Ok(out);
    }
    if let Some(prepared) = prepare(def, call, operands, &ty) {
        let ready = ready(backend, &prepared.key)?;
        // SAFETY: the call was prepared for these operands, which are live, and this fresh result.
        unsafe { ready.launch(&prepared, addresses(&operands.arrays), &operands.bits(), out.device_ptr())? };
        repeat::insert(backend, call, operands, &out, Some(prepared), ready);
        return Ok(out);
    }
    // Some reductions, which have no host scalars, need a row-major operand to preserve their order of terms.
    let dense: SmallVec<[Array; 3]> =
        operands.arrays.iter().map(|it| contiguous(Some(backend), it)).collect::<Result<_>>()?;
    let dense = Operands { arrays: dense.iter().collect(), ..Operands::default() };
    let prepared = prepare(def, call, &dense, &ty).expect("row-major operands have a nest");
    let ready = ready(backend, &prepared.key)?;
    // SAFETY: the call was prepared for these row-major operands, which are live, and this fresh result.
    unsafe { ready.launch(&prepared, addresses(&dense.arrays), &[], out.device_ptr())? };
    Ok(out)
}

/// Prepares the call of an op that is one kernel, with a result of type `out`. Returns `None` if its operands must be
/// row-major.
fn prepare(def: &'static OpDef, call: &OpCall<'_>, operands: &Operands<'_>, out: &Type) -> Option<eager::Call> {
    if let Lowering::Map(_) = def.lowering {
        let sources = operands.values().into_iter().map(|it| match it {
            Value::Array(array) => Source::Memory(array.layout(), array.dtype()),
            Value::Number(number) => Source::Number(number.dtype()),
        });
        return eager::prepare_map(def, call.attrs, &sources.collect::<SmallVec<[Source<'_>; 3]>>(), out);
    }
    let described: SmallVec<[_; 3]> = operands.arrays.iter().map(|it| (it.layout(), it.dtype())).collect();
    eager::prepare(def, call.attrs, &described, out, settings().precision)
}

/// Writes each operand to its slice of the result.
fn slices(backend: &dyn Backend, rule: SliceRule, call: &OpCall<'_>, operands: &Arrays<'_>, out: &Array) -> Result<()> {
    let shapes: SmallVec<[&[usize]; 3]> = operands.iter().map(|it| it.shape()).collect();
    let slices = rule(call.attrs, &shapes, out.layout());
    let moves_as = |a: &Layout, b: &Layout| a.shape() == b.shape() && a.strides() == b.strides();
    // Usually all operands have the same loops.
    let mut last: Option<(&Layout, &Layout, eager::Call, Ready)> = None;
    for (&operand, slice) in operands.iter().zip(&slices).filter(|it| it.0.numel() != 0) {
        let layout = operand.layout();
        let known = last.take().filter(|it| moves_as(it.0, layout) && moves_as(it.1, slice));
        let (.., call, ready) = last.insert(match known {
            Some(known) => known,
            None => {
                let prepared = eager::prepare_write(layout, slice, out.dtype());
                let ready = ready(backend, &prepared.key)?;
                (layout, slice, prepared, ready)
            }
        });
        let first = out.device_ptr().wrapping_add(slice.offset() * out.dtype().size());
        // SAFETY: the loops were prepared for this operand, which is live, and for this slice of the fresh result.
        unsafe { ready.launch(call, [operand.device_ptr() as u64], &[], first)? };
    }
    Ok(())
}

/// Returns the addresses of the first elements of operands.
fn addresses(operands: &Arrays<'_>) -> impl Iterator<Item = u64> {
    operands.iter().map(|it| it.device_ptr() as u64)
}

impl Dispatcher for Eager {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let def = ops::definition(call.op);
        let mut operands = Operands::default();
        let valid = operands.extend(call.inputs);
        if valid.is_ok()
            && is_host_only()
            && let Some(backend) = exec::host_backend()
            && let Some(out) = run_fast(&**backend, def, &call, &operands)
        {
            if ops::is_float_status_watched() {
                ops::watch_results(out.as_array())?;
            }
            return Ok(Outputs::from_buf([out]));
        }
        match valid.and_then(|()| run(def, &call, &operands)) {
            Ok(outputs) => {
                if ops::is_float_status_watched() {
                    ops::watch_results(outputs.iter().filter_map(Tensor::as_array))?;
                }
                Ok(outputs)
            }
            Err(error) => {
                let error = error.with_op(def.name()).at(call.location);
                // A tensor that has left its trace is reported regardless of the other operands.
                if call.inputs.iter().any(|it| it.is_traced()) {
                    return Err(error);
                }
                Err(error.with_operands(call.inputs.iter().map(|it| it.ty().to_string())))
            }
        }
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        Ok(parameter.load())
    }

    fn place(&self, array: Array, device: Option<Device>) -> Result<Array> {
        array.to_space(devices::space(device.unwrap_or(settings().device))?)
    }

    #[track_caller]
    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        value.array().map_err(|error| error.with_op("assign"))?;
        parameter.try_store(value.clone()).or_else(|value| check_write(&parameter.load().ty(), &value))
    }

    #[track_caller]
    fn advance_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        if !is_host_only() {
            devices::keep_old_values([(parameter.load(), value)])?;
        }
        self.write_parameter(parameter, value)
    }
}

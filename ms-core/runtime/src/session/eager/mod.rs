//! Executes ops eagerly: one op at a time, through the same kernels as compiled graphs.
//!
//! The way of an op is `apply` → [`run`] → [`table::find`] → [`Step::run`]. A composite runs as the ops of its body,
//! and an op on a device passes [`submit`] before `run`.
//!
//! - A [`Step`] is an op prepared for operands of a [`Key`]. The [table](table) has the steps of recent ops.
//! - Steps of the same class share compiled [code](code), whose key has no extents and strides.
//! - Views and constants run no code. A result that consists of its operands is a copy of each of them.

mod check;
mod code;
mod key;
mod origin;
mod step;
mod table;
#[cfg(test)]
mod tests;
mod whole;

use crate::session::context::settings;
use crate::session::devices::{self, Submission};
use code::{Ready, ready};
use key::{Key, moves_as};
use ms_compile::exec::{self, Backend, Work};
use ms_compile::lower::eager::{self, EagerOp, OperandClass, Source};
use ms_ir::error::{Error, Result, in_op};
use ms_ops::ops::{self, Body, Effects, Lowering, OpDef, SliceRule, Types};
use ms_ops::tensor::{
    Array, Device, DispatchMode, Dispatcher, EagerDispatcher, Eagerly, HostScalar, Layout, MemorySpace, OpCall,
    Outputs, Parameter, StreamKind, Tensor, Type, Value, dispatch_mode, is_host_only, with_dispatcher, with_stream,
};
use ms_trace::trace::check_write;
use origin::Applied;
pub(super) use origin::in_composite;
use smallvec::SmallVec;
use std::rc::Rc;
use step::Step;

/// Executes ops one by one.
struct Eager;

inventory::submit! { EagerDispatcher(&Eager) }

/// The operands of an op.
#[derive(Default)]
struct Operands<'a> {
    /// The operands in memory, in order.
    arrays: Arrays<'a>,
    /// The host scalars, in order, with their operand numbers.
    numbers: SmallVec<[(usize, &'a HostScalar); 3]>,
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

    /// Returns all operands as arrays in `space`, in order.
    ///
    /// # Errors
    /// The errors of copying the host scalars.
    fn to_arrays(&self, space: MemorySpace) -> Result<SmallVec<[Array; 3]>> {
        let mut arrays: SmallVec<[Array; 3]> = self.arrays.iter().map(|&it| it.clone()).collect();
        for &(at, number) in &self.numbers {
            arrays.insert(at, Value::Number(number).to_array().to_space(space)?);
        }
        if let MemorySpace::Device(memory) = space {
            // Another stream copies the scalars.
            with_stream(memory, StreamKind::Compute, |it| {
                arrays.iter().try_for_each(|x| x.storage().await_written(it))
            })?;
        }
        Ok(arrays)
    }

    /// Returns all operands as those of an elementwise kernel, in order. `layout` returns the layout of an array.
    fn sources<'l>(&self, layout: &dyn Fn(usize) -> &'l Layout) -> SmallVec<[Source<'l>; 3]> {
        let mut sources = SmallVec::new();
        for (i, array) in self.arrays.iter().enumerate() {
            sources.push(Source::Memory(layout(i), array.dtype()));
        }
        for &(at, number) in &self.numbers {
            sources.insert(at, Source::Number(number.dtype()));
        }
        sources
    }

    /// Returns the op on operands of these classes.
    fn eager_op(&self, call: &OpCall<'_>) -> EagerOp {
        let class = |array: &&Array| match array.layout().is_contiguous() {
            true => OperandClass::Dense(array.dtype()),
            false => OperandClass::Strided(array.dtype()),
        };
        let mut operands: Vec<OperandClass> = self.arrays.iter().map(class).collect();
        self.numbers.iter().for_each(|it| operands.insert(it.0, OperandClass::Number(it.1.dtype())));
        EagerOp { op: call.op, attrs: call.attrs.clone(), operands, precision: settings().precision }
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

/// Runs the body of a composite, op by op, and returns its results.
#[inline(never)]
fn expand(body: Body, call: &OpCall<'_>) -> Result<Outputs> {
    let run = || in_composite(call, || ops::unmonitored(|| ops::apply_body(call, body)));
    match dispatch_mode() {
        DispatchMode::Eager => run(),
        DispatchMode::Tape | DispatchMode::Trace => with_dispatcher(Rc::new(Eagerly), run),
    }
}

/// Returns whether a composite is legal on the device of these operands.
fn is_kept(def: &'static OpDef, call: &OpCall<'_>, operands: &Operands<'_>) -> bool {
    let keeps = |backend: &dyn Backend| {
        let target = backend.target();
        let types = || call.inputs.iter().map(|it| it.ty()).collect::<SmallVec<[Type; 4]>>();
        target.composites.iter().any(|it| it.op == def.op())
            && target.keeps(def.op(), &types().iter().collect::<SmallVec<[&Type; 4]>>(), settings().precision)
    };
    let Some(first) = operands.arrays.first().filter(|_| !is_host_only()) else {
        return host().is_some_and(keeps);
    };
    let device = first.device();
    // Operands on several devices are refused, with or without the body.
    operands.arrays.iter().all(|it| it.device() == device) && exec::backend(device).is_ok_and(|it| keeps(&**it))
}

/// Returns the backend of the host, if one is linked.
#[inline]
fn host() -> Option<&'static dyn Backend> {
    exec::host_backend().map(|it| &**it)
}

/// Runs an op on the device of its operands, in a process that uses more than the host. An op on a device with a queue
/// is submitted.
#[inline(never)]
fn submit(def: &'static OpDef, call: &OpCall<'_>, operands: &Operands<'_>) -> Result<Outputs> {
    let (device, arrays) = devices::gathered(&operands.arrays, |_| false)?;
    let operands = Operands { arrays: arrays.iter().collect(), numbers: operands.numbers.iter().copied().collect() };
    if device.is_cpu() {
        return recorded(def, call, || run(host(), MemorySpace::Host, def, call, &operands));
    }
    let backend = &**exec::backend(device)?;
    let submit = || {
        Submission::make(
            backend.memory(),
            || Applied::new(call),
            |work| {
                work.reads(&arrays)?;
                let mut outputs = match backend.target().kernels {
                    true => run(Some(backend), backend.memory(), def, call, &operands)?,
                    false => whole::run(backend, backend.memory(), def, call, &operands)?,
                };
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

/// Runs an op on operands in `space`, the memory of a backend or, without one, of the host. The results are unshared
/// arrays.
#[inline]
fn run(
    backend: Option<&dyn Backend>,
    space: MemorySpace,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    let backend = match (backend, &def.lowering) {
        // Only elementwise kernels take host scalars as immediates.
        (Some(backend), Lowering::Map(_)) => backend,
        _ if !operands.numbers.is_empty() => return run_on_arrays(backend, space, def, call, operands),
        (None, _) | (_, Lowering::Constant(_) | Lowering::View(_)) => {
            return run_without_step(backend, space, def, call, &operands.arrays);
        }
        (Some(backend), _) => backend,
    };
    let key = Key::new(space.device(), def, call, operands);
    let entry = match table::find(&key, operands) {
        Some(entry) => entry,
        None => table::insert(&key, operands, Step::prepare(backend, def, call, &key, operands)?),
    };
    match &entry.step {
        Step::Apart => run_without_step(Some(backend), space, def, call, &operands.arrays),
        step => step.run(backend, space, &key, operands),
    }
}

/// Implements [`run`] with the host scalars copied to memory.
#[inline(never)]
fn run_on_arrays(
    backend: Option<&dyn Backend>,
    space: MemorySpace,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Operands<'_>,
) -> Result<Outputs> {
    let arrays = in_op(|| operands.to_arrays(space))?;
    run(backend, space, def, call, &Operands { arrays: arrays.iter().collect(), ..Operands::default() })
}

/// Implements [`run`] for ops that have no step, and for all ops without a backend.
#[inline(never)]
fn run_without_step(
    backend: Option<&dyn Backend>,
    space: MemorySpace,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Arrays<'_>,
) -> Result<Outputs> {
    let outputs = in_op(|| {
        let types = infer(def, call)?;
        let array = match (&def.lowering, backend) {
            (Lowering::Constant(data), _) => data(call.attrs).to_array().to_space(space)?,
            (Lowering::View(view), _) => match view(call.attrs, operands[0].layout()) {
                Some(layout) => operands[0].with_layout(layout),
                None => {
                    let dense = contiguous(backend, operands[0])?;
                    let layout = view(call.attrs, dense.layout()).expect("a row-major operand has every view");
                    dense.with_layout(layout)
                }
            },
            (Lowering::Slices(rule), Some(backend)) => slices(backend, *rule, call, operands, &types[0])?,
            (Lowering::Position(_), Some(backend)) => positions(backend, def, call, operands, &types[0])?,
            _ => return (def.eval)(call.attrs, operands),
        };
        Ok(SmallVec::from_iter([array]))
    })?;
    Ok(outputs.into_iter().map(Tensor::from_array).collect())
}

/// Checks that the target of a backend runs an op that is a separate step.
///
/// # Errors
/// See [`check_op`](ms_compile::target::Target::check_op).
fn check_op(backend: &dyn Backend, def: &'static OpDef, operands: &Arrays<'_>) -> Result<()> {
    let types: SmallVec<[Type; 4]> = operands.iter().map(|it| it.ty()).collect();
    let types: SmallVec<[&Type; 4]> = types.iter().collect();
    backend.target().check_op(def.op(), &types, settings().precision)
}

/// Allocates a result.
///
/// # Errors
/// The errors of the device.
///
/// # Safety
/// Every element is written before it is read.
unsafe fn uninit(backend: &dyn Backend, ty: &Type) -> Result<Array> {
    let shape = ty.shape().expect("arrays have constant shapes");
    // SAFETY: every element is written before it is read, by this function's contract.
    unsafe { Array::uninit_in(backend.memory(), &shape, ty.dtype) }
}

/// Returns an array, or a row-major copy of a strided view, in the same memory.
pub(super) fn contiguous(backend: Option<&dyn Backend>, array: &Array) -> Result<Array> {
    let backend = match backend {
        _ if array.layout().is_contiguous() => return Ok(array.clone()),
        Some(backend) if !backend.target().kernels => return whole::copy(backend, array),
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

/// Returns the result of an op of [`Lowering::Position`].
fn positions(
    backend: &dyn Backend,
    def: &'static OpDef,
    call: &OpCall<'_>,
    operands: &Arrays<'_>,
    ty: &Type,
) -> Result<Array> {
    // SAFETY: the kernel below writes every element of the result.
    let out = unsafe { uninit(backend, ty)? };
    if out.numel() == 0 {
        return Ok(out);
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
    let prepared = eager::prepare(def, call.attrs, &described, ty, settings().precision, backend.target());
    let prepared = prepared.expect("arrays have constant shapes");
    let ready = ready(backend, &prepared.key)?;
    // SAFETY: the call was prepared for elements of these operands, which are live, and for this fresh result.
    unsafe { ready.launch(&prepared, addresses, &[], out.device_ptr())? };
    Ok(out)
}

/// Returns an array that consists of the operands: each is written to its slice.
fn slices(
    backend: &dyn Backend,
    rule: SliceRule,
    call: &OpCall<'_>,
    operands: &Arrays<'_>,
    ty: &Type,
) -> Result<Array> {
    // SAFETY: the slices of a result cover it, and the loop below writes each of them.
    let out = unsafe { uninit(backend, ty)? };
    let shapes: SmallVec<[&[usize]; 3]> = operands.iter().map(|it| it.shape()).collect();
    let slices = rule(call.attrs, &shapes, out.layout());
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
    Ok(out)
}

/// Adds the op and its operands to an error.
#[cold]
#[inline(never)]
fn explained(error: Error, def: &OpDef, call: &OpCall<'_>) -> Error {
    let error = error.with_op(def.name()).at(call.location);
    // A tensor that has left its trace is reported regardless of the other operands.
    if call.inputs.iter().any(|it| it.is_traced()) {
        return error;
    }
    error.with_operands(call.inputs.iter().map(|it| it.ty().to_string()))
}

impl Dispatcher for Eager {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let def = ops::definition(call.op);
        let mut operands = Operands::default();
        // A composite has a body unless it is an op on images, which every backend runs.
        let body = match def.lowering {
            Lowering::Composite(_) => ops::transform_rules(def).composite(),
            _ => None,
        };
        let outputs = operands.extend(call.inputs).and_then(|()| match body {
            Some(body) if !is_kept(def, &call, &operands) => expand(body, &call),
            _ if is_host_only() => run(host(), MemorySpace::Host, def, &call, &operands),
            _ => submit(def, &call, &operands),
        });
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => return Err(explained(error, def, &call)),
        };
        if ops::is_float_status_monitored() {
            ops::monitor_results(outputs.iter().filter_map(Tensor::as_array))?;
        }
        Ok(outputs)
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

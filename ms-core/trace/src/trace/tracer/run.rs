//! Runs code whose ops become a graph.

use super::{Region, Tracer};
use ms_ir::MapVec;
use ms_ir::error::{Result, abandon, collecting};
use ms_ir::{Graph, Type};
use ms_ops::tensor::{Tensor, outside_scopes, with_dispatcher};
use std::rc::Rc;

/// Runs `body` with `tracer` as the dispatcher. Returns `None` if it is abandoned, with the errors recorded in the
/// tracer.
pub fn run_traced<R>(tracer: &Rc<Tracer>, body: impl FnOnce() -> R) -> Option<R> {
    let (mut body, mut result) = (Some(body), None);
    trace(tracer, &mut || result = body.take().map(|body| body()));
    result
}

// Not generic, so that it is compiled once.
fn trace(tracer: &Rc<Tracer>, body: &mut dyn FnMut()) {
    let (_, errors) = outside_scopes(|| collecting(|| with_dispatcher(tracer.clone(), body)));
    errors.into_iter().for_each(|it| tracer.report(it));
}

/// Runs `body`, which returns a value and the results of a region, inside a region of `tracer`.
///
/// # Errors
/// The errors of `body`, and [`Code::Escaped`](ms_ir::Code::Escaped) for a result of another trace.
pub fn run_nested<R>(
    tracer: &Tracer,
    name: &str,
    body: impl FnOnce() -> Result<(R, Vec<Tensor>)>,
) -> Result<(R, Region)> {
    run_in(tracer, name, false, body)
}

/// Returns the tensors of a region's result. Ends the trace if an op on which they depend has failed, because every use
/// of them would fail again.
pub fn sound(results: Vec<Tensor>) -> Vec<Tensor> {
    if results.iter().any(Tensor::is_poisoned) {
        abandon();
    }
    results
}

/// Runs `body` like [`run_nested`], in a region that runs at another time than the enclosing code. The values of
/// parameters at that time are its own inputs.
///
/// # Errors
/// See [`run_nested`].
pub fn run_with_slots<R>(
    tracer: &Tracer,
    name: &str,
    body: impl FnOnce() -> Result<(R, Vec<Tensor>)>,
) -> Result<(R, Region)> {
    run_in(tracer, name, true, body)
}

fn run_in<R>(
    tracer: &Tracer,
    name: &str,
    own_slots: bool,
    body: impl FnOnce() -> Result<(R, Vec<Tensor>)>,
) -> Result<(R, Region)> {
    /// Abandons the region when `body` unwinds.
    struct Leave<'a>(Option<&'a Tracer>);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            if let Some(tracer) = self.0 {
                tracer.abandon();
            }
        }
    }
    tracer.begin(name, own_slots);
    let mut leave = Leave(Some(tracer));
    let (value, results) = body()?;
    leave.0 = None;
    Ok((value, tracer.pop(&results)?))
}

/// Builds a graph by running `body` on traced inputs of the given types.
///
/// # Errors
/// All errors that were recorded while tracing.
pub fn build(name: &str, inputs: &[Type], body: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Graph> {
    let mut body = Some(body);
    traced_graph(name, inputs, &mut |inputs| body.take().expect("a graph is traced once")(inputs))
}

// Not generic, so that it is compiled once.
fn traced_graph(name: &str, inputs: &[Type], body: &mut dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Graph> {
    let tracer = Tracer::new(name);
    let inputs: Vec<Tensor> = inputs.map_vec(|ty| tracer.input(ty.clone()));
    match run_traced(&tracer, || body(&inputs)) {
        Some(results) => Ok(tracer.finish(&results?)?.graph),
        None => Err(tracer.finish(&[]).err().expect("an early leave records its error")),
    }
}

/// Builds a graph like [`build`] that is derived from `graph`. Its name, and the names of its first inputs, are those
/// of `graph`.
///
/// # Errors
/// See [`build`].
pub fn build_like(
    graph: &Graph,
    inputs: &[Type],
    body: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Graph> {
    let mut built = build(graph.name(), inputs, body)?;
    built.share_input_names(graph);
    Ok(built)
}

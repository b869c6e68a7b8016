//! Calls functions with captures: traced at every call, compiled once for each graph.

use super::JitReturn;
use super::compiled::Compiled;
use crate::session::TracedArguments;
use crate::session::autodiff::tape::Tape;
use crate::session::context;
use ms_ir::error::{OrRaise, Result};
use ms_ops::tensor::Tensor;
use ms_trace::trace::{ArgumentNames, Binding, Tracer, Tree, leaves, run_traced, visited};

/// Traces `body` on the arguments, and runs the graph. The captures of `body` are inputs of the graph, so it is
/// compiled once even if their values change.
pub(crate) fn call_closure<Args: TracedArguments, R: JitReturn>(
    name: &'static str,
    arguments: Args::Refs<'_>,
    body: impl FnOnce(Args::Refs<'_>) -> R,
) -> R {
    let given = visited(|sink| Args::visit(arguments, sink));
    let tracer = Tracer::capturing(name);
    given.iter().for_each(|it| tracer.argument(it, it.ty()));
    tracer.name_arguments(ArgumentNames::of(|sink| Args::visit(arguments, sink)));
    let next = |it: &Tensor| tracer.value(it).or_raise();
    let result = run_traced(&tracer, || Args::enter(arguments, &mut |_, it| next(it), body));
    let template = match result.map(R::split) {
        Some(Ok(tree)) => Some(tree),
        Some(Err(refused)) => return refused,
        None => None,
    };
    match run(&tracer, &given, template) {
        Ok(tree) => R::join(tree),
        Err(error) => R::refuse(error),
    }
}

fn run<T: Tree>(tracer: &Tracer, given: &[Tensor], template: Option<T>) -> Result<T> {
    let results = template.as_ref().map(leaves).unwrap_or_default();
    let trace = tracer.finish(&results)?;
    let template = template.expect("a trace without errors has a result");
    let compiled = |graph| Compiled::shared(graph, context::read(|it| it.precision), None);
    let input = |binding: Binding| match binding {
        Binding::Argument(at) => given[at].clone(),
        Binding::Slot(parameter) => parameter.value(),
        Binding::Captured(tensor) => tensor,
        Binding::Outer(_) => unreachable!("the outermost graph has nothing around it"),
    };
    let inputs: Vec<Tensor> = trace.bindings.into_iter().map(input).collect();
    let outputs = match (Tape::current(), trace.backward_slots) {
        (Some(tape), Some(it)) => {
            tape.call_with_backward_slots(&compiled(it.graph.unwrap_or(trace.graph))?, &it.writes, &it.reads, &inputs)?
        }
        _ => compiled(trace.graph)?.call(&inputs)?,
    };
    drop(inputs);
    let mut outputs = outputs.into_iter();
    let result = template.rebuild(&mut |_| outputs.next().expect("as many results as the template has"));
    trace.writes.iter().zip(outputs).try_for_each(|(parameter, value)| parameter.try_set(&value))?;
    Ok(result)
}

//! Warns of gradients that are zero because every path to the result contains a step function.

use ms_ir::Graph;
use ms_ir::error::{Code, Error, warn_once};
use ms_trace::transform::{StepFunction, hiding};

/// Warns if the first `results` outputs of a graph depend on some of its first `targets` inputs only through step
/// functions.
pub(super) fn warn_of_graph(graph: &Graph, targets: usize, results: usize) {
    let [targets, results] = [targets, results].map(|it| (0..it).collect::<Vec<usize>>());
    hiding(graph, &targets, &results).into_iter().flatten().for_each(warn_of_step);
}

/// Warns once of a step function that hides a value from a derivative.
pub(super) fn warn_of_step(step: StepFunction) {
    warn_once(Code::HiddenByStep, step.location, || {
        let message = "a gradient is zeros: its only way to the result leads through an op that is constant almost \
                       everywhere";
        let help = "where zeros are meant, say so with `ops::stop_gradient(&x)`; where not, use a smooth function, \
                    such as `softmax` in place of `argmax`";
        Error::new(Code::HiddenByStep, message).with_op(step.op.name()).help(help)
    });
}

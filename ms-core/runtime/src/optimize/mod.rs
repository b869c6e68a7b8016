//! The default pipeline of passes.
//!
//! [`ms_compile::optimize`] has the pass manager and the passes that know no op by name. [`ms_trace::passes`] has those
//! that name ops, or trace the graphs which they insert.

pub use ms_compile::optimize::*;
pub use ms_trace::passes::{Algebra, Composites, Layouts, LoopProducts, Views};

use ms_compile::target::Images;
use ms_ir::{Graph, subgraphs};
use ms_trace::passes::has_contracted;

/// Every pass, in the order of the default pipeline. Equal nodes are merged first, so that other passes process each
/// only once. [`Layouts`] runs at the fixpoint of the others, when calls are inlined, and the passes after it in
/// `LAYOUT_PASSES` clean up.
pub static PASSES: &[&dyn Pass] = &[
    &Composites,
    &InlineCustom,
    &Inline,
    &Branches,
    &DeadArguments,
    &Licm,
    &LoopProducts,
    &Cse,
    &ConstantFolding,
    &Algebra,
    &Views,
    &Dce,
    &Layouts,
];

/// The passes of the second part of the pipeline.
static LAYOUT_PASSES: &[&dyn Pass] = &[&Layouts, &Cse, &ConstantFolding, &Algebra, &Views, &Dce];

/// Returns the pass with this name.
pub fn pass_by_name(name: &str) -> Option<&'static dyn Pass> {
    PASSES.iter().copied().find(|it| it.name() == name)
}

/// Runs the default pipeline on a graph and on every graph in it.
///
/// ```
/// use ms_core::{ops, optimize};
/// let graph = ops::parse_graph(
///     "graph @f(%x: f32[2]) -> (f32[2]) {
///        %y = reshape %x {shape = [1, 2]} : f32[1, 2]
///        %z = reshape %y {shape = [2]} : f32[2]
///        return %z
///      }",
/// )?;
/// let graph = optimize::optimize(graph, &optimize::PassContext::default());
/// assert!(graph.is_empty());
/// # Ok::<(), ms_core::Error>(())
/// ```
pub fn optimize(graph: Graph, context: &PassContext) -> Graph {
    optimize_watched(graph, context, &mut |_, _| {}).0
}

/// Optimises like [`optimize`] and passes every graph that a pass changed to `watch`, with the name of the pass.
pub fn optimize_watched(graph: Graph, context: &PassContext, watch: Watch<'_>) -> (Graph, Report) {
    let mut report = Report::default();
    let (_, first) = PASSES.split_last().expect("there are passes");
    let graph = run_passes(graph, first, context, watch, &mut report);
    let has_contracted = |it: &Graph| has_contracted(it, context);
    // Regions are searched only if the target lowers convolutions.
    let images = context.images != Images::default()
        && (has_contracted(&graph) || subgraphs(&graph).into_iter().any(|it| has_contracted(it)));
    let graph = if images { run_passes(graph, LAYOUT_PASSES, context, watch, &mut report) } else { graph };
    (graph, report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_compile::target::Contracted;
    use ms_ops::ops::{AxisOrder, parse_graph};

    fn report(text: &str, images: Images) -> Report {
        let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
        optimize_watched(graph, &PassContext { images, ..PassContext::default() }, &mut |_, _| {}).1
    }

    /// The pass and its cleanup passes run only if a convolution, possibly in a region, is lowered to a contraction.
    #[test]
    fn runs_where_a_convolution_is_a_contraction() {
        let conv = "graph @f(%x: f32[1, 2, 5], %w: f32[3, 2, 3]) -> (f32[1, 3, 3]) {
            %y = conv %x, %w {stride = [1], dilation = [1], before = [0], after = [0], groups = 1} : f32[1, 3, 3]
            return %y
        }";
        let called = "graph @g(%x: f32[1, 2, 5], %w: f32[3, 2, 3]) -> (f32[1, 3, 3]) {
            %y = conv %x, %w {stride = [1], dilation = [1], before = [0], after = [0], groups = 1} : f32[1, 3, 3]
            return %y
        }
        graph @f(%x: f32[1, 2, 5], %w: f32[3, 2, 3]) -> (f32[1, 3, 3]) {
            %y = call_no_inline @g %x, %w : f32[1, 3, 3]
            return %y
        }";
        let pool = "graph @f(%x: f32[1, 2, 5]) -> (f32[1, 2, 5]) {
            %y = permute %x {axes = [0, 2, 1]} : f32[1, 5, 2]
            %z = relu %y : f32[1, 5, 2]
            %u = permute %z {axes = [0, 2, 1]} : f32[1, 2, 5]
            return %u
        }";
        let of = |contracted, order| Images { contracted, order };
        for (text, images, runs) in [
            (conv, Images::default(), false),
            (conv, of(Contracted::None, AxisOrder::ChannelsLast), false),
            (conv, of(Contracted::Patches, AxisOrder::ChannelsFirst), false),
            (conv, of(Contracted::All, AxisOrder::ChannelsFirst), true),
            (called, of(Contracted::All, AxisOrder::ChannelsLast), true),
            (pool, of(Contracted::All, AxisOrder::ChannelsLast), false),
        ] {
            let ran = report(text, images).passes.iter().any(|it| it.name == Layouts.name());
            assert_eq!(ran, runs, "{images:?}, {text}");
        }
    }
}

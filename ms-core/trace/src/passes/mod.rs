//! Optimisation passes that trace the graphs which they insert.

mod composites;
mod layout;
mod loop_products;

pub use composites::Composites;
pub use layout::{Layouts, has_contracted};
pub use loop_products::LoopProducts;

/// The passes of this crate and those that clean up after them, for tests.
#[cfg(test)]
pub(crate) fn optimize(graph: ms_ir::Graph, context: &ms_compile::optimize::PassContext) -> ms_ir::Graph {
    use ms_compile::optimize::{
        Algebra, Branches, ConstantFolding, Cse, Dce, DeadArguments, Inline, InlineCustom, Licm, Views,
    };
    let passes: [&dyn ms_compile::optimize::Pass; 12] = [
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
    ];
    ms_compile::optimize::optimize_with(graph, &passes, context).0
}

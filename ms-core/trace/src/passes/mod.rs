//! Optimisation passes that name ops, or trace the graphs which they insert.

mod algebra;
mod composites;
mod layout;
mod loop_products;
mod views;

pub use algebra::Algebra;
pub use composites::Composites;
pub use layout::{Layouts, has_contracted};
pub use loop_products::LoopProducts;
pub use views::Views;

/// The passes of this crate and those that clean up after them, for tests.
#[cfg(test)]
pub(crate) fn optimize(graph: ms_ir::Graph, context: &ms_compile::optimize::PassContext) -> ms_ir::Graph {
    use ms_compile::optimize::{Branches, ConstantFolding, Cse, Dce, DeadArguments, Inline, InlineCustom, Licm};
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

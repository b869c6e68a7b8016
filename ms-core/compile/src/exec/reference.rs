//! Implements the reference executable, which evaluates every op by its definition.

use super::Executable;
use ms_ir::Graph;
use ms_ir::MapVec;
use ms_ir::data::Array;
use ms_ir::error::{Result, in_op};
use ms_ir::op;
use smallvec::SmallVec;
use std::sync::Arc;

struct Reference(Graph);

/// Returns an executable that evaluates the nodes of a graph in order. It is the fallback without a backend, and the
/// oracle of tests.
pub fn reference(graph: Graph) -> Arc<dyn Executable> {
    Arc::new(Reference(graph))
}

impl Executable for Reference {
    fn run(&self, inputs: &[&Array]) -> Result<SmallVec<[Array; 1]>> {
        in_op(|| {
            let inputs: Vec<Array> = inputs.try_map_vec(|it| Ok(it.on_host()?.to_contiguous()))?;
            let outputs = op::evaluate_graph(&self.0, &inputs.iter().collect::<Vec<_>>())?;
            outputs.iter().map(|it| Ok(it.on_host()?.to_contiguous())).collect()
        })
    }
}

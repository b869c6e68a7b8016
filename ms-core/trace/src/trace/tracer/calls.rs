//! Defines the graphs that calls of a trace share.

use ms_ir::Graph;
use ms_ops::tensor::Parameter;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// The calls of a trace.
#[derive(Default)]
pub(super) struct Calls {
    /// The graphs of traced patterns.
    pub known: FxHashMap<SmallVec<[u64; 24]>, Rc<Known>>,
    /// Distinct graphs by their content.
    pub graphs: FxHashMap<Vec<u8>, Arc<Graph>>,
}

/// A graph that is shared by all calls of a pattern.
pub(super) struct Known {
    pub graph: Arc<Graph>,
    pub inputs: Vec<Source>,
    pub writes: Vec<Slot>,
    /// The parameters that backward functions read and do not write.
    pub backward_reads: Vec<Slot>,
    /// The result. Tensors of a call replace its tensors.
    pub result: Box<dyn Any>,
}

/// The source of an input of a called graph, relative to the call.
pub(super) enum Source {
    Operand(usize),
    Slot(Slot),
}

/// A slot, relative to the call.
pub(super) enum Slot {
    /// A slot of the pattern.
    Own(usize),
    /// A backward slot of the pattern.
    OwnBackward(usize),
    /// A slot that all calls share: the state of random numbers, the token of effects.
    Common(Parameter),
}

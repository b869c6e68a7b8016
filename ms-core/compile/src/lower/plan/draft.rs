//! Defines steps whose buffers have no memory yet.

use crate::lower::fusion::emitted::Emitted;
use crate::lower::rewrites::flat::{Access, Flat, NodeIndex, Origin, ValueIndex};
use ms_ir::MapVec;

/// A step whose buffers have no memory yet.
pub(in crate::lower) enum Draft {
    Kernel(Box<Emitted>),
    /// Independent kernels: none accesses a value that another writes.
    Kernels(Vec<Emitted>),
    /// A contraction with its epilogues, which compute with its result.
    Contraction(NodeIndex, Vec<Emitted>),
    /// A library op with its epilogues, which read its result.
    Library(NodeIndex, Vec<Emitted>),
    /// A product, a library op, or a node with graphs.
    Whole(NodeIndex),
}

/// A value that a step accesses.
pub(in crate::lower) struct Use {
    pub value: ValueIndex,
    /// A value that the step reads and may overwrite with this one.
    pub over: Option<ValueIndex>,
}

impl Draft {
    /// The values that the step accesses. A step that ends what another started also uses the operands of that one.
    pub fn uses(&self, flat: &Flat) -> Vec<Use> {
        let mut uses = Vec::new();
        if let Self::Contraction(node, _) | Self::Library(node, _) = self {
            uses.extend(operands(flat, *node).into_iter().map(|value| Use { value, over: None }));
        }
        let kept = self.kept(flat);
        for emitted in self.kernels() {
            let over = emitted.overwritten(flat, &kept);
            uses.extend(emitted.args.iter().zip(over).map(|(it, over)| Use { value: it.value, over }));
        }
        match self {
            Self::Kernel(_) | Self::Kernels(_) | Self::Library(..) => {}
            Self::Contraction(node, _) => {
                let result = flat.nodes[*node].outputs[0];
                uses.retain(|it| it.value != result);
            }
            Self::Whole(node) => {
                let node = &flat.nodes[*node];
                let updated = flat.updated(node);
                let over = |value| updated.iter().find(|it| it.0 == value).map(|it| it.1);
                let values = node.inputs.iter().filter_map(Access::value).chain(node.outputs.iter().copied());
                uses.extend(values.map(|value| Use { value, over: over(value) }));
                uses.extend(flat.pending(node).map(|value| Use { value, over: None }));
            }
        }
        uses
    }

    /// The values that the step writes.
    pub fn results<'a>(&'a self, flat: &'a Flat) -> Vec<ValueIndex> {
        match self {
            Self::Kernel(_) | Self::Kernels(_) | Self::Contraction(..) => {
                self.kernels().iter().flat_map(Emitted::results).collect()
            }
            Self::Library(node, all) => {
                let own = flat.nodes[*node].outputs.iter().copied();
                own.chain(all.iter().flat_map(Emitted::results)).collect()
            }
            Self::Whole(node) => flat.nodes[*node].outputs.iter().copied().collect(),
        }
    }

    /// Returns the results that the step may write over inputs of the routine, considering only its own reads and
    /// writes.
    pub fn over_inputs(&self, flat: &Flat) -> Vec<OverInput> {
        let over = |result: ValueIndex, operand: ValueIndex| match flat.values[operand].origin {
            Origin::Input(input) => Some(OverInput { result, operand, input }),
            Origin::Constant(_) | Origin::Node(_) | Origin::Position => None,
        };
        if let Self::Whole(node) = self {
            let updated = flat.updated(&flat.nodes[*node]).into_iter();
            return updated.filter_map(|(result, operand)| over(result, operand)).collect();
        }
        let kept = self.kept(flat);
        let of = |emitted: &Emitted| -> Vec<OverInput> {
            let pairs = emitted.overwritable(flat, &kept).into_iter();
            let value = |at: usize| emitted.args[at].value;
            pairs.filter_map(|(result, operand)| over(value(result), value(operand))).collect()
        };
        self.kernels().iter().flat_map(of).collect()
    }

    /// The kernels of the step.
    fn kernels(&self) -> &[Emitted] {
        match self {
            Self::Kernel(it) => std::slice::from_ref(it),
            Self::Kernels(all) | Self::Contraction(_, all) | Self::Library(_, all) => all,
            Self::Whole(_) => &[],
        }
    }

    /// Returns the sorted values that no kernel's result in this step may overwrite. Kernels of a step run in any
    /// order, or on one tile of the result each. So values that several of them access are live throughout. The
    /// operands of an op with epilogues are live while tiles of its result are written. A tile of a library op's result
    /// is dead after its epilogues.
    fn kept(&self, flat: &Flat) -> Vec<ValueIndex> {
        let (kernels, operands) = match self {
            Self::Kernel(_) | Self::Whole(_) => return Vec::new(),
            Self::Kernels(all) => (all, Vec::new()),
            Self::Contraction(node, all) => (all, operands(flat, *node)),
            Self::Library(node, all) => {
                let mut operands = operands(flat, *node);
                operands.truncate(operands.len() - flat.nodes[*node].outputs.len());
                (all, operands)
            }
        };
        let accesses = |(at, it): (usize, &'_ Emitted)| it.args.map_vec(|it| (it.value, at));
        let mut accesses: Vec<(ValueIndex, usize)> = kernels.iter().enumerate().flat_map(accesses).collect();
        accesses.sort_unstable();
        accesses.dedup();
        let several = accesses.windows(2).filter(|it| it[0].0 == it[1].0).map(|it| it[0].0);
        let mut kept: Vec<ValueIndex> = operands.into_iter().chain(several).collect();
        kept.sort_unstable();
        kept
    }
}

/// Returns the operands of an op with epilogues, then its result unless that is a contraction's, which is not
/// materialised.
fn operands(flat: &Flat, node: NodeIndex) -> Vec<ValueIndex> {
    let node = &flat.nodes[node];
    node.inputs.iter().filter_map(Access::value).chain(node.outputs.iter().copied()).collect()
}

/// A result that a step may write over an input of the routine.
pub(in crate::lower) struct OverInput {
    pub result: ValueIndex,
    /// The value of the input.
    pub operand: ValueIndex,
    pub input: u32,
}

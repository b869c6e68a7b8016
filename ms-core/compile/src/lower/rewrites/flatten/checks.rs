//! Lowers the run-time checks of operands: a kernel that records the first refused element, and a step that fails if
//! there is one.

use super::Flatten;
use crate::lower::rewrites::flat::{Access, Accesses, Check, CheckIndex, FlatNode, Kind, Origin, Source, ValueIndex};
use ms_ir::data::{Attr, Attrs, DType, Layout, Literal, Scalar, Shape, Type};
use ms_ir::error::Result;
use ms_ir::op::{Lowering, OpDef, ReduceRule, definition};
use ms_ir::{Graph, MapVec, Node, Reducer, positions};
use smallvec::{SmallVec, smallvec};

/// The reduction of the terms of a check to its record. Its only attribute has all axes.
static FIRST: ReduceRule = ReduceRule {
    axes: |attrs| match attrs.as_slice() {
        [Attr::Ints(axes)] => axes.iter().map(|&it| it as usize).collect(),
        other => unreachable!("the record of a check has axes, not {other:?}"),
    },
    reducer: Reducer::Min,
    accumulate: |dtype| dtype,
};

/// The number of latest checks among which an equal one is searched for.
const RECENT: usize = 16;

impl Flatten<'_> {
    /// Adds the check that an op makes of an operand, unless all elements are known to be accepted.
    pub(super) fn check(&mut self, graph: &Graph, node: &Node, inputs: &Accesses) -> Result<Option<CheckIndex>> {
        let def = definition(node.op);
        let at = def.checked_operand().expect("the op makes a check");
        let operands = node.inputs.map_vec(|&it| graph.ty(it).clone());
        if inputs[at].layout.numel() == 0 || self.is_known_to_pass(def, node, inputs, at) {
            return Ok(None);
        }
        let mut read: Accesses = inputs[at..].iter().map(|it| self.in_memory(it.clone())).collect::<Result<_>>()?;
        if let Some(known) = self.known_check(node, &operands, &read) {
            return Ok(Some(known));
        }
        let record = self.record(def, node, inputs, &read[0])?;
        read.insert(0, record);
        let (check, number) = (self.flat.checks.len(), self.flat.nodes.len());
        self.flat.checks.push(Check { op: node.op, operands, node: number });
        self.add(node, Kind::Check(check), node.attrs.clone(), read, SmallVec::new());
        Ok(Some(check))
    }

    /// Adds the kernel of a check, and returns its record.
    fn record(&mut self, def: &OpDef, node: &Node, inputs: &Accesses, checked: &Access) -> Result<Access> {
        let shape: Shape = checked.layout.shape().into();
        let mut values: Accesses = smallvec![self.positions(&shape), checked.clone()];
        for size in def.check_sizes(&node.attrs, |it| inputs[it].layout.shape()) {
            let layout = Layout::contiguous(&[]).broadcast_to(&shape)?;
            values.push(Access { source: Source::Splat(Scalar::Int(size)), dtype: DType::I64, layout });
        }
        let terms = self.computed(&shape);
        self.add(node, Kind::Map(node.op), node.attrs.clone(), values, smallvec![terms]);
        let terms = Access::whole(terms, DType::I64, &shape);
        if terms.layout.numel() == 1 {
            return Ok(terms.with_layout(Layout::contiguous(&[])));
        }
        let axes = Attrs::new([Attr::Ints((0..shape.len() as i64).collect())]);
        let record = self.computed(&[]);
        self.add(node, Kind::Reduce(&FIRST), axes, smallvec![terms], smallvec![record]);
        Ok(Access::whole(record, DType::I64, &[]))
    }

    /// Adds an i64 value that the next node computes.
    fn computed(&mut self, shape: &[usize]) -> ValueIndex {
        let origin = Origin::Node(self.flat.nodes.len());
        self.flat.add_value(DType::I64, shape.into(), origin)
    }

    /// Adds a node of the check of an op.
    fn add(&mut self, node: &Node, kind: Kind, attrs: Attrs, inputs: Accesses, outputs: Shape) {
        self.flat.nodes.push(FlatNode { kind, attrs, inputs, outputs, location: node.location });
    }

    /// Returns a recent check that equals the one that an op makes of these operands.
    fn known_check(&self, node: &Node, operands: &[Type], read: &Accesses) -> Option<CheckIndex> {
        let flat = &self.flat;
        let is_same = |&at: &CheckIndex| {
            let (check, known) = (&flat.checks[at], &flat.nodes[flat.checks[at].node]);
            check.op == node.op
                && known.attrs == node.attrs
                && check.operands == operands
                && known.inputs[1..] == read[..]
        };
        let recent = flat.checks.len().saturating_sub(RECENT)..flat.checks.len();
        recent.rev().find(is_same)
    }

    /// Returns whether the checked operand is constant and all its elements are accepted.
    fn is_known_to_pass(&self, def: &OpDef, node: &Node, inputs: &Accesses, at: usize) -> bool {
        let access = &inputs[at];
        let elements = match access.source {
            Source::Splat(scalar) => Literal::scalar(scalar, access.dtype).to_array(),
            Source::Value(value) => match self.flat.values[value].origin {
                Origin::Constant(at) => self.flat.constants[at as usize].to_array().with_layout(access.layout.clone()),
                Origin::Input(_) | Origin::Node(_) | Origin::Position => return false,
            },
        };
        match def.lowering {
            Lowering::Gather(axis) => positions(&elements, axis(&node.attrs), inputs[0].layout.shape()).is_ok(),
            _ => inputs.len() == 1 && (def.eval)(&node.attrs, &[&elements]).is_ok(),
        }
    }
}

//! Chains epilogues: attaches groups that read the outputs of other epilogues row by row.
//!
//! A single thread writes all elements of a row. A kernel that reads columns other than the one that it computes, such
//! as adjacent slices of each row, can run on the same thread. This needs tiles with whole rows, and a kernel that
//! reads no other rows. The same kernel in a separate step computes equal values.

use super::{Epilogue, Found, ProducerNode, Read, Search, fits};
use crate::lower::fusion::domain::{AxisSet, Domain};
use crate::lower::fusion::group::Groups;
use crate::lower::plan::EpilogueLoops;
use crate::lower::rewrites::flat::{Flat, NodeIndex};
use crate::target::{EpilogueKernel, EpilogueKind};
use ms_ir::data::Shape;
use ms_ir::{Contraction, MapVec};
use std::collections::BTreeSet;

/// Returns for each group the groups that read its values.
pub(in crate::lower) fn readers(flat: &Flat, groups: &Groups) -> Vec<Vec<usize>> {
    let mut readers = vec![Vec::new(); groups.list.len()];
    for (node, group) in flat.nodes.iter().zip(&groups.of) {
        let Some(group) = *group else { continue };
        for it in node.inputs.iter().filter_map(|it| groups.of[flat.producer(it.value()?)?]) {
            if it != group && !readers[it].contains(&group) {
                readers[it].push(group);
            }
        }
    }
    readers
}

impl Search<'_> {
    /// Adds the groups that can be chained after the epilogues of a contraction.
    pub(in crate::lower) fn add_chained(&mut self, found: &mut Found, readers: &[Vec<usize>]) {
        let Self { flat, groups, target, precision, .. } = *self;
        let source = ProducerNode::new(flat, found.op, precision);
        let Some(axes) = source.contraction() else { return };
        let mut kernels = found.epilogues.map_vec(|it| it.kernel.clone());
        kernels.push(EpilogueKernel::empty(EpilogueKind::Rows, source.columns()));
        if axes.m.len() != 1 || axes.n.len() != 1 || !target.takes_epilogues(source.producer(), &kernels) {
            return;
        }
        kernels.pop();
        let mut inside: BTreeSet<NodeIndex> = found.epilogues.iter().flat_map(|it| it.nodes.iter().copied()).collect();
        // Candidates are visited in order, so that the operands of a group are decided before it.
        let mut candidates: BTreeSet<usize> =
            found.epilogues.iter().flat_map(|it| readers[it.group].iter().copied()).collect();
        while let Some(group) = candidates.pop_first() {
            let whole = &groups.list[group];
            if whole.late || self.taken[group] {
                continue;
            }
            let Some((domain, columns)) = self.along_rows(group, axes, &inside) else { continue };
            let is_there = |it: NodeIndex| groups.of[it].is_none_or(|it| it < found.at) || inside.contains(&it);
            if !self.operands(&whole.nodes).all(is_there) {
                continue;
            }
            kernels.push(self.kernel(EpilogueKind::Rows, &whole.nodes, &domain, columns, whole.insts, found.op));
            if !target.takes_epilogues(source.producer(), &kernels) {
                kernels.pop();
                continue;
            }
            self.taken[group] = true;
            inside.extend(&whole.nodes);
            candidates.extend(&readers[group]);
            let (nodes, rows) = (whole.nodes.clone(), Some(EpilogueLoops::rows(axes)));
            found.epilogues.push(Epilogue { group, nodes, domain, rows, kernel: kernels[kernels.len() - 1].clone() });
        }
    }

    /// Returns the domain of a group along the rows of a contraction's result and the number of columns that it
    /// computes. Returns `None` if it reads values of the nodes `inside` at other rows.
    fn along_rows(
        &self,
        group: usize,
        contraction: &Contraction,
        inside: &BTreeSet<NodeIndex>,
    ) -> Option<(Domain, usize)> {
        let flat = self.flat;
        let whole = &self.groups.list[group];
        let own = whole.domain.as_ref().filter(|it| !it.is_reduced())?;
        let mut shape: Shape =
            contraction.axes_of(2).take(EpilogueLoops::rows(contraction)).map(|it| it.size).collect();
        let (rows, count) = (shape.len(), shape.iter().product::<usize>());
        let columns = own.numel(AxisSet::All).checked_div(count)?;
        shape.push(columns);
        let domain = own.refine(AxisSet::All, &shape)?;
        let is_row = |(axis, &size): (usize, &usize)| domain.axes().get(axis).is_some_and(|it| it.size == size);
        if !shape[..rows].iter().enumerate().all(is_row) {
            return None;
        }
        let reads = |it: &Read<'_>| {
            let is_written = flat.producer(it.value).is_some_and(|it| inside.contains(&it));
            let row = || flat.numel(it.value).checked_div(count).filter(|row| row * count == flat.numel(it.value));
            !is_written
                || (!it.is_positional
                    && row().is_some_and(|row| domain.stays_in_rows(rows, row, it.layout.offset(), it.strides)))
        };
        fits(flat, &whole.nodes, &domain, reads).then_some((domain, columns))
    }
}

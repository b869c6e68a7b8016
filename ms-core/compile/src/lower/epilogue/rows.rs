//! Epilogues behind others: groups that read, row by row, what these write.
//!
//! The elements of a row are written by the thread that computes the row. A kernel that reads other columns of it than
//! the one that it computes, such as slices of each row side by side, can run on the same thread, on parts with whole
//! rows, as long as it reads nothing of other rows. Its values are those of the same kernel in a step of its own.

use super::{Epilogue, Found, Read, Search, fits};
use crate::ir::{Contraction, Precision};
use crate::lower::domain::{Domain, Part};
use crate::lower::flat::{Flat, Kind, NodeIndex};
use crate::lower::group::Groups;
use crate::lower::plan::EpilogueLoops;
use crate::tensor::Shape;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// By group, the groups that read what it computes.
pub(super) fn readers(flat: &Flat, groups: &Groups) -> Vec<SmallVec<[usize; 2]>> {
    let mut readers = vec![SmallVec::<[usize; 2]>::new(); groups.list.len()];
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
    /// Adds to the epilogues of a contraction the groups that can run behind them.
    pub(super) fn add_behind(&mut self, found: &mut Found, readers: &[SmallVec<[usize; 2]>]) {
        let Self { flat, groups, target, .. } = *self;
        if !matches!(flat.nodes[found.op].kind, Kind::Contraction(_)) {
            return;
        }
        let axes = flat.contraction(&flat.nodes[found.op], Precision::Strict);
        let ([_], [column]) = (&axes.m[..], &axes.n[..]) else { return };
        if !target.takes_rows(column.size) {
            return;
        }
        let of_elements = |it: &Epilogue| groups.list[it.group].insts.saturating_mul(column.size);
        let mut insts = found.epilogues.iter().map(of_elements).fold(0, usize::saturating_add);
        let mut inside: BTreeSet<NodeIndex> = found.epilogues.iter().flat_map(|it| it.nodes.iter().copied()).collect();
        // In order, so that what a group reads was looked at before it.
        let mut candidates: BTreeSet<usize> =
            found.epilogues.iter().flat_map(|it| readers[it.group].iter().copied()).collect();
        while let Some(group) = candidates.pop_first() {
            let whole = &groups.list[group];
            if whole.late || self.taken[group] {
                continue;
            }
            let Some((domain, columns)) = self.along_rows(group, &axes, &inside) else { continue };
            let own = insts.saturating_add(whole.insts.saturating_mul(columns));
            let is_there = |it: NodeIndex| groups.of[it].is_none_or(|it| it < found.at) || inside.contains(&it);
            if !target.takes_kernel_of_rows(&axes, columns, own) || !self.operands(&whole.nodes).all(is_there) {
                continue;
            }
            insts = own;
            self.taken[group] = true;
            inside.extend(&whole.nodes);
            candidates.extend(&readers[group]);
            let (nodes, rows) = (whole.nodes.clone(), Some(EpilogueLoops::rows(&axes)));
            found.epilogues.push(Epilogue { group, nodes, domain, rows });
        }
    }

    /// The axes of a group along the rows of the result of a contraction, and how many columns it computes, if it reads
    /// values of nodes `inside` at these rows only.
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
        let columns = own.numel(Part::All).checked_div(count)?;
        shape.push(columns);
        let domain = own.refine(Part::All, &shape)?;
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

//! Sinks elementwise ops through views to the ops that read them.
//!
//! An elementwise result with a single use, through a view that is not the whole result in order, would have to be
//! stored. Instead the op is computed only at the elements of the view, and reads its operands through the view.

use crate::lower::fusion::body::weigh;
use crate::lower::rewrites::flat::{Access, Accesses, Flat, FlatNode, Kind, NodeIndex};
use crate::target::Target;
use ms_ir::ContractionRanks;
use ms_ir::data::{Layout, Shape, Strides};

/// Sinks all ops that can be moved, readers before their operands.
pub(in crate::lower) fn sink(flat: &mut Flat, target: &Target) {
    let uses = flat.uses();
    for reader in (0..flat.nodes.len()).rev() {
        if !matches!(flat.nodes[reader].kind, Kind::Map(_) | Kind::Copy | Kind::Reduce(_) | Kind::Slices(_)) {
            continue;
        }
        for i in 0..flat.nodes[reader].inputs.len() {
            let access = &flat.nodes[reader].inputs[i];
            let Some(value) = access.value().filter(|&it| uses[it] == 1) else { continue };
            let Some(producer) = flat.producer(value) else { continue };
            if !flat.is_whole(access)
                && let Some(inputs) = moved(flat, producer, access, target)
            {
                let (dtype, shape): (_, Shape) = (access.dtype, access.layout.shape().into());
                flat.nodes[reader].inputs[i] = Access { layout: Layout::contiguous(&shape), ..*access };
                debug_assert_eq!(flat.values[value].dtype, dtype);
                flat.values[value].shape = shape;
                flat.nodes[producer].inputs = inputs;
            }
        }
    }
}

/// The uses of one value: the reading node and the number of the operand.
type Readers = Vec<(NodeIndex, usize)>;

/// Transposes products that are only read transposed: `(a b)ᵀ = bᵀ aᵀ`, whose operands are views.
pub(in crate::lower) fn transpose_products(flat: &mut Flat) {
    // `None` for a value that has other readers.
    let mut readers: Vec<Option<Readers>> = vec![Some(Readers::new()); flat.values.len()];
    for (index, node) in flat.nodes.iter().enumerate() {
        for (i, access) in node.inputs.iter().enumerate() {
            let Some(value) = access.value() else { continue };
            let product = flat.producer(value).is_some_and(|it| is_product(&flat.nodes[it]));
            if !product || !is_transpose(&access.layout, &flat.values[value].shape) {
                readers[value] = None;
            } else if let Some(readers) = &mut readers[value] {
                readers.push((index, i));
            }
        }
    }
    flat.outputs.iter().for_each(|&it| readers[it] = None);
    for index in 0..flat.nodes.len() {
        let value = match flat.nodes[index] {
            ref node if is_product(node) => node.outputs[0],
            _ => continue,
        };
        let Some(readers) = readers[value].take().filter(|it| !it.is_empty()) else { continue };
        let shape: Shape = flat.nodes[readers[0].0].inputs[readers[0].1].layout.shape().into();
        let node = &mut flat.nodes[index];
        node.inputs.reverse();
        node.inputs.iter_mut().for_each(|it| it.layout = transposed(&it.layout));
        for (reader, i) in readers {
            flat.nodes[reader].inputs[i].layout = Layout::contiguous(&shape);
        }
        flat.values[value].shape = shape;
    }
}

/// Returns whether a node is a matrix product: a contraction with one m, one n and one reduction dimension.
fn is_product(node: &FlatNode) -> bool {
    let Kind::Contraction(ContractionRanks { batch, k: 1 }) = node.kind else { return false };
    node.inputs.iter().all(|it| it.layout.rank() == batch + 2)
}

/// Returns the view with its last two axes exchanged.
fn transposed(layout: &Layout) -> Layout {
    let mut axes: Vec<usize> = (0..layout.rank()).collect();
    let rank = axes.len();
    axes.swap(rank - 2, rank - 1);
    layout.permute(&axes)
}

/// Returns whether a view is the transpose of a whole row-major value of `shape`.
fn is_transpose(view: &Layout, shape: &[usize]) -> bool {
    *view == transposed(&Layout::contiguous(shape))
}

/// Returns the operands from which a node computes the elements of `view` of its result.
fn moved(flat: &Flat, node: NodeIndex, view: &Access, target: &Target) -> Option<Accesses> {
    let node = &flat.nodes[node];
    if !matches!(node.kind, Kind::Map(_) | Kind::Copy | Kind::Gather { .. }) {
        return None;
    }
    let shape = &flat.values[node.outputs[0]].shape;
    if view.layout.numel() > shape.iter().product() {
        // An op on results of other nodes may share their kernel unchanged, as row statistics do.
        let leaf = node.inputs.iter().filter_map(Access::value).all(|it| flat.producer(it).is_none());
        if !leaf || weigh(flat, node, target).insts > target.budget.repeated_cost {
            return None;
        }
    }
    let steps = Steps::of(&view.layout, shape)?;
    Some(node.inputs.iter().map(|it| Access { layout: steps.through(&it.layout), ..*it }).collect())
}

/// The steps of a view along the axes of the row-major array that it views.
pub(in crate::lower) struct Steps {
    shape: Shape,
    /// The first element, by axis of the array.
    start: Strides,
    /// The axis of the array for each axis of the view, and the step along it.
    axes: Vec<(usize, isize)>,
}

impl Steps {
    /// Returns the steps of `view` over a row-major array of `shape`, if each is along a single axis.
    pub fn of(view: &Layout, shape: &[usize]) -> Option<Self> {
        if view.numel() == 0 {
            return None;
        }
        let dense = Layout::contiguous(shape);
        let mut left = view.offset() as isize;
        let mut start = Strides::new();
        for &stride in dense.strides() {
            start.push(left / stride);
            left %= stride;
        }
        let (mut low, mut high) = (start.clone(), start.clone());
        let mut axes = Vec::new();
        for (&size, &stride) in view.shape().iter().zip(view.strides()) {
            if size == 1 || stride == 0 {
                axes.push((0, 0));
                continue;
            }
            // The outermost axis whose stride divides the step.
            let axis = (0..shape.len()).find(|&it| shape[it] != 1 && stride % dense.strides()[it] == 0)?;
            let step = stride / dense.strides()[axis];
            axes.push((axis, step));
            let reach = step * (size as isize - 1);
            low[axis] += reach.min(0);
            high[axis] += reach.max(0);
        }
        let inside = |axis: usize| low[axis] >= 0 && high[axis] < shape[axis] as isize;
        (0..shape.len()).all(inside).then(|| Self { shape: view.shape().into(), start, axes })
    }

    /// Returns the corresponding view of an operand from which the array was computed elementwise.
    pub fn through(&self, operand: &Layout) -> Layout {
        let offset: isize = self.start.iter().zip(operand.strides()).map(|(at, stride)| at * stride).sum();
        let strides = self.axes.iter().map(|&(axis, step)| if step == 0 { 0 } else { step * operand.strides()[axis] });
        let strides = strides.collect();
        Layout::new(self.shape.clone(), strides, (operand.offset() as isize + offset) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_compose_where_moves_stay_within_axes() {
        let array = Layout::contiguous(&[4, 6]);
        let operand = Layout::contiguous(&[6]).broadcast_to(&[4, 6]).expect("rows repeat");
        let views = [
            array.permute(&[1, 0]),
            array.slice(1, 5, 3, -2),
            array.slice(0, 1, 2, 1).permute(&[1, 0]),
            array.reshape(&[2, 2, 3, 2]).expect("a row-major array takes any shape"),
            array.slice(0, 2, 1, 1).broadcast_to(&[5, 6]).expect("ones repeat"),
        ];
        let places: Vec<usize> = operand.offsets().collect();
        for view in views {
            let through = Steps::of(&view, &[4, 6]).expect("each move stays within an axis").through(&operand);
            let expected: Vec<usize> = view.offsets().map(|it| places[it]).collect();
            assert_eq!(through.offsets().collect::<Vec<_>>(), expected, "{view:?}");
        }
        assert!(Steps::of(&array.reshape(&[24]).expect("row-major"), &[4, 6]).is_none());
    }
}

//! Convolutions and their gradients as contractions over kernel taps, on views of the padded input (im2col without a
//! copy). The terms of sums are in the order of the ops (`docs/numerics.md`).

use super::Window;
use crate::ops::primitive::contract::contract;
use crate::ops::primitive::windows::{col2im, windows};
use crate::ops::{AxisOrder, ConvAttrs, ConvGradAttrs, PadMode, broadcast_to, cast, pad, permute, reshape};
use crate::tensor::{Attrs, Dim, Dims, Scalar, Shape, Tensor};
use std::iter::once;
use std::ops::Range;

/// Returns `n` adjacent axes from `first` on.
fn run(first: usize, n: usize) -> Range<usize> {
    first..first + n
}

fn permuted(x: &Tensor, axes: impl IntoIterator<Item = usize>) -> Tensor {
    permute(x, axes.into_iter().collect::<Vec<_>>())
}

/// Splits an axis into groups and the rest.
fn split(x: &Tensor, axis: usize, groups: usize) -> Tensor {
    let mut dims = x.dims();
    let each = dims[axis] / groups;
    dims[axis] = Dim::new(groups);
    dims.insert(axis + 1, each);
    reshape(x, dims)
}

/// Merges an axis with the next one.
fn merged(x: &Tensor, axis: usize) -> Tensor {
    let mut dims = x.dims();
    dims[axis] = dims[axis] * dims.remove(axis + 1);
    reshape(x, dims)
}

/// Broadcasts along a new first axis of the given size.
fn repeated(x: &Tensor, size: Dim) -> Tensor {
    broadcast_to(x, once(size).chain(x.dims()).collect::<Dims>())
}

/// Views the elements of an image under windows: `[n, g, c / g, windows.., taps..]` or `[n, windows.., g, c / g,
/// taps..]`.
fn im2col(x: &Tensor, kernel: &[usize], window: &Window, groups: usize, order: AxisOrder) -> Tensor {
    let (rank, first) = (x.rank(), order.spatial());
    let mut pads = vec![(0, 0); rank];
    for axis in 0..kernel.len() {
        pads[first + axis] = (window.before[axis], window.after[axis]);
    }
    let padded = pad(x, &pads, PadMode::Constant(Scalar::Float(0.0)));
    let grouped = split(&padded, order.channels(rank), groups);
    let first = match order {
        AxisOrder::ChannelsFirst => first + 1,
        AxisOrder::ChannelsLast => first,
    };
    windows(&grouped, first, kernel, window)
}

/// Returns the kernel sizes, which are constant.
fn kernel_of(w: &Tensor) -> Shape {
    w.dims()[2..].iter().map(|it| it.as_const().expect("the kernel of a convolution has constant sizes")).collect()
}

/// Computes the convolution of `x` with weights: a sum over channels and taps.
pub(in crate::ops) fn forward(attrs: &Attrs, inputs: &[&Tensor], order: AxisOrder) -> Tensor {
    let (x, w, at) = (inputs[0], inputs[1], ConvAttrs::of(attrs));
    let (kernel, groups) = (kernel_of(w), at.groups());
    let (s, w) = (kernel.len(), split(w, 0, groups));
    let patches = im2col(x, &kernel, &at.window(), groups, order);
    match order {
        AxisOrder::ChannelsFirst => {
            let patches = permuted(&patches, run(0, 3).chain(run(3 + s, s)).chain(run(3, s)));
            merged(&contract(&repeated(&w, x.dims()[0]), &patches, 2, 1 + s), 1)
        }
        AxisOrder::ChannelsLast => {
            let patches = permuted(&patches, once(1 + s).chain(run(0, 1 + s)).chain(run(2 + s, 1 + s)));
            let out = contract(&patches, &permuted(&w, [0, 2].into_iter().chain(run(3, s)).chain([1])), 1, 1 + s);
            merged(&permuted(&out, run(1, 1 + s).chain([0, 2 + s])), 1 + s)
        }
    }
}

/// Computes backward-data: a sum over output channels for each window and tap, and then over taps.
pub(in crate::ops) fn input_grad(attrs: &Attrs, inputs: &[&Tensor], order: AxisOrder) -> Tensor {
    let (g, w, at) = (inputs[0], inputs[1], ConvAttrs::of(attrs));
    let dtype = g.dtype();
    let (kernel, groups, sizes) = (kernel_of(w), at.groups(), ConvGradAttrs::of(attrs).sizes().dims());
    let s = kernel.len();
    // Taps are summed in the accumulator dtype, and rounded once.
    let [g, w] = [g, w].map(|it| cast(it, dtype.compute()));
    let (g, w) = (split(&g, order.channels(g.rank()), groups), split(&w, 0, groups));
    let sum = match order {
        AxisOrder::ChannelsFirst => {
            let w = permuted(&w, [0, 2].into_iter().chain(run(3, s)).chain([1]));
            let terms = contract(&repeated(&w, g.dims()[0]), &g, 2, 1);
            merged(&col2im(&terms, 3 + s, 3, &kernel, &at.window(), &sizes), 1)
        }
        AxisOrder::ChannelsLast => {
            let g = permuted(&g, once(1 + s).chain(run(0, 1 + s)).chain([2 + s]));
            let w = permuted(&w, [0, 1].into_iter().chain(run(3, s)).chain([2]));
            let sum = col2im(&contract(&g, &w, 1, 1), 2, 2 + s, &kernel, &at.window(), &sizes);
            merged(&permuted(&sum, run(1, 1 + s).chain([0, 2 + s])), 1 + s)
        }
    };
    cast(&sum, dtype)
}

/// Computes backward-weights: a sum over images and windows.
pub(in crate::ops) fn weight_grad(attrs: &Attrs, inputs: &[&Tensor], order: AxisOrder) -> Tensor {
    let (x, g, at) = (inputs[0], inputs[1], ConvAttrs::of(attrs));
    let (kernel, groups) = (ConvGradAttrs::of(attrs).sizes().sizes(), at.groups());
    let s = kernel.len();
    let patches = im2col(x, &kernel, &at.window(), groups, order);
    let g = split(g, order.channels(g.rank()), groups);
    let (g, patches) = match order {
        AxisOrder::ChannelsFirst => (
            permuted(&g, [1, 2, 0].into_iter().chain(run(3, s))),
            permuted(&patches, [1, 0].into_iter().chain(run(3, s)).chain([2]).chain(run(3 + s, s))),
        ),
        AxisOrder::ChannelsLast => (
            permuted(&g, [1 + s, 2 + s].into_iter().chain(run(0, 1 + s))),
            permuted(&patches, once(1 + s).chain(run(0, 1 + s)).chain(run(2 + s, 1 + s))),
        ),
    };
    merged(&contract(&g, &patches, 1, 1 + s), 0)
}

//! Batching rules of convolutions. Lanes are merged into the batch axis if weights are shared, and into the groups of
//! channels otherwise.

use super::attributes::{ConvAttrs, ConvGradAttrs, with_groups};
use crate::ops::{BatchedCall, CONV, move_axis, reshape};
use crate::tensor::{Attrs, Dim, Dims, Outputs, Tensor};
use ms_ir::error::Result;
use smallvec::smallvec;

/// Batches [`CONV`].
pub(in crate::ops) fn forward(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    if let [true, false] = lanes.mapped {
        return shared_weights(lanes);
    }
    if let [false, true] = lanes.mapped {
        return shared_images(lanes);
    }
    let [x, w] = [0, 1].map(|it| lanes.spread(it));
    let out = lanes.apply(&grouped(lanes)?, &[channels(lanes, &x), lanes.merge(&w)])?;
    Ok(smallvec![from_channels(lanes, &out[0])])
}

/// Batches backward-data.
pub(in crate::ops) fn input_grad(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    if let [true, false] = lanes.mapped {
        return shared_weights(lanes);
    }
    let [g, w] = [0, 1].map(|it| lanes.spread(it));
    let out = lanes.apply(&grouped(lanes)?, &[channels(lanes, &g), lanes.merge(&w)])?;
    Ok(smallvec![from_channels(lanes, &out[0])])
}

/// Batches backward-weights.
pub(in crate::ops) fn weight_grad(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    let [x, g] = [0, 1].map(|it| channels(lanes, &lanes.spread(it)));
    let out = lanes.apply(&grouped(lanes)?, &[x, g])?;
    Ok(smallvec![lanes.apart(&out[0], 0)])
}

/// Merges the lanes' images into one batch, for shared weights.
fn shared_weights(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    let out = lanes.apply(lanes.attrs, &[lanes.merge(&lanes.inputs[0]), lanes.inputs[1].clone()])?;
    Ok(smallvec![lanes.apart(&out[0], 0)])
}

/// Merges the lanes' weights into additional output channels of each group, for shared images.
fn shared_images(lanes: &BatchedCall<'_>) -> Result<Outputs> {
    let (w, groups) = (&lanes.inputs[1], Dim::new(ConvAttrs::of(lanes.attrs).groups()));
    let dims = w.dims();
    let each = dims[1] / groups;
    let split = move_axis(reshape(w, list(&[lanes.size, groups, each], &dims[2..])), 0, 1);
    let weights = reshape(split, list(&[lanes.size * dims[1]], &dims[2..]));
    let out = lanes.apply(lanes.attrs, &[lanes.inputs[0].clone(), weights])?.remove(0);
    let dims = out.dims();
    let split = reshape(&out, list(&[dims[0], groups, lanes.size, each], &dims[2..]));
    Ok(smallvec![reshape(move_axis(split, 2, 0), list(&[lanes.size, dims[0], groups * each], &dims[2..]))])
}

fn list(first: &[Dim], rest: &[Dim]) -> Dims {
    first.iter().chain(rest).copied().collect()
}

/// Reshapes `[lanes, n, c, ..]` to `[n, lanes * c, ..]`.
fn channels(lanes: &BatchedCall<'_>, x: &Tensor) -> Tensor {
    let dims = x.dims();
    reshape(move_axis(x, 0, 1), list(&[dims[1], lanes.size * dims[2]], &dims[3..]))
}

/// Reshapes `[n, lanes * c, ..]` to `[lanes, n, c, ..]`.
fn from_channels(lanes: &BatchedCall<'_>, x: &Tensor) -> Tensor {
    move_axis(lanes.apart(x, 1), 1, 0)
}

/// Returns the attributes with the groups of all lanes.
fn grouped(lanes: &BatchedCall<'_>) -> Result<Attrs> {
    let sizes = if lanes.op == CONV.op() { Dims::new() } else { ConvGradAttrs::of(lanes.attrs).sizes().dims() };
    Ok(with_groups(lanes.attrs, ConvAttrs::of(lanes.attrs).groups() * lanes.count()?, &sizes))
}

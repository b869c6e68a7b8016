//! Convolution, backward-data and backward-weights.
//!
//! [`FORWARD`](Lists::FORWARD), [`BACKWARD_DATA`](Lists::BACKWARD_DATA) and
//! [`BACKWARD_WEIGHTS`](Lists::BACKWARD_WEIGHTS) list the implementations, in the order in which they are asked. The
//! first one that accepts the sizes is prepared, for each kind of products: by vectors, and by a matrix engine. The
//! elements of the operands decide between these kinds, and whether the result of a conditional implementation is valid.
//!
//! The order of every sum is part of the semantics of the ops; [`gemm::ordered`](ms_x64::gemm) defines
//! accumulation chains, whose chunks are combined [pairwise](PairwiseTree):
//! - An element of the result is a chain over input channels and kernel taps, taps in row-major order.
//! - An element of backward-data is the sum over its taps in order. The summand of a tap is a chain over output
//!   channels.
//! - An element of backward-weights is a chain over images and output positions, in order.
//!
//! In relaxed precisions, a [matrix engine](ms_x64::gemm) multiplies large matrices of f32 and bf16. Split components
//! are summed by K blocks or pairs, in order. On AMX, channels that fill blocks of [`BLOCK`](ms_x64::gemm::BLOCK)
//! have another order of sums. There, each block is summed over its taps in row-major order, and each tap over the
//! channels of the block, a K block. Zeros pad the last block. The sizes and elements of whole operands decide the
//! algorithm before the partition into tasks, so that no bit depends on the partition.
//!
//! In relaxed precisions, Winograd changes the order of sums too; sizes and elements of whole operands decide that as
//! well.
//!
//! Padding is multiplied as zeros, except in backward-data, which only adds existing output positions.

mod backward_data;
mod backward_weights_by_tap;
mod backward_weights_direct;
mod brgemm;
mod direct;
mod direct_large;
mod gemm;
mod grid;
mod im2col;
mod lanes;
mod problem;
mod small_n;
#[cfg(test)]
mod tests;
mod vector;
mod winograd;

use super::dense::{DenseOperand, DenseResult};
use super::epilogues::Epilogues;
use super::implementation::{Implementation, choose};
use super::scratch::Workspace;
use super::{LibraryCode, OpCall};
use backward_data::BackwardDataByTaps;
use backward_weights_by_tap::BackwardWeightsByTap;
use backward_weights_direct::{ByGroups, ByOutputs};
use brgemm::Brgemm;
use direct::{Forward, OneOutputBackwardData};
use direct_large::ForwardInParts;
use gemm::{ByImage, OverImages, Pointwise, Zeros};
use ms_compile::exec::ArrayLayout;
use ms_ir::data::{Attrs, DType, Element, Shape};
use ms_ir::error::Result;
use ms_x64::gemm::{Arithmetic, Elements, Products};
use problem::{Call, Conv, ConvCode, Problem};
use std::ops::AddAssign;
use std::sync::Arc;
pub use vector::Direct;
use winograd::{ByTiles, WeightsByTiles};

/// An implementation of one of the ops.
type ConvImplementation<T> = Implementation<Problem, Box<dyn ConvCode<T>>>;

/// The implementations for an element type.
struct Lists<T>(T);

impl<T: Direct + AddAssign> Lists<T> {
    const FORWARD: &[ConvImplementation<T>] = &[
        Implementation {
            name: "zeros",
            is_conditional: false,
            accepts: |it| Zeros::accepts(&[it.conv.result_len(), it.conv.filter_len()]),
            prepare: |_| Ok(Box::new(Zeros)),
        },
        Implementation {
            name: "direct with one output channel",
            is_conditional: false,
            accepts: Forward::<T>::accepts_one_output,
            prepare: |it| Ok(Box::new(Forward::<T>::new(it, true)?)),
        },
        Implementation {
            name: "brgemm",
            is_conditional: false,
            accepts: Brgemm::accepts::<T>,
            prepare: |it| Ok(Box::new(Brgemm::new(it)?)),
        },
        Implementation {
            name: "winograd",
            is_conditional: true,
            accepts: |it| ByTiles::accepts::<T>(it, false),
            prepare: |it| Ok(Box::new(ByTiles::new(it, false))),
        },
        Implementation {
            name: "direct",
            is_conditional: false,
            accepts: Forward::<T>::accepts,
            prepare: |it| Ok(Box::new(Forward::<T>::new(it, true)?)),
        },
        Implementation {
            name: "direct in parts",
            is_conditional: false,
            accepts: ForwardInParts::<T>::accepts,
            prepare: |it| Ok(Box::new(ForwardInParts::<T>::new(it)?)),
        },
        Implementation {
            name: "pointwise gemm",
            is_conditional: false,
            accepts: Pointwise::accepts,
            prepare: |it| Ok(Box::new(Pointwise::new(it, false))),
        },
        Implementation {
            name: "small-n gemm",
            is_conditional: false,
            accepts: OverImages::accepts_small_n::<T>,
            prepare: |it| Ok(Box::new(OverImages::new::<T>(it, true)?)),
        },
        Implementation {
            name: "im2col over images",
            is_conditional: false,
            accepts: OverImages::accepts,
            prepare: |it| Ok(Box::new(OverImages::new::<T>(it, false)?)),
        },
        Implementation {
            name: "im2col",
            is_conditional: false,
            accepts: |_| Ok(()),
            prepare: |it| Ok(Box::new(ByImage::new::<T>(it)?)),
        },
    ];

    const BACKWARD_DATA: &[ConvImplementation<T>] = &[
        Implementation {
            name: "zeros",
            is_conditional: false,
            accepts: |it| Zeros::accepts(&[it.conv.input_len(), it.conv.outputs]),
            prepare: |_| Ok(Box::new(Zeros)),
        },
        Implementation {
            name: "direct with one output channel",
            is_conditional: true,
            accepts: Forward::<T>::accepts_one_output,
            prepare: |it| Ok(Box::new(OneOutputBackwardData::new(it)?)),
        },
        Implementation {
            name: "winograd",
            is_conditional: true,
            accepts: |it| ByTiles::accepts::<T>(it, true),
            prepare: |it| Ok(Box::new(ByTiles::new(it, true))),
        },
        Implementation {
            name: "direct",
            is_conditional: true,
            accepts: direct::BackwardData::<T>::accepts,
            prepare: |it| Ok(Box::new(direct::BackwardData::<T>::new(it)?)),
        },
        Implementation {
            name: "by taps",
            is_conditional: true,
            accepts: BackwardDataByTaps::<T>::accepts,
            prepare: |it| Ok(Box::new(BackwardDataByTaps::<T>::new(it)?)),
        },
        Implementation {
            name: "pointwise gemm",
            is_conditional: false,
            accepts: Pointwise::accepts,
            prepare: |it| Ok(Box::new(Pointwise::new(it, true))),
        },
        Implementation {
            name: "col2im",
            is_conditional: false,
            accepts: |_| Ok(()),
            prepare: |it| Ok(Box::new(gemm::BackwardData::new(it))),
        },
    ];

    const BACKWARD_WEIGHTS: &[ConvImplementation<T>] = &[
        Implementation {
            name: "zeros",
            is_conditional: false,
            accepts: |it| Zeros::accepts(&[it.conv.weights_len(), it.conv.batch * it.conv.windows.output_len()]),
            prepare: |_| Ok(Box::new(Zeros)),
        },
        Implementation {
            name: "winograd",
            is_conditional: true,
            accepts: WeightsByTiles::accepts::<T>,
            prepare: |it| Ok(Box::new(WeightsByTiles::new(it))),
        },
        Implementation {
            name: "direct by groups",
            is_conditional: false,
            accepts: ByGroups::accepts::<T>,
            prepare: |it| Ok(Box::new(ByGroups::new(it)?)),
        },
        Implementation {
            name: "direct by output channels",
            is_conditional: false,
            accepts: ByOutputs::<T>::accepts,
            prepare: |it| Ok(Box::new(ByOutputs::<T>::new(it)?)),
        },
        Implementation {
            name: "by taps",
            is_conditional: false,
            accepts: BackwardWeightsByTap::accepts::<T>,
            prepare: |it| Ok(Box::new(BackwardWeightsByTap::new(it))),
        },
        Implementation {
            name: "im2col",
            is_conditional: false,
            accepts: |_| Ok(()),
            prepare: |it| Ok(Box::new(gemm::BackwardWeights::new(it)?)),
        },
    ];
}

/// Prepares a convolution or one of its gradients; `None` for element types without native code.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the lists of an implementation.
pub fn prepare(
    arithmetic: Arithmetic,
    kind: Kind,
    attrs: &Attrs,
    operands: &[ArrayLayout],
    results: &[ArrayLayout],
) -> Result<Option<Box<dyn LibraryCode>>> {
    let ([a, b], [result]) = (operands, results) else { return Ok(None) };
    let [left, right, out] = [a, b, result].map(|it| it.layout.shape());
    let [input, weight, output] = match kind {
        Kind::Forward => [left, right, out],
        Kind::BackwardData => [out, right, left],
        Kind::BackwardWeights => [left, out, right],
    };
    if [a.dtype, b.dtype] != [result.dtype; 2] {
        return Ok(None);
    }
    let conv = Arc::new(Conv::new(attrs, input, weight, output));
    Ok(Some(match result.dtype {
        DType::F32 => Box::new(ConvStep::<f32>::new(kind, conv, arithmetic, [a, b], result)?),
        DType::F64 => Box::new(ConvStep::<f64>::new(kind, conv, arithmetic, [a, b], result)?),
        half @ (DType::F16 | DType::BF16) => {
            Box::new(ConvStep::<f32>::new(kind, conv, arithmetic.for_widened(half), [a, b], result)?)
        }
        _ => return Ok(None),
    }))
}

/// The ops.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Forward,
    BackwardData,
    BackwardWeights,
}

/// A prepared op, which computes in `T`.
struct ConvStep<T> {
    kind: Kind,
    operands: [DenseOperand; 2],
    result: DenseResult,
    shape: Shape,
    products: Products,
    /// The codes for products by vectors, for an engine, and for an engine whose packed weights may be cached. All but
    /// the last of each may give no valid result.
    codes: [Arc<[Box<dyn ConvCode<T>>]>; 3],
    workspace: usize,
    choice: String,
}

impl<T: Direct + Element + AddAssign> ConvStep<T> {
    fn new(
        kind: Kind,
        conv: Arc<Conv>,
        arithmetic: Arithmetic,
        operands: [&ArrayLayout; 2],
        result: &ArrayLayout,
    ) -> Result<Self> {
        let (filter, points) = (conv.filter_len(), conv.batch * conv.windows.output_len());
        let (list, sizes) = match kind {
            Kind::Forward => (Lists::<T>::FORWARD, [conv.outputs, filter, points]),
            Kind::BackwardData => (Lists::<T>::BACKWARD_DATA, [filter, conv.outputs, points]),
            Kind::BackwardWeights => (Lists::<T>::BACKWARD_WEIGHTS, [conv.outputs, points, filter]),
        };
        let products = arithmetic.products::<T>(sizes);
        let prepared = |multiplier, is_cached| -> Result<(Arc<[_]>, String)> {
            let (codes, choice) = choose(list, &Problem::new(&conv, arithmetic, multiplier, is_cached)?)?;
            Ok((codes.into(), choice.to_string()))
        };
        let (of_vectors, mut choice) = prepared(products.out_of_range(), false)?;
        let mut codes = [(); 3].map(|()| of_vectors.clone());
        for is_cached in [true, false] {
            let multiplier = products.in_range(is_cached);
            if multiplier.has_engine() {
                let cached = if is_cached { ", cached weights" } else { "" };
                let (of_engine, text) = prepared(multiplier, is_cached)?;
                choice = format!("on a matrix engine{cached}: {text}, else: {choice}");
                codes[1 + usize::from(is_cached)] = of_engine;
            }
        }
        let operands = operands.map(DenseOperand::new::<T>);
        let shape = result.layout.shape().into();
        let result = DenseResult::new(result);
        let most = codes.iter().flat_map(|it| it.iter()).map(|it| it.workspace()).fold(0, usize::max);
        let copies =
            operands.iter().map(DenseOperand::workspace::<T>).fold(result.workspace::<T>(), usize::saturating_add);
        let workspace = copies.saturating_add(most);
        Ok(Self { kind, operands, result, shape, products, codes, workspace, choice })
    }
}

impl<T: Direct + Element + AddAssign> LibraryCode for ConvStep<T> {
    fn workspace(&self) -> usize {
        self.workspace
    }

    fn choice(&self) -> &str {
        &self.choice
    }

    unsafe fn run(&self, call: OpCall<'_>) -> Result<()> {
        let Self { kind, operands: [a, b], result, shape, products, codes, .. } = self;
        let (&[at_a, at_b], &[address]) = (call.operands, call.results) else {
            unreachable!("the op has two operands and one result")
        };
        // SAFETY: the workspace has the prepared size, and the operands are live, by the contract of `run`.
        let (mut workspace, [(a, _), (b, block)]) = unsafe {
            let mut workspace = Workspace::at(call.workspace, self.workspace);
            let operands = [a.elements::<T>(at_a, &mut workspace), b.elements::<T>(at_b, &mut workspace)];
            (workspace, operands)
        };
        let block = block.filter(|_| *kind != Kind::BackwardWeights);
        // SAFETY: the elements are part of the block, which the run does not write.
        let operands = [Elements::from(a), unsafe { Elements::in_block(b, block) }];
        let multiplier = products.multiplier([operands[1], operands[0]]);
        let codes = match (multiplier.has_engine(), operands[1].is_held()) {
            (false, _) => &codes[0],
            (true, is_held) => &codes[1 + usize::from(is_held)],
        };
        // SAFETY: nothing else accesses the result, by the contract of `run`, and codes write all elements.
        let out = unsafe { result.elements::<T>(address, &mut workspace) };
        let epilogues = Epilogues::new(call.epilogues, shape);
        let of_code = if result.is_rounded::<T>() { Epilogues::new(&[], shape) } else { epilogues };
        for code in codes.iter() {
            let call = Call { multiplier, operands, out: &mut *out, epilogues: of_code, workspace: workspace.rest() };
            if code.run(call)? {
                break;
            }
        }
        if result.is_rounded::<T>() {
            let from = Elements::from(&*out).as_f32().expect("16-bit types are computed in f32").all;
            // SAFETY: nothing else accesses the result, by the contract of `run`. The epilogues run when all elements
            // are computed.
            unsafe {
                result.round(from, address);
                epilogues.run_on_all();
            }
        }
        Ok(())
    }
}

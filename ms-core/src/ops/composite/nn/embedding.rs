//! Embedding: rows of a table.

use crate::error::{Code, called};
use crate::ops::core::axis::refusal;
use crate::ops::{
    Batching, Derivative, Effects, Sample, SampleInput, expand_dims, gather, not_equal, select, stop_gradient,
};
use crate::tensor::{AsTensor, DType, Tensor, apply1, refused};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`EMBEDDING`]: whether a row has no gradient, and which.
    struct EmbeddingAttrs { padded: bool, padding: usize }
}

composite! {
    /// The rows of the second operand at the positions in the first one.
    EMBEDDING = 850: "embedding", EmbeddingAttrs::DECLARED;
    body |attrs, inputs| {
        let (it, index) = (EmbeddingAttrs::of(attrs), inputs[0]);
        let rows = gather(inputs[1], index, 0);
        if !it.padded() {
            return smallvec![rows];
        }
        let trained = expand_dims(not_equal(index, it.padding()), -1);
        smallvec![select(trained, &rows, stop_gradient(&rows))]
    };
    derivative Derivative::Body, finite: true;
    effects Effects::REFUSES;
    batching Batching::Derived;
    samples || {
        let of = |dtype, index: DType, padded: bool| {
            Sample::new([SampleInput::of(index, &[2, 3], 0.0, 3.0), SampleInput::of(dtype, &[4, 2], -2.0, 2.0)])
                .attrs(EmbeddingAttrs::attrs(padded, 1usize))
        };
        let floats = [DType::F64, DType::F16, DType::BF16].map(|it| of(it, DType::I64, true));
        [of(DType::F32, DType::I64, false), of(DType::F32, DType::I32, true)].into_iter().chain(floats).collect()
    };
}

/// The rows of `table` `[rows, features]` at the positions in `index`, as a new last axis. The row
/// `padding_idx` has no gradient.
///
/// # Panics
/// Raises [`Code::DType`](crate::Code::DType) unless `index` is of integers,
/// [`Code::OutOfRange`] for a row that does not exist, [`Code::Shape`] unless the table has two axes.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::embedding(tensor![1, 0], tensor![[1., 2.], [3., 4.]], None).to_vec::<f32>(), [3., 4., 1., 2.]);
/// ```
#[track_caller]
pub fn embedding(index: impl AsTensor, table: impl AsTensor, padding_idx: Option<usize>) -> Tensor {
    let _called = called("embedding");
    let (index, table) = (index.as_tensor(), table.as_tensor());
    propagate_poison!(index, table);
    let refusal = |code, message: String| refused(refusal("embedding", &[&index, &table], code, message));
    if table.rank() != 2 {
        return refusal(Code::Shape, format!("the table is {}, but has to have rows and features", table.ty()));
    }
    if let (Some(padding), Some(rows)) = (padding_idx, table.dims()[0].as_const())
        && padding >= rows
    {
        return refusal(Code::OutOfRange, format!("`padding_idx` is {padding}, but there are {rows} rows"));
    }
    let attrs = EmbeddingAttrs::attrs(padding_idx.is_some(), padding_idx.unwrap_or(0));
    apply1(EMBEDDING.op(), &attrs, &[&*index, &*table])
}
